//! Shared by all reading commands: cursors over queries, the host of pipelines, the rights that
//! pipelines need.

mod backup;
mod cursor;
mod host;
pub(crate) mod listing;
mod lists;
pub(crate) mod locks;
mod look_up;
pub(crate) mod metric_help;
mod out;
mod pipeline_needs;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod shape;
pub(crate) mod stats;

pub(crate) use cursor::{QueryCursor, WritingCursor};
pub(crate) use host::StoreHost;
pub(crate) use pipeline_needs::{View, needs_of_pipeline, needs_of_view};
