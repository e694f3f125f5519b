//! Memory for operations on large documents: how much the running ones may need together. The
//! account of an operation (`memory`) charges memory only once it is allocated, but a document of
//! 16 MB exists several times before that is checked: as read, as changed, in the batch and in the
//! engine's copy of the batch. So these operations wait here, in order, until the memory that they
//! may need is free.
//!
//! The memory of messages and replies that are still to be sent counts too: a client that reads
//! slowly delays other operations by a second each, but does not block them.
//!
//! Promises: one operation always runs, however much it needs; an operation that waits for long
//! holds nothing; operations on small documents never wait here. Must not know: what an operation
//! does.

use memory::Budget;
use model::{MongoError, Result, code};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a waiting operation checks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(20);
/// How long the first operation waits for the memory of messages and replies when no other
/// operation runs.
const ALONE: Duration = Duration::from_secs(1);

/// The memory for operations on large documents.
pub struct LargeBudget {
    bytes: usize,
    /// The memory of all operations, messages and replies.
    memory: Arc<Budget>,
    state: Mutex<BudgetState>,
    freed: Condvar,
}

#[derive(Default)]
struct BudgetState {
    bytes: usize,
    next: u64,
    waiting: VecDeque<u64>,
    waited: u64,
    refused: u64,
}

/// What happens when an operation gets no room in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    /// The operation is refused.
    Refused,
    /// The operation begins without room, because others may wait for its locks; the memory that it
    /// may need is counted all the same.
    Begins,
}

/// Reserved room, returned when dropped.
pub struct Part<'r> {
    room: &'r LargeBudget,
    bytes: usize,
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.room.state.lock().bytes -= self.bytes;
        self.room.freed.notify_all();
    }
}

/// Figures of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomMetrics {
    /// Size of the room.
    pub bytes: usize,
    /// Bytes reserved by running operations.
    pub taken_bytes: usize,
    /// Operations that wait now.
    pub waiting: usize,
    /// Operations that had to wait.
    pub waited: u64,
    /// Operations that waited for too long.
    pub refused: u64,
}

impl LargeBudget {
    /// Half of this memory; the rest is for messages, cursors and operations on small documents.
    pub fn new(memory: &Arc<Budget>) -> LargeBudget {
        LargeBudget {
            bytes: memory.stats().limit_bytes / 2,
            memory: Arc::clone(memory),
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Waits on this thread for room for an operation that may need `bytes`, at most for
    /// `patience`. `check` fails when the operation is interrupted.
    ///
    /// # Errors
    /// That of `check`; 146 ExceededMemoryLimit when there was no room in time and `on_timeout` is
    /// [`OnTimeout::Refused`].
    pub fn take(
        &self,
        bytes: usize,
        patience: Duration,
        on_timeout: OnTimeout,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Part<'_>> {
        let bytes = bytes.min(self.bytes);
        let mut state = self.state.lock();
        if !state.waiting.is_empty() || !self.fits(state.bytes, bytes) {
            let number = state.next;
            state.next += 1;
            state.waited += 1;
            state.waiting.push_back(number);
            let begun = Instant::now();
            let may_run = loop {
                let is_first = state.waiting.front() == Some(&number);
                let is_alone = state.bytes == 0 && begun.elapsed() >= ALONE.min(patience);
                if is_first && (is_alone || self.fits(state.bytes, bytes)) {
                    break Ok(());
                }
                if begun.elapsed() >= patience {
                    if on_timeout == OnTimeout::Begins {
                        break Ok(());
                    }
                    state.refused += 1;
                    break Err(self.refusal(bytes, state.bytes, patience));
                }
                self.freed.wait_for(&mut state, LOOK);
                if let Err(e) = check() {
                    break Err(e);
                }
            };
            state.waiting.retain(|n| *n != number);
            // The next operation may fit as well.
            self.freed.notify_all();
            may_run?;
        }
        state.bytes += bytes;
        Ok(Part { room: self, bytes })
    }

    /// Whether `bytes` fit beside the reserved room and beside the memory in use, with an eighth of
    /// the memory left for operations on small documents.
    fn fits(&self, taken: usize, bytes: usize) -> bool {
        let memory = self.memory.stats();
        let free = (memory.limit_bytes / 8 * 7).saturating_sub(memory.used_bytes);
        taken + bytes <= self.bytes && bytes <= free
    }

    fn refusal(&self, bytes: usize, taken: usize, patience: Duration) -> MongoError {
        MongoError::new(
            code::EXCEEDED_MEMORY_LIMIT,
            format!(
                "the server is short of memory: an operation on documents this large may need \
                 {bytes} bytes, others take {taken} of {} and did not end within {} s; try again \
                 later or start it with more --memory",
                self.bytes,
                patience.as_secs()
            ),
        )
    }

    /// The figures of the room.
    pub fn metrics(&self) -> RoomMetrics {
        let state = self.state.lock();
        RoomMetrics {
            bytes: self.bytes,
            taken_bytes: state.bytes,
            waiting: state.waiting.len(),
            waited: state.waited,
            refused: state.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LONG: Duration = Duration::from_secs(20);

    fn of(bytes: usize) -> LargeBudget {
        LargeBudget::new(&Arc::new(Budget::new(2 * bytes, 2 * bytes)))
    }

    fn ok() -> Result<()> {
        Ok(())
    }

    #[test]
    fn operations_run_within_the_limit_and_all_complete() {
        let room = of(100);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for n in 0..30 {
                let (room, now, most) = (&room, &now, &most);
                scope.spawn(move || {
                    let bytes = if n % 3 == 0 { 90 } else { 30 };
                    let part = room.take(bytes, LONG, OnTimeout::Refused, &ok).unwrap();
                    let all = now.fetch_add(bytes, Ordering::SeqCst) + bytes;
                    most.fetch_max(all, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(2));
                    now.fetch_sub(bytes, Ordering::SeqCst);
                    drop(part);
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 100, "{most:?}");
        let metrics = room.metrics();
        assert_eq!((metrics.taken_bytes, metrics.waiting), (0, 0));
        // An operation that needs more than the size of the room runs alone.
        drop(room.take(1000, LONG, OnTimeout::Refused, &ok).unwrap());
    }

    #[test]
    fn memory_held_by_messages_delays_operations_only_for_a_time() {
        let memory = Arc::new(Budget::new(200, 200));
        let room = LargeBudget::new(&memory);
        let message = memory.charge();
        message.set(150);
        let begun = Instant::now();
        drop(room.take(80, LONG, OnTimeout::Refused, &ok).unwrap());
        assert!(begun.elapsed() >= ALONE, "there was no memory for it");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                room.take(80, LONG, OnTimeout::Refused, &ok)
                    .map(|_| begun.elapsed())
            });
            message.set(0);
            assert!(waits.join().is_ok_and(|took| took.is_ok()));
        });
    }

    #[test]
    fn interrupted_and_late_waiters_leave_the_queue() {
        let room = of(100);
        let held = room.take(80, LONG, OnTimeout::Refused, &ok).unwrap();
        let killed = room.take(50, LONG, OnTimeout::Refused, &|| {
            Err(MongoError::new(11_601, "killed"))
        });
        assert_eq!(killed.err().map(|e| e.code()), Some(11_601));
        let late = room.take(50, Duration::ZERO, OnTimeout::Refused, &ok);
        assert_eq!(late.err().map(|e| e.code()), Some(146));
        drop(
            room.take(20, LONG, OnTimeout::Refused, &ok)
                .expect("nobody is before it"),
        );
        drop(held);
        assert_eq!((room.metrics().waiting, room.metrics().taken_bytes), (0, 0));
    }

    /// A statement of a transaction, which may hold locks, waits for a limited time and then
    /// begins.
    #[test]
    fn an_operation_that_blocks_others_begins_without_room_after_the_timeout() {
        let room = of(100);
        let held = room.take(80, LONG, OnTimeout::Refused, &ok).unwrap();
        let (begun, short) = (Instant::now(), Duration::from_millis(100));
        let part = room.take(50, short, OnTimeout::Begins, &ok).unwrap();
        assert!(begun.elapsed() >= short);
        let metrics = room.metrics();
        assert_eq!((metrics.taken_bytes, metrics.waited), (130, 1));
        assert_eq!((metrics.waiting, metrics.refused), (0, 0));
        drop(held);
        // The memory that it needs counts for others.
        let other = room.take(60, Duration::ZERO, OnTimeout::Refused, &ok);
        assert_eq!(other.err().map(|e| e.code()), Some(146));
        drop(part);
        drop(
            room.take(60, Duration::ZERO, OnTimeout::Refused, &ok)
                .unwrap(),
        );
    }
}
