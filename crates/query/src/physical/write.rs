//! An update or delete as explain runs it: it finds the documents and changes nothing.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::shown::{PlanNode, count};
use model::{Doc, DocBuf, Result};
use operation::ReadTotals;
use operators::Env;

/// Whether an update would change a document.
pub type ChangeTest = dyn Fn(Doc<'_>, &Env) -> Result<bool> + Send;

/// What the write would do to the documents.
pub enum Change {
    /// They would be updated.
    Update {
        /// Whether an update would change a document.
        would_change: Box<ChangeTest>,
        /// Without a match it would insert a document.
        upsert: bool,
    },
    /// They would be deleted.
    Delete,
}

/// Finds the documents of a write. As a stream it gives no documents.
pub struct Write {
    input: Box<dyn Operator>,
    change: Change,
    matched: u64,
    modified: u64,
    ended: bool,
}

impl Write {
    /// Over the operator that finds the documents.
    pub fn new(input: Box<dyn Operator>, change: Change) -> Write {
        Write {
            input,
            change,
            matched: 0,
            modified: 0,
            ended: false,
        }
    }
}

impl BatchStream for Write {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let more = self.input.next_batch(exec, out)?;
        self.matched += out.len() as u64;
        if let Change::Update { would_change, .. } = &self.change {
            for doc in out.iter() {
                self.modified += u64::from(would_change(doc, exec.env)?);
            }
        }
        out.clear();
        self.ended = !more;
        Ok(more)
    }
}

impl Operator for Write {
    fn begin(&mut self, env: &Env) {
        self.input.begin(env);
    }

    fn show(&self) -> PlanNode {
        let (stage, counted) = match &self.change {
            Change::Update { upsert, .. } => {
                let upserted = u64::from(*upsert && self.ended && self.matched == 0);
                let counted = model::doc! { "nMatched": count(self.matched),
                "nWouldModify": count(self.modified), "nWouldUpsert": count(upserted) };
                ("UPDATE", counted)
            }
            Change::Delete => (
                "DELETE",
                model::doc! { "nWouldDelete": count(self.matched) },
            ),
        };
        PlanNode {
            counted,
            ..PlanNode::wrap(self.input.show(), stage, DocBuf::new(), 0, self.ended)
        }
    }

    fn read_totals(&self) -> ReadTotals {
        self.input.read_totals()
    }
}
