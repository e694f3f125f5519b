//! Figures of the running engine, under stable names.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use rust_rocksdb::Options;
use rust_rocksdb::statistics::Ticker;
use storage::{StatSink, Table};

use crate::engine::RocksEngine;
use crate::ffi::{Db, family_name};

/// How loaded one table is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) l0_files: u64,
    pub(crate) immutable_memtables: u64,
    pub(crate) pending_bytes: u64,
}

/// Reads the inputs of admission control.
pub(crate) fn load(db: &Db, table: Table) -> Load {
    let admin = db.admin();
    let l0_files = admin
        .cf_handle(family_name(table))
        .and_then(|family| {
            admin
                .property_value_cf(family, c"rocksdb.num-files-at-level0")
                .ok()
                .flatten()
        })
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    Load {
        l0_files,
        immutable_memtables: db
            .property(table, c"rocksdb.num-immutable-mem-table")
            .unwrap_or(0),
        pending_bytes: db
            .property(table, c"rocksdb.estimate-pending-compaction-bytes")
            .unwrap_or(0),
    }
}

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

/// Reports everything.
pub(crate) fn report(
    engine: &RocksEngine,
    options: &Options,
    tickers: bool,
    sink: &mut StatSink<'_>,
) {
    let mut put = |name: &str, value: u64| sink(name, i64::try_from(value).unwrap_or(i64::MAX));
    let mut name = String::new();
    for table in Table::ALL {
        let loaded = load(engine.db(), table);
        let mut figures = vec![
            ("l0_files", loaded.l0_files),
            ("immutable_memtables", loaded.immutable_memtables),
            ("pending_compaction_bytes", loaded.pending_bytes),
        ];
        figures.extend(
            PER_TABLE
                .iter()
                .map(|(name, key)| (*name, engine.db().property(table, key).unwrap_or(0))),
        );
        for (figure, value) in figures {
            name.clear();
            name.push_str(table.name());
            name.push('.');
            name.push_str(figure);
            put(&name, value);
        }
    }
    for (figure, key) in WHOLE {
        put(figure, engine.db().property(Table::Meta, key).unwrap_or(0));
    }
    put("block_cache_usage_bytes", engine.cache().get_usage() as u64);
    put(
        "block_cache_pinned_bytes",
        engine.cache().get_pinned_usage() as u64,
    );
    put(
        "block_cache_capacity_bytes",
        engine.cache().get_capacity() as u64,
    );
    put(
        "memtables_total_bytes",
        engine.memtables().get_usage() as u64,
    );
    let events = engine.events();
    put("stall_delays", events.stall_delays.load(Ordering::Relaxed));
    put("stall_stops", events.stall_stops.load(Ordering::Relaxed));
    put("flushes", events.flushes.load(Ordering::Relaxed));
    put("compactions", events.compactions.load(Ordering::Relaxed));
    put(
        "background_errors",
        events.background_errors.load(Ordering::Relaxed),
    );
    let watch = engine.watch();
    let guard = engine.guard();
    put("free_bytes", guard.free_bytes());
    put("reserve_bytes", guard.reserve_bytes());
    put("space_short", u64::from(guard.is_full()));
    put(
        "files_to_delete_bytes",
        engine.files().get_total_trash_size(),
    );
    put(
        "pressure_permille",
        watch.pressure_permille.load(Ordering::Relaxed),
    );
    put("resumes", watch.resumes.load(Ordering::Relaxed));
    let gate = engine.gate().figures();
    put("admission_rate_bytes_per_s", gate.rate);
    put("admission_bytes", gate.admitted_bytes);
    put("admission_waits", gate.waits);
    put("admission_wait_us", gate.wait_us);
    put("admission_wait_us_max", gate.wait_us_max);
    let journal = engine.journal().figures();
    put("journal_flushes", journal.flushes);
    put("journal_flush_us", journal.flush_us_total);
    put("journal_flush_us_last", journal.flush_us_last);
    put("journal_failing", u64::from(engine.journal().failed()));
    if tickers {
        for (figure, ticker) in TICKERS {
            put(figure, options.get_ticker_count(ticker));
        }
    }
}
