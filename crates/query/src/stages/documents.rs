//! `$documents: expression`: documents made by the pipeline itself; only on a database, and first.
//! Errors: 5858202 no array, 5858203 an element that is no object.

use crate::exec::{BatchStream, DocBatch, ExecContext, ReadyBatch};
use crate::stage::{ApiClass, Placement, Stage, StageNeeds, StageOp, one};
use model::{Bump, Doc, DocBuf, OwnedValue, Result, Value, bail};
use operators::expr::{self, BoxExpr};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$documents",
    api: ApiClass::Inside,
    needs: StageNeeds::OfSource(|_, _, _| Ok(())),
    placement: Placement::DATABASE,
    parse: |scx, _, arg| {
        one(Documents {
            list: expr::parse(scx.cx, arg)?,
            spec: arg.to_owned_value(),
        })
    },
}];

struct Documents {
    list: BoxExpr,
    spec: OwnedValue,
}

impl Stage for Documents {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let arena = Bump::new();
        let list = self.list.eval(&exec.cx(&arena, Doc::EMPTY))?;
        let Value::Array(list) = list else {
            bail!(
                5858202,
                "error during evaluation of $documents: expected an array, got {}",
                list.type_name()
            );
        };
        let mut docs = DocBatch::new();
        for v in list.iter() {
            let Value::Document(d) = v else {
                bail!(
                    5858203,
                    "error during evaluation of $documents: expected an array of objects, got an \
                        element of type {}",
                    v.type_name()
                );
            };
            docs.push(d);
        }
        Ok(Box::new(ReadyBatch(docs)))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$documents": self.spec.get() }
    }
    fn makes_documents(&self) -> bool {
        true
    }
}
