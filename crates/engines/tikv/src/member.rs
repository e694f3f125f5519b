//! A server among several that write to one database at the same time. A unit is a transaction of
//! the cluster: it reads at its beginning, and the stores detect conflicts with other servers.
//!
//! Promises: the contract of `docs/storage-contract.md` with units that detect conflicts; no two
//! servers write one row on the ordinary path. Must not know: what the rows mean.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use storage::emulate::{ChunkedCursor, FixedView, SharedView, check_order, sampled_size};
use storage::{
    Caps, CheckedUnit, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, FlushEvent,
    IdentSet, KeyRange, Moment, Reader, Result, Snapshot, StatSink, StorageError, Table,
    VerifyReport, WriteBatch,
};

use crate::announcements::SeenAnnouncements;
use crate::cluster::{Cluster, RETRY_FOR, millis};
use crate::commits::CacheFilter;
use crate::config::{
    Config, MEMBER_FORMAT, ROW_OVERHEAD_BYTES, caps, check_format, format_row, start,
};
use crate::hooks::DurableHooks;
use crate::layout::{Layout, SCAN_ROWS};
use crate::lease_row::LeaseOptions;
use crate::membership::Membership;
use crate::moments::{AGE_MAX, OfferedMoments, RequestCombiner};
use crate::overlay::{Overlay, WriterCache};
use crate::ranges;
use crate::requests;
use crate::row_numbers::{self, RowNumbers};
use crate::slots::{CommitOutcomes, SlotCommits, SlotPool};
use crate::turn::Turn;
use crate::turn_row::TurnRow;
use crate::unit::{Begun, MemberUnit, UnitCommitter, turn_changes};
use crate::versions::{StopSignal, VersionRetention};
use crate::view::{CounterFilter, View};
use crate::written::find_commit;

mod announcing;
mod exclusive;
mod following;

const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// A lease is renewed this many times before it would expire.
const RENEWALS: u32 = 4;

/// A database in a cluster, to which this process and others write.
pub struct TikvMember {
    commits: SlotCommits,
    slots: SlotPool,
    row_numbers: RowNumbers,
    caps: Caps,
    /// The newest time that was read or committed.
    newest: AtomicU64,
    seen: Arc<SeenAnnouncements>,
    /// The moments at which a unit may begin.
    offered: OfferedMoments,
    together: RequestCombiner<Result<Moment>>,
    /// Taken by the exclusive unit of this member.
    turn: Turn,
    kept: OnceLock<CacheFilter>,
    counters: OnceLock<CounterFilter>,
    /// What is known of values in pieces, as of the announcement with these bytes.
    pieces: Mutex<(Vec<u8>, Arc<WriterCache>)>,
    hooks: DurableHooks,
    /// How long a moment may be read.
    keep_versions: Option<Duration>,
    dropped: RwLock<[Arc<IdentSet>; Table::ALL.len()]>,
    versions: Option<Arc<VersionRetention>>,
    ending: Arc<StopSignal>,
    renewing: Mutex<Option<JoinHandle<()>>>,
    committed: AtomicU64,
    conflicts: AtomicU64,
    closed: AtomicBool,
}

impl TikvMember {
    /// Connects to the cluster and joins the database. Uses the options for the addresses, TLS, the
    /// prefix, the name and address of this server, the lease, and how long overwritten versions
    /// can be read.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::ForeignDirectory`],
    /// [`StorageError::NewerFormat`], [`StorageError::Unreachable`], [`StorageError::Untrusted`]
    pub fn join(config: &Config) -> Result<TikvMember> {
        let cluster = Arc::new(Cluster::connect(&config.pd, config.tls.as_ref())?);
        let layout = Layout::new(&config.prefix);
        check_format(&cluster, &layout, &config.prefix)?;
        let terms = LeaseOptions {
            name: &config.name,
            address: &config.address,
            awaited: None,
            duration: config.lease,
            wait: None,
            format: format_row(MEMBER_FORMAT),
        };
        let joined = Membership::join(&cluster, &layout, &terms)?;
        let membership = Arc::new(joined.membership);
        let ending = Arc::new(StopSignal::default());
        let renewing = {
            let (ending, membership) = (Arc::clone(&ending), Arc::clone(&membership));
            let every = config.lease / RENEWALS;
            start("quarry-member", move || {
                while !ending.wait(every) && membership.lost_reason().is_none() {
                    // A failed renewal is followed by another one.
                    let _ = membership.renew();
                }
            })?
        };
        let kept = config.keep_versions;
        let versions = kept.map(|kept| Arc::new(VersionRetention::new(&cluster, kept)));
        if let Some(versions) = versions.clone() {
            let (ending, membership) = (Arc::clone(&ending), Arc::clone(&membership));
            // Not joined at the end: a cluster that does not answer would block it for long.
            start("quarry-versions", move || {
                versions.run(&ending, &|| membership.safe_point_role());
            })?;
        }
        let slots = SlotPool::new(membership.slots(), joined.ts);
        let row_numbers = RowNumbers::new(membership.number(), joined.numbers_from_ms);
        let member = TikvMember {
            commits: SlotCommits {
                cluster,
                layout,
                membership,
                outcomes: CommitOutcomes::default(),
            },
            slots,
            row_numbers,
            caps: caps(),
            newest: AtomicU64::new(joined.ts),
            seen: Arc::default(),
            offered: OfferedMoments::default(),
            together: RequestCombiner::default(),
            turn: Turn::default(),
            kept: OnceLock::new(),
            counters: OnceLock::new(),
            pieces: Mutex::default(),
            hooks: DurableHooks::default(),
            keep_versions: config.keep_versions,
            dropped: RwLock::default(),
            versions,
            ending,
            renewing: Mutex::new(Some(renewing)),
            committed: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        };
        if joined.is_alone {
            // Nobody needs the scratch data of earlier processes.
            ranges::remove(&member, Table::Tmp, KeyRange::ALL)?;
        }
        Ok(member)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StorageError::Closed);
        }
        match self.commits.membership.lost_reason() {
            Some(why) => Err(StorageError::Unreachable(why)),
            None => Ok(()),
        }
    }

    fn at(&self, ts: u64) -> View {
        let (cluster, layout) = (&self.commits.cluster, &self.commits.layout);
        let view = View::at(cluster, layout, ts, self.keep_versions);
        // Without a filter every key may be a counter.
        let counters = self.counters.get().copied().unwrap_or(|_| true);
        view.with_parts(counters)
    }

    fn latest(&self) -> Result<Arc<View>> {
        self.check_open()?;
        Ok(Arc::new(self.at(self.newest.load(Ordering::Acquire))))
    }

    /// Gets one time of the oracle, and makes one request to a store.
    fn ask(&self) -> Result<Moment> {
        let ts = self.commits.cluster.fetch_timestamp()?;
        let announced = self.commits.membership.read_shared(ts, &[])?.announced;
        self.seen.note(&announced, ts);
        self.newest.fetch_max(ts, Ordering::AcqRel);
        self.offered.add(ts);
        Ok(Moment {
            snapshot: Arc::new(SharedView(Arc::new(self.at(ts)))),
            announced,
        })
    }

    /// Begins a unit now, when no other unit has its turn at a change that all wait for.
    ///
    /// # Input
    /// `in_turn`: it is for the unit of this member that has its turn. `keys` are read at once.
    fn begin_unit(&self, in_turn: bool, keys: &[(Table, &[u8])]) -> Result<MemberUnit<'_>> {
        loop {
            self.check_open()?;
            // Before the time of the unit: no other commit may write the slot's row after it.
            let slot = self.slots.take();
            // In two phases: the lock of the first shows readers that a commit is in progress.
            let (txn, ts) = self.commits.cluster.begin_beside_others()?;
            let begun = Begun { txn, ts, slot };
            match self.begin_in(begun, in_turn, keys)? {
                Some(unit) => return Ok(unit),
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Begins a unit at a moment that was not long ago; `None` when it has to begin now.
    fn begin_at(&self, ts: u64, keys: &[(Table, &[u8])]) -> Result<Option<MemberUnit<'_>>> {
        if !self.offered.take(ts) {
            return Ok(None);
        }
        self.check_open()?;
        let now_ms = self.commits.membership.now_ms();
        let age = Duration::from_millis(now_ms.saturating_sub(millis(ts)));
        let Some(slot) = self.slots.take_for(ts).filter(|_| age < AGE_MAX) else {
            return Ok(None);
        };
        let txn = self.commits.cluster.begin_at(ts, age);
        self.begin_in(Begun { txn, ts, slot }, false, keys)
    }

    /// Reads what a unit has to know at its beginning, and some keys. `None` when another unit has
    /// its turn.
    fn begin_in<'m>(
        &'m self,
        begun: Begun<'m>,
        in_turn: bool,
        keys: &[(Table, &[u8])],
    ) -> Result<Option<MemberUnit<'m>>> {
        let ts = begun.ts;
        let view = self.at(ts);
        let rows = keys.iter().take(SCAN_ROWS);
        let wanted: Vec<_> = rows
            .filter_map(|(table, key)| view.row_of(*table, key))
            .collect();
        let rows = self.commits.membership.read_shared(ts, &wanted)?;
        self.seen.note(&rows.announced, ts);
        let (holder, now_ms) = (self.commits.membership.holder(), millis(ts));
        let has_to_wait = |turn: TurnRow| {
            let wait_ms = turn.wait_ms(holder, in_turn, now_ms);
            self.turn.has_to_wait(turn, in_turn, wait_ms)
        };
        if rows.turn.is_some_and(has_to_wait) {
            if in_turn && rows.turn.is_some_and(|turn| turn.holder != holder) {
                self.turn.note_other();
            }
            return Ok(None);
        }
        self.newest.fetch_max(ts, Ordering::AcqRel);
        Ok(Some(MemberUnit {
            member: self,
            announced: rows.announced,
            txn: begun.txn,
            view: Arc::new(view.with_rows(wanted, rows.others)),
            read: Mutex::default(),
            slot: begun.slot,
            turn: None,
        }))
    }

    /// What is known of values in pieces at the time of a view.
    fn known_pieces(&self, view: &View, announced: &[u8]) -> Result<Arc<WriterCache>> {
        let mut pieces = self.pieces.lock();
        if pieces.0 != announced {
            let known = Arc::new(WriterCache::new(view.marked_idents()?.into_iter()));
            *pieces = (announced.to_vec(), known);
        }
        Ok(Arc::clone(&pieces.1))
    }

    fn commit(&self, mut unit: MemberUnit<'_>, batch: &WriteBatch) -> Result<CommitPos> {
        self.caps.check_sizes(batch)?;
        unit.txn.take_commit_timestamps(batch.positions());
        self.check_open()?;
        let known = self.known_pieces(&unit.view, &unit.announced)?;
        let mut slot = unit.slot;
        if slot.announced != unit.announced {
            // Another server may have removed parts of counters.
            slot.counters.clear();
            slot.announced.clone_from(&unit.announced);
        }
        let mut overlay = Overlay::in_slot(&unit.view, &known, &slot);
        overlay.add(batch)?;
        let mut made = overlay.finish_in_slot(&self.commits.layout)?;
        if made.changes.is_empty() && unit.turn.is_none() {
            return Ok(self.last_pos());
        }
        slot.number += 1;
        if let Some(turn) = &unit.turn {
            let all = turn_changes(&unit.view, &self.commits.layout, slot.id)?;
            made.changes.extend(all);
            made.changes.extend(turn.renewal.claim_end());
        }
        let kept = self.kept.get();
        let is_announced = kept.is_some_and(|kept| batch.iter().any(|op| op.changes_kept(*kept)));
        if is_announced || made.is_announced || unit.turn.is_some() {
            let (id, number) = (slot.id, slot.number);
            made.changes
                .push(self.commits.membership.announcement(id, number));
        }
        let read = unit.read.into_inner();
        let done = self.commits.commit(&mut slot, unit.txn, made.changes, read);
        if let Some(turn) = &unit.turn {
            turn.guard
                .note_result(matches!(done, Err(StorageError::Conflict)));
        }
        match &done {
            Ok(at) => {
                slot.counters.extend(made.counters);
                self.newest.fetch_max(*at, Ordering::AcqRel);
                self.committed.fetch_add(1, Ordering::Relaxed);
            }
            Err(StorageError::Conflict) => {
                slot.counters.clear();
                self.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                slot.counters.clear();
                self.hooks.call(FlushEvent::Lost);
            }
        }
        drop(slot);
        let pos = done.map(CommitPos)?;
        self.hooks.call(FlushEvent::Durable(pos));
        Ok(pos)
    }

    /// Removes the keys of all dropped idents immediately.
    ///
    /// # Errors
    /// Those of the cluster.
    pub fn sweep(&self) -> Result<()> {
        for table in Table::ALL {
            let idents = Arc::clone(&self.dropped.read()[table.index()]);
            for ident in idents.iter() {
                ranges::with_ident(ident, |range| ranges::remove(self, table, range))?;
            }
        }
        Ok(())
    }

    fn stop(&self) {
        self.ending.end();
        if let Some(thread) = self.renewing.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for TikvMember {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Reader for TikvMember {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.latest()?.get(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.latest()?.multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        range.check()?;
        let view = self.latest()?;
        Ok(Box::new(ChunkedCursor::new(view, table, range, opts)))
    }
}

impl UnitCommitter for TikvMember {
    fn commit_unit(&self, unit: MemberUnit<'_>, batch: &WriteBatch) -> Result<CommitPos> {
        self.commit(unit, batch)
    }

    fn layout(&self) -> &Layout {
        &self.commits.layout
    }
}

impl Engine for TikvMember {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(SharedView(self.latest()?)))
    }

    /// Applies a batch that rests on no read: after a conflict it is applied to the newer state.
    fn apply(&self, batch: &WriteBatch, _: Durability) -> Result<CommitPos> {
        let until = Instant::now() + RETRY_FOR;
        let mut pause = PAUSE;
        loop {
            match self.commit(self.begin_unit(false, &[])?, batch) {
                Err(StorageError::Conflict) if Instant::now() < until => {}
                done => return done,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn get_with_announcements(
        &self,
        table: Table,
        key: &[u8],
        f: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        self.look_for_announcements()?.get(table, key, f)
    }

    fn begin_checked(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        Ok(Some(Box::new(self.begin_unit(false, &[])?)))
    }

    fn begin_early(
        &self,
        at: CommitPos,
        keys: &[(Table, &[u8])],
    ) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        let unit = match self.begin_at(at.0, keys)? {
            Some(unit) => unit,
            None => self.begin_unit(false, keys)?,
        };
        Ok(Some(Box::new(unit)))
    }

    fn begin_exclusive(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        Ok(Some(Box::new(self.begin_turn()?)))
    }

    fn number_rows(&self, count: usize) -> Option<u64> {
        let membership = &self.commits.membership;
        let newest_ms = millis(self.newest.load(Ordering::Acquire));
        let now_ms = newest_ms.min(membership.numbered_ms());
        let first = self.row_numbers.allocate(now_ms, count as u64);
        // More rows than a millisecond has numbers for, while the time stands still.
        membership.extend_numbers(row_numbers::millis_of(first));
        Some(first)
    }

    fn written_at(&self, table: Table, key: &[u8], after: CommitPos) -> Result<Option<CommitPos>> {
        self.check_open()?;
        let stored = storage::emulate::long_keys::place(key).0;
        let (cluster, layout) = (&self.commits.cluster, &self.commits.layout);
        let now = cluster.fetch_timestamp()?;
        self.newest.fetch_max(now, Ordering::AcqRel);
        let at = find_commit(cluster, &layout.row(table, stored), after.0, now)?;
        Ok(at.map(CommitPos))
    }

    fn last_pos(&self) -> CommitPos {
        CommitPos(self.newest.load(Ordering::Acquire))
    }

    fn durable_pos(&self) -> CommitPos {
        // A commit is on a majority of the replicas before readers see it.
        self.last_pos()
    }

    fn wait_durable(&self, _: CommitPos) -> Result<()> {
        match self.commits.membership.lost_reason() {
            _ if self.closed.load(Ordering::Acquire) => Err(StorageError::Closed),
            Some(context) => Err(StorageError::ReadOnly { context }),
            None => Ok(()),
        }
    }

    fn on_durable(&self, hook: DurableHook) {
        self.hooks.add(hook);
    }

    fn announce(&self, kept: CacheFilter) {
        // This is the only place that sets it.
        let _ = self.kept.set(kept);
    }

    fn announce_now(&self) -> Result<()> {
        self.announce_alone()
    }

    fn expect_counters(&self, counters: fn(&[u8]) -> bool) {
        // This is the only place that sets it.
        let _ = self.counters.set(counters);
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.check_open()?;
        range.check()?;
        ranges::remove(self, table, range)
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        self.dropped.write()[table.index()] = idents;
    }

    fn is_gone(&self, table: Table, ident: u32) -> Result<bool> {
        self.check_open()?;
        if !self.dropped.read()[table.index()].contains(ident) {
            return Ok(false);
        }
        ranges::with_ident(ident, |range| Ok(!ranges::remove_some(self, table, range)?))
    }

    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.check_open()?;
        range.check()?;
        sampled_size(self, table, range, ROW_OVERHEAD_BYTES)
    }

    fn shared_time_ms(&self) -> Option<u64> {
        let newest = millis(self.newest.load(Ordering::Acquire));
        Some(self.commits.membership.now_ms().max(newest))
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        sink("commits", number(self.committed.load(Ordering::Relaxed)));
        sink("conflicts", number(self.conflicts.load(Ordering::Relaxed)));
        self.commits.outcomes.report(sink);
        sink("lease.left_ms", number(self.commits.membership.left_ms()));
        if let Some(versions) = &self.versions {
            versions.report(sink);
        }
        requests::report_counts(&mut |name, count| {
            sink(&format!("requests.{name}"), number(count))
        });
    }

    fn checkpoint(&self, _: &Path) -> Result<()> {
        self.check_open()?;
        Err(StorageError::Unsupported(
            "a copy of a TiKV cluster is made with its own tools (br)",
        ))
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.check_open()?;
        check_order(self)
    }

    fn flush(&self) -> Result<()> {
        self.check_open()
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.stop();
        match self.commits.membership.lost_reason() {
            Some(_) => Ok(()),
            None => self.commits.membership.leave(),
        }
    }
}
