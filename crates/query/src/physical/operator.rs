//! The contract of operators, and a function that runs one for its counters.

use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::shown::PlanNode;
use model::Result;
use operation::ReadTotals;
use operators::Env;

/// An operator of a plan. Explain prints it before or after it has run.
pub trait Operator: BatchStream {
    /// Opens the reads below. If this is not called, the first batch does it.
    fn begin(&mut self, env: &Env);

    /// The stage with its counters so far, above those of its inputs.
    fn show(&self) -> PlanNode;

    /// Index entries and documents that the reads below have examined.
    fn read_totals(&self) -> ReadTotals;
}

/// Runs an operator to its end and drops its output.
///
/// # Errors
/// Those of the operator; the operation's interrupt.
pub fn run_to_end(operator: &mut dyn Operator, exec: &ExecContext<'_>) -> Result<()> {
    let mut batch = DocBatch::new();
    while operator.next_batch(exec, &mut batch)? {
        exec.env.check_interrupt()?;
        batch.clear();
    }
    Ok(())
}

impl<T: Operator + ?Sized> Operator for Box<T> {
    fn begin(&mut self, env: &Env) {
        (**self).begin(env);
    }
    fn show(&self) -> PlanNode {
        (**self).show()
    }
    fn read_totals(&self) -> ReadTotals {
        (**self).read_totals()
    }
}
