//! Skips the first documents, for finds and for pipelines.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::shown::PlanNode;
use model::Result;
use operation::ReadTotals;
use operators::Env;

/// All but the first documents of its input.
pub(crate) struct Skip<I> {
    input: I,
    amount: u64,
    left: u64,
    returned: u64,
    ended: bool,
}

impl<I: BatchStream> Skip<I> {
    pub(crate) fn new(input: I, amount: u64) -> Skip<I> {
        Skip {
            input,
            amount,
            left: amount,
            returned: 0,
            ended: false,
        }
    }
}

impl<I: BatchStream> BatchStream for Skip<I> {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let more = self.input.next_batch(exec, out)?;
        if self.left > 0 {
            let dropped = usize::try_from(self.left)
                .unwrap_or(usize::MAX)
                .min(out.len());
            out.drop_front(dropped);
            self.left -= dropped as u64;
        }
        self.returned += out.len() as u64;
        self.ended = !more;
        Ok(more)
    }
}

impl<I: Operator> Operator for Skip<I> {
    fn begin(&mut self, env: &Env) {
        self.input.begin(env);
    }

    fn show(&self) -> PlanNode {
        let own = model::doc! { "skipAmount": i64::try_from(self.amount).unwrap_or(i64::MAX) };
        PlanNode::wrap(self.input.show(), "SKIP", own, self.returned, self.ended)
    }

    fn read_totals(&self) -> ReadTotals {
        self.input.read_totals()
    }
}
