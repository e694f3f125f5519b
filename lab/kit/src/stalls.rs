//! Stalls: periods of a step in which little or nothing was completed.
//!
//! Two sources are combined. Intervals far below the median show a very slow step. Gaps between
//! completions show a step that stands still; they are exact and can be shorter than an interval.
//! Ten times a second the sampler asks when the first and the last call were completed, so that
//! every gap of [`GAP_MIN`] seconds or more is seen.

use crate::result::{Period, Stalls};

/// The largest number of stalls listed.
const STRETCHES_MAX: usize = 100;
/// An interval below this share of the median is a stall.
const STALL_PERCENT: f64 = 10.0;
/// The shortest gap, in seconds, that can be a stall: two sampler ticks, because shorter gaps may
/// go unseen.
pub const GAP_MIN: f64 = 0.2;
/// A gap is a stall if it is at least this many times as long as the mean time between completions.
const GAP_FACTOR: f64 = 10.0;
/// The largest number of gaps kept until the mean time between completions is known.
const CANDIDATES_MAX: usize = 10_000;
/// The part of an interval outside gaps must be this long, in seconds, to show a rate.
const REST_MIN: f64 = 0.1;

/// Finds the gaps between completions of one role.
#[derive(Clone, Debug, Default)]
pub struct GapTracker {
    last_s: f64,
    candidates: Vec<Period>,
    completions: u64,
}

impl GapTracker {
    /// Starts at `begin_s` since the step began; earlier gaps are not measured.
    pub fn start(&mut self, begin_s: f64) {
        *self = Self {
            last_s: begin_s,
            ..Self::default()
        };
    }

    /// Notes that `count` calls were completed since the last call of this function, the first at
    /// `first_s` and the last at `last_s`.
    pub fn record_completions(&mut self, count: u64, first_s: f64, last_s: f64) {
        self.gap_until(first_s);
        self.completions += count;
        self.last_s = self.last_s.max(last_s);
    }

    /// Notes that nothing was completed between two times, within calls that are reported together.
    pub fn gap(&mut self, start_s: f64, end_s: f64) {
        let seconds = end_s - start_s;
        if seconds >= GAP_MIN && self.candidates.len() < CANDIDATES_MAX {
            self.candidates.push(Period { start_s, seconds });
        }
    }

    fn gap_until(&mut self, end_s: f64) {
        self.gap(self.last_s, end_s);
    }

    /// The gaps that are stalls in a measured time of `seconds` that ended at `end_s`.
    pub fn finish(mut self, end_s: f64, seconds: f64) -> Vec<Period> {
        self.gap_until(end_s);
        let mean = seconds / (self.completions.max(1) as f64);
        self.candidates
            .retain(|gap| gap.seconds >= GAP_FACTOR * mean || self.completions == 0);
        self.candidates
    }
}

/// One interval of a step: start, length, operations per second.
pub type IntervalRate = (f64, f64, f64);

/// Finds the stalls of a step from its intervals, their median rate, and its gaps.
pub fn find(intervals: &[IntervalRate], median: f64, gaps: &[Period]) -> Stalls {
    let mut low: Vec<Period> = gaps.to_vec();
    let mut out = Stalls {
        threshold_percent_of_median: STALL_PERCENT,
        seconds_without_ops: total(gaps),
        seconds_below_50_percent: total(gaps),
        longest_gap_seconds: gaps.iter().map(|gap| gap.seconds).fold(0.0, f64::max),
        ..Stalls::default()
    };
    for (start_s, seconds, rate) in intervals {
        let covered: f64 = gaps
            .iter()
            .map(|gap| overlap(gap, *start_s, *seconds))
            .sum();
        // Outside its gaps an interval ran at a higher rate than its average.
        let rest = seconds - covered;
        if covered > 0.0 && rest < REST_MIN {
            continue;
        }
        let rate = rate * seconds / rest.max(f64::MIN_POSITIVE);
        out.seconds_without_ops += if rate == 0.0 { rest } else { 0.0 };
        out.seconds_below_50_percent += if rate < median * 0.5 { rest } else { 0.0 };
        if rate < median * STALL_PERCENT / 100.0 || rate == 0.0 {
            low.extend(subtract_gaps(*start_s, *seconds, gaps));
        }
    }
    let stretches = join_periods(low);
    out.seconds_below_10_percent = total(&stretches);
    out.count = stretches.len() as u64;
    out.longest_seconds = stretches.iter().map(|one| one.seconds).fold(0.0, f64::max);
    out.stretches = longest(stretches);
    out
}

/// `sum` would return minus zero for an empty slice.
fn total(stretches: &[Period]) -> f64 {
    stretches.iter().fold(0.0, |sum, one| sum + one.seconds)
}

fn overlap(gap: &Period, start_s: f64, seconds: f64) -> f64 {
    let end = (gap.start_s + gap.seconds).min(start_s + seconds);
    (end - gap.start_s.max(start_s)).max(0.0)
}

/// The parts of an interval outside all gaps.
fn subtract_gaps(start_s: f64, seconds: f64, gaps: &[Period]) -> Vec<Period> {
    let end = start_s + seconds;
    let mut inside: Vec<&Period> = gaps
        .iter()
        .filter(|gap| overlap(gap, start_s, seconds) > 0.0)
        .collect();
    inside.sort_by(|left, right| left.start_s.total_cmp(&right.start_s));
    let (mut out, mut at) = (Vec::new(), start_s);
    let mut push = |from: f64, to: f64| {
        if to > from {
            out.push(Period {
                start_s: from,
                seconds: to - from,
            });
        }
    };
    for gap in inside {
        push(at, gap.start_s.min(end));
        at = at.max(gap.start_s + gap.seconds);
    }
    push(at, end);
    out
}

/// Sorts by time and joins adjacent periods.
fn join_periods(mut all: Vec<Period>) -> Vec<Period> {
    /// Times in `intervals.csv` have three digits.
    const TOUCH: f64 = 0.002;
    all.sort_by(|left, right| left.start_s.total_cmp(&right.start_s));
    let mut out: Vec<Period> = Vec::new();
    for next in all {
        match out.last_mut() {
            Some(last) if next.start_s <= last.start_s + last.seconds + TOUCH => {
                let end = (next.start_s + next.seconds).max(last.start_s + last.seconds);
                last.seconds = end - last.start_s;
            }
            _ => out.push(next),
        }
    }
    out
}

fn longest(mut all: Vec<Period>) -> Vec<Period> {
    all.sort_by(|left, right| right.seconds.total_cmp(&left.seconds));
    all.truncate(STRETCHES_MAX);
    all.sort_by(|left, right| left.start_s.total_cmp(&right.start_s));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-6, "{found} is not {wanted}");
    }

    #[test]
    fn a_frozen_second_between_two_intervals_is_a_stall_of_one_second() {
        // 1,000 calls a second, none from 3.4 to 4.4 s: no interval is below 10 % of the median.
        let mut gaps = GapTracker::default();
        gaps.start(0.0);
        for tick in 0..100_u32 {
            let at = f64::from(tick) * 0.1;
            if (3.39..4.39).contains(&at) {
                continue;
            }
            gaps.record_completions(100, at + 0.001, at + 0.1);
        }
        let gaps = gaps.finish(10.0, 10.0);
        let intervals: Vec<IntervalRate> = (0..10)
            .map(|at| {
                let rate = match at {
                    3 => 400.0,
                    4 => 600.0,
                    _ => 1_000.0,
                };
                (f64::from(at), 1.0, rate)
            })
            .collect();
        assert_eq!(find(&intervals, 1_000.0, &[]).count, 0, "intervals alone");
        let stalls = find(&intervals, 1_000.0, &gaps);
        assert_eq!(stalls.count, 1, "{stalls:?}");
        assert!((stalls.longest_seconds - 1.0).abs() < 0.01, "{stalls:?}");
        assert!((stalls.seconds_below_10_percent - 1.0).abs() < 0.01);
        assert!((stalls.longest_gap_seconds - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_target_that_stands_still_at_begin_and_end_is_seen() {
        let mut gaps = GapTracker::default();
        gaps.start(2.0);
        gaps.record_completions(500, 2.7, 3.5);
        gaps.record_completions(500, 3.5, 4.5);
        let found = gaps.finish(6.0, 4.0);
        assert_eq!(found.len(), 2);
        near(found[0].start_s, 2.0);
        near(found[0].seconds, 0.7);
        near(found[1].seconds, 1.5);
    }

    #[test]
    fn rare_calls_have_gaps_that_are_no_stalls() {
        let mut gaps = GapTracker::default();
        gaps.start(0.0);
        for call in 1..=20_u32 {
            let at = f64::from(call) * 0.5;
            gaps.record_completions(1, at, at);
        }
        assert!(gaps.finish(10.0, 10.0).is_empty());
        let mut silent = GapTracker::default();
        silent.start(0.0);
        assert_eq!(
            silent.finish(3.0, 3.0).len(),
            1,
            "nothing at all is a stall"
        );
    }

    #[test]
    fn intervals_far_below_the_median_count_without_gaps() {
        let rates = [100.0, 100.0, 0.0, 5.0, 100.0, 100.0, 40.0, 100.0, 0.0];
        let intervals: Vec<IntervalRate> = rates
            .iter()
            .enumerate()
            .map(|(at, rate)| (at as f64, 1.0, *rate))
            .collect();
        let stalls = find(&intervals, 100.0, &[]);
        assert_eq!(
            (
                stalls.seconds_without_ops,
                stalls.seconds_below_10_percent,
                stalls.seconds_below_50_percent
            ),
            (2.0, 3.0, 4.0)
        );
        assert_eq!((stalls.count, stalls.longest_seconds), (2, 2.0));
    }
}
