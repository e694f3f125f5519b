//! Keeps writers of a collection out while its catalog row changes. Promises: any number of writers
//! are inside at once, or one change alone; a token stands for each entry and is bound to no
//! thread, so it may move between threads and be kept between commands; entering costs one atomic
//! operation; a wait can be interrupted. Must not know: what it guards.
//!
//! A holder of a token must not enter again: a waiting change keeps newcomers out, so a second
//! entry can wait for the first. Keep the token and pass it on.

use crate::log::Waker;
use crate::released::{LOOK, Registration, Waiters};
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Set while a change waits or runs; the other bits count the entries.
const CLOSED: u32 = 1 << 31;

/// The events for which a waker can be registered: the gate is open, nobody is inside.
const OPEN: u64 = 0;
const EMPTY: u64 = 1;

/// The gate of one collection.
#[derive(Default)]
pub struct Gate {
    state: AtomicU32,
    /// Locked by the change that closes the gate; true while a change waits or runs.
    closed: Mutex<bool>,
    changed: Condvar,
    /// Created when the first operation registers a waker.
    waiters: OnceLock<Arc<Waiters>>,
}

/// An entry; leaves when dropped.
pub struct SharedGuard<'g>(&'g Gate);

/// The gate is closed and nobody is inside; opens when dropped.
pub struct ExclusiveGuard<'g>(&'g Gate);

/// Keeps newcomers out for a change that is alone inside or waits until it is; opens when dropped.
pub struct ClosingGuard(Arc<Gate>);

impl Gate {
    /// Enters; waits while a change runs.
    pub fn enter(&self) -> SharedGuard<'_> {
        self.enter_unguarded();
        SharedGuard(self)
    }

    /// As [`Gate::enter`]; calls `go_on` at the beginning of a wait and repeatedly during it.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub fn enter_while<E>(&self, go_on: &dyn Fn() -> Result<(), E>) -> Result<SharedGuard<'_>, E> {
        let mut inside = self.try_enter();
        while !inside {
            go_on()?;
            inside = self.enter_until(Instant::now() + LOOK);
        }
        Ok(SharedGuard(self))
    }

    /// Enters unless a change waits or runs; true when it has entered.
    fn try_enter(&self) -> bool {
        let before = self.state.fetch_add(1, Ordering::AcqRel);
        if before & CLOSED != 0 {
            self.leave();
        }
        before & CLOSED == 0
    }

    /// Enters without a guard; the caller must call [`Gate::leave`] later.
    pub fn enter_unguarded(&self) {
        while !self.try_enter() {
            let mut closed = self.closed.lock();
            while *closed {
                self.changed.wait(&mut closed);
            }
        }
    }

    /// As [`Gate::enter_unguarded`], giving up at `until`; true when it has entered.
    pub fn enter_until(&self, until: Instant) -> bool {
        while !self.try_enter() {
            let mut closed = self.closed.lock();
            while *closed {
                if self.changed.wait_until(&mut closed, until).timed_out() {
                    return false;
                }
            }
        }
        true
    }

    /// Ends what [`Gate::enter_unguarded`] began.
    pub fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before == CLOSED + 1 {
            // The lock ensures that the change either has not checked the count yet or is already
            // waiting.
            drop(self.closed.lock());
            self.changed.notify_all();
            if let Some(waiters) = self.waiters.get() {
                waiters.wake_waiters(EMPTY);
            }
        }
    }

    /// Keeps newcomers out, and waits until everybody inside has left and other changes are over;
    /// calls `go_on` repeatedly during the wait.
    ///
    /// # Errors
    /// Those of `go_on`; the gate is open again then.
    pub fn close_while<E>(
        &self,
        go_on: &dyn Fn() -> Result<(), E>,
    ) -> Result<ExclusiveGuard<'_>, E> {
        self.close_looking(&|| go_on().map(|()| Instant::now() + LOOK))
    }

    /// As [`Gate::close_while`]; `None` when somebody is still inside at `until`.
    pub fn close_until(&self, until: Instant) -> Option<ExclusiveGuard<'_>> {
        let left = || Some(until).filter(|t| Instant::now() < *t).ok_or(());
        self.close_looking(&left).ok()
    }

    /// `next` is called before each wait: it says how long the wait may last, or why there is none.
    fn close_looking<E>(
        &self,
        next: &dyn Fn() -> Result<Instant, E>,
    ) -> Result<ExclusiveGuard<'_>, E> {
        let mut closed = self.closed.lock();
        while *closed {
            self.changed.wait_until(&mut closed, next()?);
        }
        *closed = true;
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        while self.state.load(Ordering::Acquire) != CLOSED {
            match next() {
                Ok(until) => _ = self.changed.wait_until(&mut closed, until),
                Err(reason) => {
                    drop(closed);
                    self.open();
                    return Err(reason);
                }
            }
        }
        Ok(ExclusiveGuard(self))
    }

    /// Keeps newcomers out from now on; `None` when another change still closes the gate at
    /// `until`.
    pub fn begin_closing(self: &Arc<Gate>, until: Instant) -> Option<ClosingGuard> {
        let mut closed = self.closed.lock();
        while *closed {
            if self.changed.wait_until(&mut closed, until).timed_out() && *closed {
                return None;
            }
        }
        *closed = true;
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        Some(ClosingGuard(Arc::clone(self)))
    }

    fn open(&self) {
        let mut closed = self.closed.lock();
        self.state.fetch_and(!CLOSED, Ordering::AcqRel);
        *closed = false;
        drop(closed);
        self.changed.notify_all();
        if let Some(waiters) = self.waiters.get() {
            waiters.wake_waiters(OPEN);
        }
    }

    /// Has `waker` called when the current change is over; `None` when no change waits or runs.
    pub fn wake_when_open(&self, waker: Waker) -> Option<Registration> {
        let registered = self.waiters.get_or_init(Arc::default).register(OPEN, waker);
        let closed = *self.closed.lock();
        closed.then_some(registered)
    }
}

impl ClosingGuard {
    /// Whether it belongs to this gate.
    pub fn is_of(&self, gate: &Arc<Gate>) -> bool {
        Arc::ptr_eq(&self.0, gate)
    }

    /// Waits until everybody inside has left; false when somebody is still there at `until`.
    pub fn is_alone_by(&self, until: Instant) -> bool {
        let gate = &self.0;
        let alone = || gate.state.load(Ordering::Acquire) == CLOSED;
        let mut closed = gate.closed.lock();
        while !alone() {
            if gate.changed.wait_until(&mut closed, until).timed_out() {
                return alone();
            }
        }
        true
    }

    /// Has `waker` called when nobody is inside any more; `None` when that is so already.
    pub fn wake_when_alone(&self, waker: Waker) -> Option<Registration> {
        let gate = &self.0;
        let registered = gate
            .waiters
            .get_or_init(Arc::default)
            .register(EMPTY, waker);
        let _closed = gate.closed.lock();
        (gate.state.load(Ordering::Acquire) != CLOSED).then_some(registered)
    }
}

impl Drop for ClosingGuard {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Drop for SharedGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI32;
    use std::time::Duration;

    #[test]
    fn changes_are_alone_and_nobody_is_forgotten() {
        let (gate, inside, changes) = (Gate::default(), AtomicI32::new(0), AtomicI32::new(0));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..3000 {
                        let _in = gate.enter();
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..500 {
                        let _alone = gate.close_while(&|| Ok::<(), ()>(())).unwrap();
                        assert_eq!(inside.load(Ordering::SeqCst), 0);
                        let seen = changes.load(Ordering::Relaxed);
                        changes.store(seen + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(changes.into_inner(), 1000);
    }

    #[test]
    fn a_change_times_out_and_reopens_the_gate() {
        let gate = Gate::default();
        let inside = gate.enter();
        assert!(
            gate.close_until(Instant::now() + Duration::from_millis(5))
                .is_none()
        );
        drop(gate.enter());
        drop(inside);
        assert!(
            gate.close_until(Instant::now() + Duration::from_secs(5))
                .is_some()
        );
    }
}
