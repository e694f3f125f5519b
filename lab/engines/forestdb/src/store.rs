//! One session's handle of a file of `ForestDB`, and an iterator over its keys.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use lab_kit::engine::EngineError;

use crate::library::{self, Doc, Library, Opaque};

const COMMIT_NORMAL: u8 = 0;
const ITERATE_NO_DELETES: u8 = 2;
const ITERATE_WITHOUT_MAX: u8 = 8;

/// A file handle and its default key-value store.
pub(crate) struct StoreHandle {
    library: Arc<Library>,
    file: *mut Opaque,
    store: *mut Opaque,
}

// SAFETY: a handle may move between threads as long as only one thread at a time uses it; a session
// is owned by one client.
unsafe impl Send for StoreHandle {}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        if !self.store.is_null() {
            // SAFETY: the handle is open and is not used again.
            unsafe { (self.library.kvs_close)(self.store) };
        }
        // SAFETY: the handle is open and is not used again.
        unsafe { (self.library.close)(self.file) };
    }
}

impl StoreHandle {
    /// `config` is null or a settings structure of the library's version that outlives the handle.
    pub(crate) fn open(
        library: Arc<Library>,
        path: &CString,
        config: *mut Opaque,
    ) -> Result<Self, EngineError> {
        let (mut file, mut store) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the path ends with a zero byte and lives through the call; a null configuration
        // means defaults; both out-pointers are valid, and are used only if the calls succeed.
        library.check("fdb_open", unsafe {
            (library.open)(&mut file, path.as_ptr(), config)
        })?;
        // SAFETY: as above; the file handle was just opened.
        let opened = library.check("fdb_kvs_open_default", unsafe {
            (library.kvs_open_default)(file, &mut store, ptr::null_mut())
        });
        let store = Self {
            library,
            file,
            store,
        };
        opened.map(|()| store)
    }

    pub(crate) fn commit(&self) -> Result<(), EngineError> {
        // SAFETY: the handle is open.
        self.library.check("fdb_commit", unsafe {
            (self.library.commit)(self.file, COMMIT_NORMAL)
        })
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        // SAFETY: key and value live through the call, which copies them; the handle is open.
        let status = unsafe {
            (self.library.set)(
                self.store,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
            )
        };
        self.library.check("fdb_set_kv", status)
    }

    pub(crate) fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        // SAFETY: the key lives through the call; the handle is open.
        let status = unsafe { (self.library.delete)(self.store, key.as_ptr().cast(), key.len()) };
        self.library.check("fdb_del_kv", status)
    }

    pub(crate) fn get(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError> {
        let library = &self.library;
        let (mut value, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the key lives through the call; both out-pointers are valid.
        let status = unsafe {
            (library.get)(
                self.store,
                key.as_ptr().cast(),
                key.len(),
                &mut value,
                &mut length,
            )
        };
        if status == library::KEY_NOT_FOUND {
            return Ok(false);
        }
        library.check("fdb_get_kv", status)?;
        out.clear();
        if !value.is_null() {
            // SAFETY: the library returned a block of that length, which stays valid until it is
            // freed below.
            out.extend_from_slice(unsafe {
                std::slice::from_raw_parts(value.cast::<u8>(), length)
            });
            // SAFETY: the block came from the library and is freed once.
            unsafe { (library.free_block)(value) };
        }
        Ok(true)
    }
}

/// An iterator over the keys of one file, positioned at a key or at the end.
pub(crate) struct KeyIterator<'a> {
    store: &'a StoreHandle,
    iterator: *mut Opaque,
    doc: *mut Doc,
    reverse: bool,
}

impl Drop for KeyIterator<'_> {
    fn drop(&mut self) {
        self.leave();
        // SAFETY: the iterator is open and is not used again.
        unsafe { (self.store.library.iterator_close)(self.iterator) };
    }
}

impl<'a> KeyIterator<'a> {
    /// Positions a new iterator at the first key of `from..end` or, with `reverse`, at the last.
    pub(crate) fn begin(
        store: &'a StoreHandle,
        from: &[u8],
        end: &[u8],
        reverse: bool,
    ) -> Result<Self, EngineError> {
        let library = &store.library;
        let mut iterator = ptr::null_mut();
        let how = ITERATE_NO_DELETES | ITERATE_WITHOUT_MAX;
        let first: *const Opaque = if from.is_empty() {
            ptr::null()
        } else {
            from.as_ptr().cast()
        };
        // SAFETY: both keys live through the call, which copies them; a null key stands for the
        // beginning; the out-pointer is valid.
        let status = unsafe {
            (library.iterator_init)(
                store.store,
                &mut iterator,
                first,
                from.len(),
                end.as_ptr().cast(),
                end.len(),
                how,
            )
        };
        library.check("fdb_iterator_init", status)?;
        let mut out = Self {
            store,
            iterator,
            doc: ptr::null_mut(),
            reverse,
        };
        // SAFETY: the iterator is open.
        if !reverse || unsafe { (library.iterator_seek_to_max)(iterator) } == library::SUCCESS {
            out.read();
        }
        Ok(out)
    }

    /// Reads the document at the iterator; every failure means that there are no more keys.
    fn read(&mut self) {
        // SAFETY: the iterator is open and the out-pointer valid.
        let status = unsafe { (self.store.library.iterator_get)(self.iterator, &mut self.doc) };
        if status != library::SUCCESS {
            self.doc = ptr::null_mut();
        }
    }

    fn leave(&mut self) {
        if !self.doc.is_null() {
            // SAFETY: the document came from the library and is freed once.
            unsafe { (self.store.library.doc_free)(self.doc) };
            self.doc = ptr::null_mut();
        }
    }

    /// Moves to the next key in the iterator's direction.
    pub(crate) fn step(&mut self) {
        self.leave();
        let library = &self.store.library;
        let step = if self.reverse {
            library.iterator_prev
        } else {
            library.iterator_next
        };
        // SAFETY: the iterator is open.
        if unsafe { step(self.iterator) } == library::SUCCESS {
            self.read();
        }
    }

    /// The current key; `None` at the end.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.row().map(|(key, _)| key)
    }

    /// The current key and value; `None` at the end.
    pub(crate) fn row(&self) -> Option<(&[u8], &[u8])> {
        // SAFETY: the document belongs to the library and is freed only by `leave`, which cannot
        // run during this borrow.
        let doc = unsafe { self.doc.as_ref() }?;
        // SAFETY: key and body have the lengths that the library returned.
        Some(unsafe { (block(doc.key, doc.keylen), block(doc.body, doc.bodylen)) })
    }
}

/// # Safety
/// `pointer` is null or points to `length` bytes that live for `'a`.
unsafe fn block<'a>(pointer: *mut Opaque, length: usize) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees this.
    unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) }
}
