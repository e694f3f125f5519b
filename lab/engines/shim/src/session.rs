//! One thread's use of an engine through its adapter.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use lab_kit::engine::{Durability, EngineError, EngineSession, KeyChange, RowVisitor};

use crate::functions::{AGAIN, Opaque};
use crate::shared::Shared;
use crate::spec::Statistics;

/// The number of attempts after which a transaction that always loses conflicts is an error.
const TRIES: u32 = 200;
const PAUSE_MAX: Duration = Duration::from_millis(20);

pub(crate) struct Session {
    shared: Arc<Shared>,
    handle: *mut Opaque,
}

// SAFETY: a session may move between threads as long as only one thread at a time uses it; it is
// owned by one client.
unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the handle is open and is not used again.
        unsafe { (self.shared.functions.session_close)(self.handle) };
    }
}

/// A visitor that C code calls, and the panic to resume afterwards.
struct Visitor<'a, 'b> {
    visit: RowVisitor<'a>,
    panic: &'b mut Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn visit(
    with: *mut c_void,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
) -> c_int {
    // SAFETY: `with` is the context that `visit_all` passed, and nothing else uses it during the
    // call.
    let visitor = unsafe { &mut *with.cast::<Visitor<'_, '_>>() };
    // SAFETY: the adapter guarantees two blocks of these lengths that live through the call.
    let (key, value) = unsafe { (block(key, key_length), block(value, value_length)) };
    match catch_unwind(AssertUnwindSafe(|| (visitor.visit)(key, value))) {
        Ok(goes_on) => c_int::from(goes_on),
        Err(panic) => {
            *visitor.panic = Some(panic);
            0
        }
    }
}

unsafe extern "C" fn emit(with: *mut c_void, name: *const c_char, value: f64) {
    // SAFETY: `with` is the map that `statistics` passed; the name ends with a zero and lives
    // through the call.
    let (out, name) = unsafe { (&mut *with.cast::<Statistics>(), CStr::from_ptr(name)) };
    out.insert(name.to_string_lossy().into_owned(), value);
}

/// # Safety
/// `pointer` points to `length` bytes that live for `'a`, or `length` is zero.
unsafe fn block<'a>(pointer: *const c_void, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees this.
    unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) }
}

impl Session {
    pub(crate) fn open(shared: Arc<Shared>) -> Result<Self, EngineError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the engine is open as long as `shared` lives; the out-pointer is valid and used
        // only if the call succeeds.
        let status = unsafe { (shared.functions.session_open)(shared.handle, &mut handle) };
        if status != 0 {
            return Err(EngineError(format!(
                "a session: {}",
                shared.functions.text(status)
            )));
        }
        Ok(Self { shared, handle })
    }

    fn check_status(&self, what: &str, status: c_int) -> Result<(), EngineError> {
        match status {
            0 => Ok(()),
            _ => Err(EngineError(format!(
                "{what}: {}",
                self.shared.functions.text(status)
            ))),
        }
    }

    pub(crate) fn checkpoint(&self) -> Result<(), EngineError> {
        // SAFETY: the handle is open.
        self.check_status("a checkpoint", unsafe {
            (self.shared.functions.checkpoint)(self.handle)
        })
    }

    pub(crate) fn statistics(&self) -> Result<Statistics, EngineError> {
        let mut out = Statistics::new();
        // SAFETY: the handle is open; the map lives through the call, and only `emit` uses it.
        let status =
            unsafe { (self.shared.functions.statistics)(self.handle, emit, (&raw mut out).cast()) };
        self.check_status("statistics", status).map(|()| out)
    }

    /// Syncs commits to storage. The next synced commit reports a failed flush.
    pub(crate) fn flush(&self) {
        // SAFETY: the handle is open.
        unsafe { (self.shared.functions.flush)(self.handle) };
    }

    /// Makes one attempt; returns the status and the name of the call that returned it.
    fn transact(
        &self,
        batch: &[KeyChange],
        sync: bool,
    ) -> Result<(&'static str, c_int), EngineError> {
        let functions = &self.shared.functions;
        // SAFETY: the handle is open.
        let begun = unsafe { (functions.begin)(self.handle) };
        if begun != 0 {
            return Ok(("to begin a transaction", begun));
        }
        for change in batch {
            let status = match change {
                // SAFETY: the handle is open; key and value live through the call, which copies
                // them.
                KeyChange::Put(key, value) => unsafe {
                    (functions.put)(
                        self.handle,
                        key.as_ptr().cast(),
                        key.len(),
                        value.as_ptr().cast(),
                        value.len(),
                    )
                },
                // SAFETY: the handle is open; the key lives through the call.
                KeyChange::Delete(key) => unsafe {
                    (functions.delete)(self.handle, key.as_ptr().cast(), key.len())
                },
                KeyChange::Merge(..) => {
                    // SAFETY: the handle is open and in a transaction.
                    unsafe { (functions.rollback)(self.handle) };
                    return Err(EngineError("the engine has no merge".to_owned()));
                }
            };
            if status != 0 {
                // SAFETY: the handle is open and in a transaction.
                unsafe { (functions.rollback)(self.handle) };
                return Ok(("a write", status));
            }
        }
        // SAFETY: the handle is open and in a transaction, which ends here.
        Ok(("a commit", unsafe {
            (functions.commit)(self.handle, c_int::from(sync))
        }))
    }

    fn visit_all(
        &self,
        what: &str,
        visitor: RowVisitor<'_>,
        call: impl FnOnce(*mut c_void) -> c_int,
    ) -> Result<(), EngineError> {
        let mut panic = None;
        let mut context = Visitor {
            visit: visitor,
            panic: &mut panic,
        };
        let status = call((&raw mut context).cast());
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        self.check_status(what, status)
    }
}

impl EngineSession for Session {
    fn write(&mut self, batch: &[KeyChange], sync: bool) -> Result<(), EngineError> {
        let spec = &self.shared.spec;
        let is_durable = sync || spec.durability == Durability::Sync;
        for attempt in 0..TRIES {
            let (what, status) = self.transact(batch, is_durable && spec.has_log)?;
            if status != AGAIN {
                self.check_status(what, status)?;
                return if is_durable && !spec.has_log {
                    self.checkpoint()
                } else {
                    Ok(())
                };
            }
            std::thread::sleep(Duration::from_micros(50 << attempt.min(10)).min(PAUSE_MAX));
        }
        self.check_status("a transaction", AGAIN)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError> {
        let mut is_there = false;
        let mut copy = |_: &[u8], value: &[u8]| {
            out.clear();
            out.extend_from_slice(value);
            is_there = true;
            false
        };
        // SAFETY: the handle is open; the key and the context live through the call.
        self.visit_all("a read", &mut copy, |context| unsafe {
            (self.shared.functions.get)(self.handle, key.as_ptr().cast(), key.len(), visit, context)
        })?;
        Ok(is_there)
    }

    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visitor: RowVisitor<'_>,
    ) -> Result<(), EngineError> {
        let functions = &self.shared.functions;
        let (first, last) = (
            (from.as_ptr().cast(), from.len()),
            (end.as_ptr().cast(), end.len()),
        );
        // SAFETY: the handle is open; both keys and the context live through the call.
        self.visit_all("a scan", visitor, |context| unsafe {
            (functions.scan)(
                self.handle,
                first.0,
                first.1,
                last.0,
                last.1,
                c_int::from(reverse),
                visit,
                context,
            )
        })
    }
}
