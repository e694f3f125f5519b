//! The claims of the studies, and the verdicts on them from the results of runs.
//!
//! Promises: [`judge`] decides from results alone, so that it also works on folders of earlier
//! runs.

mod definition;
mod judge;
mod pairs;
mod systems;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;

pub use definition::{Claim, Ratio, RequiredRun, Selection, Test, all, only};
pub use judge::{ClaimVerdict, Finding, Judgement, judge};
pub use pairs::{DIFFERENCES, PairDifference, difference};
pub use systems::{systems, systems_at};
