//! What a collection keeps in memory of its documents: exact counters, the highest key, sequence
//! numbers, and the insertion order of small collections whose ids arrived out of order. Must not
//! know: the engine, who writes.
//!
//! Counters and insertion order change after a commit was applied (`crate::commit`). Sequence
//! numbers and the highest key are assigned before it; a write that fails leaves a gap, which no
//! reader sees.

use crate::catalog::large::LargestDocument;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Above this many documents a collection out of order is scanned in key order instead of insertion
/// order (ADR 0007).
pub(crate) const NATURAL_ORDER_DOCS: u64 = 1 << 16;
/// Bytes that the insertion orders of all collections of a store may take.
const ORDER_BYTES_MAX: usize = 32 << 20;
/// Bytes of one entry besides its key.
const ENTRY_BYTES: usize = 48;

/// The counters and orders of one collection.
pub(crate) struct CollectionCounters {
    docs: AtomicI64,
    bytes: AtomicI64,
    /// Documents inserted, replaced and deleted since the collection was opened.
    changed: AtomicU64,
    /// No entry of the log after this time refers to a record here.
    referenced: AtomicU64,
    order: Mutex<Order>,
    /// Ids arrived in key order so far, so key order is insertion order.
    in_order: AtomicBool,
    /// The insertion order is kept or being read; false saves writers the lock.
    kept: AtomicBool,
    insertion: Mutex<Insertion>,
    /// Bytes that the insertion orders of all collections take, see [`ORDER_BYTES_MAX`].
    bytes_of_all: Arc<AtomicUsize>,
    pub(crate) largest: LargestDocument,
}

/// The effects of a commit.
pub(crate) struct CounterChange<'c> {
    /// Change of the number of documents and of the bytes of their BSON.
    pub(crate) docs: i64,
    pub(crate) bytes: i64,
    pub(crate) inserted: &'c dyn InsertedKeys,
    /// Sequence numbers of deleted documents.
    pub(crate) deleted: &'c [u64],
    /// Documents inserted, replaced or deleted.
    pub(crate) changed: u64,
}

/// The documents that a commit inserts.
pub(crate) trait InsertedKeys {
    /// Calls `f` with the sequence number and the record key of each.
    fn visit_keys(&self, f: &mut dyn FnMut(u64, &[u8]));
}

/// Sequence numbers and the highest key.
#[derive(Default)]
pub(crate) struct Order {
    /// No key of the collection is above this one.
    pub(crate) max_key: Vec<u8>,
    pub(crate) next_seq: u64,
    /// Sequence numbers below this are reserved on disk (only for collections out of order).
    pub(crate) reserved: u64,
}

/// Keys by sequence number.
type Keys = BTreeMap<u64, Box<[u8]>>;

#[derive(Default)]
enum Insertion {
    #[default]
    Unknown,
    /// A reader is listing the keys; the changes of concurrent commits are recorded.
    Reading {
        added: Keys,
        removed: Vec<u64>,
    },
    Known(Keys),
}

impl CollectionCounters {
    pub(crate) fn new(
        counts: [i64; 2],
        in_order: bool,
        order: Order,
        bytes_of_all: Arc<AtomicUsize>,
    ) -> CollectionCounters {
        CollectionCounters {
            docs: AtomicI64::new(counts[0]),
            bytes: AtomicI64::new(counts[1]),
            changed: AtomicU64::new(0),
            referenced: AtomicU64::new(0),
            order: Mutex::new(order),
            in_order: AtomicBool::new(in_order),
            kept: AtomicBool::new(false),
            insertion: Mutex::default(),
            bytes_of_all,
            largest: LargestDocument::default(),
        }
    }

    /// Bytes of the largest document known to be or to have been in the collection; 0 when no large
    /// one is known.
    pub(crate) fn largest_bytes(&self) -> usize {
        let average = self.bytes() / self.docs().max(1);
        self.largest.max_with(usize::try_from(average).unwrap_or(0))
    }

    pub(crate) fn docs(&self) -> u64 {
        self.docs.load(Ordering::Acquire).max(0) as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire).max(0) as u64
    }

    /// Sets the counters as they were read.
    pub(crate) fn set_counts(&self, [docs, bytes]: [i64; 2]) {
        self.docs.store(docs, Ordering::Release);
        self.bytes.store(bytes, Ordering::Release);
    }

    pub(crate) fn change_count(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }

    /// No entry after this time refers to a record here.
    pub(crate) fn referenced_time(&self) -> u64 {
        self.referenced.load(Ordering::Acquire)
    }

    /// As [`CollectionCounters::referenced_time`], when it is opened.
    pub(crate) fn set_referenced(&self, time: u64) {
        self.referenced.store(time, Ordering::Release);
    }

    /// Records that entries up to this time refer to records here.
    pub(crate) fn note_referenced(&self, time: u64) {
        self.referenced.fetch_max(time, Ordering::AcqRel);
    }

    /// Records a commit that was applied.
    pub(crate) fn apply(&self, change: &CounterChange<'_>) {
        self.docs.fetch_add(change.docs, Ordering::AcqRel);
        self.bytes.fetch_add(change.bytes, Ordering::AcqRel);
        self.changed.fetch_add(change.changed, Ordering::Relaxed);
        if self.is_in_order() {
            return;
        }
        if self.docs() > NATURAL_ORDER_DOCS {
            return self.forget_insertion_order();
        }
        // A transaction may have deleted documents that it inserted itself.
        change
            .inserted
            .visit_keys(&mut |seq, key| self.add_inserted(seq, key));
        change
            .deleted
            .iter()
            .for_each(|seq| self.remove_deleted(*seq));
    }

    pub(crate) fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock()
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.order.lock().next_seq
    }

    pub(crate) fn is_in_order(&self) -> bool {
        self.in_order.load(Ordering::Acquire)
    }

    pub(crate) fn set_out_of_order(&self) {
        self.in_order.store(false, Ordering::Release);
    }

    fn add_inserted(&self, seq: u64, key: &[u8]) {
        if !self.kept.load(Ordering::Acquire) {
            return;
        }
        match &mut *self.insertion.lock() {
            Insertion::Unknown => {}
            Insertion::Reading { added, .. } => _ = added.insert(seq, key.into()),
            Insertion::Known(keys) => {
                keys.insert(seq, key.into());
                self.bytes_of_all
                    .fetch_add(key.len() + ENTRY_BYTES, Ordering::Relaxed);
            }
        }
    }

    fn remove_deleted(&self, seq: u64) {
        if !self.kept.load(Ordering::Acquire) {
            return;
        }
        match &mut *self.insertion.lock() {
            Insertion::Unknown => {}
            Insertion::Reading { removed, .. } => removed.push(seq),
            Insertion::Known(keys) => {
                if let Some(key) = keys.remove(&seq) {
                    self.bytes_of_all
                        .fetch_sub(key.len() + ENTRY_BYTES, Ordering::Relaxed);
                }
            }
        }
    }

    /// Begins to record changes for a reader that lists all keys; false when the order is known or
    /// another reader is listing.
    pub(crate) fn begin_listing(&self) -> bool {
        let mut insertion = self.insertion.lock();
        if !matches!(*insertion, Insertion::Unknown) {
            return false;
        }
        *insertion = Insertion::Reading {
            added: Keys::new(),
            removed: Vec::new(),
        };
        self.kept.store(true, Ordering::Release);
        true
    }

    /// Ends a listing with the keys that were read (`None` when reading failed). They are kept
    /// unless all collections together keep too much already.
    pub(crate) fn end_listing(&self, read: Option<Keys>) {
        let mut insertion = self.insertion.lock();
        let noted = std::mem::take(&mut *insertion);
        if let (Some(mut keys), Insertion::Reading { mut added, removed }) = (read, noted) {
            keys.append(&mut added);
            removed.iter().for_each(|seq| _ = keys.remove(seq));
            let bytes = bytes_of(&keys);
            if self.bytes_of_all.fetch_add(bytes, Ordering::Relaxed) + bytes <= ORDER_BYTES_MAX {
                *insertion = Insertion::Known(keys);
                return;
            }
            self.bytes_of_all.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.kept.store(false, Ordering::Release);
    }

    /// Discards the insertion order.
    pub(crate) fn forget_insertion_order(&self) {
        if !self.kept.load(Ordering::Acquire) {
            return;
        }
        let mut insertion = self.insertion.lock();
        if let Insertion::Known(keys) = &*insertion {
            self.bytes_of_all
                .fetch_sub(bytes_of(keys), Ordering::Relaxed);
            *insertion = Insertion::Unknown;
            self.kept.store(false, Ordering::Release);
        }
    }

    /// Up to `max` keys after `last` (from the beginning without one) and before `end` in insertion
    /// order; `None` when the order is not known.
    pub(crate) fn inserted_after(
        &self,
        last: Option<u64>,
        end: u64,
        reverse: bool,
        max: usize,
    ) -> Option<Vec<(u64, Box<[u8]>)>> {
        let insertion = self.insertion.lock();
        let Insertion::Known(keys) = &*insertion else {
            return None;
        };
        let found: Vec<_> = if reverse {
            keys.range(..last.unwrap_or(end)).rev().take(max).collect()
        } else {
            let first = last.map_or(0, |l| l + 1);
            keys.range(first.min(end)..end).take(max).collect()
        };
        Some(
            found
                .into_iter()
                .map(|(seq, key)| (*seq, key.clone()))
                .collect(),
        )
    }
}

impl Drop for CollectionCounters {
    fn drop(&mut self) {
        self.forget_insertion_order();
    }
}

fn bytes_of(keys: &Keys) -> usize {
    keys.values().map(|k| k.len() + ENTRY_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(all: &Arc<AtomicUsize>) -> CollectionCounters {
        CollectionCounters::new([0, 0], false, Order::default(), all.clone())
    }

    fn seqs(live: &CollectionCounters, last: Option<u64>, reverse: bool) -> Option<Vec<u64>> {
        Some(
            live.inserted_after(last, 100, reverse, 10)?
                .into_iter()
                .map(|(s, _)| s)
                .collect(),
        )
    }

    #[test]
    fn changes_during_a_listing_and_after_it_are_kept() {
        let all = Arc::new(AtomicUsize::new(0));
        let l = live(&all);
        l.add_inserted(1, b"before");
        assert_eq!(seqs(&l, None, false), None);
        assert!(l.begin_listing() && !l.begin_listing());
        l.add_inserted(7, b"g");
        l.remove_deleted(2);
        let read = [(1, b"a"), (2, b"b"), (3, b"c")].map(|(s, k)| (s, Box::from(&k[..])));
        l.end_listing(Some(read.into()));
        assert_eq!(seqs(&l, None, false), Some(vec![1, 3, 7]));
        l.remove_deleted(3);
        l.add_inserted(9, b"i");
        assert_eq!(seqs(&l, Some(1), false), Some(vec![7, 9]));
        assert_eq!(seqs(&l, Some(9), true), Some(vec![7, 1]));
        assert_eq!(all.load(Ordering::Relaxed), 3 * (1 + ENTRY_BYTES));
        drop(l);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_failed_listing_and_a_full_budget_keep_nothing() {
        let all = Arc::new(AtomicUsize::new(0));
        let l = live(&all);
        assert!(l.begin_listing());
        l.end_listing(None);
        assert_eq!(seqs(&l, None, false), None);
        all.store(ORDER_BYTES_MAX, Ordering::Relaxed);
        assert!(l.begin_listing());
        l.end_listing(Some([(1, Box::from(&b"a"[..]))].into()));
        assert_eq!(
            (seqs(&l, None, false), all.load(Ordering::Relaxed)),
            (None, ORDER_BYTES_MAX)
        );
    }
}
