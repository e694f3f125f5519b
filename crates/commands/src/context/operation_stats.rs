//! The counters and measurements of an operation that has ended. Must not know: connections, where
//! they are reported.

use super::spent::ResourceUse;
use crate::request::spec::{LatencyKind, OpClass, Spec};
use model::{Doc, DocWriter, Value};
use operation::{Paths, ReadTotals};

/// The counters and measurements of an operation.
pub(crate) struct OperationStats {
    pub(crate) examined: ReadTotals,
    pub(crate) plan: Paths,
    pub(crate) effects: Effects,
    pub(crate) reply_len: usize,
    pub(crate) queued_us: Option<u64>,
    pub(crate) locked_us: u64,
    /// The resources used, if they are measured.
    pub(crate) spent: Option<ResourceUse>,
    /// Its duration without the wait for the journal.
    pub(crate) took_us: u64,
    /// How long its reply waited for the journal, if it had to.
    pub(crate) journal_us: Option<u64>,
}

impl OperationStats {
    /// Writes what the operation has read from files; writes nothing when all data was in memory.
    pub(crate) fn write_storage(&self, w: &mut DocWriter<'_>) {
        let read = self.spent.and_then(|spent| spent.read_bytes);
        if let Some(bytes) = read.filter(|bytes| *bytes > 0) {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            w.doc("data").put("bytesRead", bytes);
        }
    }

    /// How long the client waited for the reply.
    pub(crate) fn all_us(&self) -> u64 {
        self.took_us.saturating_add(self.journal_us.unwrap_or(0))
    }
}

/// What the command did, according to its reply.
#[derive(Clone, Copy)]
pub(crate) enum Effects {
    Nothing,
    /// Returned documents of a cursor.
    Gave {
        id: Option<i64>,
        opens: bool,
    },
    Inserted(i64),
    Updated {
        matched: i64,
        modified: i64,
        upserted: i64,
    },
    Deleted(i64),
}

impl Effects {
    pub(crate) fn of(command: &Spec, reply: Doc<'_>) -> Effects {
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

    pub(crate) fn write(self, returned: i64, w: &mut DocWriter<'_>) {
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
