//! A cursor over a query: the chain of pull operators, its environment, and the documents that were
//! read but not yet sent.

use super::StoreHost;
use memory::Charge;
use model::{ArrayWriter, Doc, DocWriter, Result, Timestamp, bail, code};
use operation::Operation;
use operation::split_set_aside;
use operators::Env;
use query::exec::{BatchStream, CHANGE_TOKEN, ChangeProgress, DocBatch, ExecContext};
use state::cursors::{BatchLimit, Cursor, Progress};
use std::sync::Arc;

/// Largest result, which may be a little larger than a stored document; stages may exchange larger
/// ones.
const DOCUMENT_BYTES_MAX: usize = model::bson::MAX_DOCUMENT_BYTES + 16 * 1024;

/// An open query.
pub struct QueryCursor {
    docs: Box<dyn BatchStream>,
    env: Env,
    host: StoreHost,
    allow_disk_use: bool,
    pending: DocBatch,
    at: usize,
    done: bool,
    /// More documents may come after the end.
    tail: bool,
    /// Whether the cursor recognizes its end at the last document. Otherwise it only does so at the
    /// next batch, as in MongoDB, which clients rely on.
    foresees_end: bool,
    /// Most documents still to be returned.
    left: Option<u64>,
    /// The cluster time of the state that a snapshot read uses.
    at_cluster_time: Option<Timestamp>,
    /// For a change stream: the progress of its source, and the token to resume after.
    changes: Option<(Arc<ChangeProgress>, String)>,
}

impl QueryCursor {
    /// A cursor over an opened chain.
    pub fn new(
        docs: Box<dyn BatchStream>,
        env: Env,
        host: StoreHost,
        allow_disk_use: bool,
    ) -> QueryCursor {
        QueryCursor {
            docs,
            env,
            host,
            allow_disk_use,
            pending: DocBatch::new(),
            at: 0,
            done: false,
            tail: false,
            foresees_end: false,
            left: None,
            at_cluster_time: None,
            changes: None,
        }
    }

    /// The same cursor over an opened change stream.
    pub fn with_changes(self, changes: Option<Arc<ChangeProgress>>) -> QueryCursor {
        QueryCursor {
            changes: changes.map(|c| {
                let place = c.resume_token().unwrap_or_else(|| c.place());
                (c, place.to_data())
            }),
            ..self
        }
    }

    /// The same cursor, reading the state at a cluster time.
    pub fn at(self, at_cluster_time: Option<Timestamp>) -> QueryCursor {
        QueryCursor {
            at_cluster_time,
            ..self
        }
    }

    /// The same cursor, which continues after its end with new documents.
    pub fn with_tail(self) -> QueryCursor {
        QueryCursor { tail: true, ..self }
    }

    /// The same cursor, which returns at most `limit` documents in total; a sort recognizes its end
    /// in advance.
    pub fn of_find(self, limit: Option<u64>, sorts: bool) -> QueryCursor {
        QueryCursor {
            left: limit,
            foresees_end: sorts,
            ..self
        }
    }

    fn fill(&mut self, limit: BatchLimit, out: &mut ArrayWriter<'_>) -> Result<Progress> {
        loop {
            while self.at < self.pending.len() {
                let doc = self.pending.doc(self.at);
                if doc.len_bytes() > DOCUMENT_BYTES_MAX {
                    bail!(
                        code::BSON_OBJECT_TOO_LARGE,
                        "BSONObj size: {} is invalid. Size must be at most {DOCUMENT_BYTES_MAX} \
                            bytes",
                        doc.len_bytes()
                    );
                }
                let full = limit.documents.is_some_and(|n| out.len() >= n);
                let heavy = !out.is_empty() && out.len_bytes() + doc.len_bytes() > limit.bytes;
                if full || heavy {
                    return Ok(Progress::More);
                }
                if let Some((_, token)) = &mut self.changes {
                    follow(token, doc, self.pending.meta(self.at))?;
                }
                out.push(doc);
                self.at += 1;
                self.left = self.left.map(|n| n.saturating_sub(1));
            }
            if self.done {
                let full = limit.documents.is_some_and(|n| out.len() >= n);
                return Ok(if full && !self.foresees_end && self.left != Some(0) {
                    Progress::More
                } else {
                    Progress::Done
                });
            }
            let room = limit
                .documents
                .map_or(usize::MAX, |n| n.saturating_sub(out.len()));
            if room == 0 {
                return Ok(Progress::More);
            }
            self.pending.clear();
            // A document that was read ahead is returned even if it changes, so the cursor reads no
            // more than the client wants.
            self.pending.set_max_docs(room);
            self.at = 0;
            self.env.check_interrupt()?;
            let exec = ExecContext {
                env: &self.env,
                host: &self.host,
                vars: None,
                allow_disk_use: self.allow_disk_use,
            };
            let more = self.docs.next_batch(&exec, &mut self.pending)?;
            self.done = !more && !self.tail;
            if let Some((changes, token)) = &mut self.changes
                && more
                && self.pending.is_empty()
                && changes.is_at_end()
            {
                *token = changes.place().to_data();
                return Ok(Progress::Idle);
            }
            if !more && self.tail && self.pending.is_empty() {
                return Ok(Progress::Idle);
            }
        }
    }
}

impl QueryCursor {
    /// Runs `f` on behalf of an operation. A parked cursor belongs to no operation.
    fn work<T>(
        &mut self,
        op: &Arc<Operation>,
        f: impl FnOnce(&mut QueryCursor) -> Result<T>,
    ) -> Result<T> {
        self.env.operation = Some(Arc::clone(op));
        let result = f(self);
        self.env.operation = None;
        self.env.end_scripts();
        result
    }

    /// Runs a chain to its end that ends in a write and returns no documents.
    fn write_all(&mut self) -> Result<()> {
        let exec = ExecContext {
            env: &self.env,
            host: &self.host,
            vars: None,
            allow_disk_use: self.allow_disk_use,
        };
        while !self.done {
            self.env.check_interrupt()?;
            self.done = !self.docs.next_batch(&exec, &mut self.pending)?;
        }
        Ok(())
    }
}

/// A pipeline that writes. It keeps its progress from one run to the next.
pub struct WritingCursor {
    /// The pipeline.
    pub cursor: QueryCursor,
    /// The namespace of its cursor.
    pub ns: String,
    /// The memory that it holds between two runs.
    held: Option<Arc<Charge>>,
}

impl WritingCursor {
    /// The cursor of a pipeline over `ns`.
    pub fn new(cursor: QueryCursor, ns: String) -> WritingCursor {
        WritingCursor {
            cursor,
            ns,
            held: None,
        }
    }

    /// Runs the pipeline to its end, or until it has to be run again.
    ///
    /// # Errors
    /// Those of the pipeline.
    pub fn run(&mut self, op: &Arc<Operation>) -> Result<()> {
        // The pipeline runs to its end even if its client disconnects.
        op.ends_with_client(false);
        if let Some(held) = self.held.take() {
            op.memory().resume(&held);
        }
        split_set_aside(self.cursor.work(op, |cursor| cursor.write_all())).unwrap_or_else(|again| {
            let held = Arc::new(op.memory().budget().charge());
            op.memory().park(&held);
            self.held = Some(held);
            Err(again)
        })
    }
}

impl Cursor for QueryCursor {
    fn next_batch(
        &mut self,
        limit: BatchLimit,
        op: &Arc<Operation>,
        out: &mut ArrayWriter<'_>,
    ) -> Result<Progress> {
        self.work(op, |cursor| cursor.fill(limit, out))
    }

    fn write_extra(&self, cursor: &mut DocWriter<'_>) {
        if let Some(at) = self.at_cluster_time {
            cursor.put("atClusterTime", at);
        }
        if let Some((_, token)) = &self.changes {
            cursor.doc("postBatchResumeToken").put("_data", token);
        }
    }
}

/// Notes the token of an event that is returned.
///
/// # Errors
/// 280 ChangeStreamFatalError when the pipeline has changed the token: the stream could not be
/// resumed after the event.
fn follow(token: &mut String, event: Doc<'_>, meta: Option<Doc<'_>>) -> Result<()> {
    let own = meta.and_then(|m| m.field(CHANGE_TOKEN).as_str());
    let shown = event.field("_id").as_doc();
    let unchanged = shown.is_some_and(|id| id.count() == 1 && id.field("_data").as_str() == own);
    let Some(own) = own.filter(|_| unchanged) else {
        bail!(
            code::CHANGE_STREAM_FATAL_ERROR,
            "Encountered an event whose _id field, which contains the resume token, was modified \
                by the pipeline. Modifying the _id field of an event makes it impossible to resume \
                the stream from that point"
        );
    };
    own.clone_into(token);
    Ok(())
}
