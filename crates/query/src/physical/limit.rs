//! Limits the number of documents, for finds and for pipelines.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::shown::PlanNode;
use model::Result;
use operation::ReadTotals;
use operators::Env;

/// The first documents of its input.
pub(crate) struct Limit<I> {
    input: I,
    amount: u64,
    left: u64,
    ended: bool,
    /// Each call asks the input for no more documents than are still wanted.
    asks: bool,
}

impl<I: BatchStream> Limit<I> {
    pub(crate) fn new(input: I, amount: u64) -> Limit<I> {
        Limit {
            input,
            amount,
            left: amount,
            ended: false,
            asks: false,
        }
    }

    /// Asks the input for no more documents than are still wanted; meant for an input that fetches
    /// each document.
    pub(crate) fn limit_input(self) -> Limit<I> {
        Limit { asks: true, ..self }
    }
}

impl<I: BatchStream> BatchStream for Limit<I> {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let mut more = false;
        if self.left > 0 {
            let left = usize::try_from(self.left).unwrap_or(usize::MAX);
            let most = out.max_docs();
            if self.asks {
                out.set_max_docs(most.min(left));
            }
            let found = self.input.next_batch(exec, out);
            out.set_max_docs(most);
            more = found?;
            out.truncate(left);
            self.left -= out.len() as u64;
        }
        self.ended = !more || self.left == 0;
        Ok(!self.ended)
    }
}

impl<I: Operator> Operator for Limit<I> {
    fn begin(&mut self, env: &Env) {
        self.input.begin(env);
    }

    fn show(&self) -> PlanNode {
        let own = model::doc! { "limitAmount": i64::try_from(self.amount).unwrap_or(i64::MAX) };
        let returned = self.amount - self.left;
        PlanNode::wrap(self.input.show(), "LIMIT", own, returned, self.ended)
    }

    fn read_totals(&self) -> ReadTotals {
        self.input.read_totals()
    }
}
