//! Shared flushes of the log: one thread flushes, and all threads that wait meanwhile share the
//! next flush. A separate thread flushes positions for which no thread waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use storage::{CommitPos, DurableHook, FlushEvent, FlushOutcome, Result, StorageError};

use crate::commits::Commits;
use crate::pool::Pool;
use crate::session::Session;

#[derive(Default)]
struct State {
    flushing: bool,
    /// The highest requested position.
    asked: u64,
    /// A flush failed: what the device holds is unknown.
    failed: bool,
    closing: bool,
    flushes: u64,
}

struct Shared {
    commits: Arc<Commits>,
    session: Mutex<Session>,
    state: Mutex<State>,
    /// Signalled when a flush has ended.
    turn: Condvar,
    /// Signalled when the thread has work.
    wake: Condvar,
    durable: AtomicU64,
    hooks: Mutex<Vec<DurableHook>>,
}

/// The flushes of an engine.
pub(crate) struct Journal {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    pub(crate) fn start(
        pool: &Arc<Pool>,
        commits: Arc<Commits>,
        interval: Duration,
    ) -> Result<Journal> {
        let shared = Arc::new(Shared {
            commits,
            session: Mutex::new(Session::of(pool)?),
            state: Mutex::default(),
            turn: Condvar::new(),
            wake: Condvar::new(),
            durable: AtomicU64::new(0),
            hooks: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || own.run(interval))
            .map_err(|e| StorageError::io("cannot start the journal's thread", e))?;
        Ok(Journal {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn on_durable(&self, hook: DurableHook) {
        self.shared.hooks.lock().push(hook);
    }

    pub(crate) fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    pub(crate) fn flushes(&self) -> u64 {
        self.shared.state.lock().flushes
    }

    /// Blocks until a position is durable.
    pub(crate) fn wait(&self, pos: u64) -> Result<()> {
        let shared = &self.shared;
        loop {
            let mut state = shared.state.lock();
            if self.durable() >= pos {
                return Ok(());
            }
            if state.failed {
                return Err(make_flush_error());
            }
            if state.flushing {
                shared.turn.wait(&mut state);
                continue;
            }
            state.flushing = true;
            drop(state);
            if shared.flush() {
                shared.wake.notify_one();
            }
        }
    }

    /// Flushes up to a position unless another thread is flushing.
    pub(crate) fn try_flush(&self, pos: u64) -> FlushOutcome {
        let mut state = self.shared.state.lock();
        state.asked = state.asked.max(pos);
        if state.flushing || state.failed || self.durable() >= state.asked {
            return FlushOutcome::Idle;
        }
        state.flushing = true;
        drop(state);
        let more = self.shared.flush();
        FlushOutcome::Flushed { more }
    }

    /// Requests a flush by the thread.
    pub(crate) fn request(&self, pos: u64) {
        let mut state = self.shared.state.lock();
        state.asked = state.asked.max(pos);
        self.shared.wake.notify_one();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.shared.state.lock().closing = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, interval: Duration) {
        let mut state = self.state.lock();
        while !state.closing {
            let behind = || self.commits.last() > self.durable.load(Ordering::Acquire);
            let asked = state.asked > self.durable.load(Ordering::Acquire);
            if !asked || state.flushing || state.failed || !behind() {
                self.wake.wait_for(&mut state, interval);
            }
            if state.closing || state.flushing || state.failed || !behind() {
                continue;
            }
            state.flushing = true;
            drop(state);
            self.flush();
            state = self.state.lock();
        }
    }

    /// One flush, by the thread that has set `flushing`. True when a later position was requested
    /// meanwhile.
    fn flush(&self) -> bool {
        // Every commit up to here is in the log.
        let pos = self.commits.settle_position();
        let result = self.session.lock().flush();
        let mut state = self.state.lock();
        state.flushing = false;
        state.flushes += 1;
        let flushed = match result {
            Ok(()) => {
                self.durable.store(pos, Ordering::Release);
                FlushEvent::Durable(CommitPos(pos))
            }
            Err(_) => {
                state.failed = true;
                FlushEvent::Lost
            }
        };
        let more = !state.failed && state.asked > pos;
        drop(state);
        self.turn.notify_all();
        for hook in self.hooks.lock().iter() {
            hook(flushed);
        }
        more
    }
}

fn make_flush_error() -> StorageError {
    StorageError::Io {
        context: "the log cannot be flushed".to_owned(),
        source: None,
    }
}
