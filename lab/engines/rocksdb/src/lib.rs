//! `RocksDB`, without a server, as a target of the lab: leveled or universal compaction, with or
//! without blob files.
//!
//! Promises: one column family of bytes; the name in the report contains the settings; a merge
//! operator adds to counters. Must not know: rows, workloads, and how Quarry's server uses the same
//! library.

mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lab_kit::engine::{
    BackgroundFlush, Counters, Durability, EngineError, EngineOptions, EngineSession, KeyChange,
    LabEngine, RowVisitor, wait_until_idle,
};
use lab_kit::kv::add_to_row;
use lab_kit::target::SettleResult;
use lab_kit::workload::Capability;
use rust_rocksdb::statistics::Ticker;
use rust_rocksdb::{
    DB, FlushOptions, MergeOperands, Options, ReadOptions, WriteBatch, WriteOptions,
};

use settings::Settings;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Opens a database in a directory.
///
/// # Errors
/// The directory cannot be used, or a parameter is unknown.
pub fn open(given: EngineOptions) -> Result<Box<dyn LabEngine>, EngineError> {
    let (path, durability) = (given.path.clone(), given.durability);
    let settings = Settings::take(given)?;
    let mut options = settings.options();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    options.increase_parallelism(i32::try_from(threads).unwrap_or(2));
    options.enable_statistics();
    // Options in the engine's own words override all others, except those that rows need. The first
    // options own the cache that the second ones use.
    let (base, mut options) = match settings.own() {
        Some(own) => {
            let changed = options.get_options_from_string(own);
            let changed = changed.map_err(|error| EngineError(format!("options: {error}")))?;
            (Some(options), changed)
        }
        None => (None, options),
    };
    options.set_merge_operator("quarry-lab.add", merge_full, merge_partial);
    let db = Arc::new(DB::open(&options, &path).map_err(EngineError::of)?);
    let lazy = db.clone();
    let flush = (durability == Durability::Lazy).then(|| {
        BackgroundFlush::start(move || {
            // The next synced write reports a failed flush.
            let _ = lazy.flush_wal(true);
        })
    });
    Ok(Box::new(Rocks {
        _flush: flush,
        db,
        options,
        _base: base,
        durability,
        about: settings.describe(),
    }))
}

fn operand(bytes: &[u8]) -> i64 {
    bytes.try_into().map_or(0, i64::from_le_bytes)
}

fn sum(operands: &MergeOperands) -> i64 {
    operands.iter().map(operand).fold(0, i64::wrapping_add)
}

/// Never fails, because after a failed merge reads and compactions fail forever.
fn merge_full(_: &[u8], existing: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let added = sum(operands);
    let row = existing.and_then(|row| add_to_row(row, added));
    Some(row.unwrap_or_else(|| added.to_le_bytes().to_vec()))
}

fn merge_partial(_: &[u8], _: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    Some(sum(operands).to_le_bytes().to_vec())
}

struct Rocks {
    /// Declared before the database, so that it is dropped and flushes first.
    _flush: Option<BackgroundFlush>,
    db: Arc<DB>,
    options: Options,
    _base: Option<Options>,
    durability: Durability,
    about: String,
}

impl Rocks {
    fn number(&self, property: &str) -> Option<u64> {
        self.db.property_int_value(property).ok().flatten()
    }

    fn debt_bytes(&self) -> Option<u64> {
        let pending = self.number("rocksdb.estimate-pending-compaction-bytes")?;
        Some(pending + self.number("rocksdb.cur-size-all-mem-tables").unwrap_or(0))
    }
}

impl LabEngine for Rocks {
    fn name(&self) -> String {
        format!("RocksDB, {}", self.about)
    }

    fn unsupported(&self) -> &'static [Capability] {
        &[Capability::Capped]
    }

    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError> {
        let mut plain = WriteOptions::default();
        plain.set_sync(self.durability == Durability::Sync);
        plain.disable_wal(self.durability == Durability::None);
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(Box::new(Session {
            db: self.db.clone(),
            plain,
            synced,
        }))
    }

    fn settle(&self, timeout: Duration) -> SettleResult {
        let mut flush = FlushOptions::default();
        flush.set_wait(true);
        let flushed = self.db.flush_opt(&flush).map_err(EngineError::of);
        let waited = flushed.and_then(|()| {
            wait_until_idle(timeout, POLL_INTERVAL, || {
                let busy = [
                    "rocksdb.num-running-compactions",
                    "rocksdb.num-running-flushes",
                    "rocksdb.compaction-pending",
                    "rocksdb.mem-table-flush-pending",
                ];
                Ok(busy.iter().all(|property| self.number(property) == Some(0)))
            })
        });
        SettleResult::after_compaction(waited)
    }

    fn statistics(&self) -> serde_json::Value {
        let mut out = serde_json::Map::new();
        for name in [
            "estimate-pending-compaction-bytes",
            "num-files-at-level0",
            "total-sst-files-size",
            "live-sst-files-size",
            "total-blob-file-size",
            "live-blob-file-garbage-size",
            "cur-size-all-mem-tables",
            "block-cache-usage",
            "estimate-table-readers-mem",
            "actual-delayed-write-rate",
            "is-write-stopped",
        ] {
            out.insert(
                name.to_owned(),
                self.number(&format!("rocksdb.{name}")).into(),
            );
        }
        let tickers = self.options.get_statistics().unwrap_or_default();
        for line in tickers.lines() {
            let Some((name, count)) = line.split_once(" COUNT : ") else {
                continue;
            };
            // Tickers are a name and a number; histograms have more columns.
            if let Ok(count) = count.trim().parse::<u64>() {
                out.insert(name.trim_start_matches("rocksdb.").to_owned(), count.into());
            }
        }
        out.into()
    }

    /// The options from the file that the engine writes.
    fn configuration(&self) -> BTreeMap<String, String> {
        let files = std::fs::read_dir(self.db.path())
            .into_iter()
            .flatten()
            .flatten();
        let files = files.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("OPTIONS-") && !name.ends_with(".dbtmp"))
        });
        let newest = files.max();
        let text = newest.and_then(|path| std::fs::read_to_string(path).ok());
        let (mut out, mut section) = (BTreeMap::new(), String::new());
        for line in text.unwrap_or_default().lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[') {
                let name = name.split([' ', ']']).next().unwrap_or_default();
                section = name.rsplit('/').next().unwrap_or_default().to_owned();
            } else if let Some((name, value)) = line.split_once('=') {
                out.insert(format!("{section}.{name}"), value.to_owned());
            }
        }
        out
    }

    /// The bytes of flushes and compactions include those written to blob files.
    fn counters(&self) -> Counters {
        let of = |ticker| Some(self.options.get_ticker_count(ticker));
        Counters {
            user_bytes: of(Ticker::BytesWritten),
            log_bytes: of(Ticker::WalFileBytes),
            flush_bytes: of(Ticker::FlushWriteBytes),
            compaction_bytes: of(Ticker::CompactWriteBytes),
            stall_us: of(Ticker::StallMicros),
            debt_bytes: self.debt_bytes(),
            ..Counters::default()
        }
    }
}

struct Session {
    db: Arc<DB>,
    plain: WriteOptions,
    synced: WriteOptions,
}

impl EngineSession for Session {
    fn write(&mut self, changes: &[KeyChange], sync: bool) -> Result<(), EngineError> {
        let mut batch = WriteBatch::default();
        for change in changes {
            match change {
                KeyChange::Put(key, value) => batch.put(key, value),
                KeyChange::Delete(key) => batch.delete(key),
                KeyChange::Merge(key, delta) => batch.merge(key, delta.to_le_bytes()),
            }
        }
        let options = if sync { &self.synced } else { &self.plain };
        self.db.write_opt(&batch, options).map_err(EngineError::of)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError> {
        let Some(found) = self.db.get_pinned(key).map_err(EngineError::of)? else {
            return Ok(false);
        };
        out.clear();
        out.extend_from_slice(&found);
        Ok(true)
    }

    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visit: RowVisitor<'_>,
    ) -> Result<(), EngineError> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(from);
        options.set_iterate_upper_bound(end);
        let mut iterator = self.db.raw_iterator_opt(options);
        if reverse {
            iterator.seek_to_last();
        } else {
            iterator.seek_to_first();
        }
        while let Some((key, value)) = iterator.item() {
            if !visit(key, value) {
                break;
            }
            if reverse {
                iterator.prev();
            } else {
                iterator.next();
            }
        }
        iterator.status().map_err(EngineError::of)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lab_kit::engine::{EngineOptions, KeyChange, contract};

    #[test]
    fn passes_the_engine_contract_in_each_form() {
        for form in [
            "",
            "style=universal",
            "blobs=true&compression=zstd",
            "durability=sync",
            "block=16K&bloom=0&direct=true&wbuf=1M&align=true&compression=none",
            "options=write_buffer_size=1048576;block_based_table_factory={block_size=8192}",
        ] {
            let directory = tempfile::tempdir().unwrap();
            contract::check_with(directory.path(), form, &super::open);
        }
    }

    #[test]
    fn written_bytes_and_stall_times_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        // Any compaction debt is above the soft limit, so that writers are slowed down to the given
        // rate.
        let address = format!(
            "{}?wbuf=64K&compression=none&delayed_write_rate=1M&soft_limit=1&hard_limit=1G",
            directory.path().display()
        );
        let engine = super::open(EngineOptions::parse(&address).unwrap()).unwrap();
        let mut session = engine.session().unwrap();
        let mut last = 0;
        for round in 0..400_u32 {
            let row = |n: u32| {
                KeyChange::Put(
                    (n * 7_919 % 1_000).to_be_bytes().to_vec(),
                    vec![round as u8; 500],
                )
            };
            let rows: Vec<_> = (round * 10..round * 10 + 10).map(row).collect();
            session.write(&rows, false).unwrap();
            last += rows.len();
        }
        assert!(engine.settle(Duration::from_secs(30)).is_idle);
        let counters = engine.counters();
        let user = counters.user_bytes.unwrap();
        assert!(user >= last as u64 * 504, "{counters:?}");
        assert!(counters.log_bytes >= Some(user), "{counters:?}");
        assert!(
            counters.write_amplification().unwrap() > 1.5,
            "{counters:?}"
        );
        assert!(counters.stall_us.unwrap() > 0, "{counters:?}");
        assert!(
            engine.name().contains("soft limit 1 B"),
            "{}",
            engine.name()
        );
    }

    /// Checks the documented behaviour of `durability=lazy`.
    #[test]
    fn writes_are_synced_in_the_background_only_with_lazy_durability() {
        for (durability, is_flushed) in [("lazy", true), ("none", false)] {
            let directory = tempfile::tempdir().unwrap();
            let address = format!("{}?durability={durability}", directory.path().display());
            let engine = super::open(EngineOptions::parse(&address).unwrap()).unwrap();
            let row = [KeyChange::Put(vec![1], vec![2; 100])];
            engine.session().unwrap().write(&row, false).unwrap();
            let synced = || engine.statistics()["wal.synced"].as_u64().unwrap();
            let until =
                std::time::Instant::now() + Duration::from_secs(if is_flushed { 30 } else { 2 });
            while synced() == 0 && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(synced() > 0, is_flushed, "{durability}");
        }
    }

    #[test]
    fn engine_options_take_effect_and_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str, more: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            let address = format!("{}?{more}", path.display());
            super::open(EngineOptions::parse(&address).unwrap())
        };
        let plain = open("plain", "").unwrap().configuration();
        let given = "options=max_background_jobs=7;level0_file_num_compaction_trigger=9";
        let engine = open("own", given).unwrap();
        assert!(
            engine.name().contains("max_background_jobs=7"),
            "{}",
            engine.name()
        );
        let own = engine.configuration();
        let changed: Vec<&str> = own
            .iter()
            .filter(|(name, value)| plain.get(*name) != Some(value))
            .map(|(name, _)| name.as_str())
            .collect();
        assert!(
            changed.contains(&"DBOptions.max_background_jobs"),
            "{changed:?}"
        );
        let trigger = own.get("CFOptions.level0_file_num_compaction_trigger");
        assert_eq!(trigger.map(String::as_str), Some("9"));
        // The engine's own options file can be read back.
        let mut files: Vec<_> = std::fs::read_dir(directory.path().join("own"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().contains("OPTIONS-"))
            .collect();
        files.sort();
        let file = files.pop().unwrap();
        drop(engine);
        let again = open("again", &format!("options-file={}", file.display())).unwrap();
        let again = again.configuration();
        assert_eq!(
            again
                .get("DBOptions.max_background_jobs")
                .map(String::as_str),
            Some("7")
        );
        let error = open("wrong", "options=no_such_option=1").err().unwrap();
        assert!(error.to_string().starts_with("options: "), "{error}");
    }
}
