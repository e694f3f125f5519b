//! State that the clients of a program share: committed and open transactions, and the rest of the
//! load.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::kind::Program;

/// Sizes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The setting `rows`.
    pub rows: u64,
    /// The setting `tables`.
    pub tables: u32,
    /// The seed of the random data of the load.
    pub seed: u64,
}

/// The number of counters; the program defines the meaning of each.
pub(super) const COUNTERS: usize = 8;

/// Shared by all clients of a run.
#[derive(Debug)]
pub struct ProgramState {
    /// The program.
    pub program: Program,
    /// The sizes.
    pub scale: Scale,
    pieces: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    again: AtomicU64,
    counters: [AtomicI64; COUNTERS],
}

/// The result of one check at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A description.
    pub name: String,
    /// The lowest and the highest allowed value.
    pub expected: RangeInclusive<i64>,
    /// The value found.
    pub found: i64,
    /// A remark.
    pub remark: String,
}

impl Finding {
    /// A value that must equal the expected one.
    pub(super) fn equal(name: &str, expected: i64, found: i64) -> Self {
        Self::in_range(name, expected..=expected, found)
    }

    /// A value that must lie between two numbers, both included.
    pub(super) fn in_range(name: &str, expected: RangeInclusive<i64>, found: i64) -> Self {
        Self {
            name: name.to_owned(),
            expected,
            found,
            remark: String::new(),
        }
    }
}

/// The effect of a committed transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Effect {
    /// Records that it read.
    pub(super) rows: u64,
    /// The counters that grow, and by how much.
    pub(super) counts: Vec<(usize, i64)>,
    /// Whether the transaction must be aborted, as some do on purpose.
    pub(super) turned_back: bool,
}

/// A call under way. If it is dropped without [`OpenCall::end`], it remains counted as under way.
pub(super) struct OpenCall<'a>(&'a ProgramState);

impl OpenCall<'_> {
    pub(super) fn end(self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl ProgramState {
    /// The state before the load.
    pub fn new(program: Program, scale: Scale) -> Self {
        Self {
            program,
            scale,
            pieces: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            again: AtomicU64::new(0),
            counters: Default::default(),
        }
    }

    pub(super) fn next_piece(&self) -> Option<u64> {
        let next = self.pieces.fetch_add(1, Ordering::Relaxed);
        (next < u64::MAX / 2).then_some(next)
    }

    pub(super) fn begin(&self) -> OpenCall<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        OpenCall(self)
    }

    pub(super) fn count_repeat(&self) {
        self.again.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of transactions that the target aborted and that were repeated.
    pub fn repeat_count(&self) -> u64 {
        self.again.load(Ordering::Relaxed)
    }

    /// The counts so far, for [`Self::add_counts`] of another process.
    pub fn counts(&self) -> Vec<i64> {
        let own = [&self.begun, &self.ended, &self.again];
        let own = own.map(|one| i64::try_from(one.load(Ordering::Relaxed)).unwrap_or(i64::MAX));
        let figures = (0..COUNTERS).map(|number| self.counter(number));
        own.into_iter().chain(figures).collect()
    }

    /// Adds the counts of another process whose clients worked on the same records.
    pub fn add_counts(&self, counts: &[i64]) {
        let (own, figures) = counts.split_at(counts.len().min(3));
        for (counter, count) in [&self.begun, &self.ended, &self.again].into_iter().zip(own) {
            counter.fetch_add(u64::try_from(*count).unwrap_or(0), Ordering::Relaxed);
        }
        for (counter, count) in self.counters.iter().zip(figures) {
            counter.fetch_add(*count, Ordering::Relaxed);
        }
    }

    pub(super) fn count(&self, counts: &[(usize, i64)]) {
        for (number, count) in counts {
            if let Some(counter) = self.counters.get(*number) {
                counter.fetch_add(*count, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn counter(&self, number: usize) -> i64 {
        let counter = self.counters.get(number);
        counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// The number of calls for which it is unknown whether they were done.
    pub(super) fn unknown(&self) -> i64 {
        let (ended, begun) = (&self.ended, &self.begun);
        let (ended, begun) = (ended.load(Ordering::Relaxed), begun.load(Ordering::Relaxed));
        i64::try_from(begun.saturating_sub(ended)).unwrap_or(i64::MAX)
    }
}
