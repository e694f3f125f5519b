//! The layout of every byte that reaches the disk; described in `docs/on-disk.md`.

pub(crate) mod bucket;
pub mod decode;
pub mod diff;
mod ints;
pub mod keys;
pub(crate) mod log;
pub mod meta;
pub(crate) mod order;
pub(crate) mod raw_log;
pub mod record;
pub(crate) mod references;
pub mod segment;
mod segment_column;
mod table;

/// Version of the layout as a whole; a server refuses a newer one.
pub const LAYOUT_VERSION: u32 = 6;
