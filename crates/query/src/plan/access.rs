//! A plan: the access path chosen for a read and what it promises. Must not know how it was chosen.

use super::bounds::FieldBounds;
use super::column_plan::ColumnPlan;
use super::estimate::Estimate;
use super::rings::Rings;
use crate::exec::SortPattern;
use model::{DocBuf, FieldPath, Timestamp};
use operators::filter::Near;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use store::{Index, KeyInterval, ReadView, SeriesRead, WantedFields};

/// An active entry is given up when a run looks at so many times what its first looked at.
const WORSE: u64 = 10;

/// Where documents are read from.
#[derive(Clone)]
pub enum Access {
    /// Nothing can match.
    Nothing,
    /// The whole collection in natural order.
    Collection {
        /// Backwards.
        reverse: bool,
    },
    /// Documents by their `_id`, as encoded ids in key order.
    Ids {
        /// Encoded ids.
        ids: Arc<Vec<Vec<u8>>>,
        /// Backwards.
        reverse: bool,
    },
    /// A range of encoded ids in key order.
    IdRange {
        /// First id inside.
        lower: Option<Vec<u8>>,
        /// First id outside.
        upper: Option<Vec<u8>>,
        /// Backwards.
        reverse: bool,
    },
    /// Several plans, documents that more than one gives shown once.
    Union {
        /// The plans.
        branches: Vec<Plan>,
        /// Every branch comes in this order, and so does the whole.
        merge: Option<Arc<SortPattern>>,
        /// No document comes from two branches.
        disjoint: bool,
    },
    /// Intervals of a secondary index.
    Index {
        /// Its name.
        name: String,
        /// Intervals, ascending and apart.
        intervals: Arc<Vec<KeyInterval>>,
        /// Backwards.
        reverse: bool,
    },
    /// From near to far.
    Near(Box<Nearness>),
    /// Terms of a text index; documents come with their score.
    Text {
        /// The entries of each term.
        terms: Vec<KeyInterval>,
    },
}

/// A read from near to far.
#[derive(Clone)]
pub struct Nearness {
    /// The field with the places.
    pub path: FieldPath,
    /// What they are near to.
    pub near: Near,
    /// What is read.
    pub by: NearBy,
}

/// How documents that are near are found.
#[derive(Clone)]
pub enum NearBy {
    /// Ring by ring.
    Rings(Rings),
    /// All of what this plan gives, for want of an index with entries.
    Whole(Box<Plan>),
}

/// The path for which a wildcard index is read.
#[derive(Clone, Debug)]
pub struct WildcardPath {
    /// `None`: only the fields before the wildcard are bounded.
    pub path: Option<String>,
    /// Documents may have several values there.
    pub multikey: bool,
}

/// A chosen access path.
#[derive(Clone)]
pub struct Plan {
    /// Where to read.
    pub access: Access,
    /// The documents come in the wanted order.
    pub sorted: bool,
    /// The index used.
    pub index: Option<Arc<Index>>,
    /// The index's multikey bits the intervals were made for.
    pub multikey: u32,
    /// Where the log is read: first and last time of entries that may match.
    pub times: Option<(Timestamp, Timestamp)>,
    /// What of a time-series collection is read.
    pub series: Option<SeriesRead>,
    /// The state to read.
    pub view: ReadView,
    /// How a wildcard index is read. Its bounds have one for the path before those of the value.
    pub wildcard: Option<WildcardPath>,
    /// Bounds per field of the index (of `_id`, when that is read).
    pub bounds: Vec<FieldBounds>,
    /// Every document the plan reads matches the filter: no second look is needed.
    pub complete: bool,
    /// What is wanted of documents, when entries of the index say it: no document is read then.
    pub covered: Option<Arc<WantedFields>>,
    /// The collection is read by the segments of a column index.
    pub columns: Option<Arc<ColumnPlan>>,
    /// The plan's entry in the cache, where it was chosen among several.
    pub cached: Option<Arc<CachedPlan>>,
    /// What was expected of it, where that was asked for.
    pub estimate: Option<Estimate>,
}

impl Plan {
    /// The whole collection.
    pub fn scan() -> Plan {
        Plan::of(Access::Collection { reverse: false }, false)
    }

    /// Lets go of the bounds, which only explain shows: those of a long `$in` are as large as the
    /// ids or intervals that are read.
    pub(crate) fn drop_bounds(&mut self) {
        self.bounds = Vec::new();
    }

    pub(super) fn of(access: Access, sorted: bool) -> Plan {
        let (multikey, view) = (0, ReadView::LATEST);
        Plan {
            access,
            sorted,
            index: None,
            wildcard: None,
            multikey,
            times: None,
            series: None,
            view,
            bounds: Vec::new(),
            complete: false,
            covered: None,
            columns: None,
            cached: None,
            estimate: None,
        }
    }

    pub(super) fn nothing() -> Plan {
        Plan {
            complete: true,
            ..Plan::of(Access::Nothing, true)
        }
    }

    /// Whether both, made for one query, read the same index, or the same indexes in a union.
    pub(super) fn reads_like(&self, other: &Plan) -> bool {
        let name = |p: &Plan| p.index.as_ref().map(|i| i.name().to_owned());
        let same = std::mem::discriminant(&self.access) == std::mem::discriminant(&other.access);
        let branches = match (&self.access, &other.access) {
            (Access::Union { branches: a, .. }, Access::Union { branches: b, .. }) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.reads_like(b))
            }
            _ => true,
        };
        let skips = self.skips_first_field() == other.skips_first_field();
        let columns = |p: &Plan| p.columns.as_ref().map(|c| c.lens.index.ident());
        same && branches && skips && name(self) == name(other) && columns(self) == columns(other)
    }

    /// The index is read for each value of its first field, see `skip`.
    pub(super) fn skips_first_field(&self) -> bool {
        let is_all = |at: usize| self.bounds.get(at).is_none_or(FieldBounds::is_all);
        self.index.is_some() && is_all(0) && !is_all(1)
    }

    /// Some field of the index is bounded.
    pub(super) fn is_bounded(&self) -> bool {
        matches!(self.access, Access::Nothing) || self.bounds.iter().any(|b| !b.is_all())
    }
}

/// A plan and how it has done.
pub struct CachedPlan {
    /// The query that made it: filter, order, projection, collation.
    pub query: DocBuf,
    /// The name of its index; `_id_` is that of ids.
    pub index: String,
    /// Indexes that competed, and their points; the winner is among them.
    pub candidates: Vec<(String, u32)>,
    /// An index filter was in force.
    pub filtered: bool,
    /// When it was made, milliseconds since the epoch.
    pub made_ms: i64,
    /// The plan of the query that made it.
    pub plan: Plan,
    /// What the first run did; nothing while it has not ended.
    pub(super) first: Mutex<Option<Run>>,
    pub(super) works: AtomicU64,
    pub(super) active: AtomicBool,
    pub(super) used: AtomicU64,
}

/// What one run of a plan has looked at and given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Index entries.
    pub keys: u64,
    /// Documents.
    pub docs: u64,
    /// Documents that matched.
    pub matched: u64,
}

impl CachedPlan {
    /// Whether queries take it without comparing.
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// What a run is compared with: index entries and documents it looked at.
    pub fn works(&self) -> u64 {
        self.works.load(Relaxed)
    }

    /// What the first run did.
    pub fn first_run(&self) -> Run {
        self.first.lock().unwrap_or_default()
    }

    /// Bytes it holds, about.
    pub fn size_bytes(&self) -> usize {
        let names: usize = self
            .candidates
            .iter()
            .map(|(name, _)| name.len() + 32)
            .sum();
        size_of::<CachedPlan>() + names + self.index.len() + self.query.capacity_bytes() * 2
    }

    /// A run has ended.
    pub(crate) fn ran(&self, run: Run) {
        let works = (run.keys + run.docs).max(1);
        let mut first = self.first.lock();
        if first.is_none() {
            *first = Some(run);
            self.works.store(works, Relaxed);
            return;
        }
        drop(first);
        let before = self.works();
        if self.is_active() {
            if works > before.saturating_mul(WORSE) {
                self.active.store(false, Relaxed);
                self.works.store(works, Relaxed);
            }
        } else if works <= before {
            self.works.store(works, Relaxed);
            self.active.store(true, Relaxed);
        } else {
            self.works
                .store(before.saturating_mul(2).min(works), Relaxed);
        }
    }
}
