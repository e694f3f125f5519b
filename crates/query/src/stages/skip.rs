//! `$skip: n`, n a whole number, zero allowed. Errors: 5107200.

use super::limit::whole_number;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::stage::{Kind, Placement, Stage, StageNeeds, StageOp, one};
use model::{DocBuf, Result, bail, doc};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$skip",
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |_, name, arg| match whole_number(arg) {
        Some(n) => one(Skip(n)),
        None => bail!(
            5107200,
            "invalid argument to {name} stage: Expected a non-negative number in: {name}: {arg:?}"
        ),
    },
}];

/// All but the first n documents.
pub(crate) struct Skip(pub(crate) u64);

impl Stage for Skip {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(SkipStream {
            left: self.0,
            input,
        }))
    }
    fn describe(&self) -> DocBuf {
        doc! { "$skip": i64::try_from(self.0).unwrap_or(i64::MAX) }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Skip(self.0)
    }
}

struct SkipStream {
    left: u64,
    input: Box<dyn BatchStream>,
}

impl BatchStream for SkipStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let more = self.input.next_batch(exec, out)?;
        if self.left > 0 {
            let dropped = usize::try_from(self.left)
                .unwrap_or(usize::MAX)
                .min(out.len());
            out.drop_front(dropped);
            self.left -= dropped as u64;
        }
        Ok(more)
    }
}
