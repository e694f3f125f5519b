//! The documents of a partition, for window functions.

use crate::exec::{DocBatch, ExecContext};
use model::{Bump, OwnedValue, Result};
use operators::expr::BoxExpr;

/// The documents of one partition in order.
pub(in crate::stages) struct Partition {
    pub(in crate::stages) docs: DocBatch,
}

impl Partition {
    /// The value of an expression on every document.
    pub(in crate::stages) fn values(
        &self,
        e: &BoxExpr,
        exec: &ExecContext<'_>,
    ) -> Result<Vec<OwnedValue>> {
        let mut arena = Bump::new();
        let mut out = Vec::with_capacity(self.docs.len());
        for doc in self.docs.iter() {
            exec.env.check_interrupt()?;
            out.push(e.eval(&exec.cx(&arena, doc))?.to_owned_value());
            arena.reset();
        }
        Ok(out)
    }
}
