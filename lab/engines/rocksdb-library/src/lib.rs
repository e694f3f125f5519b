//! `RocksDB` of any version, from the user's own shared library and header, as a target of the lab.
//! It serves to compare two builds of `RocksDB`, or the lab with `db_bench`. The lab does not link
//! it: the adapter is compiled when the engine is opened.
//!
//! Promises: one column family of bytes; a batch is one write; the name contains every setting that
//! matters and the version that the library itself reports. Must not know: rows, workloads, and the
//! `RocksDB` that the lab may be linked with.

use lab_kit::engine::{Counters, Durability, EngineError, EngineOptions, LabEngine};
use lab_shim::{AdapterSpec, EngineSpec, Statistics, count};

const ADAPTER: &str = include_str!("adapter.c");
const LIBRARY: &str = "librocksdb.so";
const ADVICE: &str =
    "install librocksdb-dev and a C compiler, or name them with ?include=DIR&library=PATH";
const PARAMETERS: &str = "style (leveled, universal), compression (lz4, none, snappy, zstd, zlib), \
    block, wbuf, bloom, options (a string of the engine's), include, library";
const BLOCK_BYTES: u64 = 4 << 10;
const BLOOM_BITS: u32 = 10;
const BLOOM_BITS_MAX: u32 = 64;
/// The smallest and the largest default memtable; the default is a quarter of the cache within
/// these bounds.
const MEMTABLE_BYTES: (u64, u64) = (1 << 20, 64 << 20);

/// Opens a database in a directory.
///
/// # Errors
/// Compiler, header or library are absent, the directory cannot be used, or a parameter is unknown.
pub fn open(mut options: EngineOptions) -> Result<Box<dyn LabEngine>, EngineError> {
    let adapter_spec = AdapterSpec::of(&mut options, "RocksDB", ADAPTER, LIBRARY, ADVICE);
    let settings = Settings::take(&mut options)?;
    options.check_all_taken(PARAMETERS)?;
    let has_log = options.durability != Durability::None;
    let spec = EngineSpec {
        about: settings.describe(options.cache_bytes),
        durability: options.durability,
        has_log,
        is_compacting,
        counters,
    };
    let pairs = [
        ("options", settings.text(options.cache_bytes)),
        ("own", settings.own.clone().unwrap_or_default()),
        ("log", has_log.to_string()),
    ];
    lab_shim::open(&adapter_spec, &options.path, &pairs, spec)
}

struct Settings {
    style: String,
    compression: String,
    block_bytes: u64,
    memtable_bytes: u64,
    bloom_bits: u32,
    /// Options in the engine's own syntax, which override all others.
    own: Option<String>,
}

impl Settings {
    fn take(options: &mut EngineOptions) -> Result<Self, EngineError> {
        let bloom_bits = match options.take("bloom") {
            None => BLOOM_BITS,
            Some(text) => {
                let bits = text.parse().ok().filter(|bits| *bits <= BLOOM_BITS_MAX);
                bits.ok_or_else(|| {
                    EngineError(format!(
                        "bloom is '{text}'; allowed is 0 (none) to {BLOOM_BITS_MAX} bits"
                    ))
                })?
            }
        };
        let (least, most) = MEMTABLE_BYTES;
        Ok(Self {
            style: options.take_one_of("style", &["leveled", "universal"])?,
            compression: options
                .take_one_of("compression", &["lz4", "none", "snappy", "zstd", "zlib"])?,
            block_bytes: options.take_bytes("block")?.unwrap_or(BLOCK_BYTES),
            memtable_bytes: options
                .take_bytes("wbuf")?
                .unwrap_or_else(|| (options.cache_bytes / 4).clamp(least, most)),
            bloom_bits,
            own: options.take("options"),
        })
    }

    /// The settings in the engine's own syntax.
    fn text(&self, cache_bytes: u64) -> String {
        let style = match self.style.as_str() {
            "universal" => "kCompactionStyleUniversal",
            _ => "kCompactionStyleLevel",
        };
        let compression = match self.compression.as_str() {
            "none" => "kNoCompression",
            "snappy" => "kSnappyCompression",
            "zstd" => "kZSTD",
            "zlib" => "kZlibCompression",
            _ => "kLZ4Compression",
        };
        let filter = match self.bloom_bits {
            0 => String::new(),
            bits => format!("filter_policy=bloomfilter:{bits}:false;"),
        };
        format!(
            "compaction_style={style};compression={compression};write_buffer_size={};\
                block_based_table_factory={{block_size={};block_cache={cache_bytes};{filter}\
                cache_index_and_filter_blocks=true}}",
            self.memtable_bytes, self.block_bytes
        )
    }

    fn describe(&self, cache_bytes: u64) -> String {
        let mut out = format!(
            "{}, {}, blocks of {} KiB, cache {} MiB, memtable {} MiB, {}",
            self.style,
            self.compression,
            self.block_bytes as f64 / 1_024.0,
            cache_bytes >> 20,
            self.memtable_bytes as f64 / 1_048_576.0,
            match self.bloom_bits {
                0 => "no bloom filter".to_owned(),
                bits => format!("bloom filter of {bits} bits"),
            }
        );
        if let Some(own) = &self.own {
            out += &format!(", options {own}");
        }
        out
    }
}

fn is_compacting(_: &Statistics, now: &Statistics) -> bool {
    [
        "num-running-compactions",
        "num-running-flushes",
        "compaction-pending",
        "mem-table-flush-pending",
    ]
    .iter()
    .any(|name| now.get(*name).is_some_and(|units| *units > 0.0))
}

/// Reads the counters by the library's names. If another version has other names, a counter is
/// unknown.
fn counters(found: &Statistics) -> Counters {
    let pending = count(found, "estimate-pending-compaction-bytes");
    let unflushed = count(found, "cur-size-all-mem-tables");
    Counters {
        user_bytes: count(found, "bytes.written"),
        log_bytes: count(found, "wal.bytes"),
        flush_bytes: count(found, "flush.write.bytes"),
        compaction_bytes: count(found, "compact.write.bytes"),
        stall_us: count(found, "stall.micros"),
        debt_bytes: pending.map(|pending| pending + unflushed.unwrap_or(0)),
        ..Counters::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use lab_kit::engine::{KeyChange, contract};

    /// Whether the library is installed for tests; otherwise a message is printed.
    fn is_there() -> bool {
        let directory = tempfile::tempdir().unwrap();
        let opened = open(EngineOptions::parse(&directory.path().display().to_string()).unwrap());
        match opened {
            Ok(_) => true,
            Err(error) => {
                assert!(error.to_string().contains(ADVICE), "{error}");
                eprintln!("skipped: {error}");
                false
            }
        }
    }

    #[test]
    fn passes_the_engine_contract_in_each_form() {
        if !is_there() {
            return;
        }
        for form in [
            "",
            "style=universal",
            "compression=none&block=16K&bloom=0&wbuf=1M",
            "durability=sync",
            "durability=none",
            "options=max_background_jobs=3;block_based_table_factory={block_size=8192}",
        ] {
            let directory = tempfile::tempdir().unwrap();
            contract::check_with(directory.path(), form, &open);
        }
    }

    #[test]
    fn tells_what_it_wrote_and_which_version_it_is() {
        if !is_there() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let address = format!("{}?cache=8M&wbuf=1M", directory.path().display());
        let engine = open(EngineOptions::parse(&address).unwrap()).unwrap();
        let mut session = engine.session().unwrap();
        for round in 0..5_u32 {
            let batch: Vec<_> = (0..2_000_u32)
                .map(|n| KeyChange::Put((n * 7 + round).to_be_bytes().to_vec(), vec![7; 500]))
                .collect();
            session.write(&batch, false).unwrap();
        }
        assert!(engine.settle(Duration::from_secs(30)).is_idle);
        let counters = engine.counters();
        assert!(
            counters.user_bytes >= Some(5_000_000) && counters.log_bytes >= counters.user_bytes,
            "{counters:?}"
        );
        assert!(
            counters.write_amplification().unwrap() > 1.0,
            "{counters:?}"
        );
        let name = engine.name();
        let version = name.strip_prefix("RocksDB ").unwrap();
        assert!(
            version.starts_with(|letter: char| letter.is_ascii_digit()),
            "{name}"
        );
        assert!(name.contains("cache 8 MiB, memtable 1 MiB"), "{name}");
    }

    #[test]
    fn what_is_absent_or_wrong_is_one_clear_line() {
        for (address, reason) in [
            ("x?library=librocksdb-that-is-not-there.so", ADVICE),
            ("x?include=nowhere&library=nowhere/librocksdb.so", ADVICE),
            ("x?style=heap", "'heap'"),
            ("x?compression=best", "'best'"),
            ("x?bloom=65", "0 (none) to 64"),
            ("x?block=1X", "'1X'"),
        ] {
            let text = open(EngineOptions::parse(address).unwrap())
                .err()
                .unwrap()
                .to_string();
            assert!(text.contains(reason) && !text.contains('\n'), "{text}");
        }
        if !is_there() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let address = format!("{}?options=no_such_option=1", directory.path().display());
        let error = open(EngineOptions::parse(&address).unwrap()).err().unwrap();
        assert!(error.to_string().contains("no_such_option"), "{error}");
    }
}
