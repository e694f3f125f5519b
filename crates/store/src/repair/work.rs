//! The state of a collection's repair. Must not know: what is wrong in it.

use crate::catalog::live::NATURAL_ORDER_DOCS;
use crate::catalog::{Collection, State};
use crate::error;
use crate::format::bucket;
use crate::format::record::Header;
use crate::index::{Index, KeySet};
use model::{Doc, Namespace, Result, Value};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use storage::{Table, WriteBatch};

/// The state of one index during the repair of its collection.
pub(super) struct IndexWork {
    pub(super) index: Arc<Index>,
    /// The keys of the current document.
    pub(super) set: KeySet,
    /// Number of entries that the documents need.
    pub(super) needed: u64,
    pub(super) put: u64,
    pub(super) removed: u64,
    pub(super) multikey: u32,
    /// Why the index must be removed.
    pub(super) refused: Option<String>,
}

impl IndexWork {
    pub(super) fn new(index: &Arc<Index>) -> IndexWork {
        IndexWork {
            index: Arc::clone(index),
            set: KeySet::default(),
            needed: 0,
            put: 0,
            removed: 0,
            multikey: 0,
            refused: None,
        }
    }
}

/// The state of a collection's repair.
pub(super) struct CollectionRepair<'c> {
    pub(super) coll: &'c Collection,
    pub(super) state: Arc<State>,
    pub(super) indexes: Vec<IndexWork>,
    pub(super) documents: u64,
    pub(super) bytes: u64,
    /// Number of buckets, and bytes of their heads.
    pub(super) buckets: u64,
    pub(super) head_bytes: u64,
    /// The last head that was read, and whether its bucket is open.
    pub(super) head: Option<(bucket::BucketKey, bool)>,
    /// The highest sequence number.
    pub(super) highest: u64,
    /// Whether sequence numbers ascend with the keys.
    pub(super) in_order: bool,
    /// The sequence numbers, while the collection is small enough to be read in insertion order.
    pub(super) numbers: Option<FxHashSet<u64>>,
    /// Records that get another key or header once all others were read.
    pub(super) later: Vec<Vec<u8>>,
    pub(super) batch: WriteBatch,
    pub(super) key: Vec<u8>,
}

impl<'c> CollectionRepair<'c> {
    pub(super) fn ns(&self) -> &'c Namespace {
        self.coll.ns()
    }

    /// Counts a document that is kept.
    pub(super) fn count(&mut self, doc: Doc<'_>) {
        self.documents += 1;
        self.bytes += doc.len_bytes() as u64;
    }

    /// False when another document has this sequence number.
    pub(super) fn is_new(&mut self, header: Header) -> bool {
        let Some(numbers) = &mut self.numbers else {
            return true;
        };
        let is_new = numbers.insert(header.insert_seq);
        if numbers.len() as u64 > NATURAL_ORDER_DOCS {
            self.numbers = None;
        }
        is_new
    }

    pub(super) fn is_under_its_key(&mut self, key: &[u8], doc: Doc<'_>) -> bool {
        let id = doc.field("_id");
        self.coll.record_key(&id, &mut self.key);
        self.key == key || (self.coll.lacks_ids() && matches!(id, Value::Missing))
    }
}

/// Reads a stored value of an engine.
pub(super) fn read_stored(
    coll: &Collection,
    table: Table,
    key: &[u8],
    see: &mut dyn FnMut(&[u8]),
) -> Result<bool> {
    let engine = &coll.shared.engine;
    engine.get_with(table, key, see).map_err(error::storage)
}
