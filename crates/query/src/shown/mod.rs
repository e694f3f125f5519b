//! How plans are written: trees of stages in MongoDB's words, with their counters. Must not know:
//! operators, commands.

mod access;
mod bounds;
mod counts;
mod estimate;
mod expecting;
mod filter;
mod node;

pub(crate) use access::{count_scan, distinct_scan, read};
pub use counts::ReadCounts;
pub use estimate::StageEstimate;
pub use filter::canonical;
pub use node::{PlanNode, StageStats, count};
