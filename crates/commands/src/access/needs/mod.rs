//! Tools to say what a command needs that its row alone cannot say, because it depends on its
//! arguments. What it needs is said beside its run, by the functions that its run reads its
//! arguments with: an argument that they cannot read is refused, never passed over.

mod asked;
mod pipeline;

pub(crate) use asked::Asked;
pub(crate) use pipeline::{ViewOf, needs_of_pipeline, needs_of_view};
