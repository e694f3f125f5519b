//! An operation whose reply waits for the journal. What the log and the profile report of it is
//! kept until the wait is over, because the wait is part of the operation's duration.
//!
//! Promises: keeping it costs a copy of some hundred bytes and no read of the clock; the copy is
//! bounded whatever the client sent. Must not know: how the reply waits.

use super::operation_stats::OperationStats;
use crate::request::{Request, Sequence};
use crate::state::connections::CurrentOp;
use model::{DocBuf, MongoError};
use smallvec::SmallVec;
use std::ops::Range;

/// Most bytes of sequences that are kept, which is as many as are shown.
const SEQUENCE_BYTES_MAX: usize = 16 * 1024;

/// An operation that has ended and whose reply has not been sent.
pub(crate) struct UnsentReply {
    pub(crate) op: CurrentOp,
    /// The command document, if the operation does not hold it.
    pub(crate) body: Option<DocBuf>,
    pub(crate) sequences: Sequences,
    pub(crate) is_legacy: bool,
    pub(crate) error: Option<MongoError>,
    pub(crate) seen: OperationStats,
    pub(crate) ended_us: u64,
}

/// The part of a request's sequences that is shown: the bytes of names and documents, and the
/// position of each.
#[derive(Default)]
pub(crate) struct Sequences {
    bytes: Vec<u8>,
    parts: SmallVec<[(Range<usize>, Range<usize>); 2]>,
}

impl Sequences {
    pub(crate) fn of(request: &Request<'_>) -> Sequences {
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

    pub(crate) fn sequences(&self) -> SmallVec<[Sequence<'_>; 2]> {
        let at = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        let parts = self.parts.iter().map(|(name, documents)| Sequence {
            name: std::str::from_utf8(at(name)).unwrap_or_default(),
            documents: at(documents),
        });
        parts.collect()
    }
}
