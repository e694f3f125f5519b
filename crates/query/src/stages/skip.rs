//! `$skip: n`, n a whole number, zero allowed. Errors: 5107200.

use super::limit::whole_number;
use crate::exec::{BatchStream, ExecContext};
use crate::physical;
use crate::stage::{ApiClass, Kind, Placement, Stage, StageNeeds, StageOp, one};
use model::{DocBuf, Result, bail, doc};
use operators::RequiredFields;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$skip",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |_, name, arg| match whole_number(arg) {
        Some(n) => one(Skip(n)),
        None => bail!(
            5107200,
            "invalid argument to {name} stage: Expected a non-negative number in: {name}: {arg}"
        ),
    },
}];

/// All but the first n documents.
struct Skip(u64);

impl Stage for Skip {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(physical::Skip::new(input, self.0)))
    }
    fn describe(&self) -> DocBuf {
        doc! { "$skip": i64::try_from(self.0).unwrap_or(i64::MAX) }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Skip(self.0)
    }
    fn with_number(&self, n: u64) -> Option<Arc<dyn Stage>> {
        Some(Arc::new(Skip(n)))
    }
    fn reads(&self, _: &mut RequiredFields) {}
}
