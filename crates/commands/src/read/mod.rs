//! What all reading commands share: the operation's environment, cursors over queries, the host of
//! pipelines.

mod backup;
mod cursor;
mod env;
mod host;
pub(crate) mod listing;
mod lists;
pub(crate) mod locks;
mod look_up;
pub(crate) mod metric_help;
pub mod metrics_export;
mod out;
pub(crate) mod search;
pub(crate) mod session_records;
pub(crate) mod settings;
pub(crate) mod shape;
pub(crate) mod stats;

pub(crate) use cursor::{QueryCursor, Writing};
pub(crate) use env::{CollationArg, environment, script_library};
pub(crate) use host::StoreHost;
