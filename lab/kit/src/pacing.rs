//! When a client may send: at once (closed loop) or on a schedule (open loop), and how long a
//! scheduled call would have taken if the lab itself had never been late.
//!
//! On a schedule each call has a time at which it is due. Its latency counts from then, so that it
//! includes the time spent waiting behind slow calls, which a closed loop hides. It does not
//! include the delay of the lab's own timer, which is reported as the lab's lateness.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

use crate::seed::mix;
use crate::share::Share;

/// How calls of an open loop arrive.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Even,
    /// Each call independent of the others: the time between two calls is exponentially
    /// distributed.
    Poisson,
    /// The given number of calls at once, then a pause that keeps the rate.
    Bursts(u32),
    /// At the recorded times, in seconds since the step began.
    Recorded(&'static [f64]),
}

const ARRIVALS: &str = "even, poisson, bursts:COUNT or recorded:FILE with a time in seconds on \
    each line";

impl TryFrom<String> for Arrivals {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|allowed| format!("arrivals '{text}': allowed is {allowed}"))
    }
}

impl Arrivals {
    /// Parses the setting; the file of a recording is read.
    ///
    /// # Errors
    /// The allowed forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "even" => Ok(Self::Even),
            None if text == "poisson" => Ok(Self::Poisson),
            Some(("bursts", count)) => {
                let count = count
                    .parse()
                    .ok()
                    .filter(|count| (1..=100_000).contains(count));
                Ok(Self::Bursts(count.ok_or(ARRIVALS)?))
            }
            Some(("recorded", path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("a file that can be read ({path}: {error})"))?;
                let times = text
                    .lines()
                    .enumerate()
                    .filter(|(_, line)| !line.trim().is_empty());
                let mut out: Vec<f64> = Vec::new();
                for (at, line) in times {
                    let time = line.trim().parse::<f64>().ok();
                    let last = out.last().copied().unwrap_or(0.0);
                    let time = time.filter(|time| *time >= last && *time < 1e9);
                    out.push(time.ok_or_else(|| {
                        format!("times in order ({path}, line {}: {line})", at + 1)
                    })?);
                }
                if out.is_empty() {
                    return Err(format!("a file with times ({path} has none)"));
                }
                // A run reads it once or twice and needs it to its end.
                Ok(Self::Recorded(Vec::leak(out)))
            }
            _ => Err(ARRIVALS.to_owned()),
        }
    }

    /// Recorded times that another machine sent.
    ///
    /// # Errors
    /// The times are not in order.
    pub fn of_times(times: &[f64]) -> Result<Self, String> {
        // A process that generates load for many runs keeps each recording only once.
        static KEPT: Mutex<Vec<&'static [f64]>> = Mutex::new(Vec::new());
        let starts = times.first().is_some_and(|first| *first >= 0.0);
        let in_order = times.windows(2).all(|pair| pair[0] <= pair[1]);
        if !(starts && in_order && times.iter().all(|time| *time < 1e9)) {
            return Err("recorded times: allowed are times in order".to_owned());
        }
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.iter().find(|known| **known == times) {
            return Ok(Self::Recorded(known));
        }
        let new: &'static [f64] = Vec::leak(times.to_vec());
        kept.push(new);
        Ok(Self::Recorded(new))
    }

    /// Calls a second, if the arrivals themselves determine the rate.
    pub fn mean_rate(&self) -> Option<f64> {
        match self {
            Self::Recorded(times) => {
                let last = times.last().copied().unwrap_or(0.0);
                Some(times.len() as f64 / last.max(1e-3))
            }
            _ => None,
        }
    }
}

/// The schedule of one client.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    gap: Duration,
    offset: Duration,
    sent: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Even,
    /// The state of the random numbers, and the time of the last call in seconds.
    Poisson(u64, f64),
    Bursts(u32),
    /// All times, the position of this client's first one, and the number of clients.
    Recorded(&'static [f64], usize, usize),
}

impl Schedule {
    /// An even schedule for client `client` of `clients`, which together make `calls_per_second`.
    ///
    /// Clients are shifted against one another, so that they do not send in step.
    pub fn even(calls_per_second: f64, client: u32, clients: u32) -> Self {
        let gap = Duration::from_secs_f64(f64::from(clients.max(1)) / calls_per_second.max(1e-6));
        Self {
            gap,
            offset: gap * client / clients.max(1),
            sent: 0,
            kind: Kind::Even,
        }
    }

    /// A schedule of the given kind; `seed` is the client's own.
    pub fn of(arrivals: &Arrivals, calls_per_second: f64, share: Share, seed: u64) -> Self {
        let Share {
            number: client,
            of: clients,
        } = share;
        let even = Self::even(calls_per_second, client, clients);
        let kind = match arrivals {
            Arrivals::Even => return even,
            Arrivals::Poisson => Kind::Poisson(seed, 0.0),
            // All clients send at the same time; each sends its share of the burst.
            Arrivals::Bursts(count) => Kind::Bursts(count.div_ceil(clients.max(1)).max(1)),
            Arrivals::Recorded(times) => {
                Kind::Recorded(times, client as usize, clients.max(1) as usize)
            }
        };
        Self {
            offset: Duration::ZERO,
            kind,
            ..even
        }
    }

    /// The time at which the next call is due, since the step began.
    pub fn next_start(&mut self) -> Duration {
        let gap = self.gap.as_secs_f64();
        let number = self.sent;
        self.sent = self.sent.saturating_add(1);
        match &mut self.kind {
            Kind::Even => self.offset + Duration::from_secs_f64(gap * f64::from(number)),
            Kind::Poisson(state, at) => {
                *state = mix(*state);
                // 53 bits make a fraction below 1.
                let uniform = (*state >> 11) as f64 / (1_u64 << 53) as f64;
                *at += -(1.0 - uniform).ln() * gap;
                Duration::from_secs_f64(*at)
            }
            Kind::Bursts(size) => {
                let burst = number / *size;
                Duration::from_secs_f64(gap * f64::from(burst * *size))
            }
            Kind::Recorded(times, client, clients) => {
                let time = times.get(*client + number as usize * *clients);
                time.map_or(NEVER, |time| Duration::from_secs_f64(*time))
            }
        }
    }
}

/// The due time after the last call of a recording.
const NEVER: Duration = Duration::from_secs(1 << 40);

/// The queue in front of one client's connection, as if the lab sent each call as soon as the call
/// is due and the connection is free.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualQueue {
    free_at: Duration,
}

/// A call that went through the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedCall {
    /// From the time at which the call was due to its reply.
    pub latency: Duration,
    /// The part of the latency before the connection was free.
    pub waited: Duration,
}

impl VirtualQueue {
    /// Takes a call that was due at `due` and took `service` from sending to its reply.
    pub fn serve(&mut self, due: Duration, service: Duration) -> QueuedCall {
        let start = self.free_at.max(due);
        self.free_at = start + service;
        QueuedCall {
            latency: self.free_at - due,
            waited: start - due,
        }
    }

    /// How long a call that was due at `due` and never sent had waited for the connection by
    /// `until`. `None` if the connection was free: only the lab was late.
    pub fn unsent_wait(&self, due: Duration, until: Duration) -> Option<Duration> {
        (self.free_at > due).then(|| until.saturating_sub(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn clients_share_the_rate_and_alternate() {
        let mut first = Schedule::even(100.0, 0, 2);
        let mut second = Schedule::even(100.0, 1, 2);
        let starts: Vec<u128> = (0..2)
            .flat_map(|_| [first.next_start(), second.next_start()])
            .map(|start| start.as_millis())
            .collect();
        assert_eq!(starts, [0, 10, 20, 30]);
    }

    fn starts(arrivals: &Arrivals, calls: usize) -> Vec<f64> {
        let mut out: Vec<f64> = (0..2)
            .flat_map(|client| {
                let seed = 7 + u64::from(client);
                let mut schedule = Schedule::of(arrivals, 100.0, Share::new(client, 2), seed);
                (0..calls / 2)
                    .map(|_| schedule.next_start().as_secs_f64())
                    .collect::<Vec<_>>()
            })
            .collect();
        out.sort_by(f64::total_cmp);
        out
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_are_as_uneven_as_they_must_be() {
        let all = starts(&Arrivals::Poisson, 20_000);
        // The clients end at different times, but both send throughout the first half.
        let half: Vec<f64> = all.iter().copied().filter(|at| *at < 90.0).collect();
        let rate = half.len() as f64 / 90.0;
        assert!((95.0..105.0).contains(&rate), "{rate}");
        let gaps: Vec<f64> = half.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let variation = variance.sqrt() / mean;
        assert!((0.95..1.05).contains(&variation), "{variation}");
    }

    #[test]
    fn bursts_come_together_and_recordings_as_they_were() {
        let all = starts(&Arrivals::Bursts(10), 40);
        assert_eq!(all.iter().filter(|at| **at < 0.01).count(), 10);
        assert_eq!(
            all.iter().filter(|at| (0.09..0.11).contains(*at)).count(),
            10
        );
        let dir = std::env::temp_dir().join(format!("arrivals-{}", std::process::id()));
        std::fs::write(&dir, "0.1\n0.2\n\n0.25\n3\n").unwrap();
        let recorded = Arrivals::parse(&format!("recorded:{}", dir.display())).unwrap();
        std::fs::write(&dir, "0.2\n0.1\n").unwrap();
        let refused = Arrivals::parse(&format!("recorded:{}", dir.display())).unwrap_err();
        std::fs::remove_file(&dir).unwrap();
        assert!(refused.contains("line 2"), "{refused}");
        assert_eq!(starts(&recorded, 4), [0.1, 0.2, 0.25, 3.0]);
        assert!(starts(&recorded, 6)[4] > 1e9, "no more than there were");
        assert!((recorded.mean_rate().unwrap() - 4.0 / 3.0).abs() < 1e-9);
        let sent = Arrivals::of_times(&[0.1, 0.2, 0.25, 3.0]).unwrap();
        assert_eq!(sent, recorded);
        for wrong in [&[][..], &[0.2, 0.1], &[-1.0], &[f64::NAN], &[1e9]] {
            assert!(Arrivals::of_times(wrong).is_err(), "{wrong:?}");
        }
        assert!(Arrivals::parse("bursts:0").is_err() && Arrivals::parse("random").is_err());
    }

    #[test]
    fn a_call_waits_for_the_previous_call_and_never_for_the_lab() {
        let mut queue = VirtualQueue::default();
        let served = |latency, waited| QueuedCall {
            latency: ms(latency),
            waited: ms(waited),
        };
        assert_eq!(queue.serve(ms(10), ms(3)), served(3, 0));
        // A call of 30 ms delays the two calls that become due meanwhile.
        assert_eq!(queue.serve(ms(20), ms(30)), served(30, 0));
        assert_eq!(queue.serve(ms(30), ms(1)), served(21, 20));
        assert_eq!(queue.serve(ms(40), ms(1)), served(12, 11));
        // The latency of a call on a free connection does not depend on when the lab sent it.
        assert_eq!(queue.serve(ms(90), ms(2)), served(2, 0));
    }

    #[test]
    fn an_unsent_call_waited_only_if_the_connection_was_busy() {
        let mut queue = VirtualQueue::default();
        queue.serve(ms(10), ms(90));
        assert_eq!(queue.unsent_wait(ms(60), ms(100)), Some(ms(40)));
        assert_eq!(queue.unsent_wait(ms(100), ms(101)), None);
    }
}
