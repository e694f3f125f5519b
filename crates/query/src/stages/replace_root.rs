//! `$replaceRoot: {newRoot: expression}` and `$replaceWith: expression`.
//! Errors: 40229 no object, 40415 unknown field, 40414 no newRoot, 40228 when the value is no
//! document.

use super::each::{DocumentStage, DocumentStream, Emitter};
use crate::exec::{BatchStream, ExecContext};
use crate::stage::{ApiClass, Kind, Placement, Stage, StageNeeds, StageOp, Transform, one};
use model::{Doc, DocBuf, OwnedValue, Result, Value, bail};
use operators::expr::{self, BoxExpr};
use operators::{Cx, RequiredFields};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[
    StageOp {
        name: "$replaceRoot",
        api: ApiClass::Inside,
        needs: StageNeeds::Nothing,
        placement: Placement::EACH,
        parse: |scx, name, arg| {
            let Value::Document(spec) = arg else {
                bail!(
                    40229,
                    "expected an object as specification for {name} stage, got {}",
                    arg.type_name()
                );
            };
            if let Some((other, _)) = spec.iter().find(|(n, _)| *n != "newRoot") {
                bail!(
                    40415,
                    "unrecognized option to {name} stage: {other}, only valid option is 'newRoot'"
                );
            }
            let Some(root) = spec.get("newRoot") else {
                bail!(40414, "no newRoot specified for the {name} stage")
            };
            one(ReplaceRoot {
                root: expr::parse(scx.cx, root)?,
                spec: root.to_owned_value(),
            })
        },
    },
    StageOp {
        name: "$replaceWith",
        api: ApiClass::Inside,
        needs: StageNeeds::Nothing,
        placement: Placement::EACH,
        parse: |scx, _, arg| {
            one(ReplaceRoot {
                root: expr::parse(scx.cx, arg)?,
                spec: arg.to_owned_value(),
            })
        },
    },
];

struct ReplaceRoot {
    root: BoxExpr,
    spec: OwnedValue,
}

impl DocumentStage for ReplaceRoot {
    fn process_document<'a>(
        &'a self,
        cx: &Cx<'_, 'a>,
        _: Doc<'a>,
        out: &mut Emitter<'_>,
    ) -> Result<()> {
        match self.root.eval(cx)? {
            Value::Document(d) => out.push(d),
            v => bail!(
                40228,
                "'newRoot' expression must evaluate to an object, but resulting value was: {v}. \
                    Type of resulting value: '{}'",
                v.type_name()
            ),
        }
        Ok(())
    }
}

impl Stage for ReplaceRoot {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(DocumentStream::open(self, input))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$replaceRoot": { "newRoot": self.spec.get() } }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Transform(Transform::ReplaceRoot)
    }
    fn reads(&self, reads: &mut RequiredFields) {
        self.root.reads(reads);
    }
}
