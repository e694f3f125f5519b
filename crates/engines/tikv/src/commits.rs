//! The commit path. Batches that arrive while a transaction is in progress wait, and the next one
//! takes all of them: one thread leads, the others sleep. There is one transaction at a time, so
//! that every snapshot is older than the transaction in progress and never meets its locks.
//!
//! Promises: batches become visible in one order, completely, when they are durable; no commit
//! becomes visible that did not pass the fence. Must not know: cursors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use storage::emulate::{FixedView, commit_group};
use storage::{
    CommitPos, DurableHook, FlushEvent, KeyRange, Result, StorageError, Table, WriteBatch,
};

use crate::cluster::Cluster;
use crate::hooks::DurableHooks;
use crate::lane::CommitExecutor;
use crate::layout::{Layout, inline};
use crate::lease::Lease;
use crate::overlay::{Overlay, WriterCache};
use crate::view::View;

/// Most bytes of a transaction with several batches: its cost grows faster than its size.
const GROUP_BYTES_MAX: usize = 512 << 10;
const GROUP_BATCHES_MAX: usize = 256;

/// Whether readers on other machines keep a row in memory.
pub(crate) type CacheFilter = fn(Table, &[u8]) -> bool;

struct QueuedBatch {
    ticket: u64,
    batch: WriteBatch,
    /// Announce the batch to readers on other machines, whatever it changes.
    announced: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<QueuedBatch>,
    done: FxHashMap<u64, Result<CommitPos>>,
    next_ticket: u64,
    leading: bool,
    transactions: u64,
    batches: u64,
    busy_us: u64,
}

/// Totals for the metrics.
pub(crate) struct CommitTotals {
    pub(crate) transactions: u64,
    pub(crate) batches: u64,
    pub(crate) busy_us: u64,
}

/// The writers of an engine.
pub(crate) struct Commits {
    cluster: Arc<Cluster>,
    layout: Layout,
    lease: Arc<Lease>,
    // The newest commit that readers see.
    visible: AtomicU64,
    queue: Mutex<Queue>,
    turn: Condvar,
    lane: Mutex<(CommitExecutor, WriterCache)>,
    announced: OnceLock<CacheFilter>,
    announcements: AtomicU64,
    hooks: DurableHooks,
    /// How long a view may be read.
    kept: Option<Duration>,
}

impl Commits {
    /// Opens after the lease was taken by a commit at `ts`: unfinished large writes of an earlier
    /// holder are completed.
    ///
    /// # Errors
    /// Those of the cluster.
    pub(crate) fn open(
        cluster: &Arc<Cluster>,
        layout: &Layout,
        lease: &Arc<Lease>,
        ts: u64,
        kept: Option<Duration>,
    ) -> Result<Commits> {
        let mut lane = CommitExecutor::new(cluster, layout, lease);
        let ts = lane.recover(ts)?;
        let ts = fold_counters(&mut lane, cluster, layout, ts)?;
        let listed = View::at(cluster, layout, ts, None).marked_idents()?;
        Ok(Commits {
            cluster: Arc::clone(cluster),
            layout: layout.clone(),
            lease: Arc::clone(lease),
            visible: AtomicU64::new(ts),
            queue: Mutex::default(),
            turn: Condvar::new(),
            lane: Mutex::new((lane, WriterCache::new(listed.into_iter()))),
            announced: OnceLock::new(),
            announcements: AtomicU64::new(0),
            hooks: DurableHooks::default(),
            kept,
        })
    }

    pub(crate) fn on_durable(&self, hook: DurableHook) {
        self.hooks.add(hook);
    }

    /// The newest commit that readers see.
    pub(crate) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// A view of the newest state.
    pub(crate) fn view(&self) -> View {
        View::at(&self.cluster, &self.layout, self.visible(), self.kept)
    }

    pub(crate) fn totals(&self) -> CommitTotals {
        let queue = self.queue.lock();
        CommitTotals {
            transactions: queue.transactions,
            batches: queue.batches,
            busy_us: queue.busy_us,
        }
    }

    /// Tells all waiters that nothing more will be committed.
    pub(crate) fn tell_lost(&self) {
        self.hooks.call(FlushEvent::Lost);
    }

    /// Makes commits of rows for which `kept` is true announce themselves.
    pub(crate) fn announce(&self, kept: CacheFilter) {
        // This is the only place that sets it.
        let _ = self.announced.set(kept);
    }

    /// Announces earlier commits.
    ///
    /// # Errors
    /// As [`Commits::apply`].
    pub(crate) fn announce_now(&self) -> Result<()> {
        self.enqueue(WriteBatch::new(), true).map(|_| ())
    }

    /// Applies a batch and returns when it is durable and visible.
    ///
    /// # Errors
    /// Those of the cluster; [`StorageError::ReadOnly`] once the lease is lost.
    pub(crate) fn apply(&self, batch: &WriteBatch) -> Result<CommitPos> {
        let kept = self.announced.get();
        let announced = kept.is_some_and(|kept| batch.iter().any(|op| op.changes_kept(*kept)));
        self.enqueue(batch.clone(), announced)
    }

    fn enqueue(&self, batch: WriteBatch, announced: bool) -> Result<CommitPos> {
        let mut queue = self.queue.lock();
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push(QueuedBatch {
            ticket,
            batch,
            announced,
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
            drop(queue);
            let began = Instant::now();
            let results = self.commit_leading(&group);
            queue = self.queue.lock();
            queue.transactions += 1;
            queue.batches += group.len() as u64;
            let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            queue.busy_us = queue.busy_us.saturating_add(us);
            let tickets = group.iter().map(|w| w.ticket);
            queue.done.extend(tickets.zip(results));
            queue.leading = false;
            self.turn.notify_all();
        }
    }

    /// Commits a group; returns its results after the hooks were called.
    fn commit_leading(&self, group: &[QueuedBatch]) -> Vec<Result<CommitPos>> {
        let results = match commit_group(group, |group| self.transaction(group)) {
            Ok(results) => results,
            Err(e) => {
                if !e.is_clean_refusal() {
                    self.lease.lose("the outcome of a commit is unknown");
                }
                group.iter().map(|_| Err(e.clone())).collect()
            }
        };
        if let Some(pos) = results.iter().filter_map(|r| r.as_ref().ok()).max() {
            self.hooks.call(FlushEvent::Durable(*pos));
        }
        if self.lease.lost_reason().is_some() {
            self.hooks.call(FlushEvent::Lost);
        }
        results
    }

    fn transaction(&self, group: &[QueuedBatch]) -> Result<CommitPos> {
        if let Some(context) = self.lease.lost_reason() {
            return Err(StorageError::ReadOnly { context });
        }
        let mut guard = self.lane.lock();
        let (lane, known) = &mut *guard;
        let view = self.view();
        let announced = group.iter().any(|one| one.announced);
        let prepare = || {
            let mut overlay = Overlay::new(&view, known);
            group.iter().try_for_each(|one| overlay.add(&one.batch))?;
            if overlay.is_empty() && !announced {
                return Ok(None);
            }
            overlay.finish(&self.layout).map(Some)
        };
        let Some((mut changes, learned)) = prepare()? else {
            return Ok(CommitPos(self.visible()));
        };
        if announced {
            let number = self.announcements.fetch_add(1, Ordering::Relaxed) + 1;
            changes.push(self.lease.announcement(number));
        }
        let ts = lane.write(changes)?;
        learned.apply(known);
        self.visible.store(ts, Ordering::Release);
        Ok(CommitPos(ts))
    }
}

/// Adds the parts of counters, which members have left, to the counters.
fn fold_counters(
    lane: &mut CommitExecutor,
    cluster: &Arc<Cluster>,
    layout: &Layout,
    mut ts: u64,
) -> Result<u64> {
    let view = View::at(cluster, layout, ts, None).with_parts(|_| true);
    let parts = view.counter_parts(KeyRange::ALL.lower, KeyRange::ALL.upper)?;
    for of_counter in parts.chunk_by(|a, b| a.key == b.key) {
        let Some(first) = of_counter.first() else {
            continue;
        };
        let mut sum = Vec::new();
        view.get(Table::Meta, &first.key, &mut |value| sum = inline(value))?;
        let gone = of_counter.iter().map(|part| (part.row.clone(), None));
        let row = (layout.row(Table::Meta, &first.key), Some(sum));
        ts = lane.write(std::iter::once(row).chain(gone).collect())?;
    }
    Ok(ts)
}

/// The batches of the next transaction, in order of arrival.
fn take_group(waiting: &mut Vec<QueuedBatch>) -> Vec<QueuedBatch> {
    let mut bytes = 0;
    let fits = waiting.iter().take(GROUP_BATCHES_MAX).take_while(|w| {
        let first = bytes == 0;
        bytes += w.batch.byte_len();
        first || bytes <= GROUP_BYTES_MAX
    });
    let count = fits.count();
    waiting.drain(..count).collect()
}
