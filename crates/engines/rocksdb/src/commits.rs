//! Group commit: a thread that needs a position to be durable flushes the journal itself, unless
//! another thread is flushing; then one later flush covers all threads that arrived meanwhile. At
//! most one flush runs at a time, a position is reported as durable only after the flush that
//! covers it has returned, and every requested position is either reached or fails.
//!
//! It knows nothing of RocksDB: the journal is a [`Log`], the locks are those of `super::sync`, so
//! that a test can run this file under a scheduler.

use std::time::Duration;

use super::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// The journal's interface for this protocol.
pub(crate) trait Log: Send + Sync {
    /// Why a flush failed.
    type Error: Clone;
    /// Position of the newest commit; everything up to it is in the journal.
    fn last(&self) -> u64;
    /// Writes everything up to `target` to the device.
    fn sync(&self, target: u64) -> Result<(), FlushError<Self::Error>>;
    /// Reports the outcome to waiters without a thread. Runs on the thread that flushed, outside of
    /// all locks.
    fn announce(&self, outcome: FlushNotice);
}

/// A flush that failed.
#[derive(Clone)]
pub(crate) struct FlushError<E> {
    pub(crate) error: E,
    /// The content of the device is unknown from now on: no later flush can change that.
    pub(crate) lasting: bool,
}

/// See [`Log::announce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushNotice {
    /// Positions up to this one are durable.
    Durable(u64),
    /// The flush failed for positions up to this one; a later flush may still cover them.
    Failed(u64),
    /// Positions that are not durable by now never will be.
    Lost,
}

/// The result of [`Commits::offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferResult {
    /// The position is durable, or another thread is flushing and will cover it.
    Idle,
    /// This thread has flushed. `more` is true when a later position was requested meanwhile: offer
    /// again before sleeping.
    Flushed { more: bool },
}

/// Why a wait ended without the position being durable.
pub(crate) enum WaitError<E> {
    Failed(E),
    Stopped,
}

pub(crate) struct Commits<L: Log> {
    log: L,
    durable: AtomicU64,
    state: Mutex<State<L::Error>>,
    /// Wakes the threads that are blocked in `wait`.
    flushed: Condvar,
    /// Wakes the thread in `run`.
    request_flush: Condvar,
}

struct State<E> {
    /// A thread has taken its turn and not announced the outcome yet.
    flushing: bool,
    /// The highest requested position.
    wanted: u64,
    /// Threads blocked on `flushed`.
    blocked: usize,
    stop: bool,
    /// The number of failed flushes, and the reason of the last one: a waiter that sees the number
    /// change gives up.
    failures: u64,
    failure: Option<FlushError<E>>,
}

impl<E> State<E> {
    fn lasting_failure(&self) -> Option<&E> {
        self.failure
            .as_ref()
            .filter(|failed| failed.lasting)
            .map(|failed| &failed.error)
    }
}

impl<L: Log> Commits<L> {
    /// A protocol over a journal whose content up to `durable` is on the device.
    pub(crate) fn new(log: L, durable: u64) -> Self {
        Self {
            log,
            durable: AtomicU64::new(durable),
            state: Mutex::new(State {
                flushing: false,
                wanted: 0,
                blocked: 0,
                stop: false,
                failures: 0,
                failure: None,
            }),
            flushed: Condvar::new(),
            request_flush: Condvar::new(),
        }
    }

    pub(crate) fn log(&self) -> &L {
        &self.log
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Whether the last flush failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.lock().failure.is_some()
    }

    /// Flushes unless another thread is flushing; for a thread that must not block for another
    /// one's flush.
    pub(crate) fn offer(&self, pos: u64) -> OfferResult {
        let pos = pos.min(self.log.last());
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(pos);
        if state.flushing || state.wanted <= self.durable() || state.lasting_failure().is_some() {
            return OfferResult::Idle;
        }
        state.flushing = true;
        drop(state);
        OfferResult::Flushed { more: self.flush() }
    }

    /// Requests a flush by the thread in `run`.
    pub(crate) fn request_flush(&self, pos: u64) {
        let pos = pos.min(self.log.last());
        if self.durable() < pos {
            let mut state = self.state.lock();
            state.wanted = state.wanted.max(pos);
            self.request_flush.notify_one();
        }
    }

    /// Blocks until `pos` is durable; flushes on this thread if no other thread is flushing.
    pub(crate) fn wait(&self, pos: u64) -> Result<(), WaitError<L::Error>> {
        // A position beyond the newest commit must not cause flushes without end.
        let pos = pos.min(self.log.last());
        if self.durable() >= pos {
            return Ok(());
        }
        let mut state = self.state.lock();
        let failures = state.failures;
        state.wanted = state.wanted.max(pos);
        let outcome = loop {
            if self.durable() >= pos {
                break Ok(());
            }
            if let Some(error) = state.lasting_failure() {
                break Err(WaitError::Failed(error.clone()));
            }
            if state.failures != failures
                && let Some(failed) = &state.failure
            {
                break Err(WaitError::Failed(failed.error.clone()));
            }
            if state.stop {
                break Err(WaitError::Stopped);
            }
            if state.flushing {
                state.blocked += 1;
                self.flushed.wait(&mut state);
                state.blocked -= 1;
            } else {
                state.flushing = true;
                drop(state);
                self.flush();
                state = self.state.lock();
            }
        };
        // Waiters without a thread need one that flushes. While threads are blocked in `wait`, one
        // of them flushes, or reaches this place.
        if state.wanted > self.durable() && !state.flushing && state.blocked == 0 {
            self.request_flush.notify_one();
        }
        outcome
    }

    /// Flushes once per `interval` what no thread waits for, and requested positions at once.
    /// Returns after [`Commits::stop`].
    pub(crate) fn run(&self, interval: Duration) {
        let mut state = self.state.lock();
        loop {
            let wanted = state.wanted > self.durable() && state.lasting_failure().is_none();
            if !state.stop && (state.flushing || !wanted) {
                self.request_flush.wait_for(&mut state, interval);
            }
            if state.flushing {
                if state.stop {
                    // A thread that is flushing wakes this one when it sees `stop`.
                    self.request_flush.wait_for(&mut state, interval);
                }
                continue;
            }
            let stop = state.stop;
            if self.log.last() > self.durable() && state.lasting_failure().is_none() {
                state.flushing = true;
                drop(state);
                self.flush();
                state = self.state.lock();
            }
            if stop {
                return;
            }
        }
    }

    /// Makes [`Commits::run`] flush once more and return.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.request_flush.notify_all();
    }

    /// Wakes all threads that are still blocked, when no thread will flush any more.
    pub(crate) fn wake_waiters(&self) {
        // Under the lock, so that no thread is between checking `stop` and sleeping.
        let _state = self.state.lock();
        self.flushed.notify_all();
    }

    /// Records that the journal failed outside of a flush: nothing more becomes durable.
    pub(crate) fn lose(&self, error: L::Error) {
        let mut state = self.state.lock();
        if state.lasting_failure().is_some() {
            return;
        }
        state.failures += 1;
        state.failure = Some(FlushError {
            error,
            lasting: true,
        });
        self.flushed.notify_all();
        drop(state);
        self.log.announce(FlushNotice::Lost);
    }

    /// One flush by the thread that has set `flushing`. True when a later position was requested
    /// meanwhile.
    fn flush(&self) -> bool {
        // Read before the flush: everything up to here is in the journal, so the flush covers it.
        let target = self.log.last();
        let outcome = self.log.sync(target);
        let mut state = self.state.lock();
        state.flushing = false;
        let announced = match outcome {
            Ok(()) if state.lasting_failure().is_none() => {
                self.durable.store(target, Ordering::Release);
                state.failure = None;
                FlushNotice::Durable(target)
            }
            Ok(()) => FlushNotice::Lost,
            Err(failed) => {
                let lasting = failed.lasting;
                state.failures += 1;
                if state.lasting_failure().is_none() {
                    state.failure = Some(failed);
                }
                // All current waiters get this outcome; a thread that requested a later position is
                // not among them and gets the next flush.
                if state.wanted <= target || lasting {
                    state.wanted = self.durable();
                }
                if lasting {
                    FlushNotice::Lost
                } else {
                    FlushNotice::Failed(target)
                }
            }
        };
        let more = state.wanted > self.durable() && state.lasting_failure().is_none();
        if state.blocked > 0 {
            self.flushed.notify_all();
        }
        if state.stop {
            self.request_flush.notify_all();
        }
        drop(state);
        self.log.announce(announced);
        more
    }
}
