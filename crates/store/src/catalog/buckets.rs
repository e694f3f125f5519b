//! The open buckets of a time-series collection: which bucket takes the next measurement of each
//! metadata. Promises: a bucket takes no measurement after it was closed, and is handed out for
//! packing once all writers that were given a place in it have left. Must not know: bytes, the
//! engine.
//!
//! A restart closes all buckets: the ones that were open are found by their marks on disk.

use crate::format::bucket::{self, BucketKey};
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of measurements in a full bucket.
pub(crate) const ROWS_MAX: usize = 1000;
/// Bytes of measurements after which a bucket takes no further one.
pub(crate) const BYTES_MAX: usize = 125 * 1024;
/// Open buckets of one collection; beyond that the one opened first is closed.
const OPEN_MAX: usize = 20_000;

/// The open buckets of one collection.
#[derive(Default)]
pub(crate) struct OpenBuckets {
    list: Mutex<OpenList>,
    pub(crate) counts: BucketCounts,
}

/// Counters since the collection was opened.
#[derive(Default)]
pub(crate) struct BucketCounts {
    pub(crate) inserts: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) opened_for_metadata: AtomicU64,
    pub(crate) closed_by_count: AtomicU64,
    pub(crate) closed_by_size: AtomicU64,
    pub(crate) closed_by_time_forward: AtomicU64,
    pub(crate) closed_by_time_backward: AtomicU64,
    pub(crate) closed_by_memory: AtomicU64,
    pub(crate) measurements: AtomicU64,
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The properties of a measurement that decide which bucket it goes into.
pub(crate) struct NewMeasurement<'w> {
    pub(crate) time_ms: i64,
    pub(crate) bytes: usize,
    /// The bytes of the metadata.
    pub(crate) meta: &'w [u8],
    pub(crate) span_ms: i64,
}

#[derive(Default)]
pub(crate) struct OpenList {
    /// Whether the marks on disk were read.
    pub(crate) loaded: bool,
    by_meta: FxHashMap<Box<[u8]>, OpenBucket>,
    /// Metadata in the order in which their buckets were opened; may include closed buckets.
    opened: VecDeque<(Box<[u8]>, BucketKey)>,
    /// Number of writers that were given a place in each bucket.
    writers: FxHashMap<BucketKey, u32>,
    /// Closed buckets that still have writers.
    closing: FxHashSet<BucketKey>,
    /// Closed buckets that can be packed.
    pub(crate) packable: Vec<BucketKey>,
}

struct OpenBucket {
    key: BucketKey,
    rows: usize,
    bytes: usize,
}

impl OpenBuckets {
    pub(crate) fn lock(&self) -> MutexGuard<'_, OpenList> {
        self.list.lock()
    }
}

impl OpenList {
    /// Takes a place in the open bucket of the metadata. `None` when a new bucket has to be opened;
    /// an open one that cannot take the measurement is closed then.
    pub(crate) fn place(
        &mut self,
        wanted: &NewMeasurement<'_>,
        counts: &BucketCounts,
    ) -> Option<BucketKey> {
        let Some(open) = self.by_meta.get_mut(wanted.meta) else {
            count(&counts.opened_for_metadata);
            return None;
        };
        let after = wanted.time_ms.saturating_sub(bucket::start_ms(&open.key));
        let why = match () {
            () if after < 0 => &counts.closed_by_time_backward,
            () if after >= wanted.span_ms => &counts.closed_by_time_forward,
            () if open.rows >= ROWS_MAX => &counts.closed_by_count,
            () if open.bytes + wanted.bytes > BYTES_MAX => &counts.closed_by_size,
            () => {
                open.rows += 1;
                open.bytes += wanted.bytes;
                return Some(open.key);
            }
        };
        count(why);
        self.close(wanted.meta);
        None
    }

    /// Opens a bucket with its first measurement.
    pub(crate) fn open(
        &mut self,
        wanted: &NewMeasurement<'_>,
        key: BucketKey,
        counts: &BucketCounts,
    ) {
        let open = OpenBucket {
            key,
            rows: 1,
            bytes: wanted.bytes,
        };
        self.by_meta.insert(wanted.meta.into(), open);
        self.opened.push_back((wanted.meta.into(), key));
        while self.by_meta.len() > OPEN_MAX
            && let Some((meta, key)) = self.opened.pop_front()
        {
            if self.by_meta.get(&meta).is_some_and(|o| o.key == key) {
                count(&counts.closed_by_memory);
                self.close(&meta);
            }
        }
        // Buckets that were closed in other ways are removed from the list now and then.
        if self.opened.len() > 2 * self.by_meta.len() + 16 {
            let by_meta = &self.by_meta;
            let is_open = |(meta, key): &(Box<[u8]>, BucketKey)| {
                by_meta.get(meta).is_some_and(|o| o.key == *key)
            };
            self.opened.retain(is_open);
        }
    }

    fn close(&mut self, meta: &[u8]) {
        if let Some(open) = self.by_meta.remove(meta) {
            self.note_closed(open.key);
        }
    }

    fn note_closed(&mut self, key: BucketKey) {
        match self.writers.contains_key(&key) {
            true => _ = self.closing.insert(key),
            false => self.packable.push(key),
        }
    }

    /// Closes every bucket.
    pub(crate) fn close_all(&mut self) {
        self.opened.clear();
        for (_, open) in std::mem::take(&mut self.by_meta) {
            self.note_closed(open.key);
        }
    }

    /// Closes one bucket without writers, which the caller changes and packs itself.
    pub(crate) fn forget(&mut self, key: &BucketKey) {
        self.by_meta.retain(|_, open| open.key != *key);
        self.packable.retain(|k| k != key);
    }

    /// Whether this process has the bucket open, or is about to pack it.
    pub(crate) fn knows(&self, key: &BucketKey) -> bool {
        self.writers.contains_key(key)
            || self.packable.contains(key)
            || self.by_meta.values().any(|open| open.key == *key)
    }

    /// Registers a writer of a bucket.
    pub(crate) fn enter(&mut self, key: BucketKey) {
        *self.writers.entry(key).or_insert(0) += 1;
    }

    /// Ends a registration, whether the write succeeded or failed.
    pub(crate) fn leave(&mut self, key: BucketKey) {
        if let Some(n) = self.writers.get_mut(&key) {
            *n -= 1;
            if *n == 0 {
                self.writers.remove(&key);
                if self.closing.remove(&key) {
                    self.packable.push(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_measurement(time_ms: i64, bytes: usize) -> NewMeasurement<'static> {
        NewMeasurement {
            time_ms,
            bytes,
            meta: b"m",
            span_ms: 1000,
        }
    }

    #[test]
    fn a_bucket_is_packed_when_its_writers_have_left() {
        let (mut list, counts) = (OpenList::default(), BucketCounts::default());
        let first = bucket::key(1, 0, [1; 8]);
        assert_eq!(list.place(&new_measurement(5, 10), &counts), None);
        list.open(&new_measurement(5, 10), first, &counts);
        list.enter(first);
        assert_eq!(list.place(&new_measurement(999, 10), &counts), Some(first));
        // The measurement is too late for the bucket: the bucket closes, and waits for its writer.
        assert_eq!(list.place(&new_measurement(1000, 10), &counts), None);
        assert!(list.packable.is_empty());
        list.leave(first);
        assert_eq!(list.packable, [first]);
        assert_eq!(counts.closed_by_time_forward.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn full_buckets_close() {
        let (mut list, counts) = (OpenList::default(), BucketCounts::default());
        list.open(&new_measurement(0, 1), bucket::key(1, 0, [1; 8]), &counts);
        for _ in 1..ROWS_MAX {
            assert!(list.place(&new_measurement(0, 1), &counts).is_some());
        }
        assert!(list.place(&new_measurement(0, 1), &counts).is_none());
        list.open(&new_measurement(0, 1), bucket::key(1, 0, [2; 8]), &counts);
        assert!(
            list.place(&new_measurement(0, BYTES_MAX), &counts)
                .is_none()
        );
        assert_eq!(list.packable.len(), 2);
    }

    #[test]
    fn the_number_of_open_buckets_is_bounded() {
        let (mut list, counts) = (OpenList::default(), BucketCounts::default());
        for n in 0..OPEN_MAX as u64 + 10 {
            let meta = n.to_be_bytes();
            let wanted = NewMeasurement {
                meta: &meta,
                ..new_measurement(0, 1)
            };
            list.open(&wanted, bucket::key(1, 0, meta), &counts);
        }
        assert_eq!(list.packable.len(), 10);
        assert_eq!(list.packable[0], bucket::key(1, 0, [0; 8]));
    }
}
