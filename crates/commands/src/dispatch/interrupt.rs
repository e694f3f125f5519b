//! The operation of a thread, for what the store asks in the middle of a write: whether it may go
//! on, whether it may be set aside. Must not know: what the operation does, sockets.

use super::progress::StoreProgress;
use model::{ErrorKind, MongoError, Result, code};
use operation::Operation;
use std::cell::RefCell;
use std::sync::Arc;
use store::{Registered, Waker};

thread_local! {
    /// The operation that runs on this thread.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

struct Current {
    operation: Arc<Operation>,
    /// While the thread has made so many commits, the operation has changed nothing that its next
    /// run would not know of, and may be run again; `None` for one that never may.
    runs_again_at: Option<u64>,
    /// What it was set aside for.
    registered: Option<Registered>,
    /// What the store has kept in the run before, and in this one.
    given: Option<StoreProgress>,
    kept: Option<StoreProgress>,
}

/// The operation of this thread, for waits below the command that runs; until dropped.
pub(super) struct Running(());

impl Running {
    /// Makes an operation the one of this thread; with `runs_again` it may be set aside while it
    /// has changed nothing since [`checkpoint`]. `given` is what the store has kept in the run
    /// before.
    pub(super) fn new(
        operation: &Arc<Operation>,
        runs_again: bool,
        given: Option<StoreProgress>,
    ) -> Running {
        CURRENT.set(Some(Current {
            operation: Arc::clone(operation),
            runs_again_at: runs_again.then(store::commits_of_thread),
            registered: None,
            given,
            kept: None,
        }));
        Running(())
    }

    /// Ends it; what it was set aside for, if it was, and what the store has kept.
    pub(super) fn end(self) -> (Option<Registered>, Option<StoreProgress>) {
        CURRENT.with_borrow_mut(|c| match c {
            Some(c) => (c.registered.take(), c.kept.take()),
            None => (None, None),
        })
    }
}

/// All that the operation of this thread has changed so far is in what its next run is given, so it
/// may be set aside from here on.
pub(crate) fn checkpoint() {
    CURRENT.with_borrow_mut(|c| {
        if let Some(at) = c.as_mut().and_then(|c| c.runs_again_at.as_mut()) {
            *at = store::commits_of_thread();
        }
    });
}

/// Keeps what the store needs when the operation of this thread is run again.
pub(crate) fn keep_for_current(what: StoreProgress) {
    CURRENT.with_borrow_mut(|c| {
        if let Some(current) = c {
            current.kept = Some(what);
        }
    });
}

/// What the store has kept in the run before of the operation of this thread; once.
pub(crate) fn kept_for_current() -> Option<StoreProgress> {
    CURRENT.with_borrow_mut(|c| c.as_mut().and_then(|c| c.given.take()))
}

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Whether the operation of this thread may go on; always so on threads without one.
///
/// # Errors
/// As [`Operation::check`].
pub(crate) fn check_current() -> Result<()> {
    let current = CURRENT.with_borrow(|c| c.as_ref().map(|c| Arc::clone(&c.operation)));
    current.map_or(Ok(()), |operation| operation.check())
}

/// What wakes the operation of this thread when it is set aside; `None` when it may not be.
pub(crate) fn waker_of_current() -> Option<Waker> {
    CURRENT.with_borrow(|c| {
        let current = c.as_ref()?;
        let link = Arc::clone(current.operation.link()?);
        (current.runs_again_at == Some(store::commits_of_thread()))
            .then(|| -> Waker { Arc::new(move || link.wake()) })
    })
}

/// Keeps what the operation of this thread was set aside for.
pub(crate) fn set_current_aside(registered: Registered) {
    CURRENT.with_borrow_mut(|c| {
        if let Some(current) = c {
            current.registered = Some(registered);
        }
    });
}

/// Whether the operation of this thread may write; always so on threads without one.
///
/// # Errors
/// As [`Operation::check_write`].
pub(crate) fn check_write() -> Result<()> {
    CURRENT.with_borrow(|current| match current {
        Some(current) => current.operation.check_write(),
        None => Ok(()),
    })
}

/// True for errors that end a whole command, also one of many writes.
pub(crate) fn is_interruption(e: &MongoError) -> bool {
    // What was set aside ends as a whole, too: it is run again as a whole.
    e.is(ErrorKind::SetAside)
        || matches!(
            e.code(),
            code::MAX_TIME_MS_EXPIRED
                | code::INTERRUPTED
                | code::INTERRUPTED_AT_SHUTDOWN
                | code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE
                | code::CURSOR_KILLED
                | code::CLIENT_DISCONNECT
        )
}

/// 11601, as `killOp` and the end of a session cause it.
pub(crate) fn interrupted() -> MongoError {
    MongoError::new(code::INTERRUPTED, "operation was interrupted")
}
