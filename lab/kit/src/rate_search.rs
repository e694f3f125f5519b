//! The search for the highest rate at which a condition holds: the rate to try next, and the
//! outcome.
//!
//! Promises: the condition held in most repeats at the rate found, and failed at the next higher
//! rate that was tried. The search halves the distance between the two on a logarithmic scale. Must
//! not know: how a rate is tried.

use serde::{Deserialize, Serialize};

use crate::result::{RunResult, StepResult};

/// A search ends when the lowest failing rate is at most this factor above the highest passing
/// rate.
const PRECISION: f64 = 1.05;
/// The search gives up if the condition fails even at this share of the rate of a closed loop.
const LOWEST_SHARE: f64 = 1e-3;
/// The search also gives up if the condition still holds at this multiple of that rate: more
/// clients are needed then.
const HIGHEST_SHARE: f64 = 4.0;
/// A run that reaches less than this share of its rate fails, whatever its latency.
const REACHED_SHARE: f64 = 0.95;

/// An upper limit of a latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// As given.
    pub text: String,
    metric: Latency,
    below_us: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Latency {
    Percentile(f64),
    Mean,
    Max,
}

impl Condition {
    /// Parses a condition such as `p99<10ms`.
    ///
    /// # Errors
    /// The allowed forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        const ALLOWED: &str = "allowed is METRIC<TIME with p50, p75, p90, p95, p99, p99.9, p99.99, \
            mean or max, and a time in us, ms or s, such as p99<10ms";
        let wrong = || format!("--find-rate '{text}': {ALLOWED}");
        let (metric, time) = text.split_once('<').ok_or_else(wrong)?;
        let time = time.trim_start_matches('=').trim();
        let metric = match metric.trim() {
            "mean" => Latency::Mean,
            "max" => Latency::Max,
            other => {
                let percent = other.strip_prefix('p').and_then(|rest| rest.parse().ok());
                let known = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
                let percent = percent.filter(|percent| known.contains(percent));
                Latency::Percentile(percent.ok_or_else(wrong)?)
            }
        };
        let units = [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
        let found = units.iter().find_map(|(unit, us)| {
            let number = time.strip_suffix(unit)?.trim().parse::<f64>().ok()?;
            Some(number * us)
        });
        let below_us = found
            .filter(|us| *us > 0.0 && us.is_finite())
            .ok_or_else(wrong)?;
        Ok(Self {
            text: text.to_owned(),
            metric,
            below_us,
        })
    }

    /// The limit in microseconds.
    pub fn limit_us(&self) -> f64 {
        self.below_us
    }

    /// The latency of a step that the condition limits.
    pub fn value(&self, step: &StepResult) -> Option<f64> {
        let latency = &step.latency;
        if latency.calls == 0 {
            return None;
        }
        match self.metric {
            Latency::Percentile(percent) => latency.percentile(percent),
            Latency::Mean => Some(latency.mean_us),
            Latency::Max => Some(latency.max_us),
        }
    }

    /// Judges a run at a rate. It passes if it is complete, right, without errors, reached the rate
    /// and kept the limit.
    pub fn judge(&self, run: &RunResult, rate: f64) -> RunJudgement {
        let step = run.main_step();
        let value = step.and_then(|step| self.value(step));
        let because = match (step, value) {
            _ if !run.run.complete => "the run ended early",
            _ if run.checks.iter().any(|check| check.passed == Some(false)) => "a check failed",
            (Some(step), _) if !step.errors.is_empty() => "calls failed",
            (Some(step), _) if step.rate.average < rate * REACHED_SHARE => {
                "the rate was not reached"
            }
            (_, Some(value)) if value < self.below_us => "",
            _ => "the latency",
        };
        RunJudgement {
            latency_us: value,
            is_kept: because.is_empty(),
            because: because.to_owned(),
        }
    }
}

/// The judgement of one run at a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunJudgement {
    /// The latency of the condition.
    pub latency_us: Option<f64>,
    /// Whether the run passed.
    pub is_kept: bool,
    /// Why the run failed.
    pub because: String,
}

/// A rate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateTrial {
    /// The rate of the schedule, in calls a second.
    pub rate: f64,
    /// Whether most repeats passed.
    pub is_kept: bool,
    /// The judgement of each repeat.
    pub repeats: Vec<RunJudgement>,
    /// Ids of the runs.
    pub runs: Vec<String>,
}

/// The state of a search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RateSearch {
    /// The condition.
    pub condition: Condition,
    /// The rate of a closed loop, where the search starts.
    pub closed_loop_rate: f64,
    /// The rates that were tried, in order.
    pub tried: Vec<RateTrial>,
}

impl RateSearch {
    /// Starts a search at the rate of a closed loop.
    pub fn new(condition: Condition, closed_loop_rate: f64) -> Self {
        Self {
            condition,
            closed_loop_rate,
            tried: Vec::new(),
        }
    }

    /// The highest passing rate below every failing rate.
    pub fn highest_passing(&self) -> Option<f64> {
        let lost = self.lowest_failing().unwrap_or(f64::INFINITY);
        self.rates(true)
            .filter(|rate| *rate < lost)
            .reduce(f64::max)
    }

    /// The lowest failing rate.
    pub fn lowest_failing(&self) -> Option<f64> {
        self.rates(false).reduce(f64::min)
    }

    fn rates(&self, is_kept: bool) -> impl Iterator<Item = f64> {
        let tried = self.tried.iter();
        tried
            .filter(move |one| one.is_kept == is_kept)
            .map(|one| one.rate)
    }

    /// The rate to try next, or `None` when the search is over.
    pub fn next_rate(&self) -> Option<f64> {
        let all = self.closed_loop_rate;
        let rate = match (self.highest_passing(), self.lowest_failing()) {
            (None, None) => all / 2.0,
            (None, Some(lost)) => lost / 2.0,
            (Some(kept), None) if kept < all => all,
            (Some(kept), None) => kept * 1.25,
            (Some(kept), Some(lost)) if lost / kept > PRECISION => (kept * lost).sqrt(),
            (Some(_), Some(_)) => return None,
        };
        (rate >= all * LOWEST_SHARE && rate <= all * HIGHEST_SHARE).then_some(round_rate(rate))
    }

    /// The outcome in a sentence.
    pub fn outcome(&self) -> String {
        let number = crate::format::number;
        let text = &self.condition.text;
        match (self.highest_passing(), self.lowest_failing()) {
            (Some(kept), Some(lost)) => format!(
                "{text} is kept up to {} calls a second and no longer at {}.",
                number(kept),
                number(lost)
            ),
            (Some(kept), None) => format!(
                "{text} is kept at every rate tried, up to {} calls a second; more clients could \
                    ask for more.",
                number(kept)
            ),
            (None, Some(lost)) => format!(
                "{text} is not kept at any rate tried, down to {} calls a second.",
                number(lost)
            ),
            (None, None) => "no rate was tried.".to_owned(),
        }
    }
}

/// Rounds to three digits, the precision in which rates are shown and set.
fn round_rate(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.log10().floor() - 2.0);
    ((rate / unit).round() * unit * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(closed: f64, keeps: impl Fn(f64) -> bool) -> (RateSearch, usize) {
        let condition = Condition::parse("p99<10ms").unwrap();
        let mut search = RateSearch::new(condition, closed);
        let mut count = 0;
        while let Some(rate) = search.next_rate() {
            count += 1;
            assert!(count < 40, "{:?}", search.tried);
            search.tried.push(RateTrial {
                rate,
                is_kept: keeps(rate),
                repeats: Vec::new(),
                runs: Vec::new(),
            });
        }
        (search, count)
    }

    #[test]
    fn the_rate_is_found_within_five_percent_and_a_few_tries() {
        for limit in [30.0, 123.0, 480.0, 990.0, 1_800.0] {
            let (found, count) = search(1_000.0, |rate| rate <= limit);
            let (kept, lost) = (
                found.highest_passing().unwrap(),
                found.lowest_failing().unwrap(),
            );
            assert!(
                kept <= limit && lost > limit && lost / kept <= 1.06,
                "{limit}: {kept} {lost}"
            );
            assert!(count <= 14, "{limit}: {count} tries");
        }
        let (none, _) = search(1_000.0, |_| false);
        assert!(
            none.highest_passing().is_none() && none.outcome().contains("not kept at any rate")
        );
        let (all, _) = search(1_000.0, |_| true);
        assert!(all.lowest_failing().is_none() && all.outcome().contains("every rate"));
    }

    #[test]
    fn conditions_are_parsed_and_mistakes_reported() {
        let condition = Condition::parse("p99.9<2.5ms").unwrap();
        assert_eq!(condition.limit_us(), 2_500.0);
        assert_eq!(Condition::parse("max<1s").unwrap().limit_us(), 1e6);
        assert_eq!(
            Condition::parse("mean <= 300 us").unwrap().limit_us(),
            300.0
        );
        for text in ["p99", "p98<1ms", "p99<1", "p99<-1ms", "rate<1ms"] {
            assert!(
                Condition::parse(text)
                    .unwrap_err()
                    .contains("such as p99<10ms"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_run_that_failed_or_did_not_reach_its_rate_has_not_kept_it() {
        let mut run: RunResult =
            serde_json::from_str(include_str!("../tests/data/point.json")).unwrap();
        run.run.complete = true;
        run.checks.clear();
        let rate = run.main_step().unwrap().rate.average;
        for step in &mut run.steps {
            step.errors.clear();
        }
        let loose = Condition::parse("p99<100s").unwrap();
        assert!(loose.judge(&run, rate).is_kept);
        assert_eq!(
            loose.judge(&run, rate * 1.1).because,
            "the rate was not reached"
        );
        let tight = Condition::parse("p99<0.001us").unwrap();
        assert_eq!(tight.judge(&run, rate).because, "the latency");
        run.run.complete = false;
        assert_eq!(loose.judge(&run, rate).because, "the run ended early");
    }
}
