//! An operation whose reply waits for the journal: what the log and the profile tell of it is kept
//! until the wait is over, because the wait is a part of how long it took.
//!
//! Promises: to keep it costs a copy of some hundred bytes and no look at the clock; the copy is
//! bounded whatever the client sent. Must not know: who waits, and how.

use super::Dispatcher;
use super::connection::Connection;
use super::observe::{Ended, Seen, Told, shortened};
use super::perform::Answer;
use super::request::{Outcome, Request, Sequence};
use super::spec::OpClass;
use crate::state::connections::CurrentOp;
use crate::state::events;
use model::{Doc, DocBuf, MongoError};
use smallvec::SmallVec;
use std::ops::Range;
use store::CommitPos;

/// Bytes of sequences kept, as many as are shown.
const SEQUENCE_BYTES_MAX: usize = 16 * 1024;

/// An operation that has ended and whose reply has not left.
pub(super) struct Held {
    op: CurrentOp,
    /// The command where the operation does not hold it itself.
    body: Option<DocBuf>,
    sequences: Sequences,
    is_legacy: bool,
    error: Option<MongoError>,
    seen: Seen,
    ended_us: u64,
}

/// Sequences of a request, as far as they are shown: the bytes of names and documents, and where
/// each lies.
#[derive(Default)]
struct Sequences {
    bytes: Vec<u8>,
    parts: SmallVec<[(Range<usize>, Range<usize>); 2]>,
}

impl Sequences {
    fn of(request: &Request<'_>) -> Sequences {
        let mut kept = Sequences::default();
        for sequence in request.sequences {
            let room = SEQUENCE_BYTES_MAX.saturating_sub(kept.bytes.len());
            let mut len = 0;
            for document in sequence.iter() {
                let more = len + document.len_bytes();
                if more > room {
                    break;
                }
                len = more;
            }
            let name = kept.add(sequence.name.as_bytes());
            let documents = kept.add(sequence.documents.get(..len).unwrap_or_default());
            kept.parts.push((name, documents));
        }
        kept
    }

    fn add(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn shown(&self) -> SmallVec<[Sequence<'_>; 2]> {
        let at = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        let parts = self.parts.iter().map(|(name, documents)| Sequence {
            name: std::str::from_utf8(at(name)).unwrap_or_default(),
            documents: at(documents),
        });
        parts.collect()
    }
}

impl Held {
    /// Keeps what has ended now.
    pub(super) fn of(ended: Ended<'_>, seen: Seen, ended_us: u64) -> Held {
        let Ended {
            request,
            row,
            op,
            error,
            ..
        } = ended;
        let body = op.body.is_empty().then(|| shortened(row, request.body));
        let sequences = match row.command.class {
            // Their documents are not shown.
            OpClass::Insert => Sequences::default(),
            _ => Sequences::of(request),
        };
        Held {
            body,
            sequences,
            is_legacy: request.legacy_db.is_some(),
            error: error.cloned(),
            seen,
            ended_us,
            op,
        }
    }
}

impl Dispatcher {
    /// Whether the reply has to wait for the journal, and somebody for the reply.
    pub(super) fn is_awaited(&self, request: &Request<'_>, answer: &Answer) -> bool {
        let due = match answer {
            Ok(Outcome::Durable(pos)) => Some(CommitPos(*pos)),
            Ok(_) => None,
            Err(refused) => refused.due,
        };
        let durable = || self.service().store.engine().durable_pos();
        !request.more_to_come && due.is_some_and(|pos| durable() < pos)
    }

    /// The reply to [`Outcome::Durable`] may leave now, or nobody waits for it any more: the
    /// operation is told of where it has to be. Costs a look when there is none.
    pub fn released(&self, conn: &mut Connection) {
        let Some(held) = conn.held.take() else {
            return;
        };
        let _entered = events::enter(conn.info.id);
        let Held {
            op,
            body,
            sequences,
            is_legacy,
            error,
            mut seen,
            ended_us,
        } = *held;
        let service = self.service();
        let now_us = service.clock.monotonic_us();
        seen.journal_us = Some(now_us.saturating_sub(ended_us));
        if service.state.profile.concerns(seen.all_us())
            && let Some(row) = self.row(op.command.name)
        {
            let told = Told {
                row,
                op: &op,
                body: body
                    .as_ref()
                    .map_or_else(|| Doc::from_prefix(&op.body), DocBuf::doc),
                sequences: &sequences.shown(),
                is_legacy,
                error: error.as_ref(),
                seen: &seen,
            };
            told.record(service, conn);
        }
        *conn.info.spare.lock() = (op.db, op.body);
    }
}
