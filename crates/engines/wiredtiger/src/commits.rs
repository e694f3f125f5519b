//! The commit path: one batch is one transaction, one thread at a time, so that positions are in
//! the order in which commits become visible, and no transaction conflicts with another writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::{
    BatchOp, KeyRange, Result, StorageError, WriteBatch, counter_add, counter_decode,
    counter_encode,
};

use crate::pool::Pool;
use crate::session::{Outcome, Session};
use crate::view::View;

/// A transaction may be rolled back when the cache is full; it is tried this often.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);

/// The writer of an engine.
pub(crate) struct Commits {
    pool: Arc<Pool>,
    writer: Mutex<Session>,
    /// Position of the commit in progress, or of the last one: the newest that readers may see.
    begun: AtomicU64,
    /// Position of the last completed commit. Changed under the writer's lock.
    ended: AtomicU64,
}

impl Commits {
    pub(crate) fn new(pool: Arc<Pool>) -> Result<Commits> {
        Ok(Commits {
            writer: Mutex::new(Session::of(&pool)?),
            pool,
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        })
    }

    /// A position that covers everything that a read may have seen.
    pub(crate) fn last(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// A position up to which every commit is in the log; waits for the commit in progress.
    pub(crate) fn settle_position(&self) -> u64 {
        let _writer = self.writer.lock();
        self.ended.load(Ordering::Acquire)
    }

    /// Takes a view of the latest state, between two commits.
    pub(crate) fn view(&self) -> Result<View> {
        let _writer = self.writer.lock();
        View::take(&self.pool, self.ended.load(Ordering::Acquire))
    }

    /// Applies a batch; the operating system has its log record when this returns.
    pub(crate) fn apply(&self, batch: &WriteBatch) -> Result<u64> {
        let mut writer = self.writer.lock();
        let pos = self.ended.load(Ordering::Relaxed) + 1;
        // Stored before the commit becomes visible: a reader that has seen it must not get an older
        // position.
        self.begun.store(pos, Ordering::Release);
        let result = commit_batch(&mut writer, batch);
        // After a failure this is a position at which nothing changed.
        self.ended.store(pos, Ordering::Release);
        result.map(|()| pos)
    }
}

fn commit_batch(writer: &mut Session, batch: &WriteBatch) -> Result<()> {
    for _ in 0..TRIES {
        writer.begin()?;
        match operate_all(writer, batch) {
            Ok(Outcome::Done) => {
                if writer.commit()? == Outcome::Done {
                    return Ok(());
                }
            }
            Ok(Outcome::Again) => writer.rollback(),
            Err(e) => {
                writer.rollback();
                return Err(e);
            }
        }
        std::thread::sleep(PAUSE);
    }
    Err(StorageError::Busy(
        "the engine has no room in its cache for the batch".to_owned(),
    ))
}

fn operate_all(writer: &Session, batch: &WriteBatch) -> Result<Outcome> {
    for op in batch.iter() {
        if operate(writer, op)? == Outcome::Again {
            return Ok(Outcome::Again);
        }
    }
    Ok(Outcome::Done)
}

fn operate(writer: &Session, op: BatchOp<'_>) -> Result<Outcome> {
    match op {
        BatchOp::Put { table, key, value } => writer.put(table, key, value),
        BatchOp::Delete { table, key } => writer.delete(table, key),
        BatchOp::DeleteRange {
            table,
            lower,
            upper,
        } => writer.delete_range(table, KeyRange::new(lower, upper)),
        BatchOp::Add { table, key, delta } => {
            let mut old = [0, 0];
            writer.get(table, key, &mut |value| old = counter_decode(value))?;
            writer.put(table, key, &counter_encode(counter_add(old, delta)))
        }
    }
}
