//! One operation: how it is interrupted (by its deadline, by a kill, by a disconnected client, by
//! the memory limit), the account of its memory, what it has read and written.
//!
//! Promises: loops call [`Operation::check`] and stop within one step; the first reason given is
//! the one reported; it may be shared by threads that work for it. Must not know: what it does,
//! sockets.

use crate::clock::Clock;
use crate::progress::Progress;
use crate::reads::Reads;
use crate::writes::Writes;
use memory::{Account, Attached, Budget};
use model::{MongoError, Result, bail, code};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The network's end of a connection, as far as operations may know it.
pub trait Link: Send + Sync {
    /// Ends the connection's wait for data or for its turn; without one, the next wait ends
    /// at once.
    fn wake(&self);
    /// True when the client is known to have gone.
    fn is_gone(&self) -> bool;
}

/// Whether operations of users may write now.
pub trait WriteGate: Send + Sync {
    /// Lets a write pass.
    ///
    /// # Errors
    /// 371 UserWritesBlocked.
    fn check(&self) -> Result<()>;
}

/// Lets every write pass.
struct Open;

impl WriteGate for Open {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

const NO_DEADLINE: u64 = u64::MAX;

/// The number of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionId(pub i64);

impl ConnectionId {
    /// Of work that no connection has asked for.
    pub const NONE: ConnectionId = ConnectionId(0);
}

/// One operation of a connection.
pub struct Operation {
    clock: Arc<dyn Clock>,
    link: Option<Arc<dyn Link>>,
    connection: ConnectionId,
    /// Monotonic microseconds.
    deadline_us: AtomicU64,
    /// Nobody needs the result when the client has gone.
    ends_with_client: AtomicBool,
    killed: AtomicBool,
    why: Mutex<Option<MongoError>>,
    /// What the connection's operations hold in memory.
    memory: Arc<Account>,
    user_writes: Arc<dyn WriteGate>,
    /// A block of user writes is not for this operation.
    passes_block: AtomicBool,
    reads: Reads,
    writes: Writes,
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
    /// For the operations of one connection.
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
            reads: Reads::default(),
            writes: Writes::default(),
            progress: Mutex::new(None),
        }
    }

    /// The same for a connection of this number.
    #[must_use]
    pub fn of_connection(self, connection: ConnectionId) -> Operation {
        Operation { connection, ..self }
    }

    /// An operation of no connection: nothing bounds its memory, and it may write.
    pub fn detached(clock: Arc<dyn Clock>) -> Operation {
        let memory = Account::new(Arc::new(Budget::unlimited()));
        Operation::new(clock, None, Arc::new(memory), Arc::new(Open))
    }

    /// A new one, or `last` reset when nobody else holds it: operations then cost no
    /// allocation.
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

    /// Whose it is.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Says how far it has come.
    pub fn set_progress(&self, progress: Option<Progress>) {
        *self.progress.lock() = progress;
    }

    /// How far it has come, of one that says so.
    pub fn progress(&self) -> Option<Progress> {
        *self.progress.lock()
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

    /// The account of what the operation holds in memory.
    pub fn memory(&self) -> &Arc<Account> {
        &self.memory
    }

    /// The connection's other end.
    pub fn link(&self) -> Option<&Arc<dyn Link>> {
        self.link.as_ref()
    }

    /// What it has read.
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// What it has written and waited for.
    pub fn writes(&self) -> &Writes {
        &self.writes
    }

    /// Whom to wake when what it waits for is released; `None` when it has to wait on its thread,
    /// as it must once it has changed something that its next run would not know of.
    pub fn waits_without_thread(&self) -> Option<&Arc<dyn Link>> {
        self.link.as_ref().filter(|_| self.writes.may_run_again())
    }

    /// Lets another thread work for the operation until the guard is dropped: what it allocates is
    /// charged to the operation, what it reads is counted there.
    pub fn join(&self) -> Attached<'_> {
        self.memory.join()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn the_first_reason_counts_and_is_forgotten_with_the_operation() {
        let mut i = Arc::new(Operation::detached(Arc::new(SystemClock::default())));
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
            (i.check().unwrap_err().code(), i.left_us()),
            (code::MAX_TIME_MS_EXPIRED, Some(0))
        );
        assert!(Operation::renew(&mut i).check().is_ok());
    }
}
