//! Accumulators of `$group` and of windows.

use crate::{Cx, expr::BoxExpr, expr::ParseCx};
use model::{Bump, Result, Value};

/// State of one accumulator in one group.
pub trait Accumulator: Send {
    /// Takes one input value. Must copy what it keeps: the value dies with its document.
    ///
    /// # Errors
    /// The operator's own codes.
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()>;

    /// The result so far, in `arena`.
    ///
    /// # Errors
    /// The operator's own codes.
    fn finish<'a>(&self, arena: &'a Bump) -> Result<Value<'a>>;

    /// Bytes held, charged to the operation's memory budget.
    fn memory_bytes(&self) -> usize;
}

/// A parsed accumulator: the expression fed to it, and how to begin a group.
pub struct AccumulatorSpec {
    /// Evaluated on each document; its value goes to [`Accumulator::add`].
    pub input: BoxExpr,
    /// Makes the state of a new group.
    pub start: Box<dyn Fn() -> Box<dyn Accumulator> + Send + Sync>,
}

/// One registered accumulator.
pub struct AccumulatorOp {
    /// With the dollar sign.
    pub name: &'static str,
    /// Parses the accumulator's argument.
    pub parse: fn(&mut ParseCx<'_>, &'static str, Value<'_>) -> Result<AccumulatorSpec>,
}

/// Every accumulator.
static ACCUMULATORS: &[&[AccumulatorOp]] = &[];

/// The accumulator called `name` (with the dollar sign).
pub fn find(name: &str) -> Option<&'static AccumulatorOp> {
    ACCUMULATORS.iter().flat_map(|ops| ops.iter()).find(|op| op.name == name)
}
