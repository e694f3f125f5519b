//! The WiredTiger engine: opening, reading the latest state, and maintenance operations.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use storage::emulate::{
    ChunkedCursor, DirectoryLock, SharedView, SpaceMonitor, check_order, sampled_size,
};
use storage::{
    Caps, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, FlushOutcome, IdentSet,
    KeyRange, Marker, Reader, Result, Snapshot, StatSink, StorageError, Table, VerifyReport,
    WriteBatch, prefix_end,
};

use crate::commits::Commits;
use crate::copy::copy;
use crate::functions::Library;
use crate::journal::Journal;
use crate::pool::Pool;
use crate::session::Session;
use crate::space::{self, FILE_BYTES, Space, UNUSED_BYTES};
use crate::view::View;

/// Version of the layout that this crate defines. History: 1 one table of raw bytes per table,
/// WiredTiger's log in the same directory.
pub const DISK_FORMAT: u32 = 1;

const MARKER: Marker<'_> = Marker {
    engine: "wiredTiger",
    format: DISK_FORMAT,
    details: "",
};
/// A file that exists after an orderly shutdown.
const END_FILE: &str = "QUARRY-ENDED";
/// Space reserved for deletes and for the catalog, which the log needs before they free any.
const RESERVE_BYTES: u64 = 256 << 20;
/// Bytes that WiredTiger stores for a row in addition to key and value.
const ROW_OVERHEAD_BYTES: u64 = 6;
/// Most views, open cursors and active threads; memory for all of them is allocated when the engine
/// opens.
const SESSIONS_MAX: u32 = 8_192;
const CACHE_BYTES_MIN: u64 = 64 << 20;
/// Largest batch: it has to fit into the cache together with the old versions of its rows.
const BATCH_BYTES: std::ops::RangeInclusive<u64> = (80 << 20)..=(128 << 20);

/// Options for opening.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data directory.
    pub path: PathBuf,
    /// Create the directory when it is missing.
    pub create: bool,
    /// Size of WiredTiger's cache.
    pub cache_bytes: u64,
    /// Longest time between a commit and its flush.
    pub journal_commit_interval_ms: u64,
    /// Change nothing in the directory; possible only after an orderly shutdown.
    pub read_only: bool,
}

impl Config {
    /// Default options for a server.
    pub fn at(path: impl Into<PathBuf>, cache_bytes: u64) -> Config {
        Config {
            path: path.into(),
            create: true,
            cache_bytes,
            journal_commit_interval_ms: 100,
            read_only: false,
        }
    }

    fn connection(&self) -> String {
        let cache = self.cache_bytes.max(CACHE_BYTES_MIN);
        let common = format!(
            "cache_size={cache},session_max={SESSIONS_MAX},statistics=(fast),\
             log=(enabled=true,prealloc=false,file_max=100MB)"
        );
        if self.read_only {
            return format!("{common},readonly=true");
        }
        // With the method `none` a commit hands its record to the operating system before it
        // returns; flushes of the journal bring it to the device.
        format!(
            "{common},create,checkpoint=(wait=60,log_size=1GB),\
             transaction_sync=(enabled=true,method=none),\
             eviction=(threads_min=1,threads_max=4)"
        )
    }
}

fn tables() -> Vec<(&'static str, String)> {
    let config = |table| {
        let more = match table {
            // Entries of one index share most of their bytes.
            Table::Idx => ",prefix_compression=true,leaf_page_max=16KB",
            Table::Tmp => ",log=(enabled=false)",
            // A value outside of the tree would need a second read, and compaction does not move
            // it.
            _ => ",leaf_page_max=32KB,leaf_value_max=64MB",
        };
        format!("key_format=u,value_format=u{more}")
    };
    let all = Table::ALL.into_iter();
    all.map(|t| (t.name(), config(t))).collect()
}

/// An open WiredTiger database.
pub struct WiredTigerEngine {
    journal: Journal,
    /// `None` when the engine only reads.
    space: Option<Space>,
    commits: Arc<Commits>,
    room: SpaceMonitor,
    caps: Caps,
    dropped: RwLock<[Arc<IdentSet>; Table::ALL.len()]>,
    closed: AtomicBool,
    path: PathBuf,
    read_only: bool,
    pool: Arc<Pool>,
}

impl WiredTigerEngine {
    /// Opens a directory.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::ForeignDirectory`],
    /// [`StorageError::NewerFormat`], [`StorageError::Io`], [`StorageError::Corrupt`]
    pub fn open(config: &Config, library: &Library) -> Result<WiredTigerEngine> {
        MARKER.claim(&config.path, config.create && !config.read_only)?;
        let lock = DirectoryLock::take(&config.path, config.read_only)?;
        if config.read_only {
            check_ended(&config.path)?;
        } else {
            remove_unfinished(&config.path)?;
            forget_end(&config.path)?;
        }
        let pool = Pool::open(
            Arc::clone(&library.0),
            &config.path,
            &config.connection(),
            &tables(),
            config.read_only,
            lock,
        )?;
        let commits = Arc::new(Commits::new(Arc::clone(&pool))?);
        let interval = Duration::from_millis(config.journal_commit_interval_ms.max(1));
        let engine = WiredTigerEngine {
            journal: Journal::start(&pool, Arc::clone(&commits), interval)?,
            space: match config.read_only {
                true => None,
                false => Some(Space::start(&pool)?),
            },
            commits,
            room: SpaceMonitor::of(config.path.clone(), RESERVE_BYTES),
            caps: caps(config.cache_bytes),
            dropped: RwLock::default(),
            closed: AtomicBool::new(false),
            path: config.path.clone(),
            read_only: config.read_only,
            pool,
        };
        if !config.read_only {
            // A new process does not need the scratch data of an earlier one.
            engine.remove(Table::Tmp, KeyRange::ALL)?;
        }
        Ok(engine)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StorageError::Closed);
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            return Err(StorageError::ReadOnly {
                context: "it was opened for reading".to_owned(),
            });
        }
        Ok(())
    }

    /// Removes a range in one commit.
    fn remove(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(table, range.lower, range.upper);
        if batch.is_empty() {
            return Ok(());
        }
        self.commits.apply(&batch).map(|_| ())
    }

    /// Removes the keys of all dropped idents immediately.
    ///
    /// # Errors
    /// Those of WiredTiger.
    pub fn sweep(&self) -> Result<()> {
        for table in Table::ALL {
            let idents = Arc::clone(&self.dropped.read()[table.index()]);
            for ident in idents.iter() {
                self.remove_ident(table, ident)?;
            }
        }
        Ok(())
    }

    fn remove_ident(&self, table: Table, ident: u32) -> Result<()> {
        let lower = ident.to_be_bytes();
        let mut upper = Vec::new();
        prefix_end(&lower, &mut upper);
        self.remove(table, KeyRange::new(&lower, &upper))
    }

    /// Ends the threads, which use sessions.
    fn stop_threads(&self) {
        if let Some(space) = &self.space {
            space.stop();
        }
        self.journal.stop();
    }

    fn stop(&self) -> Result<()> {
        self.stop_threads();
        if self.read_only {
            return Ok(());
        }
        let session = Session::of(&self.pool)?;
        session.flush()?;
        session.checkpoint()?;
        note_end(&self.path)
    }
}

impl Drop for WiredTigerEngine {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

/// Fails unless everything is in the checkpoint. A reader cannot apply the log, and some versions
/// of WiredTiger open without it and show an older state.
fn check_ended(path: &Path) -> Result<()> {
    if path.join(END_FILE).exists() {
        return Ok(());
    }
    Err(StorageError::Io {
        context:
            "it was not shut down cleanly, and a reader must not apply its log: start a server \
             on it and stop it"
                .to_owned(),
        source: None,
    })
}

/// Removes WiredTiger's own files when its first opening was interrupted before it had a log and a
/// table: nothing was stored, and WiredTiger does not open what it left.
fn remove_unfinished(path: &Path) -> Result<()> {
    let fail = |e| StorageError::io(format!("cannot prepare {}", path.display()), e);
    let names = fs::read_dir(path).and_then(|entries| {
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<std::io::Result<Vec<String>>>()
    });
    let names = names.map_err(fail)?;
    let is_own = |name: &String| name.starts_with("WiredTiger") && name != "WiredTiger.lock";
    let (own, others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_own);
    let has_log = own.iter().any(|name| name.starts_with("WiredTigerLog."));
    if own.is_empty() || has_log || others.iter().any(|name| name.ends_with(".wt")) {
        return Ok(());
    }
    for name in own {
        fs::remove_file(path.join(name)).map_err(fail)?;
    }
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(fail)
}

fn forget_end(path: &Path) -> Result<()> {
    let forget = || match fs::remove_file(path.join(END_FILE)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        Err(_) => Ok(()),
        Ok(()) => File::open(path)?.sync_all(),
    };
    forget().map_err(|e| StorageError::io(format!("cannot write into {}", path.display()), e))
}

fn note_end(path: &Path) -> Result<()> {
    let note = || {
        File::create(path.join(END_FILE))?.sync_all()?;
        File::open(path)?.sync_all()
    };
    note().map_err(|e| StorageError::io(format!("cannot write into {}", path.display()), e))
}

fn caps(cache_bytes: u64) -> Caps {
    let (min, max) = BATCH_BYTES.into_inner();
    let batch = (cache_bytes / 2).clamp(min, max);
    Caps {
        name: "wiredTiger",
        persistent: true,
        key_bytes_max: 64 << 20,
        value_bytes_max: 64 << 20,
        batch_bytes_max: usize::try_from(batch).unwrap_or(usize::MAX),
        delete_range: true,
        checkpoint: true,
        request_rows: 1,
        spreads: false,
    }
}

impl Reader for WiredTigerEngine {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.check_open()?;
        Session::of(&self.pool)?.get(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check_open()?;
        SharedView(Arc::new(View::take(&self.pool, 0)?)).multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        self.check_open()?;
        range.check()?;
        // Cursors do not report a position.
        let view = Arc::new(View::take(&self.pool, 0)?);
        Ok(Box::new(ChunkedCursor::new(view, table, range, opts)))
    }
}

impl Engine for WiredTigerEngine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.check_open()?;
        Ok(Arc::new(SharedView(Arc::new(self.commits.view()?))))
    }

    fn apply(&self, batch: &WriteBatch, durability: Durability) -> Result<CommitPos> {
        self.check_writable()?;
        self.caps.check_sizes(batch)?;
        self.room.admit(batch)?;
        let pos = self.commits.apply(batch)?;
        if durability == Durability::Journaled {
            self.journal.wait(pos)?;
        }
        Ok(CommitPos(pos))
    }

    fn last_pos(&self) -> CommitPos {
        CommitPos(self.commits.last())
    }

    fn durable_pos(&self) -> CommitPos {
        CommitPos(self.journal.durable())
    }

    fn wait_durable(&self, pos: CommitPos) -> Result<()> {
        self.check_open()?;
        self.journal.wait(pos.0)
    }

    fn request_flush(&self, pos: CommitPos) {
        self.journal.request(pos.0);
    }

    fn try_flush(&self, pos: CommitPos) -> FlushOutcome {
        self.journal.try_flush(pos.0)
    }

    fn on_durable(&self, hook: DurableHook) {
        self.journal.on_durable(hook);
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.check_writable()?;
        range.check()?;
        self.remove(table, range)
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        self.dropped.write()[table.index()] = idents;
    }

    /// WiredTiger never rewrites data by itself: this removes the keys that `drop_range` left.
    fn is_gone(&self, table: Table, ident: u32) -> Result<bool> {
        self.check_writable()?;
        if !self.dropped.read()[table.index()].contains(ident) {
            return Ok(false);
        }
        self.remove_ident(table, ident).map(|()| true)
    }

    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.check_open()?;
        range.check()?;
        sampled_size(self, table, range, ROW_OVERHEAD_BYTES)
    }

    /// All collections share the file: a range gets its share of the unused space in it.
    fn unused_size(&self, table: Table, range: KeyRange<'_>, _: Option<u64>) -> Result<u64> {
        let bytes = self.approx_size(table, range)?;
        Ok(space::unused_share(&Session::of(&self.pool)?, table, bytes))
    }

    /// Shortens the whole file, because all collections share it.
    fn compact(&self, table: Table, _: KeyRange<'_>, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.check_writable()?;
        Ok(space::shorten(&Session::of(&self.pool)?, table, stop))
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        let Ok(session) = Session::of(&self.pool) else {
            return;
        };
        // Statistics that cannot be read are left out.
        let _ = session.statistics(None, &mut |name, value| {
            let found = METRICS.iter().find(|(theirs, _)| *theirs == name);
            if let Some((_, own)) = found {
                sink(own, value);
            }
        });
        for table in Table::ALL {
            let _ = session.statistics(Some(table), &mut |name, value| {
                let own = match name {
                    FILE_BYTES => "size_bytes",
                    UNUSED_BYTES => "unused_bytes",
                    _ => return,
                };
                sink(&format!("{}.{own}", table.name()), value);
            });
        }
        let flushes = i64::try_from(self.journal.flushes()).unwrap_or(i64::MAX);
        sink("journal_flushes", flushes);
        let free = i64::try_from(self.room.free_bytes()).unwrap_or(i64::MAX);
        sink("free_bytes", free);
    }

    fn checkpoint(&self, path: &Path) -> Result<()> {
        self.check_open()?;
        let fail = |e| StorageError::io(format!("cannot write {}", path.display()), e);
        fs::create_dir(path).map_err(fail)?;
        let session = Session::of(&self.pool)?;
        session.flush()?;
        let mut copied = Ok(());
        session.backup(&mut |names| copied = copy(names, &self.path, path))?;
        copied.map_err(fail)?;
        MARKER.write(path)
    }

    /// WiredTiger verifies the checksum of a block when it reads the block from the device.
    fn verify(&self) -> Result<VerifyReport> {
        self.check_open()?;
        check_order(self)
    }

    fn flush(&self) -> Result<()> {
        self.check_writable()?;
        self.journal.wait(self.commits.last())?;
        Session::of(&self.pool)?.checkpoint()
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.stop()
    }
}

/// WiredTiger's names of metrics and ours.
const METRICS: &[(&str, &str)] = &[
    ("cache: bytes currently in the cache", "cache_bytes"),
    ("cache: maximum bytes configured", "cache_max_bytes"),
    (
        "cache: tracked dirty bytes in the cache",
        "cache_dirty_bytes",
    ),
    ("cache: pages read into cache", "pages_read"),
    ("cache: pages written from cache", "pages_written"),
    ("block-manager: bytes read", "read_bytes"),
    ("block-manager: bytes written", "written_bytes"),
    ("log: log bytes written", "log_bytes"),
    ("log: log sync operations", "log_syncs"),
    ("transaction: transactions committed", "commits"),
    ("transaction: transactions rolled back", "rollbacks"),
    ("transaction: transaction checkpoints", "checkpoints"),
    ("session: open session count", "sessions"),
];
