//! What explain answers, of the operators that a query or a pipeline runs. Must not know: the
//! command around it.

mod pipeline;
mod planner;

pub use pipeline::{aggregation, plain_prefix};
pub use planner::{ExplainedQuery, filter_shape};
