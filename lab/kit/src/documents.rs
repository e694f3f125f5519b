//! The documents that workloads insert, as plain values: the driver of the target encodes them.

use rand::Rng;

use crate::seed::Stream;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// One document of the modern insert benchmark, without `_id` and date: the driver makes the `_id`,
/// and the documents of a batch share one date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// Uniform in 0..1000.
    pub cashregisterid: i32,
    /// Uniform in 0..100000, independent of the price (unlike the classic form).
    pub customerid: i32,
    /// Uniform in 0..10000.
    pub product: i32,
    /// Uniform in 0..500.
    pub price: i32,
    /// 10 to 20 characters, half of them random, drawn afresh for each document.
    pub data: String,
}

impl Purchase {
    /// Draws the next document.
    pub fn draw(random: &mut Stream) -> Self {
        let length = random.random_range(10..=20_usize);
        let noise = length.div_ceil(2);
        let mut data = String::with_capacity(length);
        let mut bits = random.random::<u64>();
        for _ in 0..noise {
            data.push(letter(bits));
            bits >>= 6;
        }
        data.extend(std::iter::repeat_n('a', length - noise));
        Self {
            cashregisterid: random.random_range(0..1_000),
            customerid: random.random_range(0..100_000),
            product: random.random_range(0..10_000),
            price: random.random_range(0..500),
            data,
        }
    }
}

fn letter(bits: u64) -> char {
    LETTERS
        .get((bits & 63) as usize)
        .copied()
        .map_or('a', char::from)
}

/// One document of the sysbench schema; the loader assigns its `_id` in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysbenchRow {
    /// Uniform in 1..=rows.
    pub k: i32,
    /// Ten groups of eleven digits.
    pub c: String,
    /// Five groups of eleven digits.
    pub pad: String,
}

impl SysbenchRow {
    /// Draws the next document of a collection that holds `rows`.
    pub fn draw(random: &mut Stream, rows: u64) -> Self {
        let k_max = i32::try_from(rows).unwrap_or(i32::MAX).max(1);
        Self {
            k: random.random_range(1..=k_max),
            c: digit_groups(random, 10),
            pad: digit_groups(random, 5),
        }
    }
}

fn digit_groups(random: &mut Stream, groups: usize) -> String {
    let mut out = String::with_capacity(groups * 12);
    for group in 0..groups {
        if group > 0 {
            out.push('-');
        }
        let mut number = random.random_range(0..100_000_000_000_u64);
        for _ in 0..11 {
            out.push(char::from(b'0' + (number % 10) as u8));
            number /= 10;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::stream;

    #[test]
    fn purchases_stay_in_their_ranges_and_reach_the_ends() {
        let mut random = stream(3, "l.i0", "insert", 0);
        let rows: Vec<Purchase> = (0..20_000).map(|_| Purchase::draw(&mut random)).collect();
        let prices: Vec<i32> = rows.iter().map(|row| row.price).collect();
        assert_eq!(
            (prices.iter().min(), prices.iter().max()),
            (Some(&0), Some(&499))
        );
        let lengths: Vec<usize> = rows.iter().map(|row| row.data.len()).collect();
        assert_eq!(
            (lengths.iter().min(), lengths.iter().max()),
            (Some(&10), Some(&20))
        );
        assert!(rows.iter().all(|row| row.data.ends_with("aaaaa")
            && row.customerid < 100_000
            && row.product < 10_000));
        assert!(rows.iter().any(|row| row.cashregisterid == 999));
    }

    #[test]
    fn price_tells_nothing_about_the_customer() {
        let mut random = stream(4, "l.i0", "insert", 0);
        let rows: Vec<(f64, f64)> = (0..50_000)
            .map(|_| Purchase::draw(&mut random))
            .map(|row| {
                (
                    f64::from(row.price) - 249.5,
                    f64::from(row.customerid) - 49_999.5,
                )
            })
            .collect();
        let dot = |f: fn(&(f64, f64)) -> f64| rows.iter().map(f).sum::<f64>();
        let correlation =
            dot(|row| row.0 * row.1) / (dot(|row| row.0 * row.0) * dot(|row| row.1 * row.1)).sqrt();
        assert!(correlation.abs() < 0.02, "{correlation}");
    }

    #[test]
    fn sysbench_strings_have_their_published_lengths() {
        let row = SysbenchRow::draw(&mut stream(5, "load", "insert", 0), 10);
        assert_eq!((row.c.len(), row.pad.len()), (119, 59));
        assert!((1..=10).contains(&row.k));
    }
}
