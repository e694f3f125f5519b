//! One file per stage. A stage is a parsed, immutable description; opened over its input it becomes a pull operator.

pub mod each;
pub mod sort_pattern;

mod accumulate;
mod bucket;
mod bucket_auto;
mod count;
mod documents;
mod facet;
mod fields;
mod granularity;
mod group;
mod join;
pub(crate) mod limit;
mod lookup;
mod matching;
pub mod path;
mod redact;
mod replace_root;
mod sample;
pub(crate) mod skip;
mod sort;
mod sort_by_count;
mod union_with;
mod unwind;
mod variables;

use crate::pipeline::{Docs, MatchFilter, Place, Rt, StageCx};
use model::{DocBuf, Result, Value};
use sort_pattern::SortPattern;
use std::sync::Arc;

/// One parsed stage.
pub trait Stage: Send + Sync {
    /// Opens the stage over its input.
    ///
    /// # Errors
    /// The stage's own.
    fn open(self: Arc<Self>, input: Box<dyn Docs>, rt: &Rt<'_>) -> Result<Box<dyn Docs>>;

    /// The stage as explain shows it.
    fn describe(&self) -> DocBuf;

    /// What the optimizer and the planner may know about it.
    fn kind(&self) -> Kind<'_> {
        Kind::Other
    }

    /// The same stage giving at most `n` documents, where it can make use of that.
    fn with_limit(&self, _n: u64) -> Option<Arc<dyn Stage>> {
        None
    }

    /// True when it ignores its input and makes documents itself.
    fn makes_documents(&self) -> bool {
        false
    }

    /// Whether documents carry this `$meta` value because of the stage.
    fn provides_meta(&self, _what: &str) -> bool {
        false
    }

    /// True for `$out` and `$merge`.
    fn is_writer(&self) -> bool {
        false
    }
}

/// Stages the optimizer and the planner look into.
pub enum Kind<'s> {
    /// `$match`.
    Match(&'s MatchFilter),
    /// `$sort`, with the limit it took.
    Sort {
        /// The order.
        pattern: &'s SortPattern,
        /// At most this many documents.
        limit: Option<u64>,
    },
    /// `$limit`.
    Limit(u64),
    /// `$skip`.
    Skip(u64),
    /// Any other.
    Other,
}

/// One registered stage.
pub struct StageOp {
    /// With the dollar sign.
    pub name: &'static str,
    /// Where it may stand.
    pub place: Place,
    /// Parses its argument; a stage that is shorthand for several gives several.
    pub parse: fn(&mut StageCx<'_, '_>, &'static str, Value<'_>) -> Result<Vec<Arc<dyn Stage>>>,
}

/// Every stage.
static STAGES: &[&[StageOp]] = &[
    bucket::STAGES,
    bucket_auto::STAGES,
    count::STAGES,
    documents::STAGES,
    facet::STAGES,
    group::STAGES,
    limit::STAGES,
    lookup::STAGES,
    matching::STAGES,
    redact::STAGES,
    replace_root::STAGES,
    sample::STAGES,
    skip::STAGES,
    sort::STAGES,
    sort_by_count::STAGES,
    union_with::STAGES,
    unwind::STAGES,
];

/// The stage called `name` (with the dollar sign).
pub fn find(name: &str) -> Option<&'static StageOp> {
    STAGES.iter().flat_map(|ops| ops.iter()).find(|op| op.name == name)
}

/// The names of all stages.
pub fn names() -> impl Iterator<Item = &'static str> {
    STAGES.iter().flat_map(|ops| ops.iter()).map(|op| op.name)
}

/// A parsed stage alone in its list.
pub(crate) fn one(stage: impl Stage + 'static) -> Result<Vec<Arc<dyn Stage>>> {
    Ok(vec![Arc::new(stage)])
}
