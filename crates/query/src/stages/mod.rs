//! The stages, one file and one line here each, and the table by which pipelines are parsed. A
//! stage knows its context and, if it has an inner pipeline, pipelines; it does not know the table.

pub mod each;

mod accumulate;
mod arithmetic;
mod date_unit;
mod fields;
mod fusion;
mod geo_point;
mod granularity;
mod group_columns;
mod hash;
mod join;
mod listed;
mod normalization;
mod variables;
mod window;

use crate::stage::{ParseOptions, PipelineSource, StageTable};
use model::Namespace;

/// Declares the files of the stages, and their table.
macro_rules! stages {
    ($($visible:vis $module:ident),* $(,)?) => {
        $($visible mod $module;)*
        /// Every stage.
        pub static TABLE: StageTable = StageTable(&[$($module::STAGES),*]);
    };
}

// A new stage is a line here.
stages! {
    backup_cursor,
    bucket,
    bucket_auto,
    change_stream,
    coll_stats,
    count,
    current_op,
    densify,
    documents,
    facet,
    fill,
    geo_near,
    graph_lookup,
    group,
    index_stats,
    pub(crate) limit,
    list_catalog,
    list_cluster_catalog,
    list_sampled_queries,
    list_search_indexes,
    list_sessions,
    lookup,
    pub(crate) matching,
    merge,
    out,
    plan_cache_stats,
    project,
    query_settings,
    query_stats,
    rank_fusion,
    redact,
    replace_root,
    sample,
    score,
    score_fusion,
    search,
    set_window_fields,
    pub(crate) skip,
    pub(crate) sort,
    sort_by_count,
    union_with,
    unpack_bucket,
    unwind,
}

/// The options for parsing a command's pipeline over a collection.
pub fn collection_options(ns: Namespace) -> ParseOptions {
    ParseOptions::top(TABLE, PipelineSource::Collection(ns))
}

/// The options for parsing a command's pipeline over a database (`{aggregate: 1}`).
pub fn database_options(db: &str) -> ParseOptions {
    ParseOptions::top(TABLE, PipelineSource::Database(db.to_owned()))
}

/// The names of all stages.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|op| op.name)
}

/// Every window function, accumulators among them.
pub fn window_functions() -> impl Iterator<Item = &'static str> {
    window::names()
}
