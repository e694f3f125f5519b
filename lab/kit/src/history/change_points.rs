//! Points at which a series changed, by energy statistics (E-divisive, Matteson and James 2014).
//! The algorithm takes the split with the largest distance between the two sides, keeps it if only
//! few permutations of the values have as large a distance, and repeats this within each side.
//!
//! No distribution is assumed. The permutations come from a fixed stream, so that the same series
//! always has the same change points.

use rand::seq::SliceRandom;

use crate::seed;

/// The least number of runs on each side.
const SIDE_MIN: usize = 3;
/// Number of permutations; it is enough to resolve [`CHANCE_MAX`].
const PERMUTATIONS: usize = 999;
/// The largest share of permutations whose distance may be as large as that of the split.
const CHANCE_MAX: f64 = 0.001;
/// A smaller relative change is ignored, however certain it is.
const SMALLEST_SHARE: f64 = 0.01;
/// The largest number of runs: a page with more would be too long to read.
const RUNS_MAX: usize = 2_000;

/// The indexes of the first values after each change, in order.
pub fn change_points(values: &[f64]) -> Vec<usize> {
    let start = values.len().saturating_sub(RUNS_MAX);
    let mut out = Vec::new();
    split(values.get(start..).unwrap_or_default(), start, &mut out);
    out.sort_unstable();
    out
}

fn split(values: &[f64], offset: usize, out: &mut Vec<usize>) {
    if values.len() < 2 * SIDE_MIN {
        return;
    }
    let (best, at) = best_split(values);
    let (left, right) = values.split_at(at);
    let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
    let (before, after) = (mean(left), mean(right));
    if (after - before).abs() < SMALLEST_SHARE * before.abs().max(f64::MIN_POSITIVE) {
        return;
    }
    let mut random = seed::stream(0, "history", "permutations", 0);
    let mut shuffled = values.to_vec();
    let as_good = (0..PERMUTATIONS)
        .filter(|_| {
            shuffled.shuffle(&mut random);
            best_split(&shuffled).0 >= best
        })
        .count();
    if (as_good + 1) as f64 / (PERMUTATIONS + 1) as f64 > CHANCE_MAX {
        return;
    }
    out.push(offset + at);
    split(left, offset, out);
    split(right, offset + at, out);
}

/// The largest scaled distance between two sides, and where the second begins.
///
/// # Cost
/// Quadratic in the number of values: each split updates the sums of distances of the one before.
fn best_split(values: &[f64]) -> (f64, usize) {
    let count = values.len();
    let distance = |one: f64, other: f64| (one - other).abs();
    // Sums of distances over pairs within the left side, across the split, and within the right
    // side.
    let (mut left, mut across) = (0.0, 0.0);
    let mut right: f64 = 0.0;
    for (at, value) in values.iter().enumerate() {
        right += values
            .iter()
            .skip(at + 1)
            .map(|other| distance(*value, *other))
            .sum::<f64>();
    }
    let mut best = (f64::NEG_INFINITY, SIDE_MIN);
    for (at, value) in values.iter().enumerate() {
        let (before, after) = values.split_at(at);
        let to_left: f64 = before.iter().map(|other| distance(*value, *other)).sum();
        let to_right: f64 = after.iter().map(|other| distance(*value, *other)).sum();
        left += to_left;
        right -= to_right;
        across += to_right - to_left;
        let (n, m) = ((at + 1) as f64, (count - at - 1) as f64);
        if at + 1 < SIDE_MIN || count - at - 1 < SIDE_MIN {
            continue;
        }
        let within = |sum: f64, size: f64| 2.0 * sum / (size * (size - 1.0)).max(1.0);
        let apart = 2.0 * across / (n * m) - within(left, n) - within(right, m);
        let scaled = n * m / (n + m) * apart;
        if scaled > best.0 {
            best = (scaled, at + 1);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    /// Values of runs around 1,000 with a deviation of `noise` percent, slower by `slowdown` from
    /// `at` on.
    fn runs(number: u32, noise: f64, slowdown: f64, at: usize) -> Vec<f64> {
        let mut random = seed::stream(7, "test", "history", number);
        (0..30)
            .map(|run| {
                let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
                let level = if run >= at { 1.0 - slowdown } else { 1.0 };
                1_000.0 * level * (1.0 + noise * normal)
            })
            .collect()
    }

    #[test]
    fn a_slowdown_of_five_percent_in_thirty_runs_is_found_where_it_is() {
        for number in 0..40 {
            let at = 8 + number as usize % 15;
            let found = change_points(&runs(number, 0.015, 0.05, at));
            assert_eq!(found.len(), 1, "{number}: {found:?}, planted at {at}");
            assert!(
                found[0].abs_diff(at) <= 2,
                "{number}: {found:?}, planted at {at}"
            );
        }
    }

    #[test]
    fn thirty_runs_without_one_have_none() {
        let wrong: Vec<u32> = (0..200)
            .filter(|number| !change_points(&runs(1_000 + number, 0.02, 0.0, 0)).is_empty())
            .collect();
        // The test accepts one chance result in a thousand.
        assert!(wrong.len() <= 1, "{wrong:?}");
        assert!(change_points(&runs(1_000, 0.02, 0.0, 0)).is_empty());
    }

    #[test]
    fn several_changes_are_distinguished_and_few_or_equal_values_have_none() {
        let mut values = runs(1, 0.01, 0.0, 0);
        values.extend(runs(2, 0.01, 0.1, 0));
        values.extend(runs(3, 0.01, 0.0, 0));
        let found = change_points(&values);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].abs_diff(30) <= 2 && found[1].abs_diff(60) <= 2,
            "{found:?}"
        );
        assert!(change_points(&[1.0; 30]).is_empty());
        assert!(change_points(&[1.0, 2.0, 3.0, 4.0, 5.0]).is_empty());
        assert!(change_points(&[]).is_empty());
        // One outlier is no change.
        let mut outlier = runs(4, 0.01, 0.0, 0);
        outlier[15] = 500.0;
        assert!(change_points(&outlier).is_empty());
    }
}
