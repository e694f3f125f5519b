//! Two groups of runs compared: repeats in pairs, an interval for each change, a verdict for each
//! metric.

mod comparison;
#[cfg(test)]
mod tests;
mod text;

pub use comparison::{
    CompareError, Comparison, MetricComparison, SMALLEST_PERCENT, StepComparison, Verdict, compare,
    compare_metric, read_side,
};
pub(crate) use text::change;
pub use text::text;
