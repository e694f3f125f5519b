//! The memory engine: the model of the contract, and the engine of tests without native code.
//! Nothing is kept after close. Versioned keys give real snapshots; versions that no snapshot can
//! see are pruned.

mod offered;
mod read;
mod shared;
mod table;
mod unit;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::batch::WriteBatch;
use crate::engine::{
    Caps, CheckedUnit, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, Reader,
    Snapshot, StatSink, VerifyReport,
};
use crate::error::{Result, StorageError};
use crate::follower::{Follower, Moment};
use crate::keys::{IdentSet, KeyRange, Table};
use offered::OfferedMoments;
use read::{ExpectedSnapshot, MemoryCursor, MemorySnapshot, SharedSnapshot};
use shared::Shared;
use table::State;
use unit::MemoryUnit;

/// An engine that keeps its data in memory only.
pub struct MemoryEngine {
    shared: Arc<Shared>,
    caps: Caps,
    /// Whether several stores write to it, so that units detect conflicts.
    is_checked: bool,
    /// The moments at which a unit may begin.
    offered: OfferedMoments,
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryEngine {
    /// Sets the clock that the servers on this engine share, milliseconds since 1970.
    pub fn set_time_ms(&self, now: u64) {
        self.shared.time_ms.store(now, Ordering::Release);
    }

    /// Calls `act` once, right before the next commit of a unit: for tests of two stores that meet.
    pub fn before_next_commit(&self, act: Box<dyn FnOnce() + Send>) {
        *self.shared.before_commit.lock() = Some(act);
    }

    /// An empty engine.
    pub fn new() -> Self {
        Self::with_units(false)
    }

    fn with_units(is_checked: bool) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: RwLock::new(State::default()),
                closed: AtomicBool::new(false),
                hooks: Mutex::default(),
                exclusive_pos: AtomicU64::new(0),
                kept: OnceLock::new(),
                announced_pos: AtomicU64::new(0),
                numbered: AtomicU64::new(0),
                before_commit: Mutex::default(),
                time_ms: AtomicU64::new(0),
                is_checked,
            }),
            caps: Caps {
                name: "memory",
                persistent: false,
                key_bytes_max: 64 << 20,
                value_bytes_max: 1 << 30,
                batch_bytes_max: 1 << 30,
                delete_range: true,
                checkpoint: false,
                request_rows: 1,
                spreads: false,
            },
            is_checked,
            offered: OfferedMoments::default(),
        }
    }

    /// An empty engine whose `request_rows` is that of an engine on another machine.
    pub fn remote(request_rows: usize) -> Self {
        let engine = Self::new();
        let caps = Caps {
            request_rows,
            ..engine.caps
        };
        Self { caps, ..engine }
    }

    /// An empty engine for several stores at once: its units detect conflicts.
    pub fn new_checked() -> Self {
        Self::with_units(true)
    }
}

impl Reader for MemoryEngine {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.shared.check_open()?;
        let state = self.shared.state.read();
        Ok(state.get(table, key, state.pos()).map(f).is_some())
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.shared.check_open()?;
        let state = self.shared.state.read();
        for (index, key) in keys.iter().enumerate() {
            each(index, state.get(table, key, state.pos()));
        }
        Ok(())
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        range.check()?;
        let snapshot = Arc::new(MemorySnapshot::take(&self.shared)?);
        Ok(Box::new(MemoryCursor::new(snapshot, table, range, opts)))
    }
}

impl Follower for MemoryEngine {
    fn moment(&self) -> Result<Moment> {
        let (snapshot, announced) = MemorySnapshot::take_announced(&self.shared)?;
        let snapshot = Arc::new(snapshot);
        self.offered.add(&snapshot, announced);
        Ok(Moment {
            snapshot: Arc::new(SharedSnapshot(snapshot)),
            announced: announced.to_be_bytes().to_vec(),
        })
    }

    fn begin_moment(&self, announced: &[u8]) -> Result<Option<Arc<dyn Snapshot>>> {
        let (snapshot, now) = MemorySnapshot::take_announced(&self.shared)?;
        let snapshot = Arc::new(snapshot);
        self.offered.add(&snapshot, now);
        Ok(Some(Arc::new(ExpectedSnapshot {
            snapshot: SharedSnapshot(snapshot),
            is_outdated: announced != now.to_be_bytes(),
        })))
    }
}

impl Engine for MemoryEngine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(SharedSnapshot(Arc::new(MemorySnapshot::take(
            &self.shared,
        )?))))
    }

    fn announce_now(&self) -> Result<()> {
        self.shared.announce_now()
    }

    fn shared_time_ms(&self) -> Option<u64> {
        let set = self.shared.time_ms.load(Ordering::Acquire);
        Some(set).filter(|ms| *ms > 0)
    }

    fn apply(&self, batch: &WriteBatch, _durability: Durability) -> Result<CommitPos> {
        let applied = self.shared.apply_if(batch, &self.caps, |_, _| true)?;
        applied.ok_or(StorageError::Conflict)
    }

    fn begin_checked(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        if !self.is_checked {
            return Ok(None);
        }
        let unit = MemoryUnit::begin(&self.shared, &self.caps)?;
        Ok(Some(Box::new(unit)))
    }

    fn begin_early(
        &self,
        at: CommitPos,
        _: &[(Table, &[u8])],
    ) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        let Some((snapshot, announced)) = self.offered.take(at) else {
            return self.begin_checked();
        };
        let unit = MemoryUnit::begin_at(&self.shared, &self.caps, snapshot, announced);
        Ok(Some(Box::new(unit)))
    }

    fn begin_exclusive(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        if !self.is_checked {
            return Ok(None);
        }
        let unit = MemoryUnit::begin(&self.shared, &self.caps)?.exclusive();
        Ok(Some(Box::new(unit)))
    }

    fn number_rows(&self, count: usize) -> Option<u64> {
        let numbered = &self.shared.numbered;
        self.is_checked
            .then(|| numbered.fetch_add(count as u64, Ordering::Relaxed) + 1)
    }

    fn written_at(&self, table: Table, key: &[u8], _: CommitPos) -> Result<Option<CommitPos>> {
        self.shared.check_open()?;
        Ok(self
            .shared
            .state
            .read()
            .written_at(table, key)
            .map(CommitPos))
    }

    fn last_pos(&self) -> CommitPos {
        CommitPos(self.shared.state.read().pos())
    }

    fn durable_pos(&self) -> CommitPos {
        CommitPos(self.shared.state.read().pos())
    }

    fn wait_durable(&self, _pos: CommitPos) -> Result<()> {
        self.shared.check_open()
    }

    fn on_durable(&self, hook: DurableHook) {
        self.shared.hooks.lock().push(hook);
    }

    fn announce(&self, kept: fn(Table, &[u8]) -> bool) {
        // All stores of an engine keep the same rows.
        let _ = self.shared.kept.set(kept);
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.shared.check_open()?;
        range.check()?;
        self.shared.state.write().erase_range(table, range);
        Ok(())
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        self.shared.state.write().erase_idents(table, &idents);
    }

    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.shared.check_open()?;
        range.check()?;
        Ok(self.shared.state.read().size_bytes(table, range))
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        let state = self.shared.state.read();
        for table in Table::ALL {
            sink(
                &format!("{}.keys", table.name()),
                state.keys_with_versions(table) as i64,
            );
        }
        sink("snapshots", state.held_count() as i64);
        sink("pending_versions", state.garbage_count() as i64);
    }

    fn checkpoint(&self, _path: &Path) -> Result<()> {
        Err(StorageError::Unsupported("checkpoint of the memory engine"))
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.shared.check_open()?;
        let state = self.shared.state.read();
        let bytes = Table::ALL
            .iter()
            .map(|&table| state.size_bytes(table, KeyRange::ALL))
            .sum();
        Ok(VerifyReport {
            bytes,
            findings: Vec::new(),
        })
    }

    fn flush(&self) -> Result<()> {
        self.shared.check_open()
    }

    fn close(&self) -> Result<()> {
        self.shared.closed.store(true, Ordering::Release);
        Ok(())
    }
}
