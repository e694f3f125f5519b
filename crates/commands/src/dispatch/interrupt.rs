//! How a running operation is interrupted: by its deadline, by a kill, by a disconnected client, by
//! the memory limit.
//!
//! Promises: loops call [`Interrupt::check`] and stop within one step; the first reason given is
//! the one reported. Must not know: what the operation does, sockets.

use super::progress::Kept;
use crate::clock::Clock;
use crate::state::user_writes::UserWrites;
use memory::Operation;
use model::{ErrorKind, MongoError, Result, bail, code};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::{Registered, Waker};

/// The network's end of a connection, as far as operations may know it.
pub trait Link: Send + Sync {
    /// Ends the connection's wait (see [`crate::Outcome::Wait`]); without one, the next wait ends
    /// at once.
    fn wake(&self);
    /// True when the client is known to have gone.
    fn is_gone(&self) -> bool;
}

const NO_DEADLINE: u64 = u64::MAX;

thread_local! {
    /// The operation that runs on this thread.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

struct Current {
    interrupt: Arc<Interrupt>,
    /// While the thread has made so many commits, the operation has changed nothing that its next
    /// run would not know of, and may be run again; `None` for one that never may.
    runs_again_at: Option<u64>,
    /// What it was set aside for.
    registered: Option<Registered>,
    /// What the store has kept in the run before, and in this one.
    given: Option<Kept>,
    kept: Option<Kept>,
}

/// The operation of this thread, for waits below the command that runs; until dropped.
pub(super) struct Running(());

impl Running {
    /// Makes an operation the one of this thread; with `runs_again` it may be set aside while it
    /// has changed nothing since [`checkpoint`]. `given` is what the store has kept in the run
    /// before.
    pub(super) fn new(
        interrupt: &Arc<Interrupt>,
        runs_again: bool,
        given: Option<Kept>,
    ) -> Running {
        CURRENT.set(Some(Current {
            interrupt: Arc::clone(interrupt),
            runs_again_at: runs_again.then(store::commits_of_thread),
            registered: None,
            given,
            kept: None,
        }));
        Running(())
    }

    /// Ends it; what it was set aside for, if it was, and what the store has kept.
    pub(super) fn end(self) -> (Option<Registered>, Option<Kept>) {
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
pub(crate) fn keep_for_current(what: Kept) {
    CURRENT.with_borrow_mut(|c| {
        if let Some(current) = c {
            current.kept = Some(what);
        }
    });
}

/// What the store has kept in the run before of the operation of this thread; once.
pub(crate) fn kept_for_current() -> Option<Kept> {
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
/// As [`Interrupt::check`].
pub(crate) fn check_current() -> Result<()> {
    let current = CURRENT.with_borrow(|c| c.as_ref().map(|c| Arc::clone(&c.interrupt)));
    current.map_or(Ok(()), |interrupt| interrupt.check())
}

/// What wakes the operation of this thread when it is set aside; `None` when it may not be.
pub(crate) fn waker_of_current() -> Option<Waker> {
    CURRENT.with_borrow(|c| {
        let current = c.as_ref()?;
        let link = Arc::clone(current.interrupt.link()?);
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
/// As [`Interrupt::check_write`].
pub(crate) fn check_write() -> Result<()> {
    CURRENT.with_borrow(|current| match current {
        Some(current) => current.interrupt.check_write(),
        None => Ok(()),
    })
}

/// How one operation is told to stop.
pub struct Interrupt {
    clock: Arc<dyn Clock>,
    link: Option<Arc<dyn Link>>,
    /// Monotonic microseconds.
    deadline_us: AtomicU64,
    /// Nobody needs the result when the client has gone.
    ends_with_client: AtomicBool,
    killed: AtomicBool,
    why: Mutex<Option<MongoError>>,
    /// What the connection's operations hold in memory.
    memory: Arc<Operation>,
    user_writes: Arc<UserWrites>,
    /// A block of user writes is not for this operation.
    passes_block: AtomicBool,
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt")
            .field("killed", &self.killed)
            .field("deadline_us", &self.deadline_us)
            .finish_non_exhaustive()
    }
}

impl Interrupt {
    /// For operations of one connection.
    pub fn new(
        clock: Arc<dyn Clock>,
        link: Option<Arc<dyn Link>>,
        memory: Arc<Operation>,
        user_writes: Arc<UserWrites>,
    ) -> Interrupt {
        Interrupt {
            clock,
            link,
            deadline_us: AtomicU64::new(NO_DEADLINE),
            ends_with_client: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            why: Mutex::new(None),
            memory,
            user_writes,
            passes_block: AtomicBool::new(false),
        }
    }

    /// A new one, or `last` reset when nobody else holds it: operations then cost no
    /// allocation.
    pub(crate) fn renew(last: &mut Arc<Interrupt>) -> Arc<Interrupt> {
        match Arc::get_mut(last) {
            Some(i) => {
                *i.deadline_us.get_mut() = NO_DEADLINE;
                *i.ends_with_client.get_mut() = false;
                *i.passes_block.get_mut() = false;
                if std::mem::take(i.killed.get_mut()) {
                    *i.why.get_mut() = None;
                }
            }
            None => {
                *last = Arc::new(Interrupt::new(
                    Arc::clone(&last.clock),
                    last.link.clone(),
                    Arc::clone(&last.memory),
                    Arc::clone(&last.user_writes),
                ))
            }
        }
        Arc::clone(last)
    }

    /// Ends the operation with 50 after so long.
    pub fn allow_us(&self, us: u64) {
        self.deadline_us.store(
            self.clock.monotonic_us().saturating_add(us),
            Ordering::Release,
        );
    }

    /// What is left until the deadline; `None` without one.
    pub fn left_us(&self) -> Option<u64> {
        match self.deadline_us.load(Ordering::Acquire) {
            NO_DEADLINE => None,
            at => Some(at.saturating_sub(self.clock.monotonic_us())),
        }
    }

    /// Whether the operation ends when its client goes.
    pub fn ends_with_client(&self, yes: bool) {
        self.ends_with_client.store(yes, Ordering::Release);
    }

    /// Lets the operation write while user writes are blocked.
    pub fn pass_block(&self) {
        self.passes_block.store(true, Ordering::Release);
    }

    /// Says whether the operation may write.
    ///
    /// # Errors
    /// 371 UserWritesBlocked.
    ///
    /// # Cost
    /// One load while nothing is blocked.
    pub fn check_write(&self) -> Result<()> {
        match self.user_writes.check() {
            Err(_) if self.passes_block.load(Ordering::Acquire) => Ok(()),
            other => other,
        }
    }

    /// Ends the operation, and its wait when it waits. The first reason counts.
    pub fn kill(&self, why: MongoError) {
        self.why.lock().get_or_insert(why);
        self.killed.store(true, Ordering::Release);
        if let Some(link) = &self.link {
            link.wake();
        }
    }

    /// True when it was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Says whether the operation may go on.
    ///
    /// # Errors
    /// The reason of the kill, 50 MaxTimeMSExpired, 279 ClientDisconnect, 146 ExceededMemoryLimit.
    ///
    /// # Cost
    /// Three loads, two thread-local reads, and a look at the clock when there is a deadline.
    pub fn check(&self) -> Result<()> {
        if self.is_killed() {
            return Err(self.why.lock().clone().unwrap_or_else(interrupted));
        }
        let deadline = self.deadline_us.load(Ordering::Acquire);
        if deadline != NO_DEADLINE && self.clock.monotonic_us() >= deadline {
            bail!(code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit");
        }
        if self.ends_with_client.load(Ordering::Acquire)
            && self.link.as_ref().is_some_and(|l| l.is_gone())
        {
            bail!(
                code::CLIENT_DISCONNECT,
                "operation was interrupted because a client disconnected"
            );
        }
        self.memory.check()
    }

    /// The account of what the operation holds in memory.
    pub(crate) fn memory(&self) -> &Arc<Operation> {
        &self.memory
    }

    /// The connection's other end.
    pub(crate) fn link(&self) -> Option<&Arc<dyn Link>> {
        self.link.as_ref()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn the_first_reason_counts_and_is_forgotten_with_the_operation() {
        let mut i = Arc::new(Interrupt::new(
            Arc::new(SystemClock::default()),
            None,
            Arc::new(Operation::new(Arc::new(memory::Budget::unlimited()))),
            Arc::default(),
        ));
        i.kill(MongoError::new(code::CURSOR_KILLED, "cursor killed"));
        i.kill(interrupted());
        assert_eq!(i.check().unwrap_err().code(), code::CURSOR_KILLED);
        let held = Arc::clone(&i);
        assert!(
            Interrupt::renew(&mut i).check().is_ok() && held.check().is_err(),
            "who still knows the old one keeps it"
        );
        i.allow_us(0);
        assert_eq!(
            (i.check().unwrap_err().code(), i.left_us()),
            (code::MAX_TIME_MS_EXPIRED, Some(0))
        );
        assert!(Interrupt::renew(&mut i).check().is_ok());
    }
}
