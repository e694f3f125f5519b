//! Access paths: which documents of a collection a filter and a sort order make worth reading, and
//! in which order they come. A plan is a promise of a superset; documents are matched again when
//! they are read, unless the plan is complete.
//!
//! Must not know: commands, pipelines around the read. Neighbours: `operators::filter` before,
//! `store::scan` after.

mod bounds;
mod choose;
mod distinct;
mod keys;
mod min_max;
mod partial;
mod read;
mod row_extras;
mod text;
mod union;

pub use bounds::{Bound, FieldBounds, ValueRange};
pub use choose::{Hint, Plan, Want, alternatives, choose};
pub use distinct::{DistinctDocs, DistinctWalk, distinct_plan};
pub use keys::{Keys, MatchKeys};
pub use min_max::between;
pub use read::{PlanDocs, Walked, count_matches, each_match, walk_counted};
pub(crate) use row_extras::{INDEX_KEY, RECORD_ID};

use crate::stages::sort_pattern::SortPattern;
use std::sync::Arc;
use store::KeyInterval;

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
        ids: Vec<Vec<u8>>,
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
        intervals: Vec<KeyInterval>,
        /// Backwards.
        reverse: bool,
    },
    /// Terms of a text index; documents come with what they are worth.
    Text {
        /// The entries of each term.
        terms: Vec<KeyInterval>,
    },
}
