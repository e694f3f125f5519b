//! An engine of several stores in which each request to the oracle or to a store of the cluster
//! takes a fixed time, with any number of them in parallel. The data is in memory. Promises: it
//! waits for as many requests as a member of a TiKV cluster makes, one after the other. Must not
//! know: what the rows mean.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::{
    Caps, CheckedUnit, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, Follower,
    IdentSet, KeyRange, MemoryEngine, Moment, Reader, Result, Snapshot, StatSink, Table,
    VerifyReport, WriteBatch,
};

/// Requests of a commit: the locks, the time of the commit, the commit.
const OF_COMMIT: u32 = 3;

/// Waits for requests and counts them.
pub(crate) struct Network {
    pub(crate) request: Duration,
    pub(crate) requests: AtomicU64,
}

impl Network {
    fn wait(&self, requests: u32) {
        self.requests
            .fetch_add(u64::from(requests), Ordering::Relaxed);
        std::thread::sleep(self.request * requests);
    }
}

/// One member's engine.
pub(crate) struct SlowEngine {
    pub(crate) inner: Arc<MemoryEngine>,
    pub(crate) network: Arc<Network>,
    /// The newest position up to which this member has read the announcements.
    pub(crate) seen: Arc<AtomicU64>,
}

struct SlowSnapshot {
    inner: Arc<dyn Snapshot>,
    network: Arc<Network>,
    /// The announcements were compared, by a request that also read something else.
    is_checked: AtomicBool,
    seen: Arc<AtomicU64>,
}

struct SlowCursor {
    inner: Box<dyn Cursor>,
    network: Arc<Network>,
}

struct SlowUnit<'e> {
    inner: Box<dyn CheckedUnit + 'e>,
    network: Arc<Network>,
    /// The keys that were read with the first request, or later.
    read: Mutex<HashSet<(Table, Vec<u8>)>>,
}

impl Reader for SlowEngine {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.network.wait(1);
        self.inner.get_with(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.network.wait(1);
        self.inner.multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(SlowCursor {
            inner: self.inner.cursor(table, range, opts)?,
            network: Arc::clone(&self.network),
        }))
    }
}

impl Cursor for SlowCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.inner.seek(key)
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        self.network.wait(1);
        self.inner.visit(rows_max, f)
    }
}

impl Reader for SlowSnapshot {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.is_checked.store(true, Ordering::Relaxed);
        self.network.wait(1);
        self.inner.get_with(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.is_checked.store(true, Ordering::Relaxed);
        self.network.wait(1);
        self.inner.multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        self.check()?;
        Ok(Box::new(SlowCursor {
            inner: self.inner.cursor(table, range, opts)?,
            network: Arc::clone(&self.network),
        }))
    }
}

impl Snapshot for SlowSnapshot {
    fn pos(&self) -> CommitPos {
        self.inner.pos()
    }

    fn age(&self) -> Duration {
        self.inner.age()
    }

    fn check(&self) -> Result<()> {
        let is_checked = self.is_checked.swap(true, Ordering::Relaxed);
        if !is_checked && self.seen.load(Ordering::Relaxed) < self.pos().0 {
            self.network.wait(1);
        }
        self.inner.check()
    }
}

impl SlowUnit<'_> {
    fn wait_for(&self, table: Table, keys: &[&[u8]]) {
        let mut read = self.read.lock();
        let unread = keys.iter().filter(|key| read.insert((table, key.to_vec())));
        if unread.count() > 0 {
            drop(read);
            self.network.wait(1);
        }
    }
}

impl Reader for SlowUnit<'_> {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.wait_for(table, &[key]);
        self.inner.get_with(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.wait_for(table, keys);
        self.inner.multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        self.network.wait(1);
        self.inner.cursor(table, range, opts)
    }
}

impl CheckedUnit for SlowUnit<'_> {
    fn commit(self: Box<Self>, batch: &WriteBatch, durability: Durability) -> Result<CommitPos> {
        self.network.wait(OF_COMMIT);
        self.inner.commit(batch, durability)
    }

    fn announced(&self) -> &[u8] {
        self.inner.announced()
    }
}

impl SlowEngine {
    fn snapshot_of(&self, inner: Arc<dyn Snapshot>, is_checked: bool) -> Arc<dyn Snapshot> {
        Arc::new(SlowSnapshot {
            inner,
            network: Arc::clone(&self.network),
            is_checked: AtomicBool::new(is_checked),
            seen: Arc::clone(&self.seen),
        })
    }

    fn unit<'e>(
        &self,
        inner: Option<Box<dyn CheckedUnit + 'e>>,
        keys: &[(Table, &[u8])],
    ) -> Option<Box<dyn CheckedUnit + 'e>> {
        let read = keys.iter().map(|(table, key)| (*table, key.to_vec()));
        Some(Box::new(SlowUnit {
            inner: inner?,
            network: Arc::clone(&self.network),
            read: Mutex::new(read.collect()),
        }))
    }
}

impl Follower for SlowEngine {
    fn moment(&self) -> Result<Moment> {
        // The oracle, and the announcements.
        self.network.wait(2);
        let moment = self.inner.moment()?;
        Ok(Moment {
            snapshot: self.snapshot_of(moment.snapshot, true),
            ..moment
        })
    }

    fn begin_moment(&self, announced: &[u8]) -> Result<Option<Arc<dyn Snapshot>>> {
        self.network.wait(1);
        let begun = self.inner.begin_moment(announced)?;
        Ok(begun.map(|inner| self.snapshot_of(inner, false)))
    }
}

impl Engine for SlowEngine {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(self.snapshot_of(self.inner.snapshot()?, true))
    }

    fn apply(&self, batch: &WriteBatch, durability: Durability) -> Result<CommitPos> {
        self.network.wait(2 + OF_COMMIT);
        self.inner.apply(batch, durability)
    }

    fn begin_checked(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        self.network.wait(2);
        Ok(self.unit(self.inner.begin_checked()?, &[]))
    }

    fn begin_early(
        &self,
        at: CommitPos,
        keys: &[(Table, &[u8])],
    ) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        // Without a moment it asks the oracle.
        self.network.wait(if at.0 == 0 { 2 } else { 1 });
        self.seen.fetch_max(at.0, Ordering::Relaxed);
        Ok(self.unit(self.inner.begin_early(at, keys)?, keys))
    }

    fn begin_exclusive(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        self.network.wait(2);
        Ok(self.unit(self.inner.begin_exclusive()?, &[]))
    }

    fn number_rows(&self, count: usize) -> Option<u64> {
        self.inner.number_rows(count)
    }

    fn last_pos(&self) -> CommitPos {
        self.inner.last_pos()
    }

    fn durable_pos(&self) -> CommitPos {
        self.inner.durable_pos()
    }

    fn wait_durable(&self, pos: CommitPos) -> Result<()> {
        self.inner.wait_durable(pos)
    }

    fn on_durable(&self, hook: DurableHook) {
        self.inner.on_durable(hook);
    }

    fn announce(&self, kept: fn(Table, &[u8]) -> bool) {
        self.inner.announce(kept);
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.inner.drop_range(table, range)
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        self.inner.set_dropped(table, idents);
    }

    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.inner.approx_size(table, range)
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        self.inner.stats(sink);
    }

    fn checkpoint(&self, path: &Path) -> Result<()> {
        self.inner.checkpoint(path)
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.inner.verify()
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}
