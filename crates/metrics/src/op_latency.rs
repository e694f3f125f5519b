//! Latencies of operations in the buckets of MongoDB's `latencyStats`, counted without a lock.
//!
//! Promises: recording costs two additions to shared memory; a bucket has the values from its lower
//! bound up to that of the next bucket.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets: one for each power of two, two for each from 2 ms to 2 s, as in MongoDB.
pub const BUCKETS: usize = 51;

/// Lower bound of a bucket in microseconds.
pub fn bucket_us(bucket: usize) -> u64 {
    let half = bucket.saturating_sub(11);
    match bucket {
        0 => 0,
        1..=10 => 1 << bucket,
        11..=30 => {
            let base = 1u64 << (11 + half / 2);
            base + if half % 2 == 1 { base / 2 } else { 0 }
        }
        _ => 1 << (bucket.min(BUCKETS - 1) - 10),
    }
}

/// The bucket of a number of microseconds.
fn bucket_of(us: u64) -> usize {
    let power = us.max(1).ilog2() as usize;
    match power {
        0..=10 => power,
        11..=20 => 11 + (power - 11) * 2 + ((us >> (power - 1)) & 1) as usize,
        _ => (power + 10).min(BUCKETS - 1),
    }
}

/// A histogram of latencies.
#[derive(Debug)]
pub struct OpLatency {
    sum_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for OpLatency {
    fn default() -> OpLatency {
        OpLatency {
            sum_us: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl OpLatency {
    /// Counts one operation.
    pub fn record(&self, us: u64) {
        self.sum_us.fetch_add(us, Relaxed);
        if let Some(bucket) = self.buckets.get(bucket_of(us)) {
            bucket.fetch_add(1, Relaxed);
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> LatencyCounts {
        let mut counts = LatencyCounts {
            sum_us: self.sum_us.load(Relaxed),
            ..LatencyCounts::default()
        };
        for (to, from) in counts.buckets.iter_mut().zip(&self.buckets) {
            *to = from.load(Relaxed);
        }
        counts
    }
}

/// Counts of a histogram at one moment.
#[derive(Clone, Copy, Debug)]
pub struct LatencyCounts {
    /// Microseconds of all operations together.
    pub sum_us: u64,
    /// Operations of each bucket.
    pub buckets: [u64; BUCKETS],
}

impl Default for LatencyCounts {
    fn default() -> LatencyCounts {
        LatencyCounts {
            sum_us: 0,
            buckets: [0; BUCKETS],
        }
    }
}

impl LatencyCounts {
    /// Operations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &LatencyCounts) {
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to += from;
        }
    }

    /// Lower bound and count of each bucket that is not empty.
    pub fn nonempty_buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.buckets.iter().enumerate();
        all.filter(|(_, n)| **n > 0)
            .map(|(i, n)| (bucket_us(i), *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_whose_bounds_hold_it() {
        for i in 0..BUCKETS {
            let low = bucket_us(i);
            assert_eq!(bucket_of(low), i, "{low}");
            if i + 1 < BUCKETS {
                let next = bucket_us(i + 1);
                assert!(next > low && bucket_of(next - 1) == i, "{low} {next}");
            }
        }
        assert_eq!(
            [11, 12, 13, 30, 31].map(bucket_us),
            [2048, 3072, 4096, 1_572_864, 1 << 21]
        );
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_add_up() {
        let l = OpLatency::default();
        (0..100).for_each(|_| l.record(5));
        l.record(3000);
        let mut twice = l.counts();
        twice.add(&l.counts());
        assert_eq!((twice.count(), twice.sum_us), (202, 2 * 3500));
        assert_eq!(
            twice.nonempty_buckets().collect::<Vec<_>>(),
            [(4, 200), (2048, 2)]
        );
    }
}
