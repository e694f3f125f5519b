//! Shared parts for engines that lack something the contract demands: snapshots with cursors that
//! copy rows, commits of several callers in one transaction, a size estimate from a sample, a
//! reserve of space, a lock on a directory, keys longer than the engine takes. Must not know: any
//! engine.

mod chunks;
mod group;
mod lock;
pub mod long_keys;
mod room;
mod scan;
mod shared_view;

pub use chunks::{ChunkedCursor, RowRequest, RowSource};
pub use group::commit_group;
pub use lock::DirectoryLock;
pub use room::SpaceMonitor;
pub use scan::{check_order, sampled_size};
pub use shared_view::{FixedView, SharedView};
