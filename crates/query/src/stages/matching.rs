//! `$match: {filter}`. Errors: 15959 for no document, 5626500 for `$near` and the like, 17313 for
//! `$text` not first, and the filter's.

use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use crate::stage::{ApiClass, Kind, PipelineContext, Placement, Stage, StageNeeds, StageOp, one};
use model::{Bump, Doc, DocBuf, Result, Value, bail};
use operators::RequiredFields;
use operators::expr::ParseCx;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$match",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::EACH,
    parse: |scx, _, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                15959,
                "the match filter must be an expression in an object, not {}",
                arg.type_name()
            );
        };
        if uses(spec, &["$near", "$nearSphere", "$geoNear"]) {
            bail!(
                5626500,
                "$geoNear, $near, and $nearSphere are not allowed in this context"
            );
        }
        let is_first = scx.before.is_empty() && scx.options.inside != PipelineContext::Facet;
        if !is_first && uses(spec, &["$text"]) {
            bail!(
                17313,
                "$match with $text is only allowed as the first pipeline stage"
            );
        }
        one(Match(Arc::new(MatchFilter::parse(scx.cx, spec)?)))
    },
}];

/// Whether one of these operators is anywhere in a filter (except in values under `$eq` and the
/// like).
pub(super) fn uses(spec: Doc<'_>, names: &[&str]) -> bool {
    spec.iter().any(|(name, v)| {
        names.contains(&name)
            || !matches!(
                name,
                "$eq" | "$ne" | "$in" | "$nin" | "$expr" | "$literal" | "$jsonSchema"
            ) && match v {
                Value::Document(d) => uses(d, names),
                Value::Array(a) => {
                    matches!(name, "$and" | "$or" | "$nor") && uses(a.as_doc(), names)
                }
                _ => false,
            }
    })
}

struct Match(Arc<MatchFilter>);

impl Stage for Match {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(MatchStream {
            stage: self,
            input,
            arena: Bump::new(),
        }))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$match": &self.0.spec }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Match(&self.0)
    }
    fn with_filter(&self, cx: &mut ParseCx<'_>, filter: Doc<'_>) -> Option<Arc<dyn Stage>> {
        let filter = MatchFilter::parse(cx, filter).ok()?;
        Some(Arc::new(Match(Arc::new(filter))))
    }
    fn reads(&self, reads: &mut RequiredFields) {
        self.0.filter.root().reads(reads);
    }
    fn provides_meta(&self) -> &'static [&'static str] {
        if uses(self.0.spec.doc(), &["$text"]) {
            &["textScore"]
        } else {
            &[]
        }
    }
}

struct MatchStream {
    stage: Arc<Match>,
    input: Box<dyn BatchStream>,
    arena: Bump,
}

impl BatchStream for MatchStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let more = self.input.next_batch(exec, out)?;
        let filter = &self.stage.0;
        let arena = &self.arena;
        out.retain(|doc, _| exec.matches(filter, doc, arena))?;
        self.arena.reset();
        Ok(more)
    }
}
