//! One configuration struct, scaled from one memory budget, and its translation into RocksDB
//! options. The reasons are next to the settings.

use std::path::PathBuf;
use std::sync::Arc;

use cipher::MasterKey;
use rust_rocksdb::statistics::StatsLevel;
use rust_rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, LogLevel,
    LruCacheOptions, Options, SstFileManager, WriteBufferManager,
};
use storage::{Table, counter_add, counter_decode, counter_encode};

use crate::filter::{DroppedSets, install_filter};
use crate::limits;
use crate::listener::Listener;

const MB: usize = 1 << 20;

/// Table format of new files, fixed so that an upgrade of the library does not change files
/// silently. Every RocksDB since 8.6 reads 6.
pub(crate) const TABLE_FORMAT: i32 = 6;

/// Which block cache to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// Lock-free, for many cores.
    HyperClock,
    /// Sharded least-recently-used list.
    Lru,
}

/// How to open the engine. Start from [`Config::with_budget`].
#[derive(Debug, Clone)]
pub struct Config {
    /// Data directory; created when missing.
    pub path: PathBuf,
    /// Block cache, including memtables, index and filter blocks.
    pub block_cache_bytes: usize,
    /// All memtables together; charged to the block cache.
    pub write_buffer_bytes: usize,
    /// Number of compactions that may run at the same time, beside a flush. RocksDB runs one until
    /// level-0 files pile up.
    pub background_jobs: u32,
    /// Longest time between a commit and its journal flush.
    pub journal_commit_interval_ms: u64,
    /// Most table files that are open at the same time; each takes some memory outside of the
    /// cache.
    pub open_files_max: u32,
    /// Kind of block cache.
    pub cache_kind: CacheKind,
    /// Growing writes are refused below this much free space ...
    pub free_bytes_min: u64,
    /// ... or below this share of the file system, whichever is larger (but never more than 5 GB).
    pub free_percent_min: u64,
    /// Documents of at least this many bytes are stored in separate files, so that compactions move
    /// a reference instead of the document; 0 for none.
    pub blob_bytes_min: u64,
    /// Files that are no longer needed (after a drop or a compaction) are deleted at this pace, so
    /// that freeing their blocks never delays the journal for long; 0 for at once. When space is
    /// short, files are deleted at once.
    pub delete_bytes_per_s: u64,
    /// Limit for writes of compactions and flushes, 0 for none.
    pub background_bytes_per_s: u64,
    /// Keep RocksDB's counters (cache hits, bytes read, ...) for `stats`.
    pub statistics: bool,
    /// Compress blocks; off for studies only.
    pub compression: bool,
    /// Create the directory's content when it is empty.
    pub create: bool,
    /// The master key that seals the directory's data key, from which the keys of its files are
    /// derived; `None` for plain data.
    pub master_key: Option<Arc<MasterKey>>,
    /// Open a directory with a damaged journal instead of refusing it, with the commits that can be
    /// read before the damage.
    pub repair: bool,
}

impl Config {
    /// A configuration whose memory stays below `budget_bytes`, the engine's part of the memory:
    /// caches, memtables, table readers, compaction buffers, overhead of the allocator.
    pub fn with_budget(path: impl Into<PathBuf>, budget_bytes: usize) -> Self {
        let budget = budget_bytes.max(64 * MB);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            path: path.into(),
            block_cache_bytes: budget / 3 * 2,
            write_buffer_bytes: (budget / 9 * 2).clamp(16 * MB, 4096 * MB),
            background_jobs: u32::try_from(cores.clamp(2, 16)).unwrap_or(2),
            journal_commit_interval_ms: 100,
            open_files_max: limits::open_files_max(budget),
            cache_kind: CacheKind::HyperClock,
            free_bytes_min: 256 * MB as u64,
            free_percent_min: 2,
            blob_bytes_min: 16 << 10,
            delete_bytes_per_s: 256 * MB as u64,
            background_bytes_per_s: 0,
            statistics: true,
            compression: true,
            create: true,
            master_key: None,
            repair: false,
        }
    }

    /// Memtable size of one table. `doc` and `idx` get most of the writes; four memtables of each
    /// must fit the common limit.
    pub(crate) fn memtable_bytes(&self, table: Table) -> usize {
        let part = match table {
            Table::Doc | Table::Idx => self.write_buffer_bytes / 4,
            Table::Log => self.write_buffer_bytes / 8,
            Table::Meta | Table::Cap | Table::Tmp => self.write_buffer_bytes / 16,
        };
        part.clamp(2 * MB, 256 * MB)
    }

    /// Size of a table's files: as large as the memtable that fills one level-0 file.
    pub(crate) fn file_bytes(&self, table: Table) -> u64 {
        self.memtable_bytes(table).clamp(16 * MB, 64 * MB) as u64
    }

    /// The jobs that RocksDB gets: it takes one of them for flushes. Without the second compaction
    /// of a machine with two processors, level-0 files pile up for as long as one compaction of a
    /// lower level takes, and admission stops the writers while a processor is idle (ADR 0108).
    fn all_jobs(&self) -> i32 {
        i32::try_from(self.background_jobs.max(1)).map_or(2, |jobs| jobs.saturating_add(1))
    }

    /// Length to which a journal file is extended in advance. A new file begins when any memtable
    /// is full; this length is enough for documents with about as many bytes of index entries.
    pub(crate) fn journal_extent_bytes(&self) -> u64 {
        (self.memtable_bytes(Table::Doc) as u64).saturating_mul(3) / 2
    }

    /// Immutable memtables of a column family at which RocksDB stops writers; admission slows
    /// writers down before that.
    pub(crate) const MEMTABLES_MAX: i32 = 8;
    /// Level-0 files at which admission begins to slow writers down, and at which RocksDB itself
    /// would.
    pub(crate) const L0_SOFT: u64 = 12;
    /// Level-0 files that are compacted together.
    pub(crate) const L0_TRIGGER: i32 = 4;
    /// Number of overwritten rows that a scan has to skip before it requests a flush.
    const OVERWRITTEN_MIN: u32 = 10_000;
    const L0_SLOWDOWN: i32 = 60;
    const L0_STOP: i32 = 90;
    /// Pending compaction bytes at which admission begins to slow writers down.
    pub(crate) const PENDING_SOFT_BYTES: u64 = 4 << 30;
}

/// The parts of the options that are needed for metrics after opening.
pub(crate) struct OptionSet {
    pub(crate) db: Options,
    pub(crate) tables: Vec<(Table, Options)>,
    pub(crate) cache: Cache,
    pub(crate) memtables: WriteBufferManager,
    pub(crate) files: SstFileManager,
}

/// Translates the configuration.
pub(crate) fn build(config: &Config, dropped: &DroppedSets, listener: Listener) -> OptionSet {
    let cache = match config.cache_kind {
        CacheKind::HyperClock => Cache::new_hyper_clock_cache(config.block_cache_bytes, 0),
        CacheKind::Lru => {
            let mut opts = LruCacheOptions::default();
            opts.set_capacity(config.block_cache_bytes);
            // Few shards: in a small cache with many shards each evicts too early and cannot hold a
            // 16 MB value.
            opts.set_num_shard_bits(2);
            Cache::new_lru_cache_opts(&opts)
        }
    };
    let memtables = WriteBufferManager::new_write_buffer_manager_with_cache(
        config.write_buffer_bytes,
        false,
        cache.clone(),
    );
    let files = SstFileManager::new();
    files.set_delete_rate_bytes_per_second(
        i64::try_from(config.delete_bytes_per_s).unwrap_or(i64::MAX),
    );
    // The pace applies however large the dropped part of the data is; the guard lifts it when space
    // is short.
    files.set_max_trash_db_ratio(f64::MAX);
    let mut db = Options::default();
    db.set_sst_file_manager(&files);
    db.create_if_missing(true);
    db.create_missing_column_families(true);
    db.set_max_background_jobs(config.all_jobs());
    db.set_max_open_files(i32::try_from(config.open_files_max).unwrap_or(256));
    // The limit is divided among shards by file number: with few files each, a shard closes files
    // while others have room.
    db.set_table_cache_num_shard_bits(((config.open_files_max / 64).max(1).ilog2() as i32).min(6));
    db.set_max_file_opening_threads(2);
    db.set_write_buffer_manager(&memtables);
    db.set_max_total_wal_size((8 * config.write_buffer_bytes).clamp(128 * MB, 1024 * MB) as u64);
    // `open.rs` distinguishes damage from a tail that was never flushed before RocksDB reads the
    // journal; here RocksDB reads up to the first unreadable record. The manifest has the lengths
    // of closed files, so a missing one is noticed.
    db.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    db.set_track_and_verify_wals_in_manifest(true);
    // Spreads writeback, so that an fsync never has hundreds of megabytes to write.
    db.set_bytes_per_sync(MB as u64);
    db.set_wal_bytes_per_sync(512 << 10);
    db.set_enable_pipelined_write(true);
    // Spinning for a few microseconds hurts when there are only two cores.
    db.set_enable_write_thread_adaptive_yield(config.background_jobs > 4);
    db.set_delayed_write_rate(16 * MB as u64);
    db.set_max_subcompactions(if config.background_jobs >= 8 { 4 } else { 1 });
    db.set_compaction_readahead_size(2 * MB);
    db.set_avoid_unnecessary_blocking_io(true);
    db.set_stats_dump_period_sec(0);
    db.set_log_level(LogLevel::Warn);
    db.set_max_log_file_size(4 * MB);
    db.set_keep_log_file_num(4);
    db.set_max_manifest_file_size(16 * MB);
    db.add_event_listener(listener);
    if config.statistics {
        db.enable_statistics();
        db.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    }
    if config.background_bytes_per_s > 0 {
        let rate = i64::try_from(config.background_bytes_per_s).unwrap_or(i64::MAX);
        db.set_ratelimiter(rate, 100_000, 10);
    }
    let tables = Table::ALL
        .iter()
        .map(|&table| (table, table_options(config, table, &cache, dropped)))
        .collect();
    OptionSet {
        db,
        tables,
        cache,
        memtables,
        files,
    }
}

fn table_options(config: &Config, table: Table, cache: &Cache, dropped: &DroppedSets) -> Options {
    let base = Options::default().get_options_from_string(extra_options(table));
    debug_assert!(
        base.is_ok(),
        "RocksDB does not know {}",
        extra_options(table)
    );
    let mut opts = base.unwrap_or_default();
    opts.set_write_buffer_size(config.memtable_bytes(table));
    opts.set_max_write_buffer_number(Config::MEMTABLES_MAX);
    opts.set_min_write_buffer_number_to_merge(1);
    opts.set_level_compaction_dynamic_level_bytes(true);
    opts.set_level_zero_file_num_compaction_trigger(Config::L0_TRIGGER);
    opts.set_level_zero_slowdown_writes_trigger(Config::L0_SLOWDOWN);
    opts.set_level_zero_stop_writes_trigger(Config::L0_STOP);
    // Far above the limits of admission: RocksDB's own write stalls are a last resort.
    opts.set_soft_pending_compaction_bytes_limit(64 << 30);
    opts.set_hard_pending_compaction_bytes_limit(256 << 30);
    // As large as the level-0 files that trigger a compaction, so that the step to level 1 rewrites
    // about one byte for each new one.
    opts.set_max_bytes_for_level_base((4 * config.memtable_bytes(table)).max(32 * MB) as u64);
    opts.set_target_file_size_base(config.file_bytes(table));
    opts.set_memtable_max_range_deletions(100);
    opts.set_min_tombstones_for_range_conversion(100);
    // Files that were not written for a month are rewritten, so that dropped idents finally
    // disappear everywhere.
    opts.set_periodic_compaction_seconds(30 * 24 * 3600);
    set_compression(&mut opts, config, table);
    if table == Table::Doc && config.blob_bytes_min > 0 {
        set_blobs(&mut opts, config, cache);
    }
    if table == Table::Doc || table == Table::Idx {
        // A scan that skips more overwritten rows in the memtable than it shows has the memtable
        // flushed, which drops these rows; below this number a flush costs more than it saves.
        opts.set_memtable_op_scan_flush_trigger(Config::OVERWRITTEN_MIN);
        opts.set_memtable_avg_op_scan_flush_trigger(2);
        // An insert looks up its own key first; this filter answers for the keys still in memory.
        opts.set_memtable_whole_key_filtering(true);
        opts.set_memtable_prefix_bloom_ratio(0.05);
        opts.add_compact_on_deletion_collector_factory(128 << 10, 64 << 10, 0.5);
    }
    if table == Table::Meta {
        opts.set_merge_operator_associative("quarry.counter", |_key, old, operands| {
            let sum = operands
                .iter()
                .map(counter_decode)
                .fold(old.map_or([0, 0], counter_decode), counter_add);
            Some(counter_encode(sum).to_vec())
        });
        opts.set_max_successive_merges(32);
    } else {
        install_filter(&mut opts, dropped.of(table));
    }
    opts.set_block_based_table_factory(&block_options(table, cache));
    opts
}

/// Options for which the binding has no function; they are set before all others.
fn extra_options(table: Table) -> &'static str {
    match table {
        // Merges of a counter are combined even when its value is in a file whose block is not
        // cached: otherwise each write tries that again, over all merges since the last flush.
        Table::Meta => "strict_max_successive_merges=true",
        // The search for an entry's place in the memtable begins at the place of the last one,
        // which is near when a batch has its entries in order (ADR 0063). One hint for all indexes:
        // the prefix is the first byte of the identifier, and each prefix takes memory.
        Table::Idx => {
            "memtable_insert_with_hint_prefix_extractor=rocksdb.FixedPrefix.1;\
             compression_opts={auto_skip=true}"
        }
        // Blocks that do not become smaller by an eighth are stored uncompressed, and compression
        // is then skipped and only retried now and then, so that random bytes cost little time.
        _ => "compression_opts={auto_skip=true}",
    }
}

fn set_blobs(opts: &mut Options, config: &Config, cache: &Cache) {
    opts.set_enable_blob_files(true);
    opts.set_min_blob_size(config.blob_bytes_min);
    opts.set_blob_file_size(
        (config.memtable_bytes(Table::Doc) as u64 * 4).clamp(64 << 20, 256 << 20),
    );
    opts.set_blob_compression_type(if config.compression {
        DBCompressionType::Lz4
    } else {
        DBCompressionType::None
    });
    opts.set_blob_cache(cache);
    // Compactions move documents, live ones too, out of the oldest tenth of the files. With a
    // quarter (RocksDB's default) a third more was written and no space saved; without such moves
    // garbage accumulated (ADR 0014).
    opts.set_enable_blob_gc(true);
    opts.set_blob_gc_age_cutoff(0.1);
    opts.set_blob_gc_force_threshold(0.5);
}

fn set_compression(opts: &mut Options, config: &Config, table: Table) {
    use DBCompressionType::{Lz4, None as Plain, Zstd};
    if !config.compression {
        opts.set_compression_type(Plain);
        return;
    }
    match table {
        // With one compression type on all levels, files move down without being rewritten.
        Table::Log | Table::Cap | Table::Tmp => opts.set_compression_type(Lz4),
        Table::Meta => opts.set_compression_type(Plain),
        Table::Doc | Table::Idx => {
            opts.set_compression_per_level(&[Plain, Lz4, Lz4, Lz4, Lz4, Lz4, Zstd]);
            opts.set_bottommost_compression_type(Zstd);
            opts.set_bottommost_compression_options(-14, 1, 0, 0, true);
        }
    }
}

fn block_options(table: Table, cache: &Cache) -> BlockBasedOptions {
    let mut block = BlockBasedOptions::default();
    block.set_block_cache(cache);
    block.set_format_version(TABLE_FORMAT);
    // Documents are read one by one, and decompressing their neighbours is wasted; entries are read
    // in sequence.
    block.set_block_size(if table == Table::Doc {
        4 << 10
    } else {
        8 << 10
    });
    block.set_metadata_block_size(4 << 10);
    // Indexes and filters are divided into blocks in the cache, so that they need no memory beyond
    // the budget.
    block.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    block.set_cache_index_and_filter_blocks(true);
    block.set_cache_index_and_filter_blocks_with_high_priority(true);
    block.set_pin_l0_filter_and_index_blocks_in_cache(true);
    block.set_pin_top_level_index_and_filter(true);
    block.set_optimize_filters_for_memory(true);
    // Index blocks store every fourth key whole and the keys between as differences: they are
    // smaller, and a seek reads up to three entries after its binary search.
    block.set_index_block_restart_interval(4);
    if table != Table::Log && table != Table::Tmp {
        block.set_partition_filters(true);
        block.set_whole_key_filtering(true);
        // Bloom filters on the upper levels (cheap to build), ribbon filters below (a third
        // smaller).
        block.set_hybrid_ribbon_filter(10.0, 2);
    }
    block
}
