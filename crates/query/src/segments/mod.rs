//! Making the segments of column indexes (docs/adr/0103-column-segments.md): which part of a
//! collection is next, and its documents taken apart. Must not know: how segments are read, when
//! this is done.

mod build;
mod compare;
mod taking;

pub use build::{Sizes, build_next};
pub use compare::wrong_values;
