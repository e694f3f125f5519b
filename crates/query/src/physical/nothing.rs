//! The read of a missing collection: no documents.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::shown::{PlanNode, StageStats};
use model::Result;
use operation::Examined;
use operators::Env;

/// Reads a missing collection.
#[derive(Default)]
pub(crate) struct Nothing {
    asked: bool,
}

impl BatchStream for Nothing {
    fn next_batch(&mut self, _: &ExecContext<'_>, _: &mut DocBatch) -> Result<bool> {
        self.asked = true;
        Ok(false)
    }
}

impl Operator for Nothing {
    fn begin(&mut self, _: &Env) {}

    fn show(&self) -> PlanNode {
        PlanNode {
            stage: "EOF",
            own: model::doc! { "type": "nonExistentNamespace" },
            stats: StageStats::of(0, 0, self.asked),
            ..PlanNode::default()
        }
    }

    fn examined(&self) -> Examined {
        Examined::default()
    }
}
