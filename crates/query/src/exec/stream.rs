//! Ready-made sources of batches, and reading a stream to its end.

use super::batch::DocBatch;
use super::host::{BatchStream, ExecContext};
use model::{Doc, Result};

/// No documents.
pub struct EmptyStream;

impl BatchStream for EmptyStream {
    fn next_batch(&mut self, _: &ExecContext<'_>, _: &mut DocBatch) -> Result<bool> {
        Ok(false)
    }
}

/// A single batch of documents that exist already.
pub struct ReadyBatch(pub DocBatch);

impl BatchStream for ReadyBatch {
    fn next_batch(&mut self, _: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        std::mem::swap(out, &mut self.0);
        self.0.clear();
        Ok(false)
    }
}

/// Calls `each` on every document of `docs`.
///
/// # Errors
/// Those of `docs` and of `each`.
pub fn drain(
    docs: &mut dyn BatchStream,
    exec: &ExecContext<'_>,
    mut each: impl FnMut(Doc<'_>, Option<Doc<'_>>) -> Result<()>,
) -> Result<()> {
    let mut batch = DocBatch::new();
    loop {
        exec.env.check_interrupt()?;
        batch.clear();
        let more = docs.next_batch(exec, &mut batch)?;
        for (doc, meta) in batch.iter_meta() {
            each(doc, meta)?;
        }
        if !more {
            return Ok(());
        }
    }
}
