//! What an operation has read: index entries, documents, access paths. The profile, the log of slow
//! operations and the server's counters report it.
//!
//! Promises: counting costs a few additions for each step of a scan; several threads may count.
//! Must not know: plans, reports.

use parking_lot::Mutex;
use smallvec::SmallVec;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Most access paths that are kept for one operation. Only a query with more branches has more
/// paths.
const PATHS_MAX: usize = 8;

/// How an operation reached its documents.
pub enum AccessPath {
    /// A scan of the collection.
    Collection,
    /// One document by its `_id`.
    Id,
    /// Ranges of `_id`.
    IdRange,
    /// An index, shown as its key pattern.
    Index(Arc<dyn Display + Send + Sync>),
    /// The columns of a column index, shown as its key pattern.
    Columns(Arc<dyn Display + Send + Sync>),
    /// The terms of a text index, shown as its key pattern.
    Text(Arc<dyn Display + Send + Sync>),
    /// Nothing is read.
    Nothing,
}

impl Display for AccessPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AccessPath::Collection => f.write_str("COLLSCAN"),
            AccessPath::Id => f.write_str("EXPRESS_IXSCAN { _id: 1 }"),
            AccessPath::IdRange => f.write_str("IXSCAN { _id: 1 }"),
            AccessPath::Index(pattern) => write!(f, "IXSCAN {pattern}"),
            AccessPath::Columns(pattern) => write!(f, "COLUMN_SCAN {pattern}"),
            AccessPath::Text(pattern) => write!(f, "TEXT_MATCH {pattern}"),
            AccessPath::Nothing => f.write_str("EOF"),
        }
    }
}

/// The access paths of an operation.
#[derive(Default)]
pub struct Paths(SmallVec<[AccessPath; 2]>);

impl Paths {
    /// The paths in the format of MongoDB's `planSummary`; `None` when nothing was planned.
    pub fn summary(&self) -> Option<String> {
        let mut shown: Vec<String> = Vec::with_capacity(self.0.len());
        for path in &self.0 {
            let one = path.to_string();
            if !shown.contains(&one) {
                shown.push(one);
            }
        }
        (!shown.is_empty()).then(|| shown.join(", "))
    }
}

/// How much an operation has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTotals {
    /// Index entries.
    pub keys: u64,
    /// Documents.
    pub docs: u64,
    /// Documents given to the client.
    pub returned: u64,
}

/// The counters of one operation.
#[derive(Default)]
pub struct ReadCounters {
    keys: AtomicU64,
    docs: AtomicU64,
    returned: AtomicU64,
    paths: Mutex<Paths>,
}

impl ReadCounters {
    /// Clears all counters and paths, when the operation begins or is run again.
    pub fn reset(&self) {
        self.keys.store(0, Relaxed);
        self.docs.store(0, Relaxed);
        self.returned.store(0, Relaxed);
        self.paths.lock().0.clear();
    }

    /// The numbers of reads since [`ReadCounters::reset`].
    pub fn read_totals(&self) -> ReadTotals {
        ReadTotals {
            keys: self.keys.load(Relaxed),
            docs: self.docs.load(Relaxed),
            returned: self.returned.load(Relaxed),
        }
    }

    /// Adds to the numbers of examined index entries and documents.
    #[inline]
    pub fn add(&self, keys: u64, docs: u64) {
        if keys != 0 {
            self.keys.fetch_add(keys, Relaxed);
        }
        if docs != 0 {
            self.docs.fetch_add(docs, Relaxed);
        }
    }

    /// Sets how many documents the reply holds.
    pub fn set_returned(&self, documents: usize) {
        self.returned.store(documents as u64, Relaxed);
    }

    /// Counts a lookup of a document by its `_id` without a plan.
    pub fn add_by_id(&self, found: bool) {
        self.returned.store(u64::from(found), Relaxed);
        self.add_by_id_to_write(found);
    }

    /// Counts a lookup of a document by its `_id` without a plan, for a write.
    pub fn add_by_id_to_write(&self, found: bool) {
        self.add_path(AccessPath::Id);
        self.add(u64::from(found), u64::from(found));
    }

    /// Notes the access path of a read that is opened. A read that is opened after the operation
    /// has read something belongs to a later stage; the summary leaves it out, as MongoDB's does.
    pub fn open(&self, path: impl FnOnce() -> AccessPath) {
        if self.docs.load(Relaxed) == 0 && self.keys.load(Relaxed) == 0 {
            self.add_path(path());
        }
    }

    fn add_path(&self, path: AccessPath) {
        let mut paths = self.paths.lock();
        if paths.0.len() < PATHS_MAX {
            paths.0.push(path);
        }
    }

    /// Whether a whole collection was read.
    pub fn has_scanned_collection(&self) -> bool {
        let paths = self.paths.lock();
        paths.0.iter().any(|p| matches!(p, AccessPath::Collection))
    }

    /// Takes the access paths of an operation that has ended.
    pub fn take_paths(&self) -> Paths {
        std::mem::take(&mut self.paths.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together_and_later_reads_are_not_in_the_summary() {
        let reads = ReadCounters::default();
        reads.open(|| AccessPath::Index(Arc::new("{ a: 1 }")));
        reads.open(|| AccessPath::Index(Arc::new("{ a: 1 }")));
        reads.open(|| AccessPath::Collection);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|_| reads.add(2, 1)));
            }
        });
        reads.open(|| AccessPath::IdRange);
        let (keys, docs) = (8000, 4000);
        let expected = ReadTotals {
            keys,
            docs,
            returned: 0,
        };
        assert_eq!(reads.read_totals(), expected);
        assert!(reads.has_scanned_collection());
        let summary = reads.take_paths().summary();
        assert_eq!(summary.as_deref(), Some("IXSCAN { a: 1 }, COLLSCAN"));
        reads.reset();
        assert_eq!(reads.read_totals(), ReadTotals::default());
        assert_eq!(reads.take_paths().summary(), None);
    }
}
