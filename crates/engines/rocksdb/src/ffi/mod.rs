//! The C handles for frequent calls, each with an owner that frees it. Options, opening and
//! administration use the binding crate; gets, cursors, snapshots and batches are here, so that one
//! set of read options serves many calls, and snapshots and cursors own what they need instead of
//! borrowing it.

mod encryption;
mod iter;
mod watch;

pub(crate) use encryption::encrypt;
pub(crate) use iter::{Iter, IterOpts};
pub(crate) use watch::watch;

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

use rust_rocksdb::{AsColumnFamilyRef, AsRawPtr, DB, Options, ffi_raw as sys};
use storage::{Result, StorageError, Table};

use crate::error;

/// The open database with its column families, default read options and write options.
pub(crate) struct Db {
    // Freed before `db`, whose drop closes RocksDB.
    latest: ReadOpts,
    journaled: WriteOpts,
    unjournaled: WriteOpts,
    raw: *mut sys::rocksdb_t,
    families: [*mut sys::rocksdb_column_family_handle_t; Table::ALL.len()],
    scan_fill_bytes: u64,
    db: DB,
}

// SAFETY: RocksDB's handles may be used from any thread at the same time; the option handles are
// only read after construction.
unsafe impl Send for Db {}
// SAFETY: as above.
unsafe impl Sync for Db {}

impl Db {
    /// Takes an opened database; a scan may put `scan_fill_bytes` of rows into the block cache.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] when a column family is missing or has another id than its table.
    pub(crate) fn new(db: DB, scan_fill_bytes: u64) -> Result<Self> {
        let mut families = [ptr::null_mut(); Table::ALL.len()];
        for table in Table::ALL {
            let family = db.cf_handle(family_name(table));
            match family {
                Some(family) if family.id() == u32::from(table as u8) => {
                    families[table.index()] = family.inner()
                }
                _ => {
                    let context = format!(
                        "column family {} is missing or misnumbered",
                        family_name(table)
                    );
                    return Err(StorageError::Corrupt {
                        context,
                        source: None,
                    });
                }
            }
        }
        // SAFETY: the pointer lives as long as `db`, which this struct owns.
        let raw = unsafe { db.as_raw_ptr() };
        Ok(Self {
            latest: ReadOpts::new(),
            journaled: WriteOpts::new(false),
            unjournaled: WriteOpts::new(true),
            raw,
            families,
            scan_fill_bytes,
            db,
        })
    }

    pub(crate) fn admin(&self) -> &DB {
        &self.db
    }

    pub(crate) fn family(&self, table: Table) -> *mut sys::rocksdb_column_family_handle_t {
        self.families[table.index()]
    }

    pub(crate) fn scan_fill_bytes(&self) -> u64 {
        self.scan_fill_bytes
    }

    pub(crate) fn latest(&self) -> &ReadOpts {
        &self.latest
    }

    pub(crate) fn sequence(&self) -> u64 {
        // SAFETY: the database is open as long as `self` lives.
        unsafe { sys::rocksdb_get_latest_sequence_number(self.raw) }
    }

    /// Reads into `out`, growing it when the value does not fit.
    pub(crate) fn get(
        &self,
        opts: &ReadOpts,
        table: Table,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        out.clear();
        if out.capacity() < 512 {
            out.reserve(512);
        }
        loop {
            let (mut len, mut found, mut err) = (0usize, 0u8, ptr::null_mut());
            // SAFETY: key and buffer are valid for the lengths given; the out-pointers are live
            // locals.
            let copied = unsafe {
                sys::rocksdb_get_into_buffer_cf(
                    self.raw,
                    opts.0,
                    self.family(table),
                    key.as_ptr().cast(),
                    key.len(),
                    out.as_mut_ptr().cast(),
                    out.capacity(),
                    &raw mut len,
                    &raw mut found,
                    &raw mut err,
                )
            };
            check("a read", err)?;
            if found == 0 {
                return Ok(false);
            }
            if copied != 0 {
                // SAFETY: the call wrote `len` bytes, which fit the capacity it was given.
                unsafe { out.set_len(len) };
                return Ok(true);
            }
            // The value may have been replaced by a larger one meanwhile, hence the loop.
            out.reserve(len);
        }
    }

    /// Passes the value to `f` without copying it.
    pub(crate) fn get_with(
        &self,
        opts: &ReadOpts,
        table: Table,
        key: &[u8],
        f: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let mut err = ptr::null_mut();
        // SAFETY: key is valid for its length; handles are open.
        let pinned = unsafe {
            sys::rocksdb_get_pinned_cf(
                self.raw,
                opts.0,
                self.family(table),
                key.as_ptr().cast(),
                key.len(),
                &raw mut err,
            )
        };
        check("a read", err)?;
        if pinned.is_null() {
            return Ok(false);
        }
        let pinned = PinnableSlice(pinned);
        f(pinned.bytes());
        Ok(true)
    }

    /// Reads many keys from one state.
    pub(crate) fn multi_get(
        &self,
        opts: &ReadOpts,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        const ON_STACK: usize = 64;
        let slice = |key: &&[u8]| sys::rocksdb_slice_t {
            data: key.as_ptr().cast(),
            size: key.len(),
        };
        let sorted = u8::from(keys.is_sorted());
        let mut err = ptr::null_mut();
        let mut stack = [sys::rocksdb_slice_t {
            data: ptr::null(),
            size: 0,
        }; ON_STACK];
        let heap: Vec<sys::rocksdb_slice_t>;
        let slices: &[sys::rocksdb_slice_t] = if keys.len() <= ON_STACK {
            for (to, key) in stack.iter_mut().zip(keys) {
                *to = slice(key);
            }
            &stack
        } else {
            heap = keys.iter().map(slice).collect();
            &heap
        };
        // SAFETY: `slices` holds at least `keys.len()` valid slices that live during the call.
        let batch = unsafe {
            sys::rust_rocksdb_batched_multi_get_pinned(
                self.raw,
                opts.0,
                self.family(table),
                keys.len(),
                slices.as_ptr(),
                sorted,
                &raw mut err,
            )
        };
        check("a read of many keys", err)?;
        if batch.is_null() {
            return Err(StorageError::Busy(
                "out of memory in a read of many keys".to_owned(),
            ));
        }
        let batch = PinnedBatch(batch);
        for index in 0..keys.len() {
            each(index, batch.value(index)?);
        }
        Ok(())
    }

    /// Writes a batch given in RocksDB's own representation.
    pub(crate) fn write(&self, representation: &[u8], journal: bool) -> Result<()> {
        let opts = if journal {
            &self.journaled
        } else {
            &self.unjournaled
        };
        let mut err = ptr::null_mut();
        // SAFETY: the representation is copied by the first call; the batch is freed exactly once.
        unsafe {
            let batch = sys::rocksdb_writebatch_create_from(
                representation.as_ptr().cast(),
                representation.len(),
            );
            sys::rocksdb_write(self.raw, opts.0, batch, &raw mut err);
            sys::rocksdb_writebatch_destroy(batch);
        }
        check("a write", err)
    }

    /// Removes table files that lie wholly inside `lower..=upper`.
    pub(crate) fn delete_files(&self, table: Table, lower: &[u8], upper: &[u8]) -> Result<()> {
        let mut err = ptr::null_mut();
        // SAFETY: both keys are valid for their lengths.
        unsafe {
            sys::rocksdb_delete_file_in_range_cf(
                self.raw,
                self.family(table),
                lower.as_ptr().cast(),
                lower.len(),
                upper.as_ptr().cast(),
                upper.len(),
                &raw mut err,
            );
        }
        check("a drop of files", err)
    }

    /// An integer property of a table, e.g. `rocksdb.num-files-at-level0`; `None` when RocksDB has
    /// no such property.
    pub(crate) fn property(&self, table: Table, name: &std::ffi::CStr) -> Option<u64> {
        let mut value = 0;
        // SAFETY: `name` is a C string; the out-pointer is a live local.
        let rc = unsafe {
            sys::rocksdb_property_int_cf(
                self.raw,
                self.family(table),
                name.as_ptr(),
                &raw mut value,
            )
        };
        (rc == 0).then_some(value)
    }
}

/// Column family of a table; the first one must have RocksDB's default name, so that its id is
/// zero.
pub(crate) fn family_name(table: Table) -> &'static str {
    match table {
        Table::Meta => "default",
        other => other.name(),
    }
}

/// Converts a C error text into a `StorageError` and frees it.
fn check(step: &'static str, err: *mut c_char) -> Result<()> {
    if err.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB hands over a C string that we must free.
    let text = unsafe {
        let text = std::ffi::CStr::from_ptr(err).to_string_lossy().into_owned();
        sys::rocksdb_free(err.cast());
        text
    };
    Err(error::sort_of_thread(step, text, watch::last_blob_read()))
}

struct PinnableSlice(*mut sys::rocksdb_pinnableslice_t);

impl PinnableSlice {
    fn bytes(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: the pinned slice is alive; RocksDB keeps its bytes in place until it is
        // destroyed.
        unsafe { slice_of(sys::rocksdb_pinnableslice_value(self.0, &raw mut len), len) }
    }
}

impl Drop for PinnableSlice {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { sys::rocksdb_pinnableslice_destroy(self.0) }
    }
}

struct PinnedBatch(*mut sys::rust_rocksdb_pinnable_batch_t);

impl PinnedBatch {
    fn value(&self, index: usize) -> Result<Option<&[u8]>> {
        let (mut value, mut len) = (ptr::null(), 0usize);
        let (mut error, mut error_len) = (ptr::null(), 0usize);
        // SAFETY: the batch is alive; out-pointers are live locals; results are borrowed from the
        // batch.
        let state = unsafe {
            sys::rust_rocksdb_pinnable_batch_get(
                self.0,
                index,
                &raw mut value,
                &raw mut len,
                &raw mut error,
                &raw mut error_len,
            )
        };
        match u32::from(state) {
            sys::rust_rocksdb_pinnable_batch_not_found => Ok(None),
            // SAFETY: as above, the bytes live as long as the batch.
            sys::rust_rocksdb_pinnable_batch_found => Ok(Some(unsafe { slice_of(value, len) })),
            _ => {
                // SAFETY: an error text is borrowed from the batch; `slice_of` accepts null.
                let text =
                    String::from_utf8_lossy(unsafe { slice_of(error, error_len) }).into_owned();
                Err(error::sort_of_thread(
                    "a read of many keys",
                    text,
                    watch::last_blob_read(),
                ))
            }
        }
    }
}

impl Drop for PinnedBatch {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { sys::rust_rocksdb_pinnable_batch_destroy(self.0) }
    }
}

/// # Safety
/// `data` must be null (with any length) or valid for `len` bytes during `'a`.
unsafe fn slice_of<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

/// Read options; changed only while exclusively owned.
pub(crate) struct ReadOpts(*mut sys::rocksdb_readoptions_t);

// SAFETY: a plain C++ struct; shared use only reads it.
unsafe impl Send for ReadOpts {}
// SAFETY: as above.
unsafe impl Sync for ReadOpts {}

impl ReadOpts {
    pub(crate) fn new() -> Self {
        // SAFETY: a fresh handle, freed by `drop`.
        Self(unsafe { sys::rocksdb_readoptions_create() })
    }

    /// # Safety
    /// The snapshot must outlive these options and every iterator made from them.
    unsafe fn set_snapshot(&mut self, snapshot: *const sys::rocksdb_snapshot_t) {
        // SAFETY: promised by the caller.
        unsafe { sys::rocksdb_readoptions_set_snapshot(self.0, snapshot) }
    }
}

impl Drop for ReadOpts {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { sys::rocksdb_readoptions_destroy(self.0) }
    }
}

struct WriteOpts(*mut sys::rocksdb_writeoptions_t);

// SAFETY: a plain C++ struct that is only read after construction.
unsafe impl Send for WriteOpts {}
// SAFETY: as above.
unsafe impl Sync for WriteOpts {}

impl WriteOpts {
    fn new(disable_journal: bool) -> Self {
        // SAFETY: a fresh handle, freed by `drop`.
        unsafe {
            let opts = sys::rocksdb_writeoptions_create();
            sys::rocksdb_writeoptions_disable_WAL(opts, i32::from(disable_journal));
            Self(opts)
        }
    }
}

impl Drop for WriteOpts {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { sys::rocksdb_writeoptions_destroy(self.0) }
    }
}

/// A snapshot that keeps its database alive, with read options bound to it.
pub(crate) struct DbSnapshot {
    opts: ReadOpts,
    raw: *const sys::rocksdb_snapshot_t,
    sequence: u64,
    db: Arc<Db>,
}

// SAFETY: a snapshot is an immutable mark that any thread may read and release.
unsafe impl Send for DbSnapshot {}
// SAFETY: as above.
unsafe impl Sync for DbSnapshot {}

impl DbSnapshot {
    pub(crate) fn take(db: &Arc<Db>) -> Self {
        let mut opts = ReadOpts::new();
        let mut sequence = 0;
        // SAFETY: the snapshot is released in `drop`, when the options are no longer used; cursors
        // hold an `Arc` of it.
        let raw = unsafe {
            let raw = sys::rocksdb_create_snapshot(db.raw);
            sys::rust_rocksdb_snapshot_try_get_sequence_number(raw, &raw mut sequence);
            opts.set_snapshot(raw);
            raw
        };
        Self {
            opts,
            raw,
            sequence,
            db: Arc::clone(db),
        }
    }

    pub(crate) fn opts(&self) -> &ReadOpts {
        &self.opts
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn db(&self) -> &Arc<Db> {
        &self.db
    }
}

impl Drop for DbSnapshot {
    fn drop(&mut self) {
        // SAFETY: taken from this database, released once; no cursor holds it any more.
        unsafe { sys::rocksdb_release_snapshot(self.db.raw, self.raw) }
    }
}

/// The raw options handle, for the few settings the binding crate does not offer.
pub(crate) fn options_handle(opts: &Options) -> *mut sys::rocksdb_options_t {
    // SAFETY: the pointer is used by the caller while `opts` is borrowed and alive, and never freed
    // through it.
    unsafe { opts.as_raw_ptr() }
}
