//! What engines share that lack something of the contract: cursors that copy rows, an estimate of
//! sizes from a sample, a reserve of space, a lock on a directory. Must not know: any engine.

mod chunks;
mod lock;
mod room;
mod scan;

pub use chunks::{ChunkedCursor, RowSource, Wanted};
pub use lock::DirectoryLock;
pub use room::Room;
pub use scan::{check_order, sampled_size};
