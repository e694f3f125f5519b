//! Window functions of `$setWindowFields` and `$fill`, one file each, and their table: each gives a
//! value for every document of a sorted partition.

pub(super) mod bounds;

mod accumulate;
mod covariance;
mod derivative;
mod exp_moving_avg;
mod function;
mod locf;
mod min_max_scaler;
mod partition;
mod rank;
mod removable;
mod shift;

use function::Parse;
pub(super) use function::{WindowContext, WindowFn};
use model::{Result, Value, bail, code};
use operators::accumulator;
pub(super) use partition::Partition;

/// Window functions that are not accumulators.
static FUNCTIONS: &[(&str, Parse)] = &[
    ("$covariancePop", covariance::parse),
    ("$covarianceSamp", covariance::parse),
    ("$denseRank", rank::parse),
    ("$derivative", derivative::parse),
    ("$documentNumber", rank::parse),
    ("$expMovingAvg", exp_moving_avg::parse),
    ("$integral", derivative::parse),
    ("$linearFill", locf::parse_linear),
    ("$locf", locf::parse),
    ("$minMaxScaler", min_max_scaler::parse),
    ("$rank", rank::parse),
    ("$shift", shift::parse),
];

/// Accumulators that work in groups only.
const GROUP_ONLY: &[&str] = &["$accumulator", "$_internalJsReduce", "$mergeObjects"];

/// The names of all functions that work over windows.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let accumulators = accumulator::names().filter(|name| !GROUP_ONLY.contains(name));
    FUNCTIONS.iter().map(|(name, _)| *name).chain(accumulators)
}

/// Parses the function called `name`.
///
/// # Errors
/// 9 FailedToParse for an unknown one, and the function's own.
pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
    name: &str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    if let Some((name, parse)) = FUNCTIONS.iter().find(|(n, _)| *n == name) {
        return parse(wcx, name, arg);
    }
    match accumulator::find(name).filter(|op| !GROUP_ONLY.contains(&op.name)) {
        Some(op) => accumulate::parse(wcx, op, arg),
        None => bail!(
            code::FAILED_TO_PARSE,
            "Unrecognized window function, {name}"
        ),
    }
}
