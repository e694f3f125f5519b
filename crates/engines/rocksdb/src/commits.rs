//! Group commit: whoever needs a position durable flushes the journal on its own thread, unless
//! another thread is flushing; then one flush later serves everybody who came meanwhile. At most
//! one flush runs at a time, nobody is told "durable" before the flush that covers it has returned,
//! and every position asked for is either reached or failed.
//!
//! Knows nothing of RocksDB: the journal behind it is [`Log`], the locks are those of
//! `super::sync`, so that a test can run this very file under a scheduler.

use std::time::Duration;

use super::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// The journal as this protocol sees it.
pub(crate) trait Log: Send + Sync {
    /// Why a flush failed.
    type Error: Clone;
    /// Position of the newest commit; the journal holds everything up to it before it is given.
    fn last(&self) -> u64;
    /// Brings everything up to `target` onto the device.
    fn sync(&self, target: u64) -> Result<(), Failed<Self::Error>>;
    /// Tells those who wait without a thread. Runs on the thread that flushed, outside of all
    /// locks.
    fn announce(&self, outcome: Announced);
}

/// A flush that failed.
#[derive(Clone)]
pub(crate) struct Failed<E> {
    pub(crate) error: E,
    /// What the device holds is unknown from now on: no later flush can make it known again.
    pub(crate) lasting: bool,
}

/// See [`Log::announce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Everything up to here is durable.
    Durable(u64),
    /// Up to here it failed; a later flush may still cover it.
    Failed(u64),
    /// Nothing that is not durable by now ever will be.
    Lost,
}

/// What an offer to flush came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is durable, or another thread flushes and sees to it.
    Idle,
    /// This thread has flushed. With `more`, somebody asked meanwhile: offer again before sleeping.
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
    /// Wakes threads blocked in `wait`.
    flushed: Condvar,
    /// Wakes the thread in `run`.
    request_flush: Condvar,
}

struct State<E> {
    /// Some thread is between taking its turn and having log the outcome.
    flushing: bool,
    /// The furthest position anybody asked for.
    wanted: u64,
    /// Threads blocked on `flushed`.
    blocked: usize,
    stop: bool,
    /// How many flushes have failed, and why the last one did: a waiter that sees the count change
    /// gives up.
    failures: u64,
    failure: Option<Failed<E>>,
}

impl<E> State<E> {
    fn lost(&self) -> Option<&E> {
        self.failure
            .as_ref()
            .filter(|failed| failed.lasting)
            .map(|failed| &failed.error)
    }
}

impl<L: Log> Commits<L> {
    /// Over a journal of which everything up to `durable` is on the device.
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

    /// The last flush failed.
    pub(crate) fn failing(&self) -> bool {
        self.state.lock().failure.is_some()
    }

    /// For a thread with waiters of its own that must not block for a flush of another thread.
    pub(crate) fn offer(&self, pos: u64) -> Offer {
        let pos = pos.min(self.log.last());
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(pos);
        if state.flushing || state.wanted <= self.durable() || state.lost().is_some() {
            return Offer::Idle;
        }
        state.flushing = true;
        drop(state);
        Offer::Flushed { more: self.flush() }
    }

    /// Asks for a flush without flushing: the thread in `run` does it.
    pub(crate) fn request_flush(&self, pos: u64) {
        let pos = pos.min(self.log.last());
        if self.durable() < pos {
            let mut state = self.state.lock();
            state.wanted = state.wanted.max(pos);
            self.request_flush.notify_one();
        }
    }

    /// Blocks until `pos` is durable; flushes on this thread if nobody else is flushing.
    pub(crate) fn wait(&self, pos: u64) -> Result<(), WaitError<L::Error>> {
        // A position from nowhere must not keep anybody flushing in circles.
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
            if let Some(error) = state.lost() {
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
        // Those who wait without a thread need one. As long as threads are blocked, one of them
        // flushes, or comes past here.
        if state.wanted > self.durable() && !state.flushing && state.blocked == 0 {
            self.request_flush.notify_one();
        }
        outcome
    }

    /// Flushes what nobody waits for once per `interval`, and what was hurried at once. Returns
    /// after [`Commits::stop`].
    pub(crate) fn run(&self, interval: Duration) {
        let mut state = self.state.lock();
        loop {
            let wanted = state.wanted > self.durable() && state.lost().is_none();
            if !state.stop && (state.flushing || !wanted) {
                self.request_flush.wait_for(&mut state, interval);
            }
            if state.flushing {
                if state.stop {
                    // Whoever flushes wakes this thread when it sees `stop`.
                    self.request_flush.wait_for(&mut state, interval);
                }
                continue;
            }
            let stop = state.stop;
            if self.log.last() > self.durable() && state.lost().is_none() {
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

    /// Lets go whoever is still blocked, once nobody flushes any more.
    pub(crate) fn stopped(&self) {
        // Under the lock, so that nobody is between looking at `stop` and falling asleep.
        let _state = self.state.lock();
        self.flushed.notify_all();
    }

    /// Notes that the journal itself failed outside of a flush: nothing more becomes durable.
    pub(crate) fn lose(&self, error: L::Error) {
        let mut state = self.state.lock();
        if state.lost().is_some() {
            return;
        }
        state.failures += 1;
        state.failure = Some(Failed {
            error,
            lasting: true,
        });
        self.flushed.notify_all();
        drop(state);
        self.log.announce(Announced::Lost);
    }

    /// One flush by the thread that has set `flushing`. True when somebody asked for more
    /// meanwhile.
    fn flush(&self) -> bool {
        // Read before the flush: the journal holds everything up to here, so the flush covers it.
        let target = self.log.last();
        let outcome = self.log.sync(target);
        let mut state = self.state.lock();
        state.flushing = false;
        let announced = match outcome {
            Ok(()) if state.lost().is_none() => {
                self.durable.store(target, Ordering::Release);
                state.failure = None;
                Announced::Durable(target)
            }
            Ok(()) => Announced::Lost,
            Err(failed) => {
                let lasting = failed.lasting;
                state.failures += 1;
                if state.lost().is_none() {
                    state.failure = Some(failed);
                }
                // All who wait for this are told; who asked for more since is not among them and
                // gets the next flush.
                if state.wanted <= target || lasting {
                    state.wanted = self.durable();
                }
                if lasting {
                    Announced::Lost
                } else {
                    Announced::Failed(target)
                }
            }
        };
        let more = state.wanted > self.durable() && state.lost().is_none();
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
