//! The stages, one file each, and above them the table by which pipelines are parsed. A stage knows
//! its context and, where it has a pipeline of its own, pipelines; it does not know the table.

pub mod each;

mod accumulate;
mod arithmetic;
mod backup_cursor;
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
mod fusion;
mod geo_near;
mod geo_point;
mod granularity;
mod graph_lookup;
mod group;
mod group_columns;
mod hash;
mod index_stats;
mod join;
pub(crate) mod limit;
mod list_catalog;
mod list_cluster_catalog;
mod list_sampled_queries;
mod list_search_indexes;
mod list_sessions;
mod listed;
mod lookup;
pub(crate) mod matching;
mod merge;
mod normalization;
mod out;
mod plan_cache_stats;
mod project;
mod query_settings;
mod query_stats;
mod rank_fusion;
mod redact;
mod replace_root;
mod sample;
mod score;
mod score_fusion;
mod search;
mod set_window_fields;
pub(crate) mod skip;
pub(crate) mod sort;
mod sort_by_count;
mod union_with;
mod unpack_bucket;
mod unwind;
mod variables;
mod window;

use crate::stage::{ParseOptions, PipelineSource, StageTable};
use model::Namespace;

/// Every stage.
pub static TABLE: StageTable = StageTable(&[
    backup_cursor::STAGES,
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
    list_catalog::STAGES,
    list_cluster_catalog::STAGES,
    list_sampled_queries::STAGES,
    list_search_indexes::STAGES,
    list_sessions::STAGES,
    lookup::STAGES,
    matching::STAGES,
    merge::STAGES,
    out::STAGES,
    plan_cache_stats::STAGES,
    project::STAGES,
    query_settings::STAGES,
    query_stats::STAGES,
    rank_fusion::STAGES,
    redact::STAGES,
    replace_root::STAGES,
    sample::STAGES,
    score::STAGES,
    score_fusion::STAGES,
    search::STAGES,
    set_window_fields::STAGES,
    skip::STAGES,
    sort::STAGES,
    sort_by_count::STAGES,
    union_with::STAGES,
    unpack_bucket::STAGES,
    unwind::STAGES,
]);

/// How the pipeline of a command over a collection is parsed.
pub fn collection_options(ns: Namespace) -> ParseOptions {
    ParseOptions::top(TABLE, PipelineSource::Collection(ns))
}

/// How the pipeline of a command over a database (`{aggregate: 1}`) is parsed.
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
