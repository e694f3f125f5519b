//! The contract of operators, and running one for what it counts.

use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::shown::PlanNode;
use model::Result;
use operation::Examined;
use operators::Env;

/// An operator of a plan. Made from a plan it has done nothing yet: explain prints it so, and also
/// after it ran.
pub trait Operator: BatchStream {
    /// Opens the reads below. An operator that was not begun begins at its first batch.
    fn begin(&mut self, env: &Env);

    /// The stage, with what it has counted up to now, over those below it.
    fn show(&self) -> PlanNode;

    /// Index entries and documents that the reads below have looked at.
    fn examined(&self) -> Examined;
}

/// Runs an operator to its end; what it gives is dropped.
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
    fn examined(&self) -> Examined {
        (**self).examined()
    }
}
