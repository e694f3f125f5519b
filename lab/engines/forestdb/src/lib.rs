//! `ForestDB`, from the user's own shared library, as a target of the lab. Nothing of it is linked: the library is opened when asked for.
//!
//! Promises: a clear message when the library is absent or lacks a function; one handle per session, as `ForestDB` wants it. Needs version 1
//! or later (the key-value store interface). The engine keeps its default settings: its settings structure differs by version. Must not
//! know: rows, workloads.

mod library;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab_kit::engine::{
    Durability, Engine, EngineError, EngineOptions, EngineSession, KeyChange, Visit,
};
use lab_kit::target::Rest;
use lab_kit::workload::Need;

use library::{Doc, Library, Opaque};

const FILE: &str = "data.fdb";
/// Uncommitted changes of a session reach storage after this long.
const COMMIT_EVERY: Duration = Duration::from_secs(1);
const COMMIT_NORMAL: u8 = 0;
const ITERATE_NO_DELETES: u8 = 2;
const ITERATE_WITHOUT_MAX: u8 = 8;

/// Opens a database below a directory. `library` names the shared library, `libforestdb.so` without it.
///
/// # Errors
/// The library is absent or too old, the file cannot be used, or a parameter is unknown.
pub fn open(mut options: EngineOptions) -> Result<Box<dyn Engine>, EngineError> {
    let name = options
        .take("library")
        .unwrap_or_else(|| "libforestdb.so".to_owned());
    options.nothing_left("library")?;
    let library = Arc::new(Library::load(&name)?);
    let path =
        CString::new(options.path.join(FILE).as_os_str().as_bytes()).map_err(EngineError::of)?;
    let forest = Forest {
        library,
        path,
        durability: options.durability,
        name,
    };
    forest.connect()?;
    Ok(Box::new(forest))
}

struct Forest {
    library: Arc<Library>,
    path: CString,
    durability: Durability,
    name: String,
}

impl Forest {
    fn connect(&self) -> Result<Session, EngineError> {
        let (mut file, mut store) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the path ends with a zero byte and lives through the call; a null configuration means defaults; both out-pointers are
        // valid, and are used only if the calls succeed.
        self.library.check("fdb_open", unsafe {
            (self.library.open)(&mut file, self.path.as_ptr(), ptr::null_mut())
        })?;
        // SAFETY: as above; the file handle was just opened.
        let opened = self.library.check("fdb_kvs_open_default", unsafe {
            (self.library.kvs_open_default)(file, &mut store, ptr::null_mut())
        });
        let session = Session {
            library: self.library.clone(),
            file,
            store,
            always_commit: self.durability == Durability::Sync,
            committed: Instant::now(),
            is_dirty: false,
        };
        opened.map(|()| session)
    }
}

impl Engine for Forest {
    fn name(&self) -> String {
        format!("ForestDB ({}), default settings", self.name)
    }

    fn lacks(&self) -> &'static [Need] {
        &[Need::Merge, Need::Capped]
    }

    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError> {
        Ok(Box::new(self.connect()?))
    }

    fn settle(&self, _: Duration) -> Rest {
        let committed = self.connect().and_then(|mut session| session.commit());
        Rest {
            quiet: committed.is_ok(),
            remark: committed.map_or_else(
                |error| error.to_string(),
                |()| "committed; whether it compacts is not known".to_owned(),
            ),
        }
    }

    fn statistics(&self) -> serde_json::Value {
        serde_json::json!({ "library": self.name })
    }
}

struct Session {
    library: Arc<Library>,
    file: *mut Opaque,
    store: *mut Opaque,
    always_commit: bool,
    committed: Instant,
    is_dirty: bool,
}

// SAFETY: a handle may move between threads as long as one uses it at a time; a session is owned by one client.
unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_dirty {
            let _ = self.commit();
        }
        if !self.store.is_null() {
            // SAFETY: the handle is open and is not used again.
            unsafe { (self.library.kvs_close)(self.store) };
        }
        // SAFETY: the handle is open and is not used again.
        unsafe { (self.library.close)(self.file) };
    }
}

impl Session {
    fn commit(&mut self) -> Result<(), EngineError> {
        (self.committed, self.is_dirty) = (Instant::now(), false);
        // SAFETY: the handle is open.
        self.library.check("fdb_commit", unsafe {
            (self.library.commit)(self.file, COMMIT_NORMAL)
        })
    }
}

impl EngineSession for Session {
    fn write(&mut self, batch: &[KeyChange], sync: bool) -> Result<(), EngineError> {
        let library = &self.library;
        for change in batch {
            match change {
                KeyChange::Put(key, value) => {
                    // SAFETY: key and value live through the call, which copies them; the handle is open.
                    let status = unsafe {
                        (library.set)(
                            self.store,
                            key.as_ptr().cast(),
                            key.len(),
                            value.as_ptr().cast(),
                            value.len(),
                        )
                    };
                    library.check("fdb_set_kv", status)?;
                }
                KeyChange::Delete(key) => {
                    // SAFETY: the key lives through the call; the handle is open.
                    let status =
                        unsafe { (library.delete)(self.store, key.as_ptr().cast(), key.len()) };
                    library.check("fdb_del_kv", status)?;
                }
                KeyChange::Merge(..) => {
                    return Err(EngineError("ForestDB has no merge".to_owned()));
                }
            }
        }
        self.is_dirty = true;
        if sync || self.always_commit || self.committed.elapsed() >= COMMIT_EVERY {
            self.commit()?;
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError> {
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
            // SAFETY: the library returned a block of that length, which is ours until it is given back below.
            out.extend_from_slice(unsafe {
                std::slice::from_raw_parts(value.cast::<u8>(), length)
            });
            // SAFETY: the block came from the library and is given back once.
            unsafe { (library.free_block)(value) };
        }
        Ok(true)
    }

    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        let library = &self.library;
        let mut iterator = ptr::null_mut();
        let how = ITERATE_NO_DELETES | ITERATE_WITHOUT_MAX;
        // SAFETY: both keys live through the call, which copies them; the out-pointer is valid.
        let status = unsafe {
            (library.iterator_init)(
                self.store,
                &mut iterator,
                from.as_ptr().cast(),
                from.len(),
                end.as_ptr().cast(),
                end.len(),
                how,
            )
        };
        library.check("fdb_iterator_init", status)?;
        let mut status = library::SUCCESS;
        if reverse {
            // SAFETY: the iterator is open.
            status = unsafe { (library.iterator_seek_to_max)(iterator) };
        }
        while status == library::SUCCESS {
            let mut doc: *mut Doc = ptr::null_mut();
            // SAFETY: the iterator is open and the out-pointer valid.
            status = unsafe { (library.iterator_get)(iterator, &mut doc) };
            if status != library::SUCCESS || doc.is_null() {
                break;
            }
            // SAFETY: the library returned a document whose key and body have the lengths that it says.
            let goes_on = unsafe {
                visit(
                    block((*doc).key, (*doc).keylen),
                    block((*doc).body, (*doc).bodylen),
                )
            };
            // SAFETY: the document came from the library and is given back once.
            unsafe { (library.doc_free)(doc) };
            if !goes_on {
                break;
            }
            let step = if reverse {
                library.iterator_prev
            } else {
                library.iterator_next
            };
            // SAFETY: the iterator is open.
            status = unsafe { step(iterator) };
        }
        // SAFETY: the iterator is open and is not used again.
        unsafe { (library.iterator_close)(iterator) };
        // Every other status means that there are no more keys.
        Ok(())
    }
}

/// # Safety
/// `pointer` is null or points to `length` bytes that live for `'a`.
unsafe fn block<'a>(pointer: *mut Opaque, length: usize) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(library: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let address = format!("{}?library={library}", directory.path().display());
        open(EngineOptions::parse(&address).unwrap())
            .err()
            .unwrap()
            .to_string()
    }

    #[test]
    fn an_absent_library_is_one_clear_line() {
        let text = message("libforestdb-that-is-not-there.so");
        assert!(
            text.starts_with("ForestDB's library cannot be opened")
                && text.contains("library=PATH")
                && !text.contains('\n'),
            "{text}"
        );
    }

    #[test]
    fn another_library_is_named_as_such() {
        let text = message("libc.so.6");
        assert!(text.contains("has no function fdb_"), "{text}");
    }

    #[test]
    #[ignore = "needs a real library, named by QUARRY_LAB_FORESTDB"]
    fn keeps_the_promises_of_the_seam() {
        let library = std::env::var("QUARRY_LAB_FORESTDB").unwrap();
        let directory = tempfile::tempdir().unwrap();
        lab_kit::engine::contract::check_with(
            directory.path(),
            &format!("library={library}"),
            &open,
        );
    }
}
