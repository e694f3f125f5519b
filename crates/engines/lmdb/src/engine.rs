//! The LMDB engine: opening, reading the latest state, and maintenance operations.

use std::fs;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use heed::{CompactionOption, Env, EnvFlags, EnvOpenOptions, WithoutTls};
use parking_lot::RwLock;
use storage::emulate::{
    ChunkedCursor, DirectoryLock, RowRequest, SharedView, SpaceMonitor, check_order, sampled_size,
};
use storage::{
    Caps, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, IdentSet, KeyRange,
    Marker, Reader, Result, RowBatch, Snapshot, StatSink, StorageError, Table, VerifyReport,
    WriteBatch, prefix_end,
};

use crate::commits::Commits;
use crate::error::classify;
use crate::rows;
use crate::tables::Tables;
use crate::view::View;

/// Version of the layout that this crate defines. History: 1 one database per table, keys from 480
/// bytes on in buckets.
pub const DISK_FORMAT: u32 = 1;

const MARKER: Marker<'_> = Marker {
    engine: "lmdb",
    format: DISK_FORMAT,
    details: "",
};
/// LMDB's name of the data file.
const DATA_FILE: &str = "data.mdb";
/// Name of the data file until it is complete.
const NEW_DATA_FILE: &str = "data.mdb.new";
const READERS_MAX: u32 = 8_192;
/// Keys removed in one commit by [`Engine::drop_range`].
const DROP_ROWS: usize = 4_096;
/// Space reserved for deletes and for the catalog: LMDB copies pages to change them.
const RESERVE_BYTES: u64 = 64 << 20;
/// Bytes that LMDB stores for a row in addition to key and value.
const ROW_OVERHEAD_BYTES: u64 = 10;

/// Options for opening.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data directory.
    pub path: PathBuf,
    /// Create the directory when it is missing.
    pub create: bool,
    /// Address space for the file, which limits its size; takes no memory.
    pub map_bytes: usize,
    /// Change nothing in the directory: every write is refused.
    pub read_only: bool,
}

impl Config {
    /// Default options: a map of 4 TiB.
    pub fn at(path: impl Into<PathBuf>) -> Config {
        Config {
            path: path.into(),
            create: true,
            map_bytes: 4 << 40,
            read_only: false,
        }
    }
}

/// An open LMDB environment.
pub struct LmdbEngine {
    tables: Tables,
    commits: Commits,
    room: SpaceMonitor,
    caps: Caps,
    dropped: RwLock<[Arc<IdentSet>; Table::ALL.len()]>,
    closed: AtomicBool,
    read_only: bool,
    // Locked while the engine is open: one process at a time.
    _lock: DirectoryLock,
}

/// Opens LMDB's environment at a directory, or at a file with [`EnvFlags::NO_SUB_DIR`].
fn open_env(path: &Path, map_bytes: usize, more: EnvFlags) -> Result<Env<WithoutTls>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options
        .map_size(map_bytes)
        .max_readers(READERS_MAX)
        .max_dbs(Table::ALL.len() as u32);
    // SAFETY: NO_READ_AHEAD only advises the system; LMDB's own lock may be absent because ours
    // keeps writers out as long as this engine is open.
    unsafe { options.flags(EnvFlags::NO_READ_AHEAD | more) };
    // SAFETY: the directory is this engine's own, and the lock keeps other processes of Quarry
    // out, so nobody else changes the mapped file.
    unsafe { options.open(path) }.map_err(|e| classify("opening", e))
}

/// Creates the data file. LMDB writes a new file page by page, and considers a file truncated by a
/// loss of power damaged. So the new file gets its final name, which LMDB does not sync either,
/// only when all of it is on the device.
fn make_data_file(config: &Config) -> Result<()> {
    let (made, named) = (config.path.join(NEW_DATA_FILE), config.path.join(DATA_FILE));
    if named.exists() {
        return Ok(());
    }
    let fail = |e| StorageError::io(format!("cannot make {}", named.display()), e);
    match fs::remove_file(&made) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(fail(e)),
        _ => {}
    }
    let flags = EnvFlags::NO_SUB_DIR | EnvFlags::NO_LOCK;
    drop(Tables::open(open_env(&made, config.map_bytes, flags)?)?);
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    sync(&made)
        .and_then(|()| fs::rename(&made, &named))
        .and_then(|()| sync(&config.path))
        .map_err(fail)
}

impl LmdbEngine {
    /// Opens a directory.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::ForeignDirectory`],
    /// [`StorageError::NewerFormat`], [`StorageError::Io`], [`StorageError::Full`]
    pub fn open(config: &Config) -> Result<LmdbEngine> {
        MARKER.claim(&config.path, config.create && !config.read_only)?;
        let lock = DirectoryLock::take(&config.path, config.read_only)?;
        let tables = if config.read_only {
            let flags = EnvFlags::READ_ONLY | EnvFlags::NO_LOCK;
            Tables::open_existing(open_env(&config.path, config.map_bytes, flags)?)?
        } else {
            make_data_file(config)?;
            let flags = EnvFlags::empty();
            Tables::open(open_env(&config.path, config.map_bytes, flags)?)?
        };
        Ok(LmdbEngine {
            commits: Commits::new(tables.clone()),
            tables,
            room: SpaceMonitor::of(config.path.clone(), RESERVE_BYTES),
            caps: caps(),
            dropped: RwLock::default(),
            closed: AtomicBool::new(false),
            read_only: config.read_only,
            _lock: lock,
        })
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

    fn sync(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.tables
            .env
            .force_sync()
            .map_err(|e| classify("a flush", e))
    }

    /// Removes the first keys of a range in one commit. False when no key was left.
    fn drop_some(&self, table: Table, range: KeyRange<'_>) -> Result<bool> {
        let mut found = RowBatch::new();
        self.latest_rows(table, range, DROP_ROWS, &mut found)?;
        let mut batch = WriteBatch::new();
        for (key, _) in found.iter() {
            batch.delete(table, key);
        }
        if batch.is_empty() {
            return Ok(false);
        }
        self.commits.apply(&batch).map(|_| true)
    }

    fn latest_rows(
        &self,
        table: Table,
        range: KeyRange<'_>,
        rows_max: usize,
        found: &mut RowBatch,
    ) -> Result<bool> {
        let wanted = RowRequest {
            table,
            range,
            reverse: false,
            keys_only: true,
            rows_max,
            bytes_max: 8 << 20,
        };
        rows::read(&self.tables, &self.tables.read()?, wanted, found)
    }

    /// Removes the keys of all dropped idents immediately.
    ///
    /// # Errors
    /// Those of LMDB.
    pub fn sweep(&self) -> Result<()> {
        for table in Table::ALL {
            let idents = Arc::clone(&self.dropped.read()[table.index()]);
            for ident in idents.iter() {
                with_ident(ident, |range| self.drop_range(table, range))?;
            }
        }
        Ok(())
    }
}

fn with_ident<T>(ident: u32, f: impl FnOnce(KeyRange<'_>) -> Result<T>) -> Result<T> {
    let lower = ident.to_be_bytes();
    let mut upper = Vec::new();
    prefix_end(&lower, &mut upper);
    f(KeyRange::new(&lower, &upper))
}

fn caps() -> Caps {
    Caps {
        name: "lmdb",
        persistent: true,
        key_bytes_max: 64 << 20,
        value_bytes_max: 64 << 20,
        // A transaction keeps its changed pages in memory: for this size at most 512 MiB.
        batch_bytes_max: 128 << 20,
        delete_range: true,
        checkpoint: true,
        request_rows: 1,
        spreads: false,
    }
}

impl Reader for LmdbEngine {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.check_open()?;
        let txn = self.tables.read()?;
        Ok(self.tables.get(&txn, table, key)?.map(f).is_some())
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check_open()?;
        let txn = self.tables.read()?;
        for (index, key) in keys.iter().enumerate() {
            each(index, self.tables.get(&txn, table, key)?);
        }
        Ok(())
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        self.check_open()?;
        range.check()?;
        let view = Arc::new(View::take(&self.tables)?);
        Ok(Box::new(ChunkedCursor::new(view, table, range, opts)))
    }
}

impl Engine for LmdbEngine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.check_open()?;
        let view = Arc::new(View::take(&self.tables)?);
        Ok(Arc::new(SharedView(view)))
    }

    fn apply(&self, batch: &WriteBatch, _: Durability) -> Result<CommitPos> {
        self.check_writable()?;
        self.caps.check_sizes(batch)?;
        self.room.admit(batch)?;
        self.commits.apply(batch)
    }

    fn last_pos(&self) -> CommitPos {
        CommitPos(self.tables.last_commit())
    }

    fn durable_pos(&self) -> CommitPos {
        // A commit is flushed before readers can see it.
        self.last_pos()
    }

    fn wait_durable(&self, _: CommitPos) -> Result<()> {
        self.check_open()
    }

    fn on_durable(&self, hook: DurableHook) {
        self.commits.on_durable(hook);
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.check_writable()?;
        range.check()?;
        while self.drop_some(table, range)? {
            self.check_open()?;
        }
        Ok(())
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        self.dropped.write()[table.index()] = idents;
    }

    /// LMDB never rewrites data by itself: each call removes some of the keys that `drop_range`
    /// left.
    fn is_gone(&self, table: Table, ident: u32) -> Result<bool> {
        self.check_open()?;
        if !self.dropped.read()[table.index()].contains(ident) {
            return Ok(false);
        }
        with_ident(ident, |range| Ok(!self.drop_some(table, range)?))
    }

    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.check_open()?;
        range.check()?;
        sampled_size(self, table, range, ROW_OVERHEAD_BYTES)
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        let info = self.tables.env.info();
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        sink(
            "file_bytes",
            number(info.last_page_number.saturating_mul(4096)),
        );
        sink("map_bytes", number(info.map_size));
        sink("readers", i64::from(info.number_of_readers));
        let (transactions, busy_us) = self.commits.totals();
        sink("commits", i64::try_from(transactions).unwrap_or(i64::MAX));
        sink("commits_us", i64::try_from(busy_us).unwrap_or(i64::MAX));
        sink(
            "free_bytes",
            i64::try_from(self.room.free_bytes()).unwrap_or(i64::MAX),
        );
        let Ok(txn) = self.tables.read() else {
            return;
        };
        for table in Table::ALL {
            let Ok(stat) = self.tables.database(table).stat(&txn) else {
                continue;
            };
            let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
            let name = table.name();
            sink(&format!("{name}.entries"), number(stat.entries));
            sink(&format!("{name}.depth"), i64::from(stat.depth));
            sink(
                &format!("{name}.size_bytes"),
                number(pages.saturating_mul(stat.page_size as usize)),
            );
        }
    }

    fn checkpoint(&self, path: &Path) -> Result<()> {
        self.check_open()?;
        let fail = |e| StorageError::io(format!("cannot create {}", path.display()), e);
        fs::create_dir(path).map_err(fail)?;
        let copy = path.join("data.mdb");
        let file = self
            .tables
            .env
            // Without compaction pages keep their places, so that most of the next copy equals this
            // one.
            .copy_to_path(&copy, CompactionOption::Disabled);
        let file = file.map_err(|e| classify("a checkpoint", e))?;
        file.sync_all().map_err(fail)?;
        MARKER.write(path)
    }

    /// LMDB has no checksums: this only checks that everything is readable and in order.
    fn verify(&self) -> Result<VerifyReport> {
        self.check_open()?;
        check_order(self)
    }

    fn flush(&self) -> Result<()> {
        self.check_open()?;
        self.sync()
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.sync()
    }
}
