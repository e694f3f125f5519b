//! A plan: the access path chosen for a read and what it promises. Must not know how it was chosen.

use super::bounds::FieldBounds;
use super::rings::Rings;
use crate::exec::SortPattern;
use model::{FieldPath, Timestamp};
use operators::filter::Near;
use std::sync::Arc;
use store::{Index, KeyInterval, ReadView, SeriesRead};

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
    Whole(Plan),
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
        }
    }

    pub(super) fn nothing() -> Plan {
        Plan {
            complete: true,
            ..Plan::of(Access::Nothing, true)
        }
    }

    /// Some field of the index is bounded.
    pub(super) fn is_bounded(&self) -> bool {
        matches!(self.access, Access::Nothing) || self.bounds.iter().any(|b| !b.is_all())
    }
}
