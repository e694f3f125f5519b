//! The counters and measurements of an operation that has ended. Must not know: connections, where
//! they are reported.

use super::spent::ResourceUse;
use model::{Doc, DocWriter, Value};
use operation::{Paths, ReadTotals};
use request::spec::{LatencyKind, OpClass, Spec};

/// The counters and measurements of an operation.
pub struct OperationStats {
    /// Keys and documents examined.
    pub examined: ReadTotals,
    /// The access paths that were used.
    pub plan: Paths,
    /// What the command did.
    pub effects: Effects,
    /// Bytes of the reply.
    pub reply_len: usize,
    /// Microseconds in the queue of admission, if it had to wait there.
    pub queued_us: Option<u64>,
    /// Microseconds of waiting for locks.
    pub locked_us: u64,
    /// The resources used, if they are measured.
    pub spent: Option<ResourceUse>,
    /// Its duration without the wait for the journal.
    pub took_us: u64,
    /// How long its reply waited for the journal, if it had to.
    pub journal_us: Option<u64>,
}

impl OperationStats {
    /// Writes what the operation has read from files; writes nothing when all data was in memory.
    pub fn write_storage(&self, w: &mut DocWriter<'_>) {
        let read = self.spent.and_then(|spent| spent.read_bytes);
        if let Some(bytes) = read.filter(|bytes| *bytes > 0) {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            w.doc("data").put("bytesRead", bytes);
        }
    }

    /// How long the client waited for the reply.
    pub fn all_us(&self) -> u64 {
        self.took_us.saturating_add(self.journal_us.unwrap_or(0))
    }
}

/// What the command did, according to its reply.
#[derive(Clone, Copy)]
pub enum Effects {
    /// Nothing that is counted.
    Nothing,
    /// Returned documents of a cursor.
    Gave {
        /// The cursor, if it is open still.
        id: Option<i64>,
        /// The command opened it.
        opens: bool,
    },
    /// Inserted so many documents.
    Inserted(i64),
    /// Changed documents.
    Updated {
        /// Documents that matched.
        matched: i64,
        /// Documents that changed.
        modified: i64,
        /// Documents that were inserted because none matched.
        upserted: i64,
    },
    /// Deleted so many documents.
    Deleted(i64),
}

impl Effects {
    /// Reads the effects from the reply.
    pub fn of(command: &Spec, reply: Doc<'_>) -> Effects {
        let number = |name: &str| reply.field(name).as_i64_exact().unwrap_or(0);
        match command.class {
            OpClass::Insert => Effects::Inserted(number("n")),
            OpClass::Update => {
                let upserted = match reply.field("upserted") {
                    Value::Array(a) => i64::try_from(a.iter().count()).unwrap_or(0),
                    _ => 0,
                };
                Effects::Updated {
                    matched: number("n") - upserted,
                    modified: number("nModified"),
                    upserted,
                }
            }
            OpClass::Delete => Effects::Deleted(number("n")),
            OpClass::Query | OpClass::GetMore | OpClass::Command => {
                let cursor = match command.kind {
                    LatencyKind::Read => reply.field("cursor").as_doc(),
                    LatencyKind::Write | LatencyKind::Command => None,
                };
                match cursor {
                    Some(cursor) => Effects::Gave {
                        id: cursor.field("id").as_i64_exact(),
                        opens: command.class != OpClass::GetMore,
                    },
                    None => Effects::Nothing,
                }
            }
        }
    }

    /// Writes the fields of the profile and of the slow log; `returned` is the number of documents
    /// in the reply.
    pub fn write(self, returned: i64, w: &mut DocWriter<'_>) {
        match self {
            Effects::Nothing => w,
            Effects::Gave { id, opens } => {
                w.put("nreturned", returned);
                match id {
                    Some(0) => w.put("cursorExhausted", true),
                    Some(id) if opens => w.put("cursorid", id),
                    _ => w,
                }
            }
            Effects::Inserted(n) => w.put("ninserted", n),
            Effects::Updated {
                matched,
                modified,
                upserted,
            } => w
                .put("nMatched", matched)
                .put("nModified", modified)
                .put("nUpserted", upserted),
            Effects::Deleted(n) => w.put("ndeleted", n),
        };
    }
}
