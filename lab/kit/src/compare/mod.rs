//! The comparison of two groups of runs: repeats in pairs, an interval for each change, a verdict
//! for each metric.

mod comparison;
mod sensitivity;
#[cfg(test)]
mod tests;
mod text;

pub use comparison::{
    CompareError, Comparison, MetricComparison, SMALLEST_PERCENT, StepComparison, Verdict, compare,
    compare_metric, read_side, smallest_percent,
};
pub use sensitivity::{REPEATS_MIN, smallest_change};
pub use text::text;
pub(crate) use text::{change, smallest};
