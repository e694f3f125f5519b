//! The open engine and its sessions: one for each active thread and each view. Idle sessions are
//! kept, because opening one also opens its cursors.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::emulate::DirectoryLock;
use storage::{Result, StorageError};

use crate::error::classify;
use crate::functions::{Functions, Opaque, copy_text};

/// Idle sessions beyond this are closed.
const IDLE_MAX: usize = 64;
/// `QW_SAID_BYTES` of `adapter.h`.
const SAID_BYTES: usize = 1024;

/// A pointer of the adapter.
#[derive(Clone, Copy)]
pub(crate) struct Handle(pub(crate) *mut Opaque);

// SAFETY: WiredTiger's connection may be used by any thread, a session by one at a time: it
// has one owner, and idle ones are used by nobody.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The open engine.
pub(crate) struct Pool {
    pub(crate) functions: Arc<Functions>,
    engine: Handle,
    idle: Mutex<Vec<Handle>>,
    // Released when the engine is closed.
    _lock: DirectoryLock,
}

impl Pool {
    /// Opens the engine; `tables` are names and configurations.
    ///
    /// # Errors
    /// Those of WiredTiger.
    pub(crate) fn open(
        functions: Arc<Functions>,
        directory: &Path,
        connection: &str,
        tables: &[(&str, String)],
        read_only: bool,
        lock: DirectoryLock,
    ) -> Result<Arc<Pool>> {
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|e| StorageError::io("a path with a zero in it", e))
        };
        let directory = text(directory.as_os_str().as_bytes())?;
        let connection = text(connection.as_bytes())?;
        let mut words = Vec::new();
        for (name, config) in tables {
            words.push(text(name.as_bytes())?);
            words.push(text(config.as_bytes())?);
        }
        let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(ptr::null());
        let (mut engine, mut said) = (ptr::null_mut(), [0u8; SAID_BYTES]);
        // SAFETY: the texts end with a zero, the list with a null pointer, and all live through the
        // call; the buffer has the length given.
        let status = unsafe {
            (functions.open)(
                directory.as_ptr(),
                connection.as_ptr(),
                pointers.as_ptr(),
                c_int::from(read_only),
                &mut engine,
                said.as_mut_ptr().cast(),
                said.len(),
            )
        };
        if status != 0 {
            // SAFETY: the buffer begins as zeros, and the adapter ends what it writes with one.
            let said = unsafe { copy_text(said.as_ptr().cast()) };
            let words = match said.is_empty() {
                true => functions.words(status),
                false => said,
            };
            return Err(classify("opening", status, &words));
        }
        Ok(Arc::new(Pool {
            functions,
            engine: Handle(engine),
            idle: Mutex::default(),
            _lock: lock,
        }))
    }

    /// A session for exclusive use until it is returned.
    ///
    /// # Errors
    /// [`StorageError::Busy`] when all are taken.
    pub(crate) fn take(&self) -> Result<Handle> {
        if let Some(handle) = self.idle.lock().pop() {
            return Ok(handle);
        }
        let mut handle = ptr::null_mut();
        // SAFETY: the engine is open as long as the pool lives.
        let status = unsafe { (self.functions.session_open)(self.engine.0, &mut handle) };
        match status {
            0 => Ok(Handle(handle)),
            _ => Err(StorageError::Busy("every session is taken".to_owned())),
        }
    }

    pub(crate) fn give_back(&self, handle: Handle) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(handle);
            return;
        }
        drop(idle);
        // SAFETY: whoever gives a session back does not use it again.
        unsafe { (self.functions.session_close)(handle.0) };
    }

    /// Converts the result of a call.
    pub(crate) fn check(&self, step: &'static str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let mut said = [0u8; SAID_BYTES];
        // SAFETY: the engine is open, the buffer has the length given.
        unsafe { (self.functions.said)(self.engine.0, said.as_mut_ptr().cast(), said.len()) };
        // SAFETY: the adapter ends what it writes with a zero.
        let said = unsafe { copy_text(said.as_ptr().cast()) };
        let words = self.functions.words(status);
        Err(classify(step, status, &format!("{words}: {said}")))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for handle in self.idle.get_mut().drain(..) {
            // SAFETY: an idle session is used by nobody.
            unsafe { (self.functions.session_close)(handle.0) };
        }
        // SAFETY: each session holds the pool, so none is left.
        unsafe { (self.functions.close)(self.engine.0) };
    }
}
