//! One operation: how it is interrupted (by its deadline, by a kill, by a disconnected client, by
//! the memory limit), the account of its memory, and the counters of its reads and writes.
//!
//! Promises: loops call [`Operation::check`] and stop within one step; when several reasons end an
//! operation, the first one is reported; threads that work for the operation may share it. Must not
//! know: what the operation does, sockets.

use crate::clock::Clock;
use crate::progress::Progress;
use crate::reads::ReadCounters;
use crate::writes::WriteCounters;
use memory::{Account, Attachment, Budget};
use model::{MongoError, Result, bail, code};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What operations may know of the network connection of their client.
pub trait Link: Send + Sync {
    /// Ends the connection's wait for data or for its turn. When the connection does not wait, its
    /// next wait ends at once.
    fn wake(&self);
    /// True when the client is known to have disconnected.
    fn is_gone(&self) -> bool;
}

/// Decides whether operations of users may write now.
pub trait WriteGate: Send + Sync {
    /// Checks that a write is allowed.
    ///
    /// # Errors
    /// 371 UserWritesBlocked.
    fn check(&self) -> Result<()>;
}

/// Allows every write.
struct UnlimitedWrites;

impl WriteGate for UnlimitedWrites {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

const NO_DEADLINE: u64 = u64::MAX;

/// The number of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionId(pub i64);

impl ConnectionId {
    /// Operations that no connection has asked for.
    pub const NONE: ConnectionId = ConnectionId(0);
}

/// One operation of a connection.
pub struct Operation {
    clock: Arc<dyn Clock>,
    link: Option<Arc<dyn Link>>,
    connection: ConnectionId,
    /// The deadline in monotonic microseconds.
    deadline_us: AtomicU64,
    /// The operation ends when its client disconnects, because nobody needs its result then.
    ends_with_client: AtomicBool,
    killed: AtomicBool,
    why: Mutex<Option<MongoError>>,
    /// The memory that the connection's operations hold.
    memory: Arc<Account>,
    user_writes: Arc<dyn WriteGate>,
    /// The operation may write although user writes are blocked.
    passes_block: AtomicBool,
    reads: ReadCounters,
    writes: WriteCounters,
    /// The state at its beginning; 0 when no unit may begin there.
    moment: AtomicU64,
    /// A hash of the announcements that are expected of the moment; 0 once they were compared.
    expected: AtomicU64,
    /// They were others.
    is_outdated: AtomicBool,
    progress: Mutex<Option<Progress>>,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation")
            .field("killed", &self.killed)
            .field("deadline_us", &self.deadline_us)
            .finish_non_exhaustive()
    }
}

impl Operation {
    /// Creates the operation of a connection.
    pub fn new(
        clock: Arc<dyn Clock>,
        link: Option<Arc<dyn Link>>,
        memory: Arc<Account>,
        user_writes: Arc<dyn WriteGate>,
    ) -> Operation {
        Operation {
            clock,
            link,
            connection: ConnectionId::NONE,
            deadline_us: AtomicU64::new(NO_DEADLINE),
            ends_with_client: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            why: Mutex::new(None),
            memory,
            user_writes,
            passes_block: AtomicBool::new(false),
            reads: ReadCounters::default(),
            moment: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            is_outdated: AtomicBool::new(false),
            writes: WriteCounters::default(),
            progress: Mutex::new(None),
        }
    }

    /// The same operation, for the connection with this number.
    #[must_use]
    pub fn of_connection(self, connection: ConnectionId) -> Operation {
        Operation { connection, ..self }
    }

    /// An operation without a connection: its memory is unlimited, and it may write.
    pub fn new_detached(clock: Arc<dyn Clock>) -> Operation {
        let memory = Account::new(Arc::new(Budget::unlimited()));
        Operation::new(clock, None, Arc::new(memory), Arc::new(UnlimitedWrites))
    }

    /// The next operation of a connection. Resets and reuses `last` when nobody else holds it,
    /// which saves an allocation; creates a new one otherwise.
    pub fn renew(last: &mut Arc<Operation>) -> Arc<Operation> {
        match Arc::get_mut(last) {
            Some(i) => {
                *i.deadline_us.get_mut() = NO_DEADLINE;
                *i.ends_with_client.get_mut() = false;
                *i.passes_block.get_mut() = false;
                *i.progress.get_mut() = None;
                if std::mem::take(i.killed.get_mut()) {
                    *i.why.get_mut() = None;
                }
            }
            None => {
                let next = Operation::new(
                    Arc::clone(&last.clock),
                    last.link.clone(),
                    Arc::clone(&last.memory),
                    Arc::clone(&last.user_writes),
                );
                *last = Arc::new(Operation {
                    connection: last.connection,
                    writes: last.writes.of_next(),
                    ..next
                });
            }
        }
        Arc::clone(last)
    }

    /// The connection that the operation belongs to.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Reports the progress of the operation.
    pub fn set_progress(&self, progress: Option<Progress>) {
        *self.progress.lock() = progress;
    }

    /// The progress of the operation, if it reports any.
    pub fn progress(&self) -> Option<Progress> {
        *self.progress.lock()
    }

    /// Sets a deadline this many microseconds from now; after it the operation ends with 50.
    pub fn allow_us(&self, us: u64) {
        self.deadline_us.store(
            self.clock.monotonic_us().saturating_add(us),
            Ordering::Release,
        );
    }

    /// Microseconds until the deadline; `None` without a deadline.
    pub fn remaining_us(&self) -> Option<u64> {
        match self.deadline_us.load(Ordering::Acquire) {
            NO_DEADLINE => None,
            at => Some(at.saturating_sub(self.clock.monotonic_us())),
        }
    }

    /// Sets whether the operation ends when its client disconnects.
    pub fn ends_with_client(&self, yes: bool) {
        self.ends_with_client.store(yes, Ordering::Release);
    }

    /// Lets the operation write while user writes are blocked.
    pub fn pass_block(&self) {
        self.passes_block.store(true, Ordering::Release);
    }

    /// Checks that the operation may write.
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

    /// Ends the operation, and wakes it when it waits. When it is killed more than once, the first
    /// reason is reported.
    pub fn kill(&self, why: MongoError) {
        self.why.lock().get_or_insert(why);
        self.killed.store(true, Ordering::Release);
        if let Some(link) = &self.link {
            link.wake();
        }
    }

    /// True when the operation was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Checks that the operation may continue.
    ///
    /// # Errors
    /// The reason of the kill, 50 MaxTimeMSExpired, 279 ClientDisconnect, 146 ExceededMemoryLimit.
    ///
    /// # Cost
    /// Three loads, two thread-local reads, and a read of the clock when there is a deadline.
    pub fn check(&self) -> Result<()> {
        if self.is_killed() {
            return Err(self.why.lock().clone().unwrap_or_else(|| {
                MongoError::new(code::INTERRUPTED, "operation was interrupted")
            }));
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

    /// The account of the memory that the operation holds.
    pub fn memory(&self) -> &Arc<Account> {
        &self.memory
    }

    /// The connection of the client.
    pub fn link(&self) -> Option<&Arc<dyn Link>> {
        self.link.as_ref()
    }

    /// Sets the position of the state at which its first unit may begin; 0 for none.
    pub fn set_moment(&self, pos: u64) {
        self.moment.store(pos, Ordering::Relaxed);
    }

    /// Sets a hash of the announcements that are expected of the moment; 0 when they were compared.
    pub fn expect(&self, announced: u64) {
        self.expected.store(announced, Ordering::Relaxed);
        self.is_outdated.store(false, Ordering::Relaxed);
    }

    /// Compares the expected announcements with those of the operation's first unit. False when
    /// they differ: then nothing may be written, and the operation has to run again.
    pub fn confirm(&self, announced: u64) -> bool {
        match self.expected.load(Ordering::Relaxed) {
            0 => true,
            expected if expected == announced => {
                self.expected.store(0, Ordering::Relaxed);
                true
            }
            _ => {
                self.is_outdated.store(true, Ordering::Relaxed);
                false
            }
        }
    }

    /// Whether [`Operation::confirm`] has returned false.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }

    /// The position of the state at which a unit may begin, once; 0 afterwards.
    pub fn take_moment(&self) -> u64 {
        self.moment.swap(0, Ordering::Relaxed)
    }

    /// The counters of what the operation has read.
    pub fn reads(&self) -> &ReadCounters {
        &self.reads
    }

    /// The counters of what the operation has written and how long it has waited.
    pub fn writes(&self) -> &WriteCounters {
        &self.writes
    }

    /// The link to wake when the lock that the operation waits for is released. `None` when the
    /// operation has to wait on its thread, because it has changed something that its next run
    /// would not know of.
    pub fn waits_without_thread(&self) -> Option<&Arc<dyn Link>> {
        self.link.as_ref().filter(|_| self.writes.may_run_again())
    }

    /// Lets another thread work for the operation until the guard is dropped: the memory that the
    /// thread allocates is charged to the operation.
    pub fn join(&self) -> Attachment<'_> {
        self.memory.join()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn the_first_reason_counts_and_is_forgotten_with_the_operation() {
        let mut i = Arc::new(Operation::new_detached(Arc::new(SystemClock::default())));
        i.kill(MongoError::new(code::CURSOR_KILLED, "cursor killed"));
        i.kill(MongoError::new(
            code::INTERRUPTED,
            "operation was interrupted",
        ));
        assert_eq!(i.check().unwrap_err().code(), code::CURSOR_KILLED);
        let held = Arc::clone(&i);
        assert!(
            Operation::renew(&mut i).check().is_ok() && held.check().is_err(),
            "who still knows the old one keeps it"
        );
        i.allow_us(0);
        assert_eq!(
            (i.check().unwrap_err().code(), i.remaining_us()),
            (code::MAX_TIME_MS_EXPIRED, Some(0))
        );
        assert!(Operation::renew(&mut i).check().is_ok());
    }
}
