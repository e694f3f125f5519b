//! Builds the segments of column indexes (docs/adr/0103-column-segments.md): chooses the next part
//! of a collection and extracts columns from its documents. Must not know: how segments are read,
//! when they are built.

mod build;
mod compare;
mod taking;

pub use build::{Sizes, build_next};
pub use compare::wrong_values;
