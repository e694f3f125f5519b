//! `storage::Engine` on RocksDB, composed of the parts in the other files of this crate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cipher::DataKey;
use rust_rocksdb::perf::{PerfContext, PerfMetric};
use rust_rocksdb::{ColumnFamilyDescriptor, DB, DBRecoveryMode, FlushOptions};
use storage::{
    Caps, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, FlushOutcome, IdentSet,
    KeyRange, Reader, Result, Snapshot, StatSink, StorageError, Table, VerifyReport, WriteBatch,
    WriteClass, prefix_end,
};

use crate::admission::Admission;
use crate::caps::caps;
use crate::checkpoint;
use crate::compact;
use crate::config::{self, Config, OptionSet};
use crate::cursor::{self, RocksCursor};
use crate::error;
use crate::expected::ExpectedShapes;
use crate::ffi::{Db, Iter, IterOpts, encrypt, family_name, watch};
use crate::filter::DroppedSets;
use crate::journal::Journal;
use crate::listener::{Events, Listener};
use crate::manifest;
use crate::mark::Mark;
use crate::monitor::{Inputs, Monitor, MonitorStats};
use crate::open;
use crate::sizes;
use crate::snapshot::RocksSnapshot;
use crate::space::Guard;
use crate::stats::{self, Sources};
use crate::wal;

/// An open RocksDB that implements the storage contract.
pub struct RocksEngine {
    journal: Journal,
    monitor: Monitor,
    pub(crate) db: Arc<Db>,
    built: OptionSet,
    pub(crate) config: Config,
    caps: Caps,
    dropped: DroppedSets,
    expected: ExpectedShapes,
    admission: Arc<Admission>,
    monitor_stats: Arc<MonitorStats>,
    guard: Arc<Guard>,
    events: Arc<Events>,
    closing: Arc<AtomicBool>,
    closed: AtomicBool,
    repaired: Option<String>,
    pub(crate) data_key: Option<Arc<DataKey>>,
}

impl RocksEngine {
    /// Opens or creates the database in `config.path`.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::ForeignDirectory`], [`StorageError::NewerFormat`],
    /// [`StorageError::Corrupt`], [`StorageError::Full`], [`StorageError::Io`]: each one clear
    /// line.
    pub fn open(config: Config) -> Result<Self> {
        open::claim(&config.path, config.create)?;
        let data_key = open::unlock(&config)?;
        manifest::examine(&config.path, data_key.as_deref())?;
        let (mark, claim) = Mark::open(&config.path)?;
        let mut repair = open::examine(&config, data_key.as_deref(), claim)?;
        mark.clear();
        let dropped = DroppedSets::default();
        let events = Arc::new(Events::default());
        let mut built = config::build(&config, &dropped, Listener(Arc::clone(&events)));
        if let Some(data) = &data_key {
            encrypt(&mut built.db, data);
        }
        watch(&mut built.db);
        // Measures the device before RocksDB opens, because opening needs space.
        let guard = Arc::new(Guard::new(&config, &built.memtables, &built.files, &events));
        if repair.is_some() {
            // The manifest may list bytes that are lost.
            built.db.set_track_and_verify_wals_in_manifest(false);
        }
        let mut db = open_db(&config, &built);
        if let (true, Err(error @ StorageError::Corrupt { .. })) = (config.repair, &db) {
            // A file is missing, or tables already hold commits from after the damage: all readable
            // records must be applied.
            repair = Some(open::take_all(&config, repair, error)?);
            built.db.set_track_and_verify_wals_in_manifest(false);
            built
                .db
                .set_wal_recovery_mode(DBRecoveryMode::SkipAnyCorruptedRecord);
            db = open_db(&config, &built);
        }
        let fill_bytes = cursor::scan_fill_bytes(config.block_cache_bytes);
        let db = Arc::new(Db::new(db?, fill_bytes)?);
        let mark = Arc::new(mark);
        mark.begin(db.sequence())?;
        let closing = Arc::new(AtomicBool::new(false));
        follow_journal_files(&config, &db, &mark, &events, &closing);
        let db_end = db.sequence();
        let (admission, monitor_stats) =
            (Arc::new(Admission::new()), Arc::new(MonitorStats::new()));
        let journal = Journal::start(
            Arc::clone(&db),
            Arc::clone(&events),
            mark,
            Duration::from_millis(config.journal_commit_interval_ms.max(1)),
        )?;
        let monitor = Monitor::start(Inputs {
            db: Arc::clone(&db),
            config: config.clone(),
            admission: Arc::clone(&admission),
            stats: Arc::clone(&monitor_stats),
            guard: Arc::clone(&guard),
            events: Arc::clone(&events),
            memtables: built.memtables.clone(),
        })?;
        let closed = AtomicBool::new(false);
        let engine = Self {
            journal,
            monitor,
            db,
            built,
            config,
            caps: caps(),
            dropped,
            expected: ExpectedShapes::default(),
            admission,
            monitor_stats,
            guard,
            events,
            closing,
            closed,
            repaired: repair.map(|repair| repair.report(db_end)),
            data_key,
        };
        engine.wipe_scratch()?;
        Ok(engine)
    }

    /// One line about what opening with [`Config::repair`] has lost; `None` when there was no
    /// damage.
    pub fn repair_note(&self) -> Option<&str> {
        self.repaired.as_deref()
    }

    /// The data key of the files; `None` when they are not encrypted.
    pub fn data_key(&self) -> Option<Arc<DataKey>> {
        self.data_key.clone()
    }

    /// Rewrites all files of a table, for example to make dropped idents disappear. For tests and
    /// studies: it is expensive.
    pub fn compact_all(&self, table: Table) -> Result<()> {
        self.check_open()?;
        if let Some(family) = self.db.admin().cf_handle(family_name(table)) {
            self.db
                .admin()
                .compact_range_cf(family, None::<&[u8]>, None::<&[u8]>);
        }
        Ok(())
    }

    /// The binding crate's handle, only for measurements of RocksDB without this crate: a write
    /// through it breaks the contract.
    #[doc(hidden)]
    pub fn raw(&self) -> &DB {
        self.db.admin()
    }

    #[inline]
    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            Err(StorageError::Closed)
        } else {
            Ok(())
        }
    }

    // A new process does not need the scratch data of an earlier one.
    fn wipe_scratch(&self) -> Result<()> {
        let mut any = false;
        let opts = CursorOpts {
            keys_only: true,
            ..CursorOpts::default()
        };
        self.cursor(Table::Tmp, KeyRange::ALL, opts)?
            .visit(1, &mut |_, _| {
                any = true;
                false
            })?;
        if any {
            self.drop_range(Table::Tmp, KeyRange::ALL)?;
            let mut batch = WriteBatch::new();
            batch.delete_range(Table::Tmp, &[], storage::MAX_KEY);
            self.db.write(batch.as_bytes(), true)?;
        }
        Ok(())
    }

    // RocksDB's own check skips blob files; each value in them has a checksum that a read verifies.
    fn read_large_documents(&self) -> Result<()> {
        if self
            .db
            .property(Table::Doc, c"rocksdb.num-blob-files")
            .unwrap_or(0)
            == 0
        {
            return Ok(());
        }
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = self.cursor(Table::Doc, KeyRange::ALL, opts)?;
        while cursor.visit(1024, &mut |_, _| true)? {}
        Ok(())
    }

    // RocksDB reports a persisting background error on every write; this names its kind.
    fn explain(&self, error: StorageError) -> StorageError {
        let StorageError::Io { .. } = error else {
            return error;
        };
        match self.events.background_error() {
            Some(_) => self.standing_error("the device was full during background work: "),
            None => error,
        }
    }

    /// The reason why writes are refused until RocksDB has recovered.
    fn standing_error(&self, when_full: &str) -> StorageError {
        match self.events.background_error() {
            Some(text) if !error::is_full(&text) => StorageError::ReadOnly {
                context: error::format_standing(&text),
            },
            Some(_) => self.guard.refusal(when_full),
            None => StorageError::Busy("writes begin again".to_owned()),
        }
    }
}

/// Extends each journal file in advance when it begins, and records where the previous one has
/// ended.
fn follow_journal_files(
    config: &Config,
    db: &Arc<Db>,
    mark: &Arc<Mark>,
    events: &Arc<Events>,
    closing: &Arc<AtomicBool>,
) {
    let (sealed_in, sealed_at) = (Arc::downgrade(db), Arc::clone(mark));
    let (directory, extent) = (config.path.clone(), config.journal_extent_bytes());
    let closes = Arc::clone(closing);
    let extend = move || {
        // RocksDB does not truncate a file to which it never wrote, such as the last one.
        if !closes.load(Ordering::Acquire) {
            // A failure only makes flushes slower.
            let _ = wal::extend(&directory, extent);
        }
    };
    extend();
    events.on_sealed(Box::new(move || {
        // Once the engine is gone, no writer can have commits that would be missed.
        if let Some(db) = sealed_in.upgrade() {
            sealed_at.seal_up_to(db.sequence());
        }
        extend();
    }));
}

fn open_db(config: &Config, built: &OptionSet) -> Result<DB> {
    let families = built
        .tables
        .iter()
        .map(|(table, opts)| ColumnFamilyDescriptor::new(family_name(*table), opts.clone()));
    DB::open_cf_descriptors(&built.db, &config.path, families)
        .map_err(|error| error::sort_open(&config.path, error.into_string()))
}

/// Deleted keys that a check for remaining keys of an ident may skip: about a millisecond.
const GONE_SKIP_MAX: u64 = 4096;

impl Reader for RocksEngine {
    fn get(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.check_open()?;
        self.db.get(self.db.latest(), table, key, out)
    }

    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.check_open()?;
        self.db.get_with(self.db.latest(), table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check_open()?;
        self.db.multi_get(self.db.latest(), table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        self.check_open()?;
        range.check()?;
        Ok(Box::new(RocksCursor::new(
            &self.db, None, table, range, opts,
        )))
    }
}

impl Engine for RocksEngine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.check_open()?;
        Ok(Arc::new(RocksSnapshot::take(&self.db)))
    }

    fn admit(&self, bytes: usize, class: WriteClass) -> Duration {
        self.admission.pass(bytes, class)
    }

    fn apply(&self, batch: &WriteBatch, durability: Durability) -> Result<CommitPos> {
        self.check_open()?;
        self.caps.check_sizes(batch)?;
        self.guard.admit(batch)?;
        if self.events.recovers() {
            return Err(self.standing_error("the device was full during a write: "));
        }
        let written = if durability == Durability::None {
            self.journal
                .unjournaled(|| self.db.write(batch.as_bytes(), false))
        } else {
            self.db.write(batch.as_bytes(), true)
        };
        written.map_err(|error| {
            self.journal.check_append(&error);
            let error = self.explain(error);
            if matches!(
                error,
                StorageError::Full { .. } | StorageError::ReadOnly { .. }
            ) {
                self.events.write_was_refused();
            }
            error
        })?;
        let pos = CommitPos(self.db.sequence());
        if durability == Durability::Journaled {
            self.journal.wait(pos)?;
        }
        Ok(pos)
    }

    fn last_pos(&self) -> CommitPos {
        CommitPos(self.db.sequence())
    }

    fn durable_pos(&self) -> CommitPos {
        self.journal.durable_pos()
    }

    fn wait_durable(&self, pos: CommitPos) -> Result<()> {
        self.check_open()?;
        self.journal.wait(pos)
    }

    fn request_flush(&self, pos: CommitPos) {
        self.journal.request_flush(pos);
    }

    fn try_flush(&self, pos: CommitPos) -> FlushOutcome {
        self.journal.try_flush(pos)
    }

    fn on_durable(&self, hook: DurableHook) {
        self.journal.on_durable(hook);
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.check_open()?;
        range.check()?;
        if range.is_empty() {
            return Ok(());
        }
        self.db
            .delete_files(table, range.lower, &key_before(range.upper))
    }

    fn expect_size(&self, table: Table, bytes: u64) {
        self.expected.set(&self.db, &self.config, table, bytes);
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        self.dropped.of(table).store(idents);
    }

    fn is_gone(&self, table: Table, ident: u32) -> Result<bool> {
        self.check_open()?;
        let lower = ident.to_be_bytes();
        let mut upper = Vec::new();
        prefix_end(&lower, &mut upper);
        let how = IterOpts {
            skip_max: GONE_SKIP_MAX,
            ..IterOpts::default()
        };
        let mut iter = Iter::new(&self.db, None, table, &lower, &upper, &how);
        iter.seek_to_first();
        if iter.valid() {
            return Ok(false);
        }
        match iter.status() {
            Ok(()) => Ok(true),
            // More deleted keys than it may skip: compaction has not removed them yet.
            Err(StorageError::Busy(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.check_open()?;
        range.check()?;
        if range.is_empty() {
            return Ok(0);
        }
        sizes::estimate(&self.db, table, range, self.config.blob_bytes_min)
    }

    fn bytes_read_here(&self) -> Option<u64> {
        // By default RocksDB counts blocks and their bytes per thread.
        Some(PerfContext::default().metric(PerfMetric::BlockReadByte))
    }

    fn unused_size(&self, table: Table, range: KeyRange<'_>, rows: Option<u64>) -> Result<u64> {
        self.check_open()?;
        range.check()?;
        let bytes = self.approx_size(table, range)?;
        compact::unused(&self.db, table, range, bytes, rows)
    }

    fn compact(&self, table: Table, range: KeyRange<'_>, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.check_open()?;
        range.check()?;
        let before = self.approx_size(table, range)?;
        compact::compact(&self.db, table, range, stop)?;
        Ok(before.saturating_sub(self.approx_size(table, range)?))
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        let from = Sources {
            db: &self.db,
            cache: &self.built.cache,
            memtables: &self.built.memtables,
            files: &self.built.files,
            events: &self.events,
            guard: &self.guard,
            monitor: &self.monitor_stats,
            admission: &self.admission,
            journal: &self.journal,
            counters: self.config.statistics.then_some(&self.built.db),
        };
        stats::report(&from, sink);
    }

    fn checkpoint(&self, path: &Path) -> Result<()> {
        self.check_open()?;
        checkpoint::make(&self.db, &self.config, path)?;
        open::copy_keys(&self.config, path)?;
        open::mark(path)
    }

    fn next_part(&self, table: Table, range: KeyRange<'_>) -> Result<Option<Vec<u8>>> {
        crate::salvage::next_block(&self.db, table, range)
    }

    fn undamaged(&self, path: &Path) -> Result<Option<Arc<dyn Engine>>> {
        self.open_undamaged(path)
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.check_open()?;
        let sizes = [
            c"rocksdb.live-sst-files-size",
            c"rocksdb.live-blob-file-size",
        ];
        let of = |table| {
            sizes
                .iter()
                .filter_map(move |name| self.db.property(table, name))
        };
        let bytes = Table::ALL.into_iter().flat_map(of).sum();
        let mut findings = Vec::new();
        if let Err(error) = self.db.admin().verify_checksum() {
            findings.push(error.into_string());
        }
        if let Err(error) = self.read_large_documents() {
            findings.push(error.to_string());
        }
        Ok(VerifyReport { bytes, findings })
    }

    fn flush(&self) -> Result<()> {
        self.check_open()?;
        let admin = self.db.admin();
        let mut opts = FlushOptions::default();
        opts.set_wait(true);
        for table in Table::ALL {
            if let Some(family) = admin.cf_handle(family_name(table)) {
                admin
                    .flush_cf_opt(family, &opts)
                    .map_err(|error| self.explain(error::sort("a flush", error.into_string())))?;
            }
        }
        self.journal.wait(CommitPos(self.db.sequence()))
    }

    fn close(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.closing.store(true, Ordering::Release);
        let flushed = self.flush();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.monitor.stop();
        self.journal.stop();
        self.db.admin().cancel_all_background_work(true);
        flushed
    }
}

impl Drop for RocksEngine {
    fn drop(&mut self) {
        // A failure cannot be reported here; the journal has everything that was not flushed.
        let _ = self.close();
    }
}

// The largest key below an exclusive upper bound, as RocksDB's limit is inclusive. Exact when the
// bound ends with a zero byte; otherwise so close below it that hardly any key can lie between, and
// such keys merely stay.
fn key_before(upper: &[u8]) -> Vec<u8> {
    let mut key = upper.to_vec();
    match key.pop() {
        None | Some(0) => {}
        Some(last) => {
            key.push(last - 1);
            key.extend_from_slice(&[0xFF; 32]);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_stays_under_the_bound_and_above_its_neighbours() {
        for upper in [
            &b"\0\0\0\x08"[..],
            b"a\0",
            b"\xff\xff\xff\xff",
            b"\0\0\x01\0",
        ] {
            let key = key_before(upper);
            assert!(key.as_slice() < upper, "{upper:02x?}");
        }
        assert!(key_before(b"\0\0\0\x08").as_slice() > &b"\0\0\0\x07\xff\xff\xff"[..]);
        assert_eq!(key_before(b"a\0"), b"a");
    }
}
