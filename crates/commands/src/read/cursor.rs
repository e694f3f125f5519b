//! A cursor over a query: the chain of pull operators, its environment, and documents pulled but not yet sent.

use super::StoreHost;
use crate::cursors::{BatchLimit, Cursor, Progress};
use model::{ArrayWriter, Result, bail, code};
use operators::Env;
use query::pipeline::{Batch, Docs, Rt};

/// A result may be a little larger than what may be stored; stages pass on larger ones among themselves.
const DOCUMENT_BYTES_MAX: usize = model::bson::MAX_DOCUMENT_BYTES + 16 * 1024;

/// An open query.
pub(crate) struct QueryCursor {
    docs: Box<dyn Docs>,
    env: Env,
    host: StoreHost,
    allow_disk_use: bool,
    pending: Batch,
    at: usize,
    done: bool,
}

impl QueryCursor {
    /// Over an opened chain.
    pub(crate) fn new(docs: Box<dyn Docs>, env: Env, host: StoreHost, allow_disk_use: bool) -> QueryCursor {
        QueryCursor { docs, env, host, allow_disk_use, pending: Batch::new(), at: 0, done: false }
    }
}

impl Cursor for QueryCursor {
    fn next_batch(&mut self, limit: BatchLimit, out: &mut ArrayWriter<'_>) -> Result<Progress> {
        loop {
            while self.at < self.pending.len() {
                let doc = self.pending.doc(self.at);
                if doc.len_bytes() > DOCUMENT_BYTES_MAX {
                    bail!(code::BSON_OBJECT_TOO_LARGE, "BSONObj size: {} is invalid. Size must be at most {DOCUMENT_BYTES_MAX} bytes", doc.len_bytes());
                }
                let full = limit.documents.is_some_and(|n| out.len() >= n);
                let heavy = !out.is_empty() && out.len_bytes() + doc.len_bytes() > limit.bytes;
                if full || heavy {
                    return Ok(Progress::More);
                }
                out.push(doc);
                self.at += 1;
            }
            if self.done {
                return Ok(Progress::Done);
            }
            if limit.documents.is_some_and(|n| out.len() >= n) {
                return Ok(Progress::More);
            }
            self.pending.clear();
            self.at = 0;
            let rt = Rt { env: &self.env, host: &self.host, vars: None, allow_disk_use: self.allow_disk_use };
            self.done = !self.docs.next_batch(&rt, &mut self.pending)?;
        }
    }
}
