//! The memory of a capped collection: its limits, and its oldest documents as far as they were
//! read. Must not know: the engine, who inserts.

use model::Doc;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Capacity that the buffer of old documents may keep when it is emptied.
const KEPT_BYTES: usize = 512 << 10;

/// The limits of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Largest total size of the documents.
    pub(crate) bytes: u64,
    /// Largest number of documents; `None` without a limit.
    pub(crate) docs: Option<u64>,
}

impl Limits {
    /// The limits in a collection's options; `None` when it is not capped.
    pub(crate) fn of(options: Doc<'_>) -> Option<Limits> {
        let limit = |name: &str| {
            let n = options.field(name).as_i64_exact()?;
            u64::try_from(n).ok().filter(|n| *n > 0)
        };
        options.field("capped").truthy().then(|| Limits {
            bytes: limit("size").unwrap_or(u64::MAX),
            docs: limit("max"),
        })
    }

    /// Whether this many documents and bytes exceed the limits. The newest document stays, however
    /// large.
    pub(crate) fn are_exceeded(self, docs: u64, bytes: u64) -> bool {
        docs > 1 && (bytes > self.bytes || self.docs.is_some_and(|d| docs > d))
    }
}

/// The oldest documents of a capped collection, as far as they were read.
#[derive(Default)]
pub(crate) struct OldestDocuments {
    /// Keys and records of all documents, concatenated.
    bytes: Vec<u8>,
    /// In the order of their numbers.
    docs: Vec<CappedEntry>,
    /// How many of them were deleted.
    pub(crate) gone: usize,
    /// The sequence number at which to read on.
    pub(crate) next_seq: u64,
    /// How many documents the last read asked for.
    pub(crate) step: u64,
    /// [`CappedGuards::changes`] before the documents were read.
    pub(crate) changes: u64,
}

/// One document: where its key begins, where its record begins and ends, the bytes of its BSON.
#[derive(Clone, Copy)]
pub(crate) struct CappedEntry {
    key: usize,
    record: usize,
    end: usize,
    pub(crate) len: u64,
}

impl OldestDocuments {
    /// The documents that are not deleted.
    pub(crate) fn live_entries(&self) -> impl Iterator<Item = &CappedEntry> {
        self.docs.iter().skip(self.gone)
    }

    /// The key of a document.
    pub(crate) fn key(&self, doc: &CappedEntry) -> &[u8] {
        self.bytes.get(doc.key..doc.record).unwrap_or_default()
    }

    /// The record of a document.
    pub(crate) fn record(&self, doc: &CappedEntry) -> &[u8] {
        self.bytes.get(doc.record..doc.end).unwrap_or_default()
    }

    /// Adds a document that was read.
    pub(crate) fn push(&mut self, key: &[u8], record: &[u8], len: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(record);
        self.docs.push(CappedEntry {
            key: start,
            record: start + key.len(),
            end: self.bytes.len(),
            len,
        });
    }

    /// Removes the deleted documents; true when none is left.
    pub(crate) fn compact(&mut self) -> bool {
        let start = self
            .live_entries()
            .next()
            .map_or(self.bytes.len(), |d| d.key);
        self.bytes.drain(..start);
        self.docs.drain(..self.gone);
        self.gone = 0;
        for doc in &mut self.docs {
            doc.key -= start;
            doc.record -= start;
            doc.end -= start;
        }
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes.shrink_to(KEPT_BYTES);
        }
        self.docs.is_empty()
    }

    /// Removes all documents.
    pub(crate) fn forget(&mut self) {
        *self = OldestDocuments::default();
    }
}

/// State that only capped collections have.
#[derive(Default)]
pub(crate) struct CappedGuards {
    /// The next documents to delete. Locked from before sequence numbers are allocated until they
    /// are visible; keys are locked while it is held.
    pub(crate) oldest_docs: Mutex<OldestDocuments>,
    /// Number of changes of documents; counted after each commit, while its locks are held.
    pub(crate) changes: AtomicU64,
    /// No document has a lower sequence number: scans begin here, to skip deleted entries.
    pub(crate) oldest: AtomicU64,
    /// Beside other processes: the last commit of this one has left the collection within its
    /// limits.
    pub(crate) is_within: AtomicBool,
}
