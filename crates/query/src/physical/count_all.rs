//! What a stage that looks at nothing but the number of its documents makes of a whole collection:
//! the collection's own counter says it, and no document is read.

use super::count::Count;
use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext, NumberOnly};
use crate::shown::PlanNode;
use model::Result;
use operation::Examined;
use operators::Env;

/// Gives the document of the stage.
pub(crate) struct CountAll {
    count: Count,
    stage: NumberOnly,
    returned: u64,
}

impl CountAll {
    /// Of what is counted; see [`Count::is_by_counter`].
    pub(crate) fn new(count: Count, stage: NumberOnly) -> CountAll {
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

    fn examined(&self) -> Examined {
        self.count.examined()
    }
}
