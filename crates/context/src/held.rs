//! An operation whose reply waits for the journal. What the log and the profile report of it is
//! kept until the wait is over, because the wait is part of the operation's duration.
//!
//! Promises: keeping it costs a copy of some hundred bytes and no read of the clock; the copy is
//! bounded whatever the client sent. Must not know: how the reply waits.

use super::operation_stats::OperationStats;
use model::{DocBuf, MongoError};
use request::{Request, Sequence};
use smallvec::SmallVec;
use state::connections::CurrentOp;
use std::ops::Range;

/// Most bytes of sequences that are kept, which is as many as are shown.
const SEQUENCE_BYTES_MAX: usize = 16 * 1024;

/// An operation that has ended and whose reply has not been sent.
pub struct UnsentReply {
    /// The operation as currentOp shows it.
    pub op: CurrentOp,
    /// The command document, if the operation does not hold it.
    pub body: Option<DocBuf>,
    /// Its sequences of documents.
    pub sequences: Sequences,
    /// The request was of the legacy form.
    pub is_legacy: bool,
    /// The error that the reply has.
    pub error: Option<MongoError>,
    /// What was measured.
    pub seen: OperationStats,
    /// When it ended, monotonic microseconds.
    pub ended_us: u64,
}

/// The part of a request's sequences that is shown: the bytes of names and documents, and the
/// position of each.
#[derive(Default)]
pub struct Sequences {
    bytes: Vec<u8>,
    parts: SmallVec<[(Range<usize>, Range<usize>); 2]>,
}

impl Sequences {
    /// Copies the part of the sequences that is shown.
    pub fn of(request: &Request<'_>) -> Sequences {
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

    /// The sequences, as far as they are kept.
    pub fn sequences(&self) -> SmallVec<[Sequence<'_>; 2]> {
        let at = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        let parts = self.parts.iter().map(|(name, documents)| Sequence {
            name: std::str::from_utf8(at(name)).unwrap_or_default(),
            documents: at(documents),
        });
        parts.collect()
    }
}
