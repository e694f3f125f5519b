//! `$toyFirst: n`: the first n documents.

use super::limit::whole_number;
use crate::exec::{BatchStream, ExecContext};
use crate::physical;
use crate::stage::{ApiClass, Placement, Stage, StageNeeds, StageOp, one};
use model::{DocBuf, Result, bail, doc};
use operators::RequiredFields;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$toyFirst",
    api: ApiClass::Outside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |_, name, arg| match whole_number(arg) {
        Some(n) => one(First(n)),
        None => bail!(9, "{name} takes a whole number, not {arg}"),
    },
}];

struct First(u64);

impl Stage for First {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(physical::Limit::new(input, self.0)))
    }
    fn describe(&self) -> DocBuf {
        doc! { "$toyFirst": i64::try_from(self.0).unwrap_or(i64::MAX) }
    }
    fn reads(&self, _: &mut RequiredFields) {}
}
