//! The output documents of a find: a projection, the index key instead of the document, or the
//! record id in addition.

use super::operator::Operator;
use super::row_metadata::{INDEX_KEY, RECORD_ID};
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use crate::shown::PlanNode;
use model::{Bump, Doc, DocBuf, Result, Value};
use operation::ReadTotals;
use operators::Cx;
use operators::Env;
use operators::project::Projection;
use std::sync::Arc;

/// A projection and the document it was parsed from.
pub struct ProjectionSpec {
    /// As the client wrote it.
    pub spec: DocBuf,
    /// Compiled.
    pub projection: Projection,
}

/// The output of each document.
pub(crate) struct Shape {
    /// The fields to return.
    pub(crate) projection: Option<Arc<ProjectionSpec>>,
    /// The filter: positional projections use the array element that it matched.
    pub(crate) filter: Arc<MatchFilter>,
    /// Index keys instead of documents.
    pub(crate) return_key: bool,
    /// Documents with their record id.
    pub(crate) show_record_id: bool,
}

impl Shape {
    fn put(
        &self,
        exec: &ExecContext<'_>,
        arena: &Bump,
        doc: Doc<'_>,
        meta: Option<Doc<'_>>,
        out: &mut DocBatch,
    ) -> Result<()> {
        let extra = |name: &str| meta.map_or(Value::Missing, |m| m.field(name));
        let shown = match self.projection.as_deref() {
            _ if self.return_key => extra(INDEX_KEY).as_doc().unwrap_or(Doc::EMPTY),
            Some(ProjectionSpec { projection: p, .. }) => {
                let cx = Cx {
                    meta,
                    ..exec.cx(arena, doc)
                };
                let position = match p.needs_position() {
                    true => {
                        let filter = &self.filter.filter;
                        filter.matches_with_position(doc, arena, exec.env)?.1
                    }
                    false => None,
                };
                p.apply_at(&cx, doc, position)?
            }
            None => doc,
        };
        if self.show_record_id && !self.return_key {
            out.build(None, |w| {
                w.put_all(shown).put("$recordId", extra(RECORD_ID));
            });
        } else {
            out.push(shown);
        }
        Ok(())
    }
}

/// Makes the output documents of a find from its input.
pub(crate) struct Project<I> {
    input: I,
    shape: Shape,
    scratch: DocBatch,
    arena: Bump,
    returned: u64,
    ended: bool,
}

impl<I: BatchStream> Project<I> {
    pub(crate) fn new(input: I, shape: Shape) -> Project<I> {
        Project {
            input,
            shape,
            scratch: DocBatch::new(),
            arena: Bump::new(),
            returned: 0,
            ended: false,
        }
    }
}

impl<I: BatchStream> BatchStream for Project<I> {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        self.scratch.set_max_docs(out.max_docs());
        self.scratch.clear();
        let more = self.input.next_batch(exec, &mut self.scratch)?;
        for (doc, meta) in self.scratch.iter_meta() {
            self.arena.reset();
            self.shape.put(exec, &self.arena, doc, meta, out)?;
        }
        self.returned += out.len() as u64;
        self.ended = !more;
        Ok(more)
    }
}

impl<I: Operator> Operator for Project<I> {
    fn begin(&mut self, env: &Env) {
        self.input.begin(env);
    }

    fn show(&self) -> PlanNode {
        let below = self.input.show();
        let Some(ProjectionSpec { spec, .. }) = self.shape.projection.as_deref() else {
            return below;
        };
        let plain = |v: Value<'_>| v.is_number() || v.as_bool().is_some();
        let simple = spec.doc().iter().all(|(n, v)| !n.contains('.') && plain(v));
        let stage = match simple {
            true if below.is_covered() => "PROJECTION_COVERED",
            true if !below.is_covered_union() => "PROJECTION_SIMPLE",
            _ => "PROJECTION_DEFAULT",
        };
        let own = model::doc! { "transformBy": spec };
        PlanNode::wrap(below, stage, own, self.returned, self.ended)
    }

    fn read_totals(&self) -> ReadTotals {
        self.input.read_totals()
    }
}
