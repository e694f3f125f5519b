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
    Reader, Result, Snapshot, StatSink, StorageError, Table, VerifyReport, WriteBatch, prefix_end,
};

use crate::cluster::{Cluster, millis};
use crate::commits::Commits;
use crate::layout::{Layout, REQUEST_ROWS};
use crate::lease::{Lease, LeaseOptions};
use crate::requests;
use crate::tls::TlsFiles;
use crate::versions::{StopSignal, VersionRetention};
use crate::view::View;

/// Version of the layout that this crate defines. History: 1 as in `layout.rs`.
pub const DISK_FORMAT: u32 = 1;

/// Keys removed in one commit by [`Engine::drop_range`].
const DROP_ROWS: usize = 1_000;
/// Bytes that TiKV stores for a row in addition to key and value.
const ROW_OVERHEAD_BYTES: u64 = 30;
/// A lease is renewed this many times before it would expire.
const RENEWALS: u32 = 4;
/// How much later than its end a lease may be renewed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a thread checks whether the lease has expired.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// Options for opening.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses of PD, `host:port`.
    pub pd: Vec<String>,
    /// Files for TLS to PD and the stores; without them everything is sent in the clear.
    pub tls: Option<TlsFiles>,
    /// Name of the database in the cluster; see [`crate::is_prefix`].
    pub prefix: String,
    /// Name of this server, shown to servers that are refused because this one holds the lease.
    pub name: String,
    /// Address at which other servers reach this one, given to those that wait for it; may be
    /// empty.
    pub address: String,
    /// Receives the address of the server that this one waits for, while it waits; empty before the
    /// first answer and when that server gave none.
    pub awaited: Option<Arc<Mutex<String>>>,
    /// Wait while another server holds the lease, until this is set, instead of failing.
    pub standby: Option<Arc<AtomicBool>>,
    /// How long the lease holds when it is not renewed.
    pub lease: Duration,
    /// How long after its end a lease may still be renewed if no other server has taken it; after
    /// that the engine has lost the database. Zero where other servers wait for the lease.
    pub patience: Duration,
    /// How long older views can read overwritten versions; after that the cluster may remove them.
    /// `None` leaves the removal to another process, such as TiDB's garbage collector.
    pub keep_versions: Option<Duration>,
}

impl Config {
    /// Default options: a lease of ten seconds, versions for twenty minutes.
    pub fn at(pd: Vec<String>, prefix: impl Into<String>) -> Config {
        Config {
            pd,
            tls: None,
            prefix: prefix.into(),
            name: format!("process {}", std::process::id()),
            address: String::new(),
            awaited: None,
            standby: None,
            lease: Duration::from_secs(10),
            patience: PATIENCE,
            keep_versions: Some(Duration::from_secs(1_200)),
        }
    }
}

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

/// Starts a thread of the engine.
fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|e| StorageError::io(format!("cannot start the thread {name}"), e))
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
        check_format(&cluster, &layout, &config.prefix)?;
        let terms = LeaseOptions {
            name: &config.name,
            address: &config.address,
            awaited: config.awaited.as_deref(),
            duration: config.lease,
            wait: config.standby.as_deref(),
            format: format_row(),
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
            start("quarry-versions", move || versions.run(&ending, &lease))?;
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
        engine.remove(Table::Tmp, KeyRange::ALL)?;
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

    /// Removes a range, a number of keys in each commit.
    fn remove(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        while self.remove_some(table, range)? {
            self.check_open()?;
        }
        Ok(())
    }

    /// Removes the first keys of a range in one commit. False when no key was left.
    fn remove_some(&self, table: Table, range: KeyRange<'_>) -> Result<bool> {
        let opts = CursorOpts {
            keys_only: true,
            limit_hint: DROP_ROWS,
            ..CursorOpts::default()
        };
        let mut batch = WriteBatch::new();
        self.cursor(table, range, opts)?
            .visit(DROP_ROWS, &mut |key, _| {
                batch.delete(table, key);
                true
            })?;
        if batch.is_empty() {
            return Ok(false);
        }
        self.commits.apply(&batch).map(|_| true)
    }

    /// Removes the keys of all dropped idents immediately.
    ///
    /// # Errors
    /// Those of the cluster.
    pub fn sweep(&self) -> Result<()> {
        for table in Table::ALL {
            let idents = Arc::clone(&self.dropped.read()[table.index()]);
            for ident in idents.iter() {
                with_ident(ident, |range| self.remove(table, range))?;
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

fn format_row() -> Vec<u8> {
    format!("quarry format {DISK_FORMAT}").into_bytes()
}

pub(crate) fn check_format(cluster: &Cluster, layout: &Layout, prefix: &str) -> Result<()> {
    let Some(row) = cluster.get(cluster.fetch_timestamp()?, &layout.format())? else {
        return Ok(());
    };
    let found = std::str::from_utf8(&row).ok();
    let found = found.and_then(|row| row.strip_prefix("quarry format ")?.parse().ok());
    match found {
        Some(format) if format <= DISK_FORMAT => Ok(()),
        Some(found) => Err(StorageError::NewerFormat {
            found,
            supported: DISK_FORMAT,
        }),
        None => Err(StorageError::ForeignDirectory {
            path: format!("prefix {prefix} of the cluster"),
            found: "rows that Quarry did not write".to_owned(),
        }),
    }
}

fn with_ident<T>(ident: u32, f: impl FnOnce(KeyRange<'_>) -> Result<T>) -> Result<T> {
    let lower = ident.to_be_bytes();
    let mut upper = Vec::new();
    prefix_end(&lower, &mut upper);
    f(KeyRange::new(&lower, &upper))
}

pub(crate) fn caps() -> Caps {
    Caps {
        name: "tikv",
        persistent: true,
        key_bytes_max: 64 << 20,
        value_bytes_max: 64 << 20,
        batch_bytes_max: 128 << 20,
        delete_range: true,
        checkpoint: false,
        request_rows: REQUEST_ROWS,
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
        self.remove(table, range)
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
        with_ident(ident, |range| Ok(!self.remove_some(table, range)?))
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
            let (safe_point, failures) = versions.stats();
            sink("versions.safe_point_ms", number(millis(safe_point)));
            sink("versions.safe_point_failures", number(failures));
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
