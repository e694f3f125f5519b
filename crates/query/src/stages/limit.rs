//! `$limit: n`, n a whole number above zero. Errors: 5107201 for anything else, 15958 for zero.

use crate::exec::{BatchStream, ExecContext};
use crate::physical;
use crate::stage::{ApiClass, Kind, Placement, Stage, StageNeeds, StageOp, one};
use model::{DocBuf, Result, Value, bail, doc};
use operators::RequiredFields;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$limit",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |_, name, arg| match whole_number(arg) {
        Some(0) => bail!(15958, "the limit must be positive"),
        Some(n) => one(Limit(n)),
        None => bail!(
            5107201,
            "invalid argument to {name} stage: Expected a non-negative number in: {name}: {arg}"
        ),
    },
}];

/// A number without fraction, at least zero and within 64 bits.
pub(super) fn whole_number(v: Value<'_>) -> Option<u64> {
    u64::try_from(v.as_i64_exact()?).ok()
}

/// The first n documents.
struct Limit(u64);

impl Stage for Limit {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(physical::Limit::new(input, self.0).limit_input()))
    }
    fn describe(&self) -> DocBuf {
        doc! { "$limit": i64::try_from(self.0).unwrap_or(i64::MAX) }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Limit(self.0)
    }
    fn with_number(&self, n: u64) -> Option<Arc<dyn Stage>> {
        Some(Arc::new(Limit(n)))
    }
    fn reads(&self, _: &mut RequiredFields) {}
}
