//! `$redact: expression`: `$$KEEP` keeps a level whole, `$$PRUNE` removes it, `$$DESCEND` keeps it
//! and evaluates the expression again for every document inside, also in arrays. Field paths are
//! relative to the current level; `$$ROOT` is the whole document. Errors: 17053 for any other
//! value.

use super::each::{DocumentStage, DocumentStream, Emitter};
use crate::exec::{BatchStream, ExecContext};
use crate::stage::{ApiClass, Placement, Stage, StageNeeds, StageOp, one};
use model::{Array, Doc, DocBuf, OwnedValue, Result, Value, bail};
use operators::expr::{self, BoxExpr};
use operators::{Cx, Frame, VarId};
use std::sync::Arc;

/// The variables of this stage and their values.
const WORDS: [(&str, &str); 3] = [("DESCEND", "descend"), ("PRUNE", "prune"), ("KEEP", "keep")];

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$redact",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::EACH,
    parse: |scx, _, arg| {
        scx.cx.parse_scoped(|cx| {
            let current = cx.define("CURRENT");
            let words = WORDS.map(|(name, _)| cx.define(name));
            one(Redact {
                by: expr::parse(cx, arg)?,
                current,
                words,
                spec: arg.to_owned_value(),
            })
        })
    },
}];

struct Redact {
    by: BoxExpr,
    current: VarId,
    words: [VarId; 3],
    spec: OwnedValue,
}

impl Redact {
    fn level<'a>(&'a self, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Result<Option<Doc<'a>>> {
        let frame = Frame {
            id: self.current,
            value: Value::Document(doc),
            outer: cx.vars,
        };
        let verdict = self.by.eval(&cx.with_frame(&frame))?;
        match verdict {
            Value::String("keep") => Ok(Some(doc)),
            Value::String("prune") => Ok(None),
            Value::String("descend") => self.descend(cx, doc).map(Some),
            v => bail!(
                17053,
                "$redact's expression should not return anything aside from the variables $$KEEP, \
                    $$DESCEND, and $$PRUNE, but returned {v}"
            ),
        }
    }

    fn descend<'a>(&'a self, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Result<Doc<'a>> {
        let mut kept = Vec::with_capacity(8);
        for (name, v) in doc.iter() {
            kept.push((name, self.value(cx, v)?));
        }
        Ok(Doc::build_in(cx.arena, |w| {
            for (name, v) in kept {
                w.put(name, v);
            }
        }))
    }

    /// `Missing` for a value that is pruned.
    fn value<'a>(&'a self, cx: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
        Ok(match v {
            Value::Document(d) => self.level(cx, d)?.map_or(Value::Missing, Value::Document),
            Value::Array(a) => {
                let mut kept = Vec::new();
                for item in a.iter() {
                    let item = self.value(cx, item)?;
                    if !item.is_missing() {
                        kept.push(item);
                    }
                }
                Value::Array(Array::from_values_in(cx.arena, kept))
            }
            other => other,
        })
    }
}

impl DocumentStage for Redact {
    fn process_document<'a>(
        &'a self,
        cx: &Cx<'_, 'a>,
        doc: Doc<'a>,
        out: &mut Emitter<'_>,
    ) -> Result<()> {
        let [a, b, c] = self.words;
        let value = |i: usize| Value::String(WORDS[i].1);
        let descend = Frame {
            id: a,
            value: value(0),
            outer: cx.vars,
        };
        let prune = Frame {
            id: b,
            value: value(1),
            outer: Some(&descend),
        };
        let keep = Frame {
            id: c,
            value: value(2),
            outer: Some(&prune),
        };
        if let Some(kept) = self.level(&cx.with_frame(&keep), doc)? {
            out.push(kept);
        }
        Ok(())
    }
}

impl Stage for Redact {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(DocumentStream::open(self, input))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$redact": self.spec.get() }
    }
}
