//! The messages between lab and agents about a step.
//!
//! Promises: histograms are transferred without loss; counts from other machines never overflow.
//! Must not know: sockets, clients.

use std::collections::BTreeMap;
use std::time::Duration;

use lab_kit::result::CallCounts;
use lab_kit::work::{Effect, TableCheckpoint};
use lab_kit::workload::Settings;
use metrics::LatencyHistogram;
use serde::{Deserialize, Serialize};

/// The interval at which a generator reports its counts.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Ticks of an interval; the last of them also carries the histogram.
pub(crate) const TICKS_PER_INTERVAL: u64 = 10;
/// The largest number of values in one histogram, so that the sum over a long run fits in 64 bits.
const VALUES_MAX: u64 = 1 << 40;

/// A message of the lab.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LabMessage {
    /// Asks for the agent's time.
    Ask,
    /// The run; sent once.
    Job(Box<Job>),
    /// Connect the clients of a step.
    Step(Box<StepOrder>),
    /// Begin at a moment of the agent's monotonic clock.
    Start {
        /// Microseconds.
        at_us: u64,
    },
    /// The measured work of all generators has ended.
    Over,
    /// End the step early.
    Stop {
        /// Why.
        reason: String,
    },
    /// A heartbeat of the lab.
    Alive,
    /// The run has ended.
    End,
}

/// A message of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AgentMessage {
    /// The agent's clocks.
    Time {
        /// Nanoseconds of the agent's monotonic clock.
        own_ns: u64,
        /// Microseconds since 1970.
        wall_us: i64,
    },
    /// The target answers, and the agent is ready for steps.
    Ready {
        /// CPUs.
        cpus: u32,
    },
    /// The clients of the step are connected.
    Prepared,
    /// The clients have begun.
    Begun {
        /// The delay after the common start.
        late_us: u64,
    },
    /// The work since the previous tick.
    Tick(Box<Tick>),
    /// The generator's measured work has ended.
    Done {
        /// Since the common start.
        at_us: u64,
    },
    /// The step has ended.
    Ended(Box<StepTotals>),
    /// The generator cannot do what was ordered.
    Refused {
        /// Why.
        reason: String,
    },
    /// A heartbeat of the agent.
    Alive,
}

/// The part of a run that a generator must know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The text of the workload's file.
    pub(crate) workload: String,
    /// Its name.
    pub(crate) name: String,
    /// The settings, without arrivals that are recorded in a file.
    pub(crate) settings: Settings,
    /// The seed of the run.
    pub(crate) seed: u64,
    /// The address of the target.
    pub(crate) target: String,
    /// The database.
    pub(crate) db: String,
    /// Number of databases that the collections are spread over.
    pub(crate) databases: Option<u32>,
    /// Write concern.
    pub(crate) write_concern: Option<String>,
    /// Whether each write waits for the journal.
    pub(crate) journal: Option<bool>,
    /// Longest wait for a reply.
    pub(crate) call_timeout_seconds: u64,
    /// The number of the generator.
    pub(crate) generator: u32,
    /// The number of generators.
    pub(crate) generators: u32,
}

/// A step.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StepOrder {
    /// Its name.
    pub(crate) step: String,
    /// Clients of all generators together, of the measured role and then of each background role.
    pub(crate) clients: Vec<u32>,
    /// Recorded arrivals of the same roles.
    pub(crate) arrivals: Vec<Option<Vec<f64>>>,
    /// The tables.
    pub(crate) marks: Vec<TableCheckpoint>,
    /// Whether the secondary indexes exist.
    pub(crate) has_indexes: bool,
    /// Whether row numbers have gaps.
    pub(crate) is_sparse: bool,
}

/// The work of a generator's clients since its previous tick.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tick {
    /// Number of ticks since the common start, including this one.
    pub(crate) number: u64,
    /// When the tick was taken, since the common start.
    pub(crate) at_us: u64,
    /// The roles, the measured one first.
    pub(crate) roles: Vec<RoleTick>,
    /// Resources that the generator's process has used since it began.
    pub(crate) used: String,
    /// Why the generator ends the step early, if it does.
    pub(crate) stopping: Option<String>,
}

/// The part of one role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RoleTick {
    /// Operations acknowledged.
    pub(crate) ops: u64,
    /// Failed calls.
    pub(crate) errors: u64,
    /// Rows that reads returned.
    pub(crate) rows: u64,
    /// The effect of the whole step so far on the tables.
    pub(crate) effect: Effect,
    /// Calls answered: their number, and the times of the first and the last in microseconds since
    /// the common start.
    pub(crate) completions: Option<(u64, u64, u64)>,
    /// Periods between them in which no call was answered.
    pub(crate) free: Vec<(u64, u64)>,
    /// Latencies since the previous histogram.
    pub(crate) latency: Option<Buckets>,
}

/// The totals of a generator's step.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StepTotals {
    /// Why the generator ended the step early, if it did.
    pub(crate) reason: Option<String>,
    /// The roles, the measured one first.
    pub(crate) roles: Vec<RoleEnd>,
    /// The tables, in the generator's own numbering.
    pub(crate) marks: Vec<TableCheckpoint>,
    /// The counters of a program.
    pub(crate) program: Vec<i64>,
    /// How busy the machine was in the measured time.
    pub(crate) host_busy_percent: f64,
}

/// The part of one role.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RoleEnd {
    /// Operations acknowledged.
    pub(crate) acknowledged: u64,
    /// The effect on the tables, including calls without a reply.
    pub(crate) effect: Effect,
    /// Failed calls by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The results of each client.
    pub(crate) clients: Vec<ClientReport>,
    /// Open loop: latency from sending.
    pub(crate) service: Option<Buckets>,
    /// Open loop: how late the generator sent.
    pub(crate) lateness: Option<Buckets>,
    /// Open loop: calls that were due and never sent.
    pub(crate) unsent: u64,
    /// The unsent calls that waited only for the generator.
    pub(crate) unsent_by_lab: u64,
    /// Calls that the target refused and asked the client to repeat later.
    pub(crate) refused: u64,
    /// Operations that were abandoned after too many refusals.
    pub(crate) given_up: u64,
    /// Mixes: latency by the number of the part.
    pub(crate) by_part: Vec<(usize, Buckets)>,
    /// How calls ended, by the number of the part.
    pub(crate) outcomes: Vec<(usize, CallCounts)>,
    /// Calls under way while the generator itself was paused.
    pub(crate) disturbed: u64,
}

/// The results of one client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClientReport {
    /// Operations after the warm-up.
    pub(crate) ops: u64,
    /// Time after the warm-up until it finished.
    pub(crate) active_us: u64,
    /// Longest time that a call waited for earlier calls.
    pub(crate) behind_us: u64,
}

/// A histogram.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "UncheckedBuckets")]
pub(crate) struct Buckets {
    /// Nanoseconds and the number of values.
    counts: Vec<(u64, u64)>,
    max_ns: u64,
    clamped: u64,
}

/// [`Buckets`] before they are checked.
#[derive(Deserialize)]
struct UncheckedBuckets {
    counts: Vec<(u64, u64)>,
    max_ns: u64,
    clamped: u64,
}

impl TryFrom<UncheckedBuckets> for Buckets {
    type Error = String;

    fn try_from(came: UncheckedBuckets) -> Result<Self, String> {
        let mut counts = came.counts.iter().map(|(_, count)| *count);
        let sum = counts.try_fold(0_u64, u64::checked_add);
        if sum.is_none_or(|sum| sum > VALUES_MAX || came.clamped > sum) {
            return Err(format!(
                "a histogram must have at most {VALUES_MAX} values, and {} are too long of these",
                came.clamped
            ));
        }
        Ok(Self {
            counts: came.counts,
            max_ns: came.max_ns,
            clamped: came.clamped,
        })
    }
}

impl Buckets {
    /// All values of a histogram.
    pub(crate) fn of(latency: &LatencyHistogram) -> Self {
        Self {
            counts: latency.buckets().collect(),
            max_ns: latency.max_ns(),
            clamped: latency.clamped_count(),
        }
    }

    /// The histogram of these values.
    pub(crate) fn histogram(&self) -> LatencyHistogram {
        LatencyHistogram::of_buckets(self.counts.iter().copied(), self.max_ns, self.clamped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_generators_are_those_of_all_their_samples() {
        let (mut whole, mut merged) = (LatencyHistogram::new(), LatencyHistogram::new());
        for generator in 0..3_u64 {
            let mut own = LatencyHistogram::new();
            for sample in 0..4_000_u64 {
                // Three generators with very different latencies.
                let ns = (sample * 7_919 + generator) % 100_003 * 10_u64.pow(generator as u32 * 2);
                own.record(Duration::from_nanos(ns));
                whole.record(Duration::from_nanos(ns));
            }
            let text = serde_json::to_string(&Buckets::of(&own)).unwrap();
            let came: Buckets = serde_json::from_str(&text).unwrap();
            merged.merge(&came.histogram());
        }
        assert_eq!(merged.count(), 12_000);
        assert_eq!(merged.max_us(), whole.max_us());
        for percentile in [0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
            let (found, wanted) = (
                merged.percentile_us(percentile),
                whole.percentile_us(percentile),
            );
            assert_eq!(found, wanted, "p{percentile}");
        }
    }
    #[test]
    fn histograms_that_cannot_be_are_refused() {
        let read = |counts: &str, clamped: u64| {
            let text = format!(r#"{{"counts":{counts},"max_ns":9,"clamped":{clamped}}}"#);
            serde_json::from_str::<Buckets>(&text).map(|came| came.histogram().count())
        };
        assert_eq!(read("[[5,2],[9,3]]", 5).unwrap(), 5);
        let most = u64::MAX;
        for (counts, clamped) in [
            (format!("[[1,{most}],[2,7]]"), 0),
            (format!("[[1,{VALUES_MAX}],[2,1]]"), 0),
            ("[[1,1]]".to_owned(), 2),
        ] {
            let refused = read(&counts, clamped).unwrap_err().to_string();
            assert!(
                refused.contains("a histogram must have at most"),
                "{refused}"
            );
        }
    }
}
