//! The output of a stage that needs only the number of its input documents: the collection's
//! counter gives the number, or the entries of an index are counted. No document is read.

use super::count::Count;
use super::operator::Operator;
use crate::exec::{BatchStream, CountOutput, DocBatch, ExecContext};
use crate::shown::PlanNode;
use model::Result;
use operation::ReadTotals;
use operators::Env;

/// Gives the stage's output document.
pub(crate) struct CountAll {
    count: Count,
    stage: CountOutput,
    returned: u64,
}

impl CountAll {
    /// `count` answers by the counter or by entries; see [`Count::is_by_counter`].
    pub(crate) fn new(count: Count, stage: CountOutput) -> CountAll {
        CountAll {
            count,
            stage,
            returned: 0,
        }
    }
}

impl BatchStream for CountAll {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if let Some(document) = self.stage.document(self.count.run(exec.env)?) {
            out.push(document.doc());
            self.returned = 1;
        }
        Ok(false)
    }
}

impl Operator for CountAll {
    fn begin(&mut self, env: &Env) {
        self.count.begin(env);
    }

    fn show(&self) -> PlanNode {
        let mut shown = self.count.show();
        shown.stats.returned = self.returned;
        shown
    }

    fn read_totals(&self) -> ReadTotals {
        self.count.read_totals()
    }
}
