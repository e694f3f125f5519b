//! One file per stage. A stage is a parsed, immutable description; opened over its input it becomes
//! a pull operator.

pub mod each;
pub mod sort_pattern;

mod accumulate;
mod arithmetic;
mod bucket;
mod bucket_auto;
mod change_stream;
mod coll_stats;
mod count;
mod current_op;
mod date_unit;
mod densify;
mod documents;
mod facet;
mod fields;
mod fill;
mod geo_near;
mod geo_point;
mod granularity;
mod graph_lookup;
mod group;
mod index_stats;
mod join;
pub(crate) mod limit;
mod list_cluster_catalog;
mod list_sessions;
mod listed;
mod lookup;
pub(crate) mod matching;
mod merge;
mod out;
pub mod path;
mod plan_cache_stats;
mod project;
mod query_settings;
mod rank_fusion;
mod redact;
mod replace_root;
mod sample;
mod search;
mod set_window_fields;
pub(crate) mod skip;
pub(crate) mod sort;
mod sort_by_count;
mod union_with;
mod unwind;
mod variables;
mod window;

use crate::pipeline::{Docs, MatchFilter, Place, Rt, StageCx};
use model::{Doc, DocBuf, Result, Value};
use sort_pattern::SortPattern;
use std::sync::Arc;

/// One parsed stage.
pub trait Stage: Send + Sync {
    /// Opens the stage over its input.
    ///
    /// # Errors
    /// The stage's own.
    fn open(self: Arc<Self>, input: Box<dyn Docs>, rt: &Rt<'_>) -> Result<Box<dyn Docs>>;

    /// Checks what only the server knows, before anything runs; explain asks as well.
    ///
    /// # Errors
    /// The stage's own.
    fn check(&self, _rt: &Rt<'_>) -> Result<()> {
        Ok(())
    }

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

    /// The `$meta` values documents carry because of the stage.
    fn provides_meta(&self) -> &'static [&'static str] {
        &[]
    }

    /// True for `$out` and `$merge`.
    fn is_writer(&self) -> bool {
        false
    }
}

/// Stages the optimizer and the planner look into.
pub enum Kind<'s> {
    /// `$match`.
    Match(&'s Arc<MatchFilter>),
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
    /// One that changes documents in a way the optimizer knows.
    Transform(Transform<'s>),
    /// Any other.
    Other,
}

/// Stages that change documents, by their specification: which fields they read and leave alone is
/// told from it.
pub enum Transform<'s> {
    /// `$project`.
    Project(Doc<'s>),
    /// `$addFields` and `$set`.
    AddFields(Doc<'s>),
    /// `$unset`: a path, or several.
    Unset(Value<'s>),
    /// `$unwind`.
    Unwind {
        /// The array.
        path: &'s str,
        /// Where the position goes.
        index: Option<&'s str>,
    },
    /// `$lookup`.
    Lookup(Doc<'s>),
    /// `$group`.
    Group(Doc<'s>),
    /// `$count`.
    Count,
    /// `$replaceRoot` and `$replaceWith`: the expression.
    ReplaceRoot(Value<'s>),
    /// `$setWindowFields`.
    SetWindowFields(Value<'s>),
}

/// Parses a stage's argument; the name is given for messages.
pub type ParseStage =
    fn(&mut StageCx<'_, '_>, &'static str, Value<'_>) -> Result<Vec<Arc<dyn Stage>>>;

/// One registered stage.
pub struct StageOp {
    /// With the dollar sign.
    pub name: &'static str,
    /// Where it may stand.
    pub place: Place,
    /// Parses its argument; a stage that is shorthand for several gives several.
    pub parse: ParseStage,
}

/// Every stage.
static STAGES: &[&[StageOp]] = &[
    bucket::STAGES,
    bucket_auto::STAGES,
    change_stream::STAGES,
    coll_stats::STAGES,
    count::STAGES,
    current_op::STAGES,
    densify::STAGES,
    documents::STAGES,
    facet::STAGES,
    fill::STAGES,
    geo_near::STAGES,
    graph_lookup::STAGES,
    group::STAGES,
    index_stats::STAGES,
    limit::STAGES,
    list_cluster_catalog::STAGES,
    list_sessions::STAGES,
    lookup::STAGES,
    matching::STAGES,
    merge::STAGES,
    out::STAGES,
    plan_cache_stats::STAGES,
    project::STAGES,
    query_settings::STAGES,
    rank_fusion::STAGES,
    redact::STAGES,
    replace_root::STAGES,
    sample::STAGES,
    search::STAGES,
    set_window_fields::STAGES,
    skip::STAGES,
    sort::STAGES,
    sort_by_count::STAGES,
    union_with::STAGES,
    unwind::STAGES,
];

/// The stage called `name` (with the dollar sign).
pub fn find(name: &str) -> Option<&'static StageOp> {
    STAGES
        .iter()
        .flat_map(|ops| ops.iter())
        .find(|op| op.name == name)
}

/// The names of all stages.
pub fn names() -> impl Iterator<Item = &'static str> {
    STAGES.iter().flat_map(|ops| ops.iter()).map(|op| op.name)
}

/// Every window function, accumulators among them.
pub fn window_functions() -> impl Iterator<Item = &'static str> {
    window::names()
}

/// A parsed stage alone in its list.
pub(crate) fn one(stage: impl Stage + 'static) -> Result<Vec<Arc<dyn Stage>>> {
    Ok(vec![Arc::new(stage)])
}
