//! Metrics of the running engine, under stable names.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use rust_rocksdb::statistics::Ticker;
use rust_rocksdb::{Cache, Options, SstFileManager, WriteBufferManager};
use storage::{StatSink, Table};

use crate::admission::Admission;
use crate::ffi::Db;
use crate::journal::Journal;
use crate::listener::Events;
use crate::load;
use crate::monitor::MonitorStats;
use crate::space::Guard;

const PER_TABLE: [(&str, &CStr); 8] = [
    ("keys_estimate", c"rocksdb.estimate-num-keys"),
    ("live_bytes", c"rocksdb.estimate-live-data-size"),
    ("sst_bytes", c"rocksdb.total-sst-files-size"),
    ("blob_bytes", c"rocksdb.total-blob-file-size"),
    ("blob_garbage_bytes", c"rocksdb.live-blob-file-garbage-size"),
    ("memtable_bytes", c"rocksdb.cur-size-all-mem-tables"),
    ("table_reader_bytes", c"rocksdb.estimate-table-readers-mem"),
    ("running_compactions", c"rocksdb.num-running-compactions"),
];

const WHOLE: [(&str, &CStr); 5] = [
    (
        "delayed_write_rate_bytes",
        c"rocksdb.actual-delayed-write-rate",
    ),
    ("write_stopped", c"rocksdb.is-write-stopped"),
    ("snapshots", c"rocksdb.num-snapshots"),
    ("snapshot_oldest_unix_s", c"rocksdb.oldest-snapshot-time"),
    ("background_error_count", c"rocksdb.background-errors"),
];

const TICKERS: [(&str, Ticker); 12] = [
    ("cache_hits", Ticker::BlockCacheHit),
    ("cache_misses", Ticker::BlockCacheMiss),
    ("cache_data_hits", Ticker::BlockCacheDataHit),
    ("cache_data_misses", Ticker::BlockCacheDataMiss),
    ("filter_useful", Ticker::BloomFilterUseful),
    ("keys_written", Ticker::NumberKeysWritten),
    ("keys_read", Ticker::NumberKeysRead),
    ("wal_bytes_written", Ticker::WalFileBytes),
    ("wal_syncs", Ticker::WalFileSynced),
    ("flush_bytes_written", Ticker::FlushWriteBytes),
    ("compact_bytes_written", Ticker::CompactWriteBytes),
    ("compact_bytes_read", Ticker::CompactReadBytes),
];

/// The parts of an engine from which metrics are read.
pub(crate) struct Sources<'e> {
    pub(crate) db: &'e Db,
    pub(crate) cache: &'e Cache,
    pub(crate) memtables: &'e WriteBufferManager,
    pub(crate) files: &'e SstFileManager,
    pub(crate) events: &'e Events,
    pub(crate) guard: &'e Guard,
    pub(crate) monitor: &'e MonitorStats,
    pub(crate) admission: &'e Admission,
    pub(crate) journal: &'e Journal,
    /// Options with RocksDB's counters; `None` when these are disabled.
    pub(crate) counters: Option<&'e Options>,
}

/// Reports all metrics.
pub(crate) fn report(from: &Sources<'_>, sink: &mut StatSink<'_>) {
    let mut put = |name: &str, value: u64| sink(name, i64::try_from(value).unwrap_or(i64::MAX));
    report_tables(from.db, &mut put);
    for (metric, key) in WHOLE {
        put(metric, from.db.property(Table::Meta, key).unwrap_or(0));
    }
    put("block_cache_usage_bytes", from.cache.get_usage() as u64);
    put(
        "block_cache_pinned_bytes",
        from.cache.get_pinned_usage() as u64,
    );
    put(
        "block_cache_capacity_bytes",
        from.cache.get_capacity() as u64,
    );
    put("memtables_total_bytes", from.memtables.get_usage() as u64);
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    put("stall_delays", get(&from.events.stall_delays));
    put("stall_stops", get(&from.events.stall_stops));
    put("flushes", get(&from.events.flushes));
    put("compactions", get(&from.events.compactions));
    put("background_errors", get(&from.events.background_errors));
    let damaged = get(&from.events.damaged_compactions);
    put("compaction_met_damage", u64::from(damaged > 0));
    put("free_bytes", from.guard.free_bytes());
    put("reserve_bytes", from.guard.reserve_bytes());
    put("space_short", u64::from(from.guard.is_full()));
    put("files_to_delete_bytes", from.files.get_total_trash_size());
    put("pressure_permille", get(&from.monitor.pressure_permille));
    put("resumes", get(&from.monitor.resumes));
    let admission = from.admission.stats();
    put("admission_rate_bytes_per_s", admission.rate);
    put("admission_bytes", admission.admitted_bytes);
    put("admission_waits", admission.waits);
    put("admission_wait_us", admission.wait_us);
    put("admission_wait_us_max", admission.wait_us_max);
    let journal = from.journal.stats();
    put("journal_flushes", journal.flushes);
    put("journal_flush_us", journal.flush_us_total);
    put("journal_flush_us_last", journal.flush_us_last);
    put("journal_failing", u64::from(from.journal.has_failed()));
    if let Some(counters) = from.counters {
        for (metric, ticker) in TICKERS {
            put(metric, counters.get_ticker_count(ticker));
        }
    }
}

fn report_tables(db: &Db, put: &mut dyn FnMut(&str, u64)) {
    let mut name = String::new();
    for table in Table::ALL {
        let loaded = load::of(db, table);
        let mut metrics = vec![
            ("l0_files", loaded.l0_files),
            ("immutable_memtables", loaded.immutable_memtables),
            ("pending_compaction_bytes", loaded.pending_bytes),
        ];
        metrics.extend(
            PER_TABLE
                .iter()
                .map(|(name, key)| (*name, db.property(table, key).unwrap_or(0))),
        );
        for (metric, value) in metrics {
            name.clear();
            name.push_str(table.name());
            name.push('.');
            name.push_str(metric);
            put(&name, value);
        }
    }
}
