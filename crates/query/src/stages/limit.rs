//! `$limit: n`, n a whole number above zero. Errors: 5107201 for anything else, 15958 for zero.

use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::stage::{Kind, Placement, Stage, StageNeeds, StageOp, one};
use model::{DocBuf, Result, Value, bail, doc};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$limit",
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |_, name, arg| match whole_number(arg) {
        Some(0) => bail!(15958, "the limit must be positive"),
        Some(n) => one(Limit(n)),
        None => bail!(
            5107201,
            "invalid argument to {name} stage: Expected a non-negative number in: {name}: {arg:?}"
        ),
    },
}];

/// A number without fraction, at least zero and within 64 bits.
pub(super) fn whole_number(v: Value<'_>) -> Option<u64> {
    u64::try_from(v.as_i64_exact()?).ok()
}

/// The first n documents.
pub(crate) struct Limit(pub(crate) u64);

impl Stage for Limit {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(LimitStream {
            left: self.0,
            input,
        }))
    }
    fn describe(&self) -> DocBuf {
        doc! { "$limit": i64::try_from(self.0).unwrap_or(i64::MAX) }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Limit(self.0)
    }
}

struct LimitStream {
    left: u64,
    input: Box<dyn BatchStream>,
}

impl BatchStream for LimitStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let more = self.input.next_batch(exec, out)?;
        let take = usize::try_from(self.left).unwrap_or(usize::MAX);
        out.truncate(take);
        self.left -= out.len() as u64;
        Ok(more && self.left > 0)
    }
}
