//! The fields that a pipeline needs of its documents. The read below already leaves out other
//! fields when it copies documents; this operator shows it to explain, above order and limit.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::shown::PlanNode;
use model::{DocBuf, Result};
use operation::ReadTotals;
use operators::Env;

/// Documents that have only these fields.
pub(crate) struct FieldProjection {
    input: Box<dyn Operator>,
    fields: Vec<String>,
    returned: u64,
    ended: bool,
}

impl FieldProjection {
    /// Over a read that gives these fields only.
    pub(crate) fn new(input: Box<dyn Operator>, fields: Vec<String>) -> FieldProjection {
        FieldProjection {
            input,
            fields,
            returned: 0,
            ended: false,
        }
    }

    /// The fields as a projection: `_id` last, and named even if it is left out.
    fn spec(&self) -> DocBuf {
        DocBuf::build(|w| {
            for f in self.fields.iter().filter(|f| *f != "_id") {
                w.put(f, 1i32);
            }
            w.put("_id", i32::from(self.fields.iter().any(|f| f == "_id")));
        })
    }
}

impl BatchStream for FieldProjection {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let more = self.input.next_batch(exec, out)?;
        self.returned += out.len() as u64;
        self.ended = !more;
        Ok(more)
    }
}

impl Operator for FieldProjection {
    fn begin(&mut self, env: &Env) {
        self.input.begin(env);
    }

    fn show(&self) -> PlanNode {
        let own = model::doc! { "transformBy": &self.spec() };
        let below = self.input.show();
        let stage = match below.is_covered() {
            true => "PROJECTION_COVERED",
            false if below.is_covered_union() => "PROJECTION_DEFAULT",
            false => "PROJECTION_SIMPLE",
        };
        PlanNode::wrap(below, stage, own, self.returned, self.ended)
    }

    fn read_totals(&self) -> ReadTotals {
        self.input.read_totals()
    }
}
