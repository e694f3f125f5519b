//! Draws the row of an operation.

use rand::Rng;
use serde::Deserialize;

use crate::seed::{Stream, mix};

/// Skew of the Zipf distribution, customary since YCSB.
const THETA: f64 = 0.99;
/// Ranks of [`KeyDistribution::WideZipf`].
const WIDE_RANKS: u64 = 10_000_000_000;
/// Number of terms of the sum that are added one by one; an integral approximates the rest.
const TERMS: u64 = 10_000;

/// How ids are drawn.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum KeyDistribution {
    /// All rows equally often.
    #[default]
    Uniform,
    /// Zipf with 0.99; the most frequent rows are scattered over all ids.
    Zipf,
    /// Zipf with 0.99 over [`WIDE_RANKS`] ranks, scattered over all ids, as in YCSB: the share of
    /// the most frequent row does not depend on the number of rows.
    WideZipf,
    /// Zipf with 0.99; the newest rows are the most frequent.
    Latest,
}

impl KeyDistribution {
    /// Draws a row in `0..count`, the newest last. `zipf` caches the constants of one kind of draw.
    pub(crate) fn row(self, random: &mut Stream, zipf: &mut Zipf, count: u64) -> u64 {
        match self {
            Self::Uniform => random.random_range(0..count),
            Self::Zipf => scatter(zipf.draw(random, count), count),
            Self::WideZipf => scatter(zipf.draw(random, WIDE_RANKS), count),
            Self::Latest => count - 1 - zipf.draw(random, count),
        }
    }
}

/// Draws ranks by a Zipf distribution over a number of items that may grow (Gray and others, 1994).
#[derive(Clone, Debug, Default)]
pub struct Zipf {
    items: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Draws a rank in `0..items`; 0 is the most frequent.
    pub fn draw(&mut self, random: &mut Stream, items: u64) -> u64 {
        // A growing table needs new constants only now and then, not for each row.
        if items < self.items || items - self.items > self.items / 100 {
            self.prepare(items);
        }
        let alpha = 1.0 / (1.0 - THETA);
        let uniform: f64 = random.random();
        let scaled = uniform * self.zeta;
        let rank = if scaled < 1.0 {
            0.0
        } else if scaled < 1.0 + 0.5_f64.powf(THETA) {
            1.0
        } else {
            items as f64 * (self.eta * uniform - self.eta + 1.0).powf(alpha)
        };
        (rank as u64).min(items.saturating_sub(1))
    }

    fn prepare(&mut self, items: u64) {
        self.items = items;
        self.zeta = zeta(items);
        let zeta_two = 1.0 + 0.5_f64.powf(THETA);
        let exponent = 1.0 - THETA;
        self.eta =
            (1.0 - (2.0 / items.max(1) as f64).powf(exponent)) / (1.0 - zeta_two / self.zeta);
    }
}

/// The sum of `n^-THETA` for n from 1 to `items`.
fn zeta(items: u64) -> f64 {
    let term = |n: u64| (n as f64).powf(-THETA);
    let near: f64 = (1..=items.min(TERMS)).map(term).sum();
    if items <= TERMS {
        return near;
    }
    let exponent = 1.0 - THETA;
    let integral = |n: f64| n.powf(exponent) / exponent;
    near + integral(items as f64) - integral(TERMS as f64) + (term(items) - term(TERMS)) / 2.0
}

/// Scatters ranks over `0..items`, so that popular items are not neighbours. A new row takes its
/// share of the ranks and leaves all others where they are (Lamping and Veach, 2014): during
/// inserts the same rows stay popular. Costs about ln(items) steps.
fn scatter(rank: u64, items: u64) -> u64 {
    let (mut state, mut place, mut next) = (mix(rank), 0_u64, 0_u64);
    while next < items {
        place = next;
        state = state
            .wrapping_mul(2_862_933_555_777_941_757)
            .wrapping_add(1);
        let share = ((state >> 33) + 1) as f64 / (1_u64 << 31) as f64;
        next = ((place + 1) as f64 / share) as u64;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::stream;

    #[test]
    fn the_favourite_is_drawn_as_often_as_zipf_says() {
        let mut random = stream(1, "draw", "zipf", 0);
        let mut zipf = Zipf::default();
        let mut counts = [0_u32; 3];
        for _ in 0..200_000 {
            let rank = zipf.draw(&mut random, 1_000);
            assert!(rank < 1_000);
            if let Some(count) = counts.get_mut(rank as usize) {
                *count += 1;
            }
        }
        let expected = 200_000.0 / zeta(1_000);
        assert!(
            (f64::from(counts[0]) / expected - 1.0).abs() < 0.03,
            "{counts:?} {expected}"
        );
        assert!(
            (f64::from(counts[1]) / (expected / 2.0_f64.powf(THETA)) - 1.0).abs() < 0.05,
            "{counts:?}"
        );
    }

    /// In YCSB's scrambled Zipf the share of the most frequent row is 1 / 26.469; its source has
    /// this constant for ten thousand million items.
    #[test]
    fn the_favourite_of_a_wide_zipf_is_the_same_for_few_rows_and_many() {
        for rows in [100, 10_000, 1_000_000] {
            let (mut random, mut zipf) = (stream(3, "draw", "wide", rows), Zipf::default());
            let favourite = scatter(0, u64::from(rows));
            let draws = 200_000;
            let found = (0..draws)
                .map(|_| KeyDistribution::WideZipf.row(&mut random, &mut zipf, u64::from(rows)))
                .filter(|row| *row == favourite)
                .count();
            // With few rows, other ranks fall on the same row, too.
            let others = 1.0 / f64::from(rows);
            let share = found as f64 / f64::from(draws);
            let expected = 1.0 / 26.469 + others * (1.0 - 1.0 / 26.469);
            assert!((share / expected - 1.0).abs() < 0.05, "{rows}: {share}");
        }
    }

    #[test]
    fn favourites_are_scattered_evenly_and_stay_where_they_are_beside_inserts() {
        let places = |rows: u64| (0..1_000).map(move |rank| scatter(rank, rows));
        let moved = places(5_000).zip(places(5_300)).filter(|(a, b)| a != b);
        // The new rows take over 300 of 5,300 ranks.
        let moved: Vec<(u64, u64)> = moved.collect();
        assert!((30..=90).contains(&moved.len()), "{}", moved.len());
        assert!(moved.iter().all(|(_, to)| (5_000..5_300).contains(to)));
        let mut counts = [0_u32; 10];
        for rank in 0..100_000 {
            if let Some(count) = counts.get_mut(scatter(rank, 10) as usize) {
                *count += 1;
            }
        }
        let is_even = |count: &u32| count.abs_diff(10_000) < 400;
        assert!(counts.iter().all(is_even), "{counts:?}");
    }

    #[test]
    fn the_integral_stands_in_for_the_sum() {
        let exact: f64 = (1..=200_000_u64).map(|n| (n as f64).powf(-THETA)).sum();
        assert!((zeta(200_000) / exact - 1.0).abs() < 1e-6);
    }

    #[test]
    fn few_items_are_no_trouble() {
        let mut random = stream(2, "draw", "zipf", 0);
        for items in [1, 2, 3, 1, 500, 2] {
            assert!(Zipf::default().draw(&mut random, items) < items);
        }
    }
}
