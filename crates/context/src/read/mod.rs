//! Shared by all reading commands: cursors over queries, the host of pipelines, the rights that
//! pipelines need.

mod backup;
mod cursor;
mod host;
pub mod listing;
mod lists;
pub mod locks;
mod look_up;
pub mod metric_help;
mod out;
mod pipeline_needs;
pub mod search;
pub mod settings;
pub mod shape;
pub mod stats;

pub use cursor::{QueryCursor, WritingCursor};
pub use host::StoreHost;
pub use pipeline_needs::{View, needs_of_pipeline, needs_of_view};
