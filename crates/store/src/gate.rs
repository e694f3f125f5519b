//! Keeps writers of a collection out while its catalog row changes. Promises: any number of writers
//! inside at once, or one change alone; whoever is inside is known by a token that is bound to no
//! thread, so it may move between threads and be kept between commands; entering costs one atomic
//! operation. Must not know: what it guards.
//!
//! Whoever is inside must not enter again: a change that waits keeps newcomers out, so entering
//! twice can wait for itself. Keep the token and hand it on.

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering};
use std::time::Instant;

/// Set while a change waits or runs; the other bits count who is inside.
const CLOSED: u32 = 1 << 31;

/// The gate of one collection.
#[derive(Default)]
pub struct Gate {
    state: AtomicU32,
    /// Held by the change that has closed the gate or waits to; true while it has.
    closed: Mutex<bool>,
    changed: Condvar,
}

/// Inside until dropped.
pub struct Entered<'g>(&'g Gate);

/// Alone until dropped.
pub struct Closed<'g>(&'g Gate);

impl Gate {
    /// Enters; waits while a change runs.
    pub fn enter(&self) -> Entered<'_> {
        self.enter_unguarded();
        Entered(self)
    }

    /// Enters; the caller must balance it with [`Gate::leave`].
    pub fn enter_unguarded(&self) {
        loop {
            let before = self.state.fetch_add(1, Ordering::AcqRel);
            if before & CLOSED == 0 {
                return;
            }
            // A change has begun: undo the increment, and wait until the change is over.
            self.leave();
            let mut closed = self.closed.lock();
            while *closed {
                self.changed.wait(&mut closed);
            }
        }
    }

    /// As [`Gate::enter_unguarded`], giving up at `until`; true when it has entered.
    pub fn enter_until(&self, until: Instant) -> bool {
        loop {
            let before = self.state.fetch_add(1, Ordering::AcqRel);
            if before & CLOSED == 0 {
                return true;
            }
            self.leave();
            let mut closed = self.closed.lock();
            while *closed {
                if self.changed.wait_until(&mut closed, until).timed_out() {
                    return false;
                }
            }
        }
    }

    /// Ends what [`Gate::enter_unguarded`] began.
    pub fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before == CLOSED + 1 {
            // The lock makes sure that the change either has not looked yet or is waiting.
            drop(self.closed.lock());
            self.changed.notify_all();
        }
    }

    /// Keeps newcomers out, and waits until everybody inside has left and other changes are over.
    pub fn close(&self) -> Closed<'_> {
        loop {
            if let Some(closed) = self.close_until(None) {
                return closed;
            }
        }
    }

    /// As [`Gate::close`]; `None` when it was not alone by `until`, and the gate is open again.
    pub fn close_until(&self, until: Option<Instant>) -> Option<Closed<'_>> {
        let mut closed = self.closed.lock();
        while *closed {
            match until {
                None => self.changed.wait(&mut closed),
                Some(t) if self.changed.wait_until(&mut closed, t).timed_out() => return None,
                Some(_) => {}
            }
        }
        *closed = true;
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        while self.state.load(Ordering::Acquire) != CLOSED {
            match until {
                None => self.changed.wait(&mut closed),
                Some(t) if self.changed.wait_until(&mut closed, t).timed_out() => {
                    drop(closed);
                    self.open();
                    return None;
                }
                Some(_) => {}
            }
        }
        Some(Closed(self))
    }

    fn open(&self) {
        let mut closed = self.closed.lock();
        self.state.fetch_and(!CLOSED, Ordering::AcqRel);
        *closed = false;
        drop(closed);
        self.changed.notify_all();
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for Closed<'_> {
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
                        let _alone = gate.close();
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
    fn a_change_gives_up_in_time_and_lets_everybody_in_again() {
        let gate = Gate::default();
        let inside = gate.enter();
        assert!(
            gate.close_until(Some(Instant::now() + Duration::from_millis(5)))
                .is_none()
        );
        drop(gate.enter());
        drop(inside);
        assert!(
            gate.close_until(Some(Instant::now() + Duration::from_secs(5)))
                .is_some()
        );
    }
}
