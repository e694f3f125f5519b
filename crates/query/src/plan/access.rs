//! A plan: the access path chosen for a read and the properties of its output. Must not know how it
//! was chosen.

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

/// An active cache entry is deactivated when a run examines this many times as much as its first
/// run.
const WORSE: u64 = 10;

/// Where documents are read from.
#[derive(Clone)]
pub enum Access {
    /// No document can match.
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
    /// Several plans; a document that more than one gives is shown once.
    Union {
        /// The plans.
        branches: Vec<Plan>,
        /// The order of every branch and of the union.
        merge: Option<Arc<SortPattern>>,
        /// No document comes from two branches.
        disjoint: bool,
    },
    /// Intervals of a secondary index.
    Index {
        /// The index's name.
        name: String,
        /// Intervals, ascending and disjoint.
        intervals: Arc<Vec<KeyInterval>>,
        /// Backwards.
        reverse: bool,
    },
    /// In order of distance.
    Near(Box<NearPlan>),
    /// Terms of a text index; documents come with their score.
    Text {
        /// The entries of each term.
        terms: Vec<KeyInterval>,
    },
}

/// A read in order of distance.
#[derive(Clone)]
pub struct NearPlan {
    /// The field that holds the location.
    pub path: FieldPath,
    /// The point from which distances are measured.
    pub near: Near,
    /// How the documents are found.
    pub by: NearMethod,
}

/// How documents are found in order of distance.
#[derive(Clone)]
pub enum NearMethod {
    /// Ring by ring.
    Rings(Rings),
    /// By sorting all documents of this plan, because no index with entries for the field exists.
    Whole(Box<Plan>),
}

/// The path for which a wildcard index is read.
#[derive(Clone, Debug)]
pub struct WildcardPath {
    /// `None`: only the fields before the wildcard are bounded.
    pub path: Option<String>,
    /// Documents may have several values at the path.
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
    /// The index's multikey bits for which the intervals were made.
    pub multikey: u32,
    /// The range of the log to read: first and last time of entries that may match.
    pub times: Option<(Timestamp, Timestamp)>,
    /// The part of a time-series collection to read.
    pub series: Option<SeriesRead>,
    /// The snapshot to read.
    pub view: ReadView,
    /// How a wildcard index is read. The bounds then have an entry for the path before that of the
    /// value.
    pub wildcard: Option<WildcardPath>,
    /// Bounds of each field of the index (of `_id`, if that is read).
    pub bounds: Vec<FieldBounds>,
    /// Every document that the plan reads matches the filter, which need not be tested again.
    pub complete: bool,
    /// The wanted fields, if index entries have them all: then no document is read.
    pub covered: Option<Arc<WantedFields>>,
    /// The collection is read by the segments of a column index.
    pub columns: Option<Arc<ColumnPlan>>,
    /// The plan's cache entry, if it was chosen among several.
    pub cached: Option<Arc<CachedPlan>>,
    /// The planner's estimate, if it made one.
    pub estimate: Option<Estimate>,
    /// The reader takes the documents in any order, so a scan of the collection need not follow
    /// the order of insertion.
    pub any_order: bool,
}

impl Plan {
    /// The whole collection.
    pub fn scan() -> Plan {
        Plan::of(Access::Collection { reverse: false }, false)
    }

    /// Drops the bounds, which only explain shows: for a long `$in` they are as large as the ids or
    /// intervals to read.
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
            any_order: false,
        }
    }

    pub(super) fn empty() -> Plan {
        Plan {
            complete: true,
            ..Plan::of(Access::Nothing, true)
        }
    }

    /// Whether two plans for one query read the same index, or unions of the same indexes.
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

    /// The index is read once for each value of its first field, see `skip`.
    pub(super) fn skips_first_field(&self) -> bool {
        let is_all = |at: usize| self.bounds.get(at).is_none_or(FieldBounds::is_all);
        self.index.is_some() && is_all(0) && !is_all(1)
    }

    /// Some field of the index is bounded.
    pub(super) fn is_bounded(&self) -> bool {
        matches!(self.access, Access::Nothing) || self.bounds.iter().any(|b| !b.is_all())
    }
}

/// A cached plan and the counters of its first run.
pub struct CachedPlan {
    /// The query that made it: filter, order, projection, collation.
    pub query: DocBuf,
    /// The name of its index; `_id_` for a read by ids.
    pub index: String,
    /// The indexes that competed, the winner included, with their points.
    pub candidates: Vec<(String, u32)>,
    /// An index filter was in force.
    pub filtered: bool,
    /// When it was made, milliseconds since the epoch.
    pub made_ms: i64,
    /// The plan of the query that made it.
    pub plan: Plan,
    /// The counters of the first run; `None` until it has ended.
    pub(super) first: Mutex<Option<Run>>,
    pub(super) works: AtomicU64,
    pub(super) active: AtomicBool,
    pub(super) used: AtomicU64,
}

/// What one run of a plan has examined and given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Index entries examined.
    pub keys: u64,
    /// Documents examined.
    pub docs: u64,
    /// Documents that matched.
    pub matched: u64,
}

impl CachedPlan {
    /// Whether queries take the plan without comparing it with others.
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// The work by which runs are compared: index entries and documents examined.
    pub fn works(&self) -> u64 {
        self.works.load(Relaxed)
    }

    /// The counters of the first run.
    pub fn first_run(&self) -> Run {
        self.first.lock().unwrap_or_default()
    }

    /// Approximate size in bytes.
    pub fn size_bytes(&self) -> usize {
        let names: usize = self
            .candidates
            .iter()
            .map(|(name, _)| name.len() + 32)
            .sum();
        size_of::<CachedPlan>() + names + self.index.len() + self.query.capacity_bytes() * 2
    }

    /// Records the counters of a run.
    pub(crate) fn record_run(&self, run: Run) {
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
