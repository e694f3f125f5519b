//! What explain answers, of the operators that a query or a pipeline runs. Must not know: the
//! command around it.

mod pipeline;
mod planner;

pub use pipeline::{Meter, aggregation, plain_prefix, run};
pub use planner::{ExplainedQuery, filter_shape};
