//! The journal of an open RocksDB: `commits.rs` over its write-ahead log, the background flush
//! thread, and the metrics. A thread that waits for durability flushes itself and does not wake the
//! background thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use storage::{CommitPos, DurableHook, FlushEvent, FlushOutcome, Result, StorageError};

use crate::commits::{Commits, FlushError, FlushNotice, Log, OfferResult, WaitError};
use crate::error;
use crate::ffi::Db;
use crate::listener::Events;
use crate::mark::Mark;

/// A batch that changes nothing: eight bytes of position, four of count, one log entry of one byte.
const MARKER: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0];

pub(crate) struct Journal {
    commits: Arc<Commits<WriteAheadLog>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// RocksDB's write-ahead log.
struct WriteAheadLog {
    db: Arc<Db>,
    events: Arc<Events>,
    mark: Arc<Mark>,
    hooks: RwLock<Vec<DurableHook>>,
    unjournaled: UnjournaledWrites,
    flushes: AtomicU64,
    flush_us_total: AtomicU64,
    flush_us_last: AtomicU64,
}

/// Writes that take positions without being journaled. Before a flush that may cover some of them,
/// an empty record is written, so that the last record of the journal always has the position that
/// the flush has reached.
#[derive(Default)]
struct UnjournaledWrites {
    begun: AtomicU64,
    ended: AtomicU64,
    covered: AtomicU64,
}

/// Metrics of the flushes.
pub(crate) struct JournalStats {
    pub(crate) flushes: u64,
    pub(crate) flush_us_total: u64,
    pub(crate) flush_us_last: u64,
}

impl Journal {
    pub(crate) fn start(
        db: Arc<Db>,
        events: Arc<Events>,
        mark: Arc<Mark>,
        interval: Duration,
    ) -> Result<Self> {
        // Recovery has written everything that it read to tables.
        let durable = db.sequence();
        let log = WriteAheadLog {
            db,
            events,
            mark,
            hooks: RwLock::default(),
            unjournaled: UnjournaledWrites::default(),
            flushes: AtomicU64::new(0),
            flush_us_total: AtomicU64::new(0),
            flush_us_last: AtomicU64::new(0),
        };
        let commits = Arc::new(Commits::new(log, durable));
        let worker = Arc::clone(&commits);
        let thread = std::thread::Builder::new()
            .name("quarry-journal".to_owned())
            .spawn(move || worker.run(interval))
            .map_err(|error| StorageError::io("cannot start the journal thread", error))?;
        Ok(Self {
            commits,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn durable_pos(&self) -> CommitPos {
        CommitPos(self.commits.durable())
    }

    pub(crate) fn on_durable(&self, hook: DurableHook) {
        self.commits.log().hooks.write().push(hook);
    }

    pub(crate) fn request_flush(&self, pos: CommitPos) {
        self.commits.request_flush(pos.0);
    }

    pub(crate) fn try_flush(&self, pos: CommitPos) -> FlushOutcome {
        match self.commits.offer(pos.0) {
            OfferResult::Idle => FlushOutcome::Idle,
            OfferResult::Flushed { more } => FlushOutcome::Flushed { more },
        }
    }

    pub(crate) fn wait(&self, pos: CommitPos) -> Result<()> {
        self.commits.wait(pos.0).map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Stopped => StorageError::Closed,
        })
    }

    /// Runs a write that takes positions without being journaled.
    pub(crate) fn unjournaled<T>(&self, write: impl FnOnce() -> T) -> T {
        let counts = &self.commits.log().unjournaled;
        counts.begun.fetch_add(1, Ordering::SeqCst);
        let result = write();
        counts.ended.fetch_add(1, Ordering::SeqCst);
        result
    }

    /// Checks whether a failed write was a failure of the journal itself; then nothing more becomes
    /// durable.
    pub(crate) fn check_append(&self, error: &StorageError) {
        if self.commits.log().events.journal_broken() {
            self.commits.lose(error.clone());
        }
    }

    pub(crate) fn stats(&self) -> JournalStats {
        let log = self.commits.log();
        JournalStats {
            flushes: log.flushes.load(Ordering::Relaxed),
            flush_us_total: log.flush_us_total.load(Ordering::Relaxed),
            flush_us_last: log.flush_us_last.load(Ordering::Relaxed),
        }
    }

    /// Whether the last flush failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.commits.has_failed()
    }

    /// Flushes once more and ends the thread.
    pub(crate) fn stop(&self) {
        self.commits.stop();
        if let Some(thread) = self.thread.lock().take() {
            // A panicked thread has no result; its waiters are woken below.
            let _ = thread.join();
        }
        self.commits.wake_waiters();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl WriteAheadLog {
    fn flush(&self) -> std::result::Result<(), FlushError<StorageError>> {
        let counts = &self.unjournaled;
        let ended = counts.ended.load(Ordering::SeqCst);
        if counts.begun.load(Ordering::SeqCst) != counts.covered.load(Ordering::SeqCst) {
            self.db.write(MARKER, true).map_err(|error| FlushError {
                lasting: self.events.journal_broken(),
                error,
            })?;
            counts.covered.store(ended, Ordering::SeqCst);
        }
        self.db.admin().flush_wal(true).map_err(|error| {
            let text = error.into_string();
            FlushError {
                // A refusal because of an earlier append failure says nothing about this flush: if
                // that append found the device full, RocksDB begins a new file once there is room;
                // any other failure has marked the journal as broken. A failure of the manifest,
                // which records what was flushed, does not affect the journal either.
                lasting: self.events.journal_broken()
                    || !(error::is_earlier(&text)
                        || error::leaves_journal(&text)
                        || error::is_beside_journal(&text)),
                error: error::sort("a journal flush", text),
            }
        })
    }
}

impl Log for WriteAheadLog {
    type Error = StorageError;

    fn last(&self) -> u64 {
        // The journal record of a commit is written before its number becomes visible here.
        self.db.sequence()
    }

    fn sync(&self, target: u64) -> std::result::Result<(), FlushError<StorageError>> {
        let begun = Instant::now();
        let outcome = self.flush();
        let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.flush_us_last.store(us, Ordering::Relaxed);
        self.flush_us_total.fetch_add(us, Ordering::Relaxed);
        self.flushes.fetch_add(1, Ordering::Relaxed);
        if outcome.is_ok() {
            self.mark.durable(target);
        }
        outcome
    }

    fn announce(&self, outcome: FlushNotice) {
        let flushed = match outcome {
            FlushNotice::Durable(pos) => FlushEvent::Durable(CommitPos(pos)),
            FlushNotice::Failed(pos) => FlushEvent::Failed(CommitPos(pos)),
            FlushNotice::Lost => FlushEvent::Lost,
        };
        for hook in self.hooks.read().iter() {
            hook(flushed);
        }
    }
}
