//! The use of the engine by one thread: single calls, transactions, walks.

use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use storage::{KeyRange, Result, Table};

use crate::error::AGAIN;
use crate::functions::copy_text;
use crate::pool::{Handle, Pool};

/// A session that this value owns exclusively.
pub(crate) struct Session {
    handle: Handle,
    pool: Arc<Pool>,
    in_transaction: bool,
}

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The transaction was rolled back and has changed nothing.
    Again,
}

type RowVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// The closure that C calls back, and a panic to resume afterwards.
struct ScanCallback<'a> {
    visit: RowVisitor<'a>,
    panic: Option<Box<dyn Any + Send>>,
}

struct StatisticsCallback<'a> {
    emit: &'a mut dyn FnMut(&str, i64),
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn visit(
    with: *mut c_void,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
) -> c_int {
    // SAFETY: `with` is the context that `calling` handed over, which nothing else uses meanwhile.
    let called = unsafe { &mut *with.cast::<ScanCallback<'_>>() };
    // SAFETY: the adapter shows two blocks of these lengths that live through the call.
    let (key, value) = unsafe { (block(key, key_length), block(value, value_length)) };
    match catch_unwind(AssertUnwindSafe(|| (called.visit)(key, value))) {
        Ok(goes_on) => c_int::from(goes_on),
        Err(panic) => {
            called.panic = Some(panic);
            0
        }
    }
}

unsafe extern "C" fn emit(with: *mut c_void, name: *const c_char, value: i64) {
    // SAFETY: as above.
    let emitted = unsafe { &mut *with.cast::<StatisticsCallback<'_>>() };
    // SAFETY: the adapter shows a text that ends with a zero.
    let name = unsafe { copy_text(name) };
    if emitted.panic.is_none() {
        let call = AssertUnwindSafe(|| (emitted.emit)(&name, value));
        emitted.panic = catch_unwind(call).err();
    }
}

/// # Safety
/// There are as many bytes, and they stay as they are.
unsafe fn block<'a>(start: *const c_void, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(start.cast(), length) }
}

/// Calls the adapter with a visitor.
fn call_with_visitor(f: RowVisitor<'_>, call: impl FnOnce(*mut c_void) -> c_int) -> c_int {
    let mut called = ScanCallback {
        visit: f,
        panic: None,
    };
    let status = call((&raw mut called).cast());
    match called.panic {
        Some(panic) => resume_unwind(panic),
        None => status,
    }
}

fn number(table: Table) -> c_int {
    c_int::from(table as u8)
}

impl Session {
    /// Takes a session from a pool; dropping it returns it.
    pub(crate) fn of(pool: &Arc<Pool>) -> Result<Session> {
        Ok(Session {
            handle: pool.take()?,
            pool: Arc::clone(pool),
            in_transaction: false,
        })
    }

    /// Begins a transaction with a fixed view.
    pub(crate) fn begin(&mut self) -> Result<()> {
        // SAFETY: the session is open and this thread's alone; so it is in every call below.
        let status = unsafe { (self.pool.functions.begin)(self.handle.0) };
        self.pool.check("a transaction", status)?;
        self.in_transaction = true;
        Ok(())
    }

    /// Commits; the transaction is over, whatever the result.
    pub(crate) fn commit(&mut self) -> Result<Outcome> {
        self.in_transaction = false;
        // SAFETY: as in `begin`.
        let status = unsafe { (self.pool.functions.commit)(self.handle.0) };
        self.outcome("a commit", status)
    }

    pub(crate) fn rollback(&mut self) {
        if std::mem::take(&mut self.in_transaction) {
            // SAFETY: as in `begin`.
            unsafe { (self.pool.functions.rollback)(self.handle.0) };
        }
    }

    fn outcome(&self, step: &'static str, status: c_int) -> Result<Outcome> {
        if status == AGAIN {
            return Ok(Outcome::Again);
        }
        self.pool.check(step, status).map(|()| Outcome::Done)
    }

    pub(crate) fn put(&self, table: Table, key: &[u8], value: &[u8]) -> Result<Outcome> {
        let put = self.pool.functions.put;
        // SAFETY: as in `begin`; the blocks live through the call.
        let status = unsafe {
            put(
                self.handle.0,
                number(table),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
            )
        };
        self.outcome("a write", status)
    }

    pub(crate) fn delete(&self, table: Table, key: &[u8]) -> Result<Outcome> {
        let delete = self.pool.functions.delete;
        let (start, length) = (key.as_ptr().cast(), key.len());
        // SAFETY: as in `put`.
        let status = unsafe { delete(self.handle.0, number(table), start, length) };
        self.outcome("a write", status)
    }

    pub(crate) fn delete_range(&self, table: Table, range: KeyRange<'_>) -> Result<Outcome> {
        let delete_range = self.pool.functions.delete_range;
        // SAFETY: as in `put`.
        let status = unsafe {
            delete_range(
                self.handle.0,
                number(table),
                range.lower.as_ptr().cast(),
                range.lower.len(),
                range.upper.as_ptr().cast(),
                range.upper.len(),
            )
        };
        self.outcome("a write", status)
    }

    /// Passes the value of a key to `f`. False when there is none.
    pub(crate) fn get(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if key.is_empty() {
            return Ok(false);
        }
        let mut found = false;
        let get = self.pool.functions.get;
        let shown = &mut |_: &[u8], value: &[u8]| {
            found = true;
            f(value);
            true
        };
        let (start, length) = (key.as_ptr().cast(), key.len());
        // SAFETY: as in `put`; the visitor's context lives through the call.
        let status = call_with_visitor(shown, |with| unsafe {
            get(self.handle.0, number(table), start, length, visit, with)
        });
        self.pool.check("a read", status)?;
        Ok(found)
    }

    /// Passes rows to `f` in order until it returns false.
    pub(crate) fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        reverse: bool,
        f: RowVisitor<'_>,
    ) -> Result<()> {
        let scan = self.pool.functions.scan;
        // SAFETY: as in `get`.
        let status = call_with_visitor(f, |with| unsafe {
            scan(
                self.handle.0,
                number(table),
                range.lower.as_ptr().cast(),
                range.lower.len(),
                range.upper.as_ptr().cast(),
                range.upper.len(),
                c_int::from(reverse),
                visit,
                with,
            )
        });
        self.pool.check("a scan", status)
    }

    /// Flushes the log to the device.
    pub(crate) fn flush(&self) -> Result<()> {
        // SAFETY: as in `begin`.
        let status = unsafe { (self.pool.functions.flush)(self.handle.0) };
        self.pool.check("a flush of the log", status)
    }

    pub(crate) fn checkpoint(&self) -> Result<()> {
        // SAFETY: as in `begin`.
        let status = unsafe { (self.pool.functions.checkpoint)(self.handle.0) };
        self.pool.check("a checkpoint", status)
    }

    /// Shortens a table's file for at most about this many seconds; `Again` when more is left to
    /// do.
    pub(crate) fn compact(&self, table: Table, seconds: u8) -> Result<Outcome> {
        let compact = self.pool.functions.compact;
        // SAFETY: as in `begin`.
        let status = unsafe { compact(self.handle.0, number(table), c_int::from(seconds)) };
        self.outcome("a compaction", status)
    }

    /// Reports metrics by the engine's own names.
    pub(crate) fn statistics(
        &self,
        table: Option<Table>,
        f: &mut dyn FnMut(&str, i64),
    ) -> Result<()> {
        let statistics = self.pool.functions.statistics;
        let table = table.map_or(-1, number);
        self.emit_statistics("statistics", f, |with| {
            // SAFETY: as in `get`.
            unsafe { statistics(self.handle.0, table, emit, with) }
        })
    }

    /// Lists the files of a copy, which do not change until `f` returns.
    pub(crate) fn backup(&self, f: &mut dyn FnMut(&[String])) -> Result<()> {
        let backup = self.pool.functions.backup;
        let mut names = Vec::new();
        let mut each = |name: &str, _| match name {
            "" => f(&names),
            name => names.push(name.to_owned()),
        };
        self.emit_statistics("a backup", &mut each, |with| {
            // SAFETY: as in `get`.
            unsafe { backup(self.handle.0, emit, with) }
        })
    }

    fn emit_statistics(
        &self,
        step: &'static str,
        f: &mut dyn FnMut(&str, i64),
        call: impl FnOnce(*mut c_void) -> c_int,
    ) -> Result<()> {
        let mut emitted = StatisticsCallback {
            emit: f,
            panic: None,
        };
        let status = call((&raw mut emitted).cast());
        if let Some(panic) = emitted.panic {
            resume_unwind(panic);
        }
        self.pool.check(step, status)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rollback();
        self.pool.give_back(self.handle);
    }
}
