//! The state of one accumulator in one group. Must not know: which accumulators there are.

use crate::Cx;
use model::{Result, Value};

/// State of one accumulator in one group.
pub trait Accumulator: Send {
    /// Takes the value of [`AccumulatorSpec::init`], once, before the first [`Accumulator::add`].
    ///
    /// # Errors
    /// The operator's own codes.
    fn init(&mut self, _cx: &Cx<'_, '_>, _value: Value<'_>) -> Result<()> {
        Ok(())
    }

    /// Adds one input value. Must copy what it keeps: the value is borrowed from its document.
    ///
    /// # Errors
    /// The operator's own codes.
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()>;

    /// The result so far, in the arena of the context.
    ///
    /// # Errors
    /// The operator's own codes.
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>>;

    /// Bytes held, charged to the operation's memory budget.
    fn memory_bytes(&self) -> usize;
}
