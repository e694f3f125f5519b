//! The values that a sample of rows must hold after updates that replace values: the last
//! acknowledged value, or any of several whose writes overlapped.
//!
//! Promises: no false alarm, because a value is expected only if every write of its field was seen
//! from beginning to end; bounded memory. Must not know: targets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::seed::mix;

/// The approximate number of sampled rows of each table.
const SAMPLE: u64 = 1_000;
/// A row is no longer checked when one of its fields has more possible values than this.
const CANDIDATES_MAX: usize = 256;

/// Fields and the hashes of their values.
pub(super) type Fields<T> = Vec<(&'static str, T)>;

/// A sampled row and the possible values of its fields: table, row number, fields.
pub type ExpectedRow = (usize, u64, Vec<(&'static str, Vec<u64>)>);

/// A value that a field may hold.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// When the write began.
    begun: Instant,
    /// When the write was acknowledged; `None` if it may still happen at any later time.
    ended: Option<Instant>,
    hash: u64,
}

/// The knowledge about a row.
#[derive(Debug)]
enum RowState {
    /// The row was changed in a way that is not tracked.
    Nothing,
    Fields(Fields<Vec<Candidate>>),
}

/// The sample of a run.
#[derive(Debug)]
pub struct Versions {
    every: u64,
    is_off: AtomicBool,
    rows: Mutex<HashMap<(usize, u64), RowState>>,
}

/// A write of a row of the sample.
#[derive(Debug)]
pub(super) struct SampledWrite {
    pub(super) table: usize,
    pub(super) number: u64,
    pub(super) begun: Instant,
    pub(super) fields: Fields<u64>,
}

impl Versions {
    /// A sample for tables of `rows` rows each.
    pub(super) fn of(rows: u64) -> Self {
        Self {
            every: (rows / SAMPLE).max(1),
            is_off: AtomicBool::new(false),
            rows: Mutex::default(),
        }
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<(usize, u64), RowState>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops checking, because something outside this process changes rows.
    pub fn switch_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
        self.rows().clear();
    }

    /// After all rows were deleted.
    pub(super) fn clear(&self) {
        self.rows().clear();
    }

    /// Whether a row is in the sample.
    pub(super) fn watches(&self, table: usize, number: u64) -> bool {
        !self.is_off.load(Ordering::Relaxed)
            && mix(number ^ (table as u64) << 48).is_multiple_of(self.every)
    }

    /// Notes that a row will be changed in a way that is not tracked.
    pub(super) fn forget(&self, table: usize, number: u64) {
        if self.watches(table, number) {
            self.rows().insert((table, number), RowState::Nothing);
        }
    }

    /// Takes a write that has ended: either it was done, or it may still happen at any time.
    pub(super) fn take(&self, written: &SampledWrite, is_done: bool) {
        let ended = is_done.then(Instant::now);
        let mut rows = self.rows();
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let known = rows
            .entry((written.table, written.number))
            .or_insert_with(|| RowState::Fields(Vec::new()));
        let RowState::Fields(fields) = known else {
            return;
        };
        for (name, hash) in &written.fields {
            let at = fields.iter().position(|(known, _)| known == name);
            let at = at.unwrap_or_else(|| {
                fields.push((name, Vec::new()));
                fields.len() - 1
            });
            let Some((_, candidates)) = fields.get_mut(at) else {
                continue;
            };
            if is_done {
                // This write has overwritten the values of writes that ended before it began.
                candidates.retain(|one| one.ended.is_none_or(|ended| ended >= written.begun));
            }
            candidates.push(Candidate {
                begun: written.begun,
                ended,
                hash: *hash,
            });
        }
        let is_much = |(_, all): &(&str, Vec<Candidate>)| all.len() > CANDIDATES_MAX;
        if fields.iter().any(is_much) {
            *known = RowState::Nothing;
        }
    }

    /// The values that sampled rows must hold while no write is under way.
    pub fn expected_rows(&self) -> Vec<ExpectedRow> {
        let rows = self.rows();
        let all = rows.iter().filter_map(|((table, number), known)| {
            let RowState::Fields(fields) = known else {
                return None;
            };
            let fields: Fields<Vec<u64>> = fields
                .iter()
                .filter_map(|(name, candidates)| Some((*name, values(candidates)?)))
                .collect();
            (!fields.is_empty()).then_some((*table, *number, fields))
        });
        let mut all: Vec<ExpectedRow> = all.collect();
        all.sort();
        all
    }
}

/// The possible values of a field; `None` if it may still hold the value from before the run.
fn values(candidates: &[Candidate]) -> Option<Vec<u64>> {
    // Of the acknowledged writes, the one that began last has overwritten all that ended before it
    // began.
    let begun = candidates
        .iter()
        .filter(|one| one.ended.is_some())
        .map(|one| one.begun)
        .max()?;
    let may_be = |one: &&Candidate| one.ended.is_none_or(|ended| ended >= begun);
    Some(
        candidates
            .iter()
            .filter(may_be)
            .map(|one| one.hash)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sampled_write(begun: Instant, hash: u64) -> SampledWrite {
        SampledWrite {
            table: 0,
            number: 7,
            begun,
            fields: vec![("pad", hash)],
        }
    }

    fn expected_values(versions: &Versions) -> Vec<u64> {
        let all = versions.expected_rows();
        all.first()
            .map(|(_, _, fields)| fields[0].1.clone())
            .unwrap_or_default()
    }

    #[test]
    fn the_last_value_is_expected_and_of_overlapping_ones_any() {
        let versions = Versions::of(10);
        let first = Instant::now();
        versions.take(&sampled_write(first, 1), true);
        assert_eq!(expected_values(&versions), [1]);
        std::thread::sleep(Duration::from_millis(2));
        let second = Instant::now();
        versions.take(&sampled_write(second, 2), true);
        assert_eq!(expected_values(&versions), [2]);
        // This write began before the second one had ended.
        versions.take(&sampled_write(second, 3), true);
        assert_eq!(expected_values(&versions), [2, 3]);
        // A write without an answer may happen at any time.
        versions.take(&sampled_write(first, 4), false);
        std::thread::sleep(Duration::from_millis(2));
        versions.take(&sampled_write(Instant::now(), 5), true);
        assert_eq!(expected_values(&versions), [4, 5]);
    }

    #[test]
    fn nothing_is_expected_of_what_is_not_known() {
        let versions = Versions::of(10);
        versions.take(&sampled_write(Instant::now(), 1), false);
        assert!(
            expected_values(&versions).is_empty(),
            "it may hold what was loaded"
        );
        versions.take(&sampled_write(Instant::now(), 2), true);
        assert_eq!(expected_values(&versions), [1, 2]);
        versions.forget(0, 7);
        versions.take(&sampled_write(Instant::now(), 3), true);
        assert!(expected_values(&versions).is_empty());
        versions.clear();
        versions.take(&sampled_write(Instant::now(), 3), true);
        assert_eq!(expected_values(&versions), [3]);
        versions.switch_off();
        assert!(expected_values(&versions).is_empty() && !versions.watches(0, 7));
        let large = Versions::of(1_000_000);
        let sample = (0..1_000_000).filter(|number| large.watches(0, *number));
        assert!((800..1_200).contains(&sample.count()));
    }
}
