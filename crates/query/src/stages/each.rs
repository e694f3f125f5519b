//! Stages that process one document at a time: zero or more output documents for each input
//! document, and no state between documents.

use crate::exec::{BatchStream, DocBatch, ExecContext};
use model::{Bump, Doc, DocWriter, Result};
use operators::Cx;
use std::sync::Arc;

/// The work of such a stage.
pub trait DocumentStage: Send + Sync {
    /// Processes one document.
    ///
    /// # Errors
    /// The stage's own.
    fn process_document<'a>(
        &'a self,
        cx: &Cx<'_, 'a>,
        doc: Doc<'a>,
        out: &mut Emitter<'_>,
    ) -> Result<()>;
}

/// Receives the results; they keep the metadata of their input document.
pub struct Emitter<'b> {
    out: &'b mut DocBatch,
    meta: Option<Doc<'b>>,
}

impl Emitter<'_> {
    /// Adds a result document.
    pub fn push(&mut self, doc: Doc<'_>) {
        self.out.push_with_meta(doc, self.meta);
    }
    /// Builds a document in place.
    pub fn build(&mut self, fill: impl FnOnce(&mut DocWriter<'_>)) {
        self.out.build(self.meta, fill);
    }
}

/// The pull operator of such a stage.
pub struct DocumentStream<E> {
    stage: Arc<E>,
    input: Box<dyn BatchStream>,
    inbox: DocBatch,
    /// Next document of the input batch.
    at: usize,
    more: bool,
    arena: Bump,
}

impl<E: DocumentStage + 'static> DocumentStream<E> {
    /// The operator over an input.
    pub fn open(stage: Arc<E>, input: Box<dyn BatchStream>) -> Box<dyn BatchStream> {
        Box::new(DocumentStream {
            stage,
            input,
            inbox: DocBatch::new(),
            at: 0,
            more: true,
            arena: Bump::new(),
        })
    }
}

impl<E: DocumentStage> BatchStream for DocumentStream<E> {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.at >= self.inbox.len() {
            if !self.more {
                return Ok(false);
            }
            self.at = 0;
            self.inbox.clear();
            self.more = self.input.next_batch(exec, &mut self.inbox)?;
        }
        // One document may give very many; the other input documents then wait for the next call.
        while self.at < self.inbox.len() && !out.is_full() {
            exec.env.check_interrupt()?;
            let (doc, meta) = (self.inbox.doc(self.at), self.inbox.meta(self.at));
            self.at += 1;
            let cx = Cx {
                meta,
                ..exec.cx(&self.arena, doc)
            };
            self.stage
                .process_document(&cx, doc, &mut Emitter { out, meta })?;
        }
        self.arena.reset();
        Ok(self.more || self.at < self.inbox.len())
    }
}
