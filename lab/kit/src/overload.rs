//! The figures of an overload: goodput as a share of the peak, latency of admitted calls, memory,
//! and how soon the target recovered.
//!
//! Promises: everything is computed from the points of a step's series, for the clients that stay
//! and for those that come and go. Must not know: targets, how clients wait.

use std::ops::Range;

use metrics::LatencyHistogram;

use crate::result::{Overload, StepResult};
use crate::series::Point;

/// The target is saturated if more clients add less than this share to the rate.
const GAIN_MIN: f64 = 0.05;
/// The target has recovered when it reaches this share of the rate before the overload.
const RECOVERED: f64 = 0.9;
/// It must keep the rate for this many points, or to the end.
const POINTS_KEPT: usize = 3;

/// The number of clients that saturate the target, from pairs of clients and rate in ascending
/// order. `None` while one of the last two steps still gained; two are needed because a single one
/// may be disturbed.
pub fn saturation(tried: &[(u32, f64)]) -> Option<u32> {
    let best_of = |some: &[(u32, f64)]| some.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let before = tried.get(..tried.len().checked_sub(2)?)?;
    let last = tried.get(before.len()..)?;
    if before.is_empty() || best_of(last) > best_of(before) * (1.0 + GAIN_MIN) {
        return None;
    }
    let enough = best_of(tried) / (1.0 + GAIN_MIN);
    let first = tried.iter().find(|(_, rate)| *rate >= enough);
    first.map(|(clients, _)| *clients)
}

/// The figures of a step whose second role made the overload in `window`.
pub fn of_step(step: &StepResult, tried: &[(u32, f64)], window: Range<f64>) -> Option<Overload> {
    let surge = step.more.background.first()?;
    let (from, until) = (window.start, window.end);
    let (stay, go) = (&step.series, &surge.series);
    let within = |low: f64, high: f64| {
        move |point: &&Point| point.start_s >= low && point.start_s + point.seconds <= high
    };
    let rate = |low: f64, high: f64| {
        let seconds: f64 = stay
            .iter()
            .filter(within(low, high))
            .map(|one| one.seconds)
            .sum();
        let both = stay.iter().chain(go).filter(within(low, high));
        let ops: u64 = both.map(|point| point.ops).sum();
        if seconds > 0.0 {
            ops as f64 / seconds
        } else {
            0.0
        }
    };
    let p99 = |low: f64, high: f64| {
        let mut all = LatencyHistogram::default();
        let points = stay.iter().chain(go).filter(within(low, high));
        points
            .filter_map(|point| LatencyHistogram::from_base64(&point.latency_hdr).ok())
            .for_each(|one| all.merge(&one));
        all.percentile_us(99.0)
    };
    let before = rate(0.0, from);
    let best = tried.iter().map(|(_, rate)| *rate).fold(before, f64::max);
    let goodput = rate(from, until);
    Some(Overload {
        saturating_clients: step.clients,
        clients: step.clients + surge.clients,
        from_s: from,
        until_s: until,
        peak_rate: best,
        goodput,
        goodput_percent: if best > 0.0 {
            goodput * 100.0 / best
        } else {
            0.0
        },
        p99_before_us: p99(0.0, from),
        p99_admitted_us: p99(from, until),
        refused_calls: step.more.refused_calls + surge.refused_calls,
        given_up: step.more.given_up + surge.given_up,
        memory_bytes_max: step.server.as_ref().map(|server| server.rss_bytes_max),
        recovery_seconds: recovery(stay, until, before * RECOVERED),
    })
}

/// The time from `until` until the rate of the remaining clients had recovered.
fn recovery(points: &[Point], until: f64, rate: f64) -> Option<f64> {
    let after: Vec<&Point> = points
        .iter()
        // A last point of a few milliseconds does not show the rate.
        .filter(|point| point.start_s + point.seconds > until && point.seconds >= 0.5)
        .collect();
    let is_back = |point: &&&Point| point.ops as f64 / point.seconds >= rate;
    let back = (0..after.len()).find(|at| {
        let next = after.iter().skip(*at).take(POINTS_KEPT);
        let count = next.clone().count();
        next.filter(is_back).count() == count
    })?;
    let first = after.get(back)?;
    // The point that includes the end of the overload began before that end.
    Some((first.start_s - until).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturation_is_where_more_clients_add_little() {
        let tried = [(1, 100.0), (2, 190.0), (4, 300.0), (8, 310.0), (16, 290.0)];
        for some in 0..4 {
            assert_eq!(saturation(&tried[..some]), None, "{some}");
        }
        assert_eq!(saturation(&tried), Some(4));
        // One bad rate does not end the search, and the smallest number of clients as good as the
        // best is enough.
        let flat = [(1, 100.0), (2, 80.0), (4, 198.0), (8, 201.0), (16, 180.0)];
        assert_eq!(saturation(&flat[..3]), None);
        assert_eq!(saturation(&flat[..4]), None);
        assert_eq!(saturation(&flat), Some(4));
    }

    #[test]
    fn the_rate_must_stay_back() {
        let point = |start: u32, ops: u64| Point {
            start_s: f64::from(start),
            seconds: 1.0,
            ops,
            ..Point::default()
        };
        let ops = [100, 100, 10, 10, 20, 95, 30, 92, 99, 91];
        let points: Vec<Point> = (0..).zip(ops).map(|(at, ops)| point(at, ops)).collect();
        assert_eq!(recovery(&points, 4.0, 90.0), Some(3.0));
        assert_eq!(recovery(&points, 4.0, 101.0), None);
        assert_eq!(recovery(&points, 4.0, 5.0), Some(0.0));
        let scrap = Point {
            start_s: 10.0,
            seconds: 0.005,
            ..Point::default()
        };
        let ended: Vec<Point> = points.into_iter().chain([scrap]).collect();
        assert_eq!(recovery(&ended, 4.0, 90.0), Some(3.0));
    }
}
