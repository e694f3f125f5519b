//! The commit path: batches that arrive while a transaction is being flushed wait, and the next
//! transaction takes all of them. One thread leads, the others sleep; leadership is not handed
//! over.

use std::time::Instant;

use heed::RwTxn;
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use storage::emulate::commit_group;
use storage::{
    BatchOp, CommitPos, DurableHook, FlushEvent, Result, StorageError, Table, WriteBatch,
    counter_add, counter_decode, counter_encode,
};

use crate::error::classify;
use crate::tables::Tables;
use storage::emulate::long_keys::{is_bucket, place, retain_entries};

/// Most bytes of one transaction, so that no batch waits long for large ones.
const TRANSACTION_BYTES_MAX: usize = 32 << 20;

struct QueuedBatch {
    ticket: u64,
    batch: WriteBatch,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<QueuedBatch>,
    done: FxHashMap<u64, Result<CommitPos>>,
    next_ticket: u64,
    leading: bool,
    /// A flush failed: what the device holds is unknown.
    failed: bool,
    transactions: u64,
    busy_us: u64,
}

/// The writers of an engine.
pub(crate) struct Commits {
    tables: Tables,
    queue: Mutex<Queue>,
    turn: Condvar,
    hooks: Mutex<Vec<DurableHook>>,
}

impl Commits {
    pub(crate) fn new(tables: Tables) -> Commits {
        Commits {
            tables,
            queue: Mutex::default(),
            turn: Condvar::new(),
            hooks: Mutex::default(),
        }
    }

    pub(crate) fn on_durable(&self, hook: DurableHook) {
        self.hooks.lock().push(hook);
    }

    /// Number of transactions committed, and microseconds spent in them.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let queue = self.queue.lock();
        (queue.transactions, queue.busy_us)
    }

    /// Applies a batch and returns when it is durable.
    ///
    /// # Errors
    /// Those of LMDB; [`StorageError::ReadOnly`] after a flush has failed.
    pub(crate) fn apply(&self, batch: &WriteBatch) -> Result<CommitPos> {
        let mut queue = self.queue.lock();
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push(QueuedBatch {
            ticket,
            batch: batch.clone(),
        });
        loop {
            if let Some(result) = queue.done.remove(&ticket) {
                return result;
            }
            if queue.leading {
                self.turn.wait(&mut queue);
                continue;
            }
            queue.leading = true;
            let group = take_group(&mut queue.waiting);
            let failed = queue.failed;
            drop(queue);
            let began = Instant::now();
            let results = if failed {
                Err(read_only())
            } else {
                commit_group(&group, |group| self.transaction(group))
            };
            let lost = matches!(&results, Err(e) if !failed && !e.is_clean_refusal());
            let results: Vec<_> = match results {
                Ok(results) => results,
                Err(e) => group.iter().map(|_| Err(e.clone())).collect(),
            };
            let durable = results.iter().filter_map(|r| r.as_ref().ok()).max();
            if let Some(pos) = durable {
                self.call_hooks(FlushEvent::Durable(*pos));
            }
            if lost {
                self.call_hooks(FlushEvent::Lost);
            }
            queue = self.queue.lock();
            queue.failed |= lost;
            queue.transactions += 1;
            let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            queue.busy_us = queue.busy_us.saturating_add(us);
            let tickets = group.iter().map(|w| w.ticket);
            queue.done.extend(tickets.zip(results));
            queue.leading = false;
            self.turn.notify_all();
        }
    }

    fn call_hooks(&self, flushed: FlushEvent) {
        for hook in self.hooks.lock().iter() {
            hook(flushed);
        }
    }

    fn transaction(&self, group: &[QueuedBatch]) -> Result<CommitPos> {
        let mut txn = self
            .tables
            .env
            .write_txn()
            .map_err(|e| classify("a write", e))?;
        for one in group {
            for op in one.batch.iter() {
                self.operate(&mut txn, op)?;
            }
        }
        txn.commit().map_err(|e| classify("a commit", e))?;
        // A transaction that changed nothing does not get a number of its own.
        Ok(CommitPos(self.tables.last_commit()))
    }

    fn operate(&self, txn: &mut RwTxn<'_>, op: BatchOp<'_>) -> Result<()> {
        let tables = &self.tables;
        match op {
            BatchOp::Put { table, key, value } => tables.set(txn, table, key, Some(value)),
            BatchOp::Delete { table, key } => tables.set(txn, table, key, None),
            BatchOp::DeleteRange {
                table,
                lower,
                upper,
            } => self.delete_range(txn, table, lower, upper),
            BatchOp::Add { table, key, delta } => {
                let old = tables.get(txn, table, key)?.map_or([0, 0], counter_decode);
                let sum = counter_encode(counter_add(old, delta));
                tables.set(txn, table, key, Some(&sum))
            }
        }
    }

    /// Removes the keys between two keys: whole entries at once, and parts of the buckets at both
    /// ends.
    fn delete_range(
        &self,
        txn: &mut RwTxn<'_>,
        table: Table,
        lower: &[u8],
        upper: &[u8],
    ) -> Result<()> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        if lower >= upper {
            return Ok(());
        }
        let ((first, lower_rest), (last, upper_rest)) = (place(lower), place(upper));
        if lower_rest.is_some() {
            self.trim(txn, table, first, lower, upper)?;
        }
        if upper_rest.is_some() && (lower_rest.is_none() || first != last) {
            self.trim(txn, table, last, lower, upper)?;
        }
        let from = match (first, lower_rest) {
            ([], _) => Unbounded,
            (key, None) => Included(key),
            (prefix, Some(_)) => Excluded(prefix),
        };
        if first >= last {
            return Ok(());
        }
        self.tables
            .database(table)
            .delete_range(txn, &(from, Excluded(last)))
            .map(|_| ())
            .map_err(|e| classify("a write", e))
    }

    fn trim(
        &self,
        txn: &mut RwTxn<'_>,
        table: Table,
        prefix: &[u8],
        lower: &[u8],
        upper: &[u8],
    ) -> Result<()> {
        debug_assert!(is_bucket(prefix));
        let found = self.tables.database(table).get(txn, prefix);
        let Some(bucket) = found.map_err(|e| classify("a write", e))? else {
            return Ok(());
        };
        let kept = retain_entries(bucket, |rest| {
            let key = [prefix, rest].concat();
            key.as_slice() < lower || key.as_slice() >= upper
        });
        self.tables.set_bucket(txn, table, prefix, &kept)
    }
}

/// The batches of the next transaction, in order of arrival.
fn take_group(waiting: &mut Vec<QueuedBatch>) -> Vec<QueuedBatch> {
    let mut bytes = 0;
    let fits = waiting.iter().take_while(|w| {
        let first = bytes == 0;
        bytes += w.batch.byte_len();
        first || bytes <= TRANSACTION_BYTES_MAX
    });
    let count = fits.count();
    waiting.drain(..count).collect()
}

fn read_only() -> StorageError {
    StorageError::ReadOnly {
        context: "a flush of the data file has failed before".to_owned(),
    }
}
