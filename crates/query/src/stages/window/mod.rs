//! Window functions of `$setWindowFields` and `$fill`: each gives a value for every document of a
//! sorted partition.

pub(super) mod bounds;

mod accumulate;
mod covariance;
mod derivative;
mod exp_moving_avg;
mod locf;
mod min_max_scaler;
mod rank;
mod shift;

use super::sort_pattern::SortPattern;
use crate::pipeline::{Batch, Rt};
use bounds::Bounds;
use model::{Bump, Doc, OwnedValue, Result, Value, bail, code};
use operators::accumulator;
use operators::expr::{BoxExpr, ParseCx};

/// The documents of one partition in order.
pub(super) struct Partition {
    pub(super) docs: Batch,
}

impl Partition {
    /// The value of an expression on every document.
    pub(super) fn values(&self, e: &BoxExpr, rt: &Rt<'_>) -> Result<Vec<OwnedValue>> {
        let mut arena = Bump::new();
        let mut out = Vec::with_capacity(self.docs.len());
        for doc in self.docs.iter() {
            rt.env.check_interrupt()?;
            out.push(e.eval(&rt.cx(&arena, doc))?.to_owned_value());
            arena.reset();
        }
        Ok(out)
    }
}

/// A parsed window function.
pub(super) trait WindowFn: Send + Sync {
    /// The values, one per document.
    ///
    /// # Errors
    /// The function's own.
    fn compute(&self, part: &Partition, rt: &Rt<'_>) -> Result<Vec<OwnedValue>>;
}

/// What parsers of window functions work with.
pub(super) struct WindowCx<'c, 'e> {
    pub(super) cx: &'c mut ParseCx<'e>,
    pub(super) sort: Option<&'c SortPattern>,
    /// The `window` argument, when given.
    pub(super) window: Option<Doc<'c>>,
}

impl WindowCx<'_, '_> {
    /// The bounds; the whole partition when no window was given.
    ///
    /// # Errors
    /// Those of [`Bounds::parse`].
    pub(super) fn bounds(&mut self) -> Result<Bounds> {
        match self.window {
            Some(w) => Bounds::parse(self.cx, w, self.sort),
            None => Ok(Bounds::WHOLE),
        }
    }

    /// Refuses a window.
    ///
    /// # Errors
    /// `number`.
    pub(super) fn no_window(&self, name: &str, number: i32) -> Result<()> {
        if self.window.is_some() {
            bail!(number, "{name} does not accept a 'window' field");
        }
        Ok(())
    }
}

type Parse = fn(&mut WindowCx<'_, '_>, &'static str, Value<'_>) -> Result<Box<dyn WindowFn>>;

/// Window functions that are no accumulators.
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

/// Accumulators that work on groups only.
const GROUP_ONLY: &[&str] = &["$accumulator", "$mergeObjects"];

/// The names of everything that works over windows.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let accumulators = accumulator::names().filter(|name| !GROUP_ONLY.contains(name));
    FUNCTIONS.iter().map(|(name, _)| *name).chain(accumulators)
}

/// Parses the function called `name`.
///
/// # Errors
/// 9 for an unknown one, and the function's own.
pub(super) fn parse(
    wcx: &mut WindowCx<'_, '_>,
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
