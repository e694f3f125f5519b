//! The TiKV engine: opening, reading the latest state, and maintenance operations.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use storage::emulate::{ChunkedCursor, FixedView, SharedView, check_order, sampled_size};
use storage::{
    Caps, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, IdentSet, KeyRange,
    Reader, Result, Snapshot, StatSink, StorageError, Table, VerifyReport, WriteBatch,
};

use crate::cluster::Cluster;
use crate::commits::Commits;
use crate::config::{
    Config, DISK_FORMAT, ROW_OVERHEAD_BYTES, caps, check_format, format_row, start,
};
use crate::layout::Layout;
use crate::lease::Lease;
use crate::lease_row::LeaseOptions;
use crate::ranges;
use crate::requests;
use crate::versions::{SafePointRole, StopSignal, VersionRetention};
use crate::view::View;

/// A lease is renewed this many times before it would expire.
const RENEWALS: u32 = 4;
/// How often a thread checks whether the lease has expired.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// A database in a cluster, held by this process.
pub struct TikvEngine {
    commits: Arc<Commits>,
    lease: Arc<Lease>,
    ending: Arc<StopSignal>,
    renewing: Mutex<Option<JoinHandle<()>>>,
    versions: Option<Arc<VersionRetention>>,
    caps: Caps,
    dropped: RwLock<[Arc<IdentSet>; Table::ALL.len()]>,
    closed: AtomicBool,
}

/// Renews the lease until the engine is closed or the lease is lost.
fn renew(ending: &StopSignal, lease: &Lease, commits: &Commits, every: Duration) {
    while !ending.wait(every) {
        // A failed renewal is followed by another one before the lease expires.
        let _ = lease.renew();
        if lease.lost_reason().is_some() {
            commits.tell_lost();
            return;
        }
    }
}

/// Declares the lease lost when it has been expired for too long. A separate thread, because
/// renewals may wait for the cluster.
fn watch(ending: &StopSignal, lease: &Lease, commits: &Commits, patience: Duration) {
    while !ending.wait(WATCH_EVERY) {
        let overdue = lease.overdue();
        if !overdue.is_zero() && overdue >= patience {
            lease.lose("the lease on the database has run out and could not be renewed");
            commits.tell_lost();
            return;
        }
    }
}

impl TikvEngine {
    /// Connects to the cluster and takes the lease.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::ForeignDirectory`],
    /// [`StorageError::NewerFormat`], [`StorageError::Unreachable`], [`StorageError::Untrusted`]
    pub fn open(config: &Config) -> Result<TikvEngine> {
        let cluster = Arc::new(Cluster::connect(&config.pd, config.tls.as_ref())?);
        let layout = Layout::new(&config.prefix);
        let format = check_format(&cluster, &layout, &config.prefix)?;
        let terms = LeaseOptions {
            name: &config.name,
            address: &config.address,
            awaited: config.awaited.as_deref(),
            duration: config.lease,
            wait: config.standby.as_deref(),
            format: format_row(format.max(DISK_FORMAT)),
        };
        let (lease, ts) = Lease::take(&cluster, &layout, &terms)?;
        let lease = Arc::new(lease);
        let kept = config.keep_versions;
        let commits = Arc::new(Commits::open(&cluster, &layout, &lease, ts, kept)?);
        let ending = Arc::new(StopSignal::default());
        let renewing = {
            let (ending, lease) = (Arc::clone(&ending), Arc::clone(&lease));
            let (commits, every) = (Arc::clone(&commits), config.lease / RENEWALS);
            start("quarry-lease", move || {
                renew(&ending, &lease, &commits, every);
            })?
        };
        {
            let (ending, lease) = (Arc::clone(&ending), Arc::clone(&lease));
            let (commits, patience) = (Arc::clone(&commits), config.patience);
            start("quarry-lease-end", move || {
                watch(&ending, &lease, &commits, patience);
            })?;
        }
        let versions = kept.map(|kept| Arc::new(VersionRetention::new(&cluster, kept)));
        if let Some(versions) = &versions {
            let (ending, lease) = (Arc::clone(&ending), Arc::clone(&lease));
            let versions = Arc::clone(versions);
            // Not joined at the end: a cluster that does not answer would block it for long.
            let role = move || match lease.lost_reason() {
                Some(_) => Ok(SafePointRole::Ended),
                None => Ok(SafePointRole::Mover),
            };
            start("quarry-versions", move || versions.run(&ending, &role))?;
        }
        let engine = TikvEngine {
            commits,
            lease,
            ending,
            renewing: Mutex::new(Some(renewing)),
            versions,
            caps: caps(),
            dropped: RwLock::default(),
            closed: AtomicBool::new(false),
        };
        // A new process does not need the scratch data of an earlier one.
        ranges::remove(&engine, Table::Tmp, KeyRange::ALL)?;
        Ok(engine)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StorageError::Closed);
        }
        self.lease.check()
    }

    fn view(&self) -> Result<Arc<View>> {
        self.check_open()?;
        Ok(Arc::new(self.commits.view()))
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

    /// Number of pieces of values in all tables. For tests: it reads them all.
    ///
    /// # Errors
    /// Those of the cluster.
    pub fn pieces_left(&self) -> Result<usize> {
        let view = self.view()?;
        Table::ALL
            .into_iter()
            .map(|table| view.pieces_of(table))
            .sum()
    }

    fn stop(&self) {
        self.ending.end();
        if let Some(thread) = self.renewing.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for TikvEngine {
    fn drop(&mut self) {
        self.stop();
        if !self.closed.load(Ordering::Acquire) && self.lease.lost_reason().is_none() {
            // Otherwise the next server waits until the lease has expired.
            let _ = self.lease.release();
        }
    }
}

impl Reader for TikvEngine {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.view()?.get(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.view()?.multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        range.check()?;
        Ok(Box::new(ChunkedCursor::new(
            self.view()?,
            table,
            range,
            opts,
        )))
    }
}

impl Engine for TikvEngine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(SharedView(self.view()?)))
    }

    fn apply(&self, batch: &WriteBatch, _: Durability) -> Result<CommitPos> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StorageError::Closed);
        }
        self.caps.check_sizes(batch)?;
        self.commits.apply(batch)
    }

    fn last_pos(&self) -> CommitPos {
        CommitPos(self.commits.visible())
    }

    fn durable_pos(&self) -> CommitPos {
        // A commit is on a majority of the replicas before readers see it.
        self.last_pos()
    }

    fn wait_durable(&self, _: CommitPos) -> Result<()> {
        match self.lease.lost_reason() {
            _ if self.closed.load(Ordering::Acquire) => Err(StorageError::Closed),
            Some(context) => Err(StorageError::ReadOnly { context }),
            None => Ok(()),
        }
    }

    fn on_durable(&self, hook: DurableHook) {
        self.commits.on_durable(hook);
    }

    fn announce(&self, kept: fn(Table, &[u8]) -> bool) {
        self.commits.announce(kept);
    }

    fn announce_now(&self) -> Result<()> {
        loop {
            self.check_open()?;
            match self.commits.announce_now() {
                // No reader may learn of the change before all of them can.
                Err(StorageError::Unreachable(_)) => std::thread::sleep(WATCH_EVERY),
                announced => return announced,
            }
        }
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.check_open()?;
        range.check()?;
        ranges::remove(self, table, range)
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        self.dropped.write()[table.index()] = idents;
    }

    /// TiKV knows no idents: each call removes some of the keys that `drop_range` left.
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
        Some(self.lease.now_ms())
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let totals = self.commits.totals();
        sink("commits", number(totals.transactions));
        sink("commits_us", number(totals.busy_us));
        sink("batches", number(totals.batches));
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

    /// The stores have checksums of their own: this only checks that everything is readable and in
    /// order.
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
        match self.lease.lost_reason() {
            Some(_) => Ok(()),
            None => self.lease.release(),
        }
    }
}
