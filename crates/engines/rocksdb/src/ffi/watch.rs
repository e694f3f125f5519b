//! The file system in `shim/watched_fs.cc`: it records where the calling thread has last read, and
//! decides which failures of the device RocksDB may retry.

use std::ffi::{c_int, c_void};

use rust_rocksdb::{AsRawPtr, Options};
use storage::FileLocation;

unsafe extern "C" {
    fn quarry_watch(options: *mut c_void);
    fn quarry_last_read(number: *mut u64, offset: *mut u64, is_blob: *mut c_int) -> c_int;
}

/// Makes a database that is opened with these options use the watching file system, on top of the
/// one they already name.
pub(crate) fn watch(options: &mut Options) {
    // SAFETY: the handle is that of open options.
    unsafe { quarry_watch(options.as_raw_ptr().cast()) };
}

/// Where the calling thread has last read in a blob file; `None` when its last read was of another
/// file.
pub(crate) fn last_blob_read() -> Option<FileLocation> {
    let (mut number, mut offset, mut is_blob) = (0, 0, 0);
    // SAFETY: the out-pointers are live locals.
    let any = unsafe { quarry_last_read(&raw mut number, &raw mut offset, &raw mut is_blob) } != 0;
    (any && is_blob != 0).then(|| FileLocation {
        file: format!("{number:06}.blob"),
        offset: Some(offset),
    })
}
