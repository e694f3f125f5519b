//! The buckets of a time-series collection as documents, for reads of `system.buckets.NAME`; the
//! stage has no name in pipelines.

use crate::exec::{BatchStream, ExecContext};
use crate::stage::Stage;
use model::{DocBuf, Namespace, Result};
use std::sync::Arc;

/// Reads the buckets of a collection.
pub(super) struct ReadBuckets {
    pub(super) on: Namespace,
}

impl Stage for ReadBuckets {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        exec.host.open_buckets(&self.on)
    }

    fn describe(&self) -> DocBuf {
        model::doc! { "$_internalBuckets": { "of": self.on.coll() } }
    }

    fn makes_documents(&self) -> bool {
        true
    }
}
