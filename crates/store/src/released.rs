//! Operations that were set aside until something is released: a claim of a transaction, a gate.
//! Promises: an operation registers first and checks again afterwards, so it misses no release.
//! Where only one of the waiters can have what was released, they are called one after the other.
//! Must not know: what is released, what an operation does when called.

use crate::log::Waker;
use crate::sync::{AtomicU32, Mutex, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// How often a thread that waits checks whether it was interrupted.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The waiters for things of one kind, which have numbers.
#[derive(Default)]
pub(crate) struct Waiters {
    count: AtomicU32,
    waiting: Mutex<WaitList>,
}

#[derive(Default)]
struct WaitList {
    next: u64,
    /// In order of registration.
    all: Vec<Entry>,
}

struct Entry {
    number: u64,
    /// The number of what it waits for.
    what: u64,
    waker: Waker,
    called: bool,
}

/// Whether what the operation waits for is held again.
type HeldCheck = Box<dyn Fn() -> bool + Send + Sync>;

/// A registered operation; dropping it ends the registration. When one that was called alone is
/// dropped while the thing is free, the next one is called.
pub struct Registration {
    waiters: Arc<Waiters>,
    number: u64,
    alone: Option<HeldCheck>,
}

impl Waiters {
    /// Has `waker` called when `what` is released. After registering, the caller must check once
    /// more whether it is held, under the lock that its release takes.
    pub(crate) fn register(self: &Arc<Waiters>, what: u64, waker: Waker) -> Registration {
        let number = {
            let mut waiting = self.waiting.lock();
            waiting.next += 1;
            let number = waiting.next;
            waiting.all.push(Entry {
                number,
                what,
                waker,
                called: false,
            });
            number
        };
        self.count.fetch_add(1, Ordering::SeqCst);
        Registration {
            waiters: Arc::clone(self),
            number,
            alone: None,
        }
    }

    /// As [`Waiters::register`], for what only one waiter can have: [`Waiters::released_to_one`]
    /// calls one operation, and the next is called when that one is dropped and `is_held` is false.
    pub(crate) fn register_alone(
        self: &Arc<Waiters>,
        what: u64,
        waker: Waker,
        is_held: HeldCheck,
    ) -> Registration {
        let mut registered = self.register(what, waker);
        registered.alone = Some(is_held);
        registered
    }

    /// Calls the first waiter for `what`, unless a waiter that was called is still registered; to
    /// be called after the release.
    ///
    /// # Cost
    /// One load when nobody waits.
    pub(crate) fn released_to_one(&self, what: u64) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waker = {
            let mut waiting = self.waiting.lock();
            let mut concerned = waiting.all.iter_mut().filter(|e| e.what == what);
            let first = concerned.next();
            // A waiter that was called comes before all that were not.
            first.filter(|e| !e.called).map(|e| {
                e.called = true;
                Arc::clone(&e.waker)
            })
        };
        if let Some(wake) = waker {
            wake();
        }
    }

    /// Calls all waiters for `what`; to be called after its release.
    ///
    /// # Cost
    /// One load when nobody waits.
    pub(crate) fn wake_waiters(&self, what: u64) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let wakers: Vec<Waker> = {
            let waiting = self.waiting.lock();
            let concerned = waiting.all.iter().filter(|e| e.what == what);
            concerned.map(|e| Arc::clone(&e.waker)).collect()
        };
        wakers.iter().for_each(|wake| wake());
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut waiting = self.waiters.waiting.lock();
        let at = waiting.all.iter().position(|e| e.number == self.number);
        let entry = at.map(|at| waiting.all.remove(at));
        drop(waiting);
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
        let (Some(entry), Some(is_held)) = (entry, &self.alone) else {
            return;
        };
        // Checked after the removal: a release before it found this waiter called and called no
        // other.
        if entry.called && !is_held() {
            self.waiters.released_to_one(entry.what);
        }
    }
}
