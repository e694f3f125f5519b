//! `WiredTiger`, from the user's own shared library and header, as a target of the lab: a B-tree
//! or, if the version has it, its log-structured merge tree. The lab does not link it (its licence
//! is the GPL): the adapter is compiled when the engine is opened.
//!
//! Promises: one table of bytes; a batch is a transaction; every setting that matters is in the
//! name. Must not know: rows, workloads.

use lab_kit::engine::{Counters, Durability, EngineError, EngineOptions, LabEngine};
use lab_shim::{AdapterSpec, EngineSpec, Statistics, count};

const ADAPTER: &str = include_str!("adapter.c");
const LIBRARY: &str = "libwiredtiger.so";
const ADVICE: &str =
    "install libwiredtiger-dev and a C compiler, or name them with ?include=DIR&library=PATH";
const PARAMETERS: &str = "style (btree, lsm), compression (none, snappy, lz4, zstd, zlib), \
    extension (PATH, builtin), page, chunk, options (of the connection), table-options, include, \
    library";
/// The largest number of sessions. Each client has one, and the engine reserves memory for all.
const SESSIONS_MAX: u32 = 4_096;
const PAGE_BYTES: u64 = 32 << 10;
/// The allocation unit of pages, unless pages are smaller.
const ALLOCATION_BYTES: u64 = 4 << 10;
/// The largest in-memory chunk of the merge tree; several must fit into the cache.
const CHUNK_BYTES_MAX: u64 = 100 << 20;
const CHUNK_BYTES_MIN: u64 = 512 << 10;

/// Opens a database in a directory.
///
/// # Errors
/// Compiler, header or library are absent, the directory cannot be used, or a parameter is unknown.
pub fn open(mut options: EngineOptions) -> Result<Box<dyn LabEngine>, EngineError> {
    let adapter_spec = AdapterSpec::of(&mut options, "WiredTiger", ADAPTER, LIBRARY, ADVICE);
    let settings = Settings::take(&mut options)?;
    options.check_all_taken(PARAMETERS)?;
    let has_log = options.durability != Durability::None;
    let spec = EngineSpec {
        about: settings.describe(&options),
        durability: options.durability,
        has_log,
        is_compacting: if settings.is_lsm {
            is_merging
        } else {
            |_, _| false
        },
        counters,
    };
    let pairs = [
        ("connection", settings.connection(&options, has_log)),
        ("table", settings.table()),
    ];
    lab_shim::open(&adapter_spec, &options.path, &pairs, spec)
}

struct Settings {
    is_lsm: bool,
    /// Name of the compressor; `None` for no compression.
    compression: Option<String>,
    /// The library with the compressor; `None` if it is built in.
    extension: Option<String>,
    page_bytes: u64,
    chunk_bytes: u64,
    /// Configuration strings in the engine's own syntax, which override all others.
    own_connection: Option<String>,
    own_table: Option<String>,
}

impl Settings {
    fn take(options: &mut EngineOptions) -> Result<Self, EngineError> {
        let refuse = |name: &str, value: &str| {
            EngineError(format!("{name} is '{value}'; allowed is {PARAMETERS}"))
        };
        let is_lsm = match options.take("style").as_deref() {
            None | Some("btree") => false,
            Some("lsm") => true,
            Some(given) => return Err(refuse("style", given)),
        };
        let compression = match options.take("compression").as_deref() {
            None | Some("none") => None,
            Some(given @ ("snappy" | "lz4" | "zstd" | "zlib")) => Some(given.to_owned()),
            Some(given) => return Err(refuse("compression", given)),
        };
        let extension = match options.take("extension") {
            Some(given) if given == "builtin" => None,
            Some(given) => Some(given),
            None => compression
                .as_ref()
                .map(|name| format!("libwiredtiger_{name}.so")),
        };
        if extension
            .as_deref()
            .is_some_and(|path| path.contains(['"', '(', ')', '[', ']', ',', '=']))
        {
            return Err(EngineError(
                "extension must be a path without brackets, commas and quotes".to_owned(),
            ));
        }
        let page_bytes = options.take_bytes("page")?.unwrap_or(PAGE_BYTES);
        let chunk_bytes = options.take_bytes("chunk")?.unwrap_or(0);
        let fitting = (options.cache_bytes / 16).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        Ok(Self {
            is_lsm,
            compression,
            extension,
            page_bytes,
            chunk_bytes: if chunk_bytes == 0 {
                fitting
            } else {
                chunk_bytes
            },
            own_connection: options.take("options"),
            own_table: options.take("table-options"),
        })
    }

    fn connection(&self, options: &EngineOptions, has_log: bool) -> String {
        // Preallocated log files of 100 MB each would count as data.
        let extensions = self
            .extension
            .as_ref()
            .map(|path| format!(",extensions=[\"{path}\"]"))
            .unwrap_or_default();
        format!(
            "create,cache_size={},session_max={SESSIONS_MAX},statistics=(fast),\
                checkpoint=(wait=60,log_size=2GB),log=(enabled={has_log},prealloc=false),\
             transaction_sync=(enabled=false,method=fsync){extensions}{}",
            options.cache_bytes,
            append_configuration(self.own_connection.as_ref())
        )
    }

    fn table(&self) -> String {
        let kind = if self.is_lsm {
            format!("type=lsm,lsm=(chunk_size={})", self.chunk_bytes)
        } else {
            "type=file".to_owned()
        };
        let allocation = self.page_bytes.min(ALLOCATION_BYTES);
        let compressor = self.compression.as_deref().unwrap_or("none");
        format!(
            "key_format=u,value_format=u,{kind},leaf_page_max={},allocation_size={allocation},\
                block_compressor={compressor}{}",
            self.page_bytes,
            append_configuration(self.own_table.as_ref())
        )
    }

    /// Claims recognise the kind of system by `LSM` in the name.
    fn describe(&self, options: &EngineOptions) -> String {
        let kind = if self.is_lsm {
            format!("LSM with chunks of {} KiB", self.chunk_bytes >> 10)
        } else {
            "B-tree".to_owned()
        };
        let compression = self.compression.as_deref().unwrap_or("no compression");
        format!(
            "{kind}, {compression}, pages of {} KiB, cache {} MiB and the system's{}{}",
            self.page_bytes as f64 / 1024.0,
            options.cache_bytes >> 20,
            format_option("options", self.own_connection.as_ref()),
            format_option("table options", self.own_table.as_ref())
        )
    }
}

/// Appends the user's configuration: in a configuration string the last value of a setting counts.
fn append_configuration(own: Option<&String>) -> String {
    own.map_or_else(String::new, |own| format!(",{own}"))
}

fn format_option(name: &str, own: Option<&String>) -> String {
    own.map_or_else(String::new, |own| format!(", {name} {own}"))
}

/// Whether merges are queued, or data were written since the earlier statistics.
fn is_merging(before: &Statistics, now: &Statistics) -> bool {
    let queued = [
        "LSM: merge work units currently queued",
        "LSM: switch work units currently queued",
        "LSM: application work units currently queued",
    ];
    let is_queued = queued
        .iter()
        .any(|name| now.get(*name).is_some_and(|units| *units > 0.0));
    is_queued || before.get(WRITTEN) != now.get(WRITTEN)
}

const WRITTEN: &str = "block-manager: bytes written";

fn counters(found: &Statistics) -> Counters {
    let sum = |names: &[&str]| {
        names
            .iter()
            .map(|name| count(found, name))
            .sum::<Option<u64>>()
    };
    Counters {
        user_bytes: sum(&[
            "cursor: cursor insert key and value bytes",
            "cursor: cursor update key and value bytes",
            "cursor: cursor remove key bytes removed",
        ])
        .or_else(|| count(found, "cursor: cursor insert key and value bytes")),
        log_bytes: count(found, "log: log bytes written"),
        written_bytes: count(found, WRITTEN),
        stall_us: count(
            found,
            "cache: application threads page write from cache to disk time (usecs)",
        ),
        debt_bytes: count(found, "cache: tracked dirty bytes in the cache"),
        ..Counters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_kit::engine::contract;

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
            "style=lsm",
            "page=4K",
            "compression=snappy",
            "compression=zlib&style=lsm",
            "durability=sync",
            "durability=none",
            "options=eviction=(threads_max=2)&table-options=leaf_page_max=8KB",
        ] {
            let directory = tempfile::tempdir().unwrap();
            contract::check_with(directory.path(), form, &open);
        }
    }

    #[test]
    fn tells_what_it_wrote() {
        if !is_there() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let engine = open(
            EngineOptions::parse(&format!(
                "{}?style=lsm&cache=8M",
                directory.path().display()
            ))
            .unwrap(),
        )
        .unwrap();
        let batch: Vec<_> = (0..2_000_u32)
            .map(|n| lab_kit::engine::KeyChange::Put(n.to_be_bytes().to_vec(), vec![7; 1_000]))
            .collect();
        engine.session().unwrap().write(&batch, true).unwrap();
        assert!(engine.settle(std::time::Duration::from_secs(30)).is_idle);
        let counters = engine.counters();
        assert!(
            counters.user_bytes.unwrap() >= 2_000_000 && counters.log_bytes.unwrap() > 1_000_000,
            "{counters:?}"
        );
        assert!(
            counters.write_amplification().unwrap() > 1.0,
            "{counters:?}"
        );
        let name = engine.name();
        assert!(
            name.contains("LSM") && name.contains("cache 8 MiB") && name.starts_with("WiredTiger "),
            "{name}"
        );
    }

    #[test]
    fn what_is_absent_is_one_clear_line() {
        for (address, reason) in [
            ("x?library=libwiredtiger-that-is-not-there.so", ADVICE),
            ("x?include=nowhere&library=nowhere/libwiredtiger.so", ADVICE),
            ("x?style=heap", "'heap'"),
            ("x?compression=best", "'best'"),
            ("x?page=1X", "'1X'"),
            ("x?extension=a,b", "without brackets"),
        ] {
            let text = open(EngineOptions::parse(address).unwrap())
                .err()
                .unwrap()
                .to_string();
            assert!(text.contains(reason) && !text.contains('\n'), "{text}");
        }
    }
}
