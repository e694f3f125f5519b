//! The read of a missing collection: no documents.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::shown::{PlanNode, StageStats};
use model::Result;
use operation::ReadTotals;
use operators::Env;

/// Reads a missing collection.
#[derive(Default)]
pub(crate) struct EmptyScan {
    asked: bool,
}

impl BatchStream for EmptyScan {
    fn next_batch(&mut self, _: &ExecContext<'_>, _: &mut DocBatch) -> Result<bool> {
        self.asked = true;
        Ok(false)
    }
}

impl Operator for EmptyScan {
    fn begin(&mut self, _: &Env) {}

    fn show(&self) -> PlanNode {
        PlanNode {
            stage: "EOF",
            own: model::doc! { "type": "nonExistentNamespace" },
            stats: StageStats::of(0, 0, self.asked),
            ..PlanNode::default()
        }
    }

    fn read_totals(&self) -> ReadTotals {
        ReadTotals::default()
    }
}
