//! Iterators that own their bounds, their options and whatever keeps their state alive.

use std::ptr;
use std::sync::Arc;

use rust_rocksdb::ffi_raw as sys;
use storage::{Result, Table};

use super::{Db, DbSnapshot, ReadOpts, check, slice_of};

/// How an iterator reads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IterOpts {
    pub(crate) fill_cache: bool,
    pub(crate) readahead_bytes: usize,
    /// Deleted keys one step may skip before it fails with `Busy`; 0 for no bound.
    pub(crate) skip_max: u64,
    /// Whether only keys are read, so that values outside of the table files are not loaded.
    pub(crate) keys_only: bool,
}

/// An iterator that owns its bounds, its options and whatever keeps its state alive.
pub(crate) struct Iter {
    raw: *mut sys::rocksdb_iterator_t,
    // The iterator keeps pointers to the options and to the bounds: both are freed after it, the
    // bounds never move (a vector's heap block stays in place when the struct moves).
    _opts: ReadOpts,
    lower: Vec<u8>,
    upper: Vec<u8>,
    _snap: Option<Arc<DbSnapshot>>,
    _db: Arc<Db>,
}

// SAFETY: an iterator may move between threads as long as one uses it at a time, which `&mut self`
// ensures.
unsafe impl Send for Iter {}

impl Iter {
    /// An iterator over `lower..upper`, at the latest state or in a snapshot.
    pub(crate) fn new(
        db: &Arc<Db>,
        snap: Option<&Arc<DbSnapshot>>,
        table: Table,
        lower: &[u8],
        upper: &[u8],
        how: &IterOpts,
    ) -> Self {
        let (lower, upper) = (lower.to_vec(), upper.to_vec());
        let mut opts = ReadOpts::new();
        // SAFETY: bounds, options, snapshot and database are owned by the result and outlive the
        // iterator.
        let raw = unsafe {
            if let Some(snap) = snap {
                opts.set_snapshot(snap.raw);
            }
            sys::rocksdb_readoptions_set_iterate_lower_bound(
                opts.0,
                lower.as_ptr().cast(),
                lower.len(),
            );
            sys::rocksdb_readoptions_set_iterate_upper_bound(
                opts.0,
                upper.as_ptr().cast(),
                upper.len(),
            );
            // Readers must not spend time on deleting files that compaction left.
            sys::rocksdb_readoptions_set_background_purge_on_iterator_cleanup(opts.0, 1);
            if !how.fill_cache {
                sys::rocksdb_readoptions_set_fill_cache(opts.0, 0);
            }
            if how.readahead_bytes > 0 {
                sys::rocksdb_readoptions_set_readahead_size(opts.0, how.readahead_bytes);
            }
            if how.skip_max > 0 {
                sys::rocksdb_readoptions_set_max_skippable_internal_keys(opts.0, how.skip_max);
            }
            if how.keys_only {
                sys::rocksdb_readoptions_set_allow_unprepared_value(opts.0, 1);
            }
            sys::rocksdb_create_iterator_cf(db.raw, opts.0, db.family(table))
        };
        Self {
            raw,
            _opts: opts,
            lower,
            upper,
            _snap: snap.cloned(),
            _db: Arc::clone(db),
        }
    }

    /// The bounds of the iterator.
    pub(crate) fn bounds(&self) -> (&[u8], &[u8]) {
        (&self.lower, &self.upper)
    }

    pub(crate) fn valid(&self) -> bool {
        // SAFETY: the iterator is alive.
        unsafe { sys::rocksdb_iter_valid(self.raw) != 0 }
    }

    pub(crate) fn seek_to_first(&mut self) {
        // SAFETY: the iterator is alive.
        unsafe { sys::rocksdb_iter_seek_to_first(self.raw) }
    }

    pub(crate) fn seek_to_last(&mut self) {
        // SAFETY: the iterator is alive.
        unsafe { sys::rocksdb_iter_seek_to_last(self.raw) }
    }

    pub(crate) fn seek(&mut self, key: &[u8]) {
        // SAFETY: the iterator is alive; the key is valid for its length and copied.
        unsafe { sys::rocksdb_iter_seek(self.raw, key.as_ptr().cast(), key.len()) }
    }

    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        // SAFETY: as in `seek`.
        unsafe { sys::rocksdb_iter_seek_for_prev(self.raw, key.as_ptr().cast(), key.len()) }
    }

    /// Moves by one row; the caller has checked `valid`.
    pub(crate) fn step(&mut self, reverse: bool) {
        debug_assert!(self.valid());
        // SAFETY: the iterator is alive and valid.
        unsafe {
            if reverse {
                sys::rocksdb_iter_prev(self.raw);
            } else {
                sys::rocksdb_iter_next(self.raw);
            }
        }
    }

    /// Key of the current row; the caller has checked `valid`.
    pub(crate) fn key(&self) -> &[u8] {
        debug_assert!(self.valid());
        // SAFETY: valid, so the slice lives until the iterator moves, which needs `&mut self`.
        unsafe {
            let slice = sys::rocksdb_iter_key_slice(self.raw);
            slice_of(slice.data, slice.size)
        }
    }

    /// Value of the current row; the caller has checked `valid`.
    pub(crate) fn value(&self) -> &[u8] {
        debug_assert!(self.valid());
        // SAFETY: as in `key`.
        unsafe {
            let slice = sys::rocksdb_iter_value_slice(self.raw);
            slice_of(slice.data, slice.size)
        }
    }

    /// The error that ended the iteration, if one did.
    pub(crate) fn status(&self) -> Result<()> {
        let mut err = ptr::null_mut();
        // SAFETY: the iterator is alive.
        unsafe { sys::rocksdb_iter_get_error(self.raw, &raw mut err) };
        check("a scan", err)
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        // SAFETY: owned, freed once, before everything it points to.
        unsafe { sys::rocksdb_iter_destroy(self.raw) }
    }
}
