//! The journal flusher: one thread turns buffered commits into durable ones, every interval at the latest and at once
//! when somebody waits. All waiters of a moment share one fsync.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use storage::{CommitPos, DurableHook, Flushed, Result, StorageError};

use crate::error;
use crate::ffi::Db;

pub(crate) struct Journal {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    db: Arc<Db>,
    durable: AtomicU64,
    state: Mutex<State>,
    // Wakes the flusher.
    hurry: Condvar,
    // Wakes the waiters.
    flushed: Condvar,
    hooks: RwLock<Vec<DurableHook>>,
    flushes: AtomicU64,
    flush_us_total: AtomicU64,
    flush_us_last: AtomicU64,
    failed: AtomicBool,
}

#[derive(Default)]
struct State {
    // The furthest position anybody waits for.
    wanted: u64,
    stop: bool,
    // Failure of the last flush and how many flushes have failed; waiters that see the count change give up.
    failures: u64,
    failure: Option<StorageError>,
}

/// Figures of the flusher.
pub(crate) struct JournalFigures {
    pub(crate) flushes: u64,
    pub(crate) flush_us_total: u64,
    pub(crate) flush_us_last: u64,
}

impl Journal {
    pub(crate) fn start(db: Arc<Db>, interval: Duration) -> Result<Self> {
        // Whatever recovery has read back is in the files already.
        let durable = AtomicU64::new(db.sequence());
        let shared = Arc::new(Shared {
            db,
            durable,
            state: Mutex::default(),
            hurry: Condvar::new(),
            flushed: Condvar::new(),
            hooks: RwLock::default(),
            flushes: AtomicU64::new(0),
            flush_us_total: AtomicU64::new(0),
            flush_us_last: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("quarry-journal".to_owned())
            .spawn(move || worker.run(interval))
            .map_err(|error| StorageError::io("cannot start the journal thread", error))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn durable_pos(&self) -> CommitPos {
        CommitPos(self.shared.durable.load(Ordering::Acquire))
    }

    pub(crate) fn on_durable(&self, hook: DurableHook) {
        self.shared.hooks.write().push(hook);
    }

    pub(crate) fn hurry(&self, pos: CommitPos) {
        let pos = pos.min(CommitPos(self.shared.db.sequence()));
        if self.durable_pos() < pos {
            let mut state = self.shared.state.lock();
            state.wanted = state.wanted.max(pos.0);
            self.shared.hurry.notify_one();
        }
    }

    pub(crate) fn wait(&self, pos: CommitPos) -> Result<()> {
        // A position from nowhere must not keep the flusher running in circles.
        let pos = pos.min(CommitPos(self.shared.db.sequence()));
        if self.durable_pos() >= pos {
            return Ok(());
        }
        let mut state = self.shared.state.lock();
        let failures = state.failures;
        state.wanted = state.wanted.max(pos.0);
        self.shared.hurry.notify_one();
        loop {
            if self.durable_pos() >= pos {
                return Ok(());
            }
            if state.failures != failures {
                return Err(state.failure.clone().unwrap_or(StorageError::Undetermined));
            }
            if state.stop {
                return Err(StorageError::Closed);
            }
            self.shared.flushed.wait(&mut state);
        }
    }

    pub(crate) fn figures(&self) -> JournalFigures {
        JournalFigures {
            flushes: self.shared.flushes.load(Ordering::Relaxed),
            flush_us_total: self.shared.flush_us_total.load(Ordering::Relaxed),
            flush_us_last: self.shared.flush_us_last.load(Ordering::Relaxed),
        }
    }

    /// The last flush failed and none has succeeded since.
    pub(crate) fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Flushes once more and ends the thread.
    pub(crate) fn stop(&self) {
        self.shared.state.lock().stop = true;
        self.shared.hurry.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            self.shared.failed.store(true, Ordering::Relaxed);
        }
        self.shared.flushed.notify_all();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, interval: Duration) {
        loop {
            let stop = {
                let mut state = self.state.lock();
                if !state.stop && state.wanted <= self.durable.load(Ordering::Acquire) {
                    self.hurry.wait_for(&mut state, interval);
                }
                state.stop
            };
            self.flush();
            if stop {
                return;
            }
        }
    }

    fn flush(&self) {
        // Commits up to here have written their journal record before their number became visible.
        let target = self.db.sequence();
        if target <= self.durable.load(Ordering::Acquire) {
            return;
        }
        let begun = Instant::now();
        let outcome = self.db.admin().flush_wal(true);
        let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.flush_us_last.store(us, Ordering::Relaxed);
        self.flush_us_total.fetch_add(us, Ordering::Relaxed);
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        match outcome {
            Ok(()) => {
                self.durable.store(target, Ordering::Release);
                self.failed.store(false, Ordering::Relaxed);
                state.failure = None;
            }
            Err(error) => {
                state.failures += 1;
                state.failure = Some(error::sort("a journal flush", error.into_string()));
                // Nobody is served by trying again at once; waiters have been told.
                state.wanted = 0;
                self.failed.store(true, Ordering::Relaxed);
            }
        }
        let flushed = match state.failure {
            None => Flushed::Durable(CommitPos(target)),
            Some(_) => Flushed::Failed(CommitPos(target)),
        };
        drop(state);
        self.flushed.notify_all();
        for hook in self.hooks.read().iter() {
            hook(flushed);
        }
    }
}
