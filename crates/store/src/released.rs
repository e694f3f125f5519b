//! Operations that were set aside until something is released: a claim of a transaction, a gate.
//! Promises: who registers and then finds the thing still held is called after its release.
//! Must not know: what is released, what an operation does when called.

use crate::log::Waker;
use crate::sync::{AtomicU32, Mutex, Ordering};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// How often a wait on a thread asks whether it may go on.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

thread_local! {
    static WAITED_US: Cell<u64> = const { Cell::new(0) };
}

/// Microseconds the calling thread has waited for claims since this was asked last. A wait without
/// a thread is not in it.
pub fn take_waited_us() -> u64 {
    WAITED_US.take()
}

/// Adds a wait of the calling thread.
pub(crate) fn add_waited(waited: Duration) {
    let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
    WAITED_US.set(WAITED_US.get().saturating_add(us));
}

/// Everybody who waits for things of one kind, which have numbers.
#[derive(Default)]
pub(crate) struct Waiters {
    count: AtomicU32,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// Registration, what it waits for, whom to call.
    all: Vec<(u64, u64, Waker)>,
}

/// A registered operation, until dropped.
pub struct Registered {
    waiters: Arc<Waiters>,
    number: u64,
}

impl Waiters {
    /// Has `waker` called when `what` is released. To be called before the caller looks once more
    /// whether it is held, under the lock that its release takes.
    pub(crate) fn register(self: &Arc<Waiters>, what: u64, waker: Waker) -> Registered {
        let number = {
            let mut waiting = self.waiting.lock();
            waiting.next += 1;
            let number = waiting.next;
            waiting.all.push((number, what, waker));
            number
        };
        self.count.fetch_add(1, Ordering::SeqCst);
        Registered {
            waiters: Arc::clone(self),
            number,
        }
    }

    /// Calls who waits for `what`; to be called after its release.
    ///
    /// # Cost
    /// One load when nobody waits.
    pub(crate) fn released(&self, what: u64) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let wakers: Vec<Waker> = {
            let waiting = self.waiting.lock();
            let concerned = waiting.all.iter().filter(|(_, its, _)| *its == what);
            concerned.map(|(_, _, waker)| Arc::clone(waker)).collect()
        };
        wakers.iter().for_each(|wake| wake());
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut waiting = self.waiters.waiting.lock();
        waiting.all.retain(|(number, _, _)| *number != self.number);
        drop(waiting);
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
    }
}
