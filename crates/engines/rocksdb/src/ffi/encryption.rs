//! The functions through which the file system in `shim/encrypted_fs.cc` gets keys and AES.

use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::Arc;

use cipher::{DataKey, FileKey, HEADER, Kind, TAG};
use rust_rocksdb::{AsRawPtr, Options};

/// Declared in `shim/encrypted_fs.cc`.
#[repr(C)]
struct Functions {
    state: *const c_void,
    begin: unsafe extern "C" fn(*const c_void, *const c_char, usize, c_int, *mut u8) -> *mut c_void,
    resume: unsafe extern "C" fn(
        *const c_void,
        *const c_char,
        usize,
        *const u8,
        *mut c_int,
    ) -> *mut c_void,
    end: unsafe extern "C" fn(*mut c_void),
    seal: unsafe extern "C" fn(*const c_void, u64, u32, *mut u8, usize),
    open: unsafe extern "C" fn(*const c_void, u64, u32, *mut u8, usize) -> c_int,
}

unsafe extern "C" {
    fn quarry_encrypt(options: *mut c_void, cipher: *const Functions);
}

/// Makes a database that is opened with these options encrypt its files with keys derived from
/// `data`.
pub(crate) fn encrypt(options: &mut Options, data: &Arc<DataKey>) {
    let functions = Functions {
        // Never freed: the file system, and with it the key, lives as long as the process.
        state: Arc::into_raw(Arc::clone(data)).cast(),
        begin,
        resume,
        end,
        seal,
        open,
    };
    // SAFETY: the handle is that of open options; the table is copied before the call returns, and
    // what its state points to is never freed.
    unsafe { quarry_encrypt(options.as_raw_ptr().cast(), &raw const functions) };
}

/// # Safety
/// `state` is that of [`encrypt`]; `name` has `length` bytes.
unsafe fn key_and_name<'a>(
    state: *const c_void,
    name: *const c_char,
    length: usize,
) -> (&'a DataKey, &'a [u8]) {
    let name = match length {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { slice::from_raw_parts(name.cast::<u8>(), length) },
    };
    // SAFETY: the caller's promise.
    (unsafe { &*state.cast::<DataKey>() }, name)
}

unsafe extern "C" fn begin(
    state: *const c_void,
    name: *const c_char,
    length: usize,
    pages: c_int,
    header: *mut u8,
) -> *mut c_void {
    // SAFETY: called by the file system with its state and a name of that length.
    let (data, name) = unsafe { key_and_name(state, name, length) };
    let kind = if pages != 0 {
        Kind::Pages
    } else {
        Kind::Pieces
    };
    let (key, made) = FileKey::begin(data, kind, name);
    // SAFETY: the file system hands over room for a header.
    unsafe { slice::from_raw_parts_mut(header, HEADER) }.copy_from_slice(&made);
    Box::into_raw(Box::new(key)).cast()
}

unsafe extern "C" fn resume(
    state: *const c_void,
    name: *const c_char,
    length: usize,
    header: *const u8,
    pages: *mut c_int,
) -> *mut c_void {
    // SAFETY: called by the file system with its state and a name of that length.
    let (data, name) = unsafe { key_and_name(state, name, length) };
    // SAFETY: the file system hands over a whole header.
    let header = unsafe { slice::from_raw_parts(header, HEADER) };
    match FileKey::resume(data, header, name) {
        Some((key, kind)) => {
            // SAFETY: points to a variable of the caller.
            unsafe { *pages = c_int::from(kind == Kind::Pages) };
            Box::into_raw(Box::new(key)).cast()
        }
        None => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn end(key: *mut c_void) {
    // SAFETY: made by `begin` or `resume`, given back once.
    drop(unsafe { Box::from_raw(key.cast::<FileKey>()) });
}

unsafe extern "C" fn seal(
    key: *const c_void,
    number: u64,
    turn: u32,
    bytes: *mut u8,
    length: usize,
) {
    // SAFETY: the key is open; the buffer has room for the bytes and the tag behind them.
    let (key, bytes) = unsafe {
        (
            &*key.cast::<FileKey>(),
            slice::from_raw_parts_mut(bytes, length + TAG),
        )
    };
    let (text, tag) = bytes.split_at_mut(length);
    tag.copy_from_slice(&key.seal(number, turn, text));
}

unsafe extern "C" fn open(
    key: *const c_void,
    number: u64,
    turn: u32,
    bytes: *mut u8,
    length: usize,
) -> c_int {
    // SAFETY: the key is open; the buffer holds the bytes and the tag behind them.
    let (key, bytes) = unsafe {
        (
            &*key.cast::<FileKey>(),
            slice::from_raw_parts_mut(bytes, length + TAG),
        )
    };
    c_int::from(key.open(number, turn, bytes))
}
