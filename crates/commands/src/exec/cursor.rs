//! A pipeline between batches: its operators, its environment, the documents already made but not yet handed out.

use super::host::StoreHost;
use crate::cursors::{BatchLimit, Cursor, Progress};
use model::{ArrayWriter, Bump, Doc, Result, Value};
use operators::filter::Filter;
use operators::project::Projection;
use operators::{Cx, Env};
use query::pipeline::{Batch, Docs, Rt};
use std::sync::Arc;
use store::Store;

/// The projection of a `find`, with its filter where the positional `.$` needs it.
pub(crate) struct Shape {
    pub(crate) projection: Projection,
    pub(crate) filter: Option<Filter>,
}

impl Shape {
    /// Projects one document.
    ///
    /// # Errors
    /// Those of the projection.
    pub(crate) fn apply<'a>(&'a self, env: &Env, arena: &'a Bump, doc: Doc<'a>) -> Result<Doc<'a>> {
        let position = match &self.filter {
            Some(f) => f.matches_with_position(doc, arena, env)?.1,
            None => None,
        };
        self.projection.apply_at(&Cx::new(arena, Value::Document(doc), env), doc, position)
    }
}

/// An open pipeline as a cursor.
pub(crate) struct PipelineCursor {
    docs: Box<dyn Docs>,
    env: Env,
    store: Arc<Store>,
    shape: Option<Shape>,
    allow_disk_use: bool,
    batch: Batch,
    at: usize,
    more: bool,
}

impl PipelineCursor {
    pub(crate) fn new(docs: Box<dyn Docs>, env: Env, store: Arc<Store>, shape: Option<Shape>, allow_disk_use: bool) -> PipelineCursor {
        PipelineCursor { docs, env, store, shape, allow_disk_use, batch: Batch::new(), at: 0, more: true }
    }
}

impl Cursor for PipelineCursor {
    fn next_batch(&mut self, limit: BatchLimit, out: &mut ArrayWriter<'_>) -> Result<Progress> {
        let host = StoreHost { store: self.store.clone(), service: None, hint: None };
        let mut arena = Bump::new();
        loop {
            while self.at < self.batch.len() {
                if limit.documents.is_some_and(|n| out.len() >= n) {
                    return Ok(Progress::More);
                }
                let doc = self.batch.doc(self.at);
                arena.reset();
                let shaped = match &self.shape {
                    Some(s) => s.apply(&self.env, &arena, doc)?,
                    None => doc,
                };
                if !out.is_empty() && out.len_bytes() + shaped.len_bytes() > limit.bytes {
                    return Ok(Progress::More);
                }
                out.push(shaped);
                self.at += 1;
            }
            if !self.more {
                return Ok(Progress::Done);
            }
            self.batch.clear();
            self.at = 0;
            let rt = Rt { allow_disk_use: self.allow_disk_use, ..Rt::new(&self.env, &host) };
            self.more = self.docs.next_batch(&rt, &mut self.batch)?;
        }
    }
}
