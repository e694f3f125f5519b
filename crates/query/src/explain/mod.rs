//! The content of explain's reply about the operators that a query or pipeline runs. Must not know:
//! the command around it.

mod cached;
mod pipeline;
mod planner;
mod shape;

pub use cached::write_cached;
pub use pipeline::{Meter, aggregation, plain_prefix, run, run_scored};
pub use planner::{ExplainedQuery, shape_of};
pub use shape::{Shape, filter_shape};
