//! A cursor over a query: the chain of pull operators, its environment, and documents pulled but
//! not yet sent.

use super::StoreHost;
use crate::state::cursors::{BatchLimit, Cursor, Progress};
use memory::Charge;
use model::{ArrayWriter, Doc, DocWriter, Result, Timestamp, bail, code};
use operation::Operation;
use operation::ended;
use operators::Env;
use query::exec::{BatchStream, CHANGE_TOKEN, ChangeProgress, DocBatch, ExecContext};
use std::sync::Arc;

/// A result may be a little larger than what may be stored; stages pass on larger ones among
/// themselves.
const DOCUMENT_BYTES_MAX: usize = model::bson::MAX_DOCUMENT_BYTES + 16 * 1024;

/// An open query.
pub(crate) struct QueryCursor {
    docs: Box<dyn BatchStream>,
    env: Env,
    host: StoreHost,
    allow_disk_use: bool,
    pending: DocBatch,
    at: usize,
    done: bool,
    /// At the end there may be more later.
    tail: bool,
    /// The end is seen with the last document; else only by asking once more, as in MongoDB, whose
    /// clients count on it.
    foresees_end: bool,
    /// Documents still to be given at most.
    left: Option<u64>,
    /// The cluster time of the state it reads, for a snapshot read.
    at_cluster_time: Option<Timestamp>,
    /// Of a stream of changes: how far its source is, and the token to resume behind.
    changes: Option<(Arc<ChangeProgress>, String)>,
}

impl QueryCursor {
    /// Over an opened chain.
    pub(crate) fn new(
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

    /// The same over a stream of changes that was opened.
    pub(crate) fn streaming(self, changes: Option<Arc<ChangeProgress>>) -> QueryCursor {
        QueryCursor {
            changes: changes.map(|c| {
                let place = c.behind().unwrap_or_else(|| c.place());
                (c, place.to_data())
            }),
            ..self
        }
    }

    /// The same, reading the state of a cluster time.
    pub(crate) fn at(self, at_cluster_time: Option<Timestamp>) -> QueryCursor {
        QueryCursor {
            at_cluster_time,
            ..self
        }
    }

    /// The same, going on after its end with what comes in later.
    pub(crate) fn tailing(self) -> QueryCursor {
        QueryCursor { tail: true, ..self }
    }

    /// The same, giving at most so many documents in all; a sort knows its end beforehand.
    pub(crate) fn of_find(self, limit: Option<u64>, sorts: bool) -> QueryCursor {
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
            // What is read ahead is not seen again when it changes, so no more is read than the
            // client wants.
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
    /// Works for an operation. A parked cursor belongs to none.
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

    /// Runs a chain that ends in a write, and gives no documents, to its end.
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

/// A pipeline that writes. What it has read and written is kept from one run to the next.
pub(crate) struct Writing {
    pub(crate) cursor: QueryCursor,
    pub(crate) ns: String,
    /// What it holds in memory between two runs.
    held: Option<Arc<Charge>>,
}

impl Writing {
    /// Of a pipeline over `ns`.
    pub(crate) fn new(cursor: QueryCursor, ns: String) -> Writing {
        Writing {
            cursor,
            ns,
            held: None,
        }
    }

    /// Runs it to its end, or until it has to be run again.
    ///
    /// # Errors
    /// Those of the pipeline.
    pub(crate) fn run(&mut self, op: &Arc<Operation>) -> Result<()> {
        // It runs to its end whether or not its client is still connected.
        op.ends_with_client(false);
        if let Some(held) = self.held.take() {
            op.memory().resume(&held);
        }
        ended(self.cursor.work(op, |cursor| cursor.write_all())).unwrap_or_else(|again| {
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

/// Takes the token of an event that is given out.
///
/// # Errors
/// 280 when the pipeline has changed it: the stream could not be resumed there.
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
