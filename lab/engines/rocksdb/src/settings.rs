//! The settings of `RocksDB` in an address: parsed, as the engine's options, and in words.
//!
//! Promises: the words contain every given setting, so that results record it; settings that are
//! not given keep the engine's defaults.

use lab_kit::engine::{EngineError, EngineOptions};
use rust_rocksdb::{BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, Options};

/// The largest memtable. With little memory, one as large as the cache would waste it.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 64 << 10;
/// Values at least this large go to blob files.
const BLOB_BYTES_MIN: u64 = 256;
const BLOCK_BYTES: u64 = 4 << 10;
const BLOCK_BYTES_MAX: u64 = 16 << 20;
const BLOOM_BITS: u32 = 10;
const BLOOM_BITS_MAX: u32 = 64;
const PARAMETERS: &str = "style (leveled, universal), blobs (true, false), compression (none, lz4, \
    zstd), block, align (true, false), \
    direct (true, false), wbuf, bloom, delayed_write_rate, soft_limit, hard_limit, options (a \
    string of the engine's), options-file";

/// The parsed settings of an address.
pub(crate) struct Settings {
    style: String,
    compression: String,
    has_blobs: bool,
    is_direct: bool,
    is_aligned: bool,
    block_bytes: u64,
    memtable_bytes: u64,
    bloom_bits: u32,
    delayed_write_rate: Option<u64>,
    soft_limit_bytes: Option<u64>,
    hard_limit_bytes: Option<u64>,
    cache_bytes: u64,
    /// Options in the engine's own syntax, which override all others.
    own: Option<OwnOptions>,
}

/// Options in the engine's own syntax.
struct OwnOptions {
    /// The text for the engine.
    text: String,
    /// The source of the options, for people.
    about: String,
}

/// Options that must not be changed, because the lab depends on the order of keys and on the
/// addition of counters.
const KEPT: [&str; 2] = ["comparator", "merge_operator"];

/// The options of an options file of the engine (`OPTIONS-000005`), as one string.
fn of_file(text: &str) -> String {
    let (mut options, mut blocks, mut section) = (Vec::new(), Vec::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let pair = format!("{name}={value}");
        if section.starts_with("TableOptions/BlockBasedTable") {
            blocks.push(pair);
        } else if ["DBOptions", "CFOptions"]
            .iter()
            .any(|one| section.starts_with(one))
            && !KEPT.contains(&name)
            && name != "table_factory"
        {
            options.push(pair);
        }
    }
    if !blocks.is_empty() {
        options.push(format!(
            "block_based_table_factory={{{}}}",
            blocks.join(";")
        ));
    }
    options.join(";")
}

impl OwnOptions {
    fn take(given: &mut EngineOptions) -> Result<Option<Self>, EngineError> {
        let file = given.take("options-file");
        let read = |path: String| {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| EngineError(format!("options-file {path}: {error}")))?;
            let text = of_file(&text);
            if text.is_empty() {
                let reason = "it has no section DBOptions or CFOptions";
                return Err(EngineError(format!("options-file {path}: {reason}")));
            }
            let about = format!("options of {path}");
            Ok(Self { text, about })
        };
        match (given.take("options"), file) {
            (Some(_), Some(_)) => Err(EngineError(
                "options and options-file are both given; give one of the two".to_owned(),
            )),
            (Some(text), None) => {
                let about = format!("options {text}");
                Ok(Some(Self { text, about }))
            }
            (None, Some(path)) => read(path).map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn check_range(name: &str, value: u64, low: u64, high: u64) -> Result<u64, EngineError> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(EngineError(format!(
        "{name} is {value}; allowed is {low} to {high}"
    )))
}

impl Settings {
    /// Takes the engine's settings out of `given` and refuses all others.
    pub(crate) fn take(mut given: EngineOptions) -> Result<Self, EngineError> {
        let given = &mut given;
        let style = given.take_one_of("style", &["leveled", "universal"])?;
        let compression = given.take_one_of("compression", &["lz4", "none", "zstd"])?;
        let memtable_bytes = given
            .take_bytes("wbuf")?
            .unwrap_or_else(|| (given.cache_bytes / 4).clamp(1 << 20, MEMTABLE_BYTES_MAX));
        let bloom_bits = match given.take("bloom") {
            None => BLOOM_BITS,
            Some(text) => text
                .parse()
                .ok()
                .filter(|bits| *bits <= BLOOM_BITS_MAX)
                .ok_or_else(|| {
                    EngineError(format!(
                        "bloom is '{text}'; allowed is 0 (none) to {BLOOM_BITS_MAX} bits"
                    ))
                })?,
        };
        let out = Self {
            style,
            compression,
            has_blobs: given.take_bool("blobs")?,
            is_direct: given.take_bool("direct")?,
            is_aligned: given.take_bool("align")?,
            block_bytes: check_range(
                "block",
                given.take_bytes("block")?.unwrap_or(BLOCK_BYTES),
                256,
                BLOCK_BYTES_MAX,
            )?,
            memtable_bytes: check_range("wbuf", memtable_bytes, MEMTABLE_BYTES_MIN, u64::MAX)?,
            bloom_bits,
            delayed_write_rate: given.take_bytes("delayed_write_rate")?,
            soft_limit_bytes: given.take_bytes("soft_limit")?,
            hard_limit_bytes: given.take_bytes("hard_limit")?,
            cache_bytes: given.cache_bytes,
            own: OwnOptions::take(given)?,
        };
        given.check_all_taken(PARAMETERS)?;
        if out.is_aligned && out.compression != "none" {
            return Err(EngineError(format!(
                "align is true with compression {}; aligned blocks need compression none",
                out.compression
            )));
        }
        if let (Some(soft), Some(hard)) = (out.soft_limit_bytes, out.hard_limit_bytes)
            && soft > hard
            && hard > 0
        {
            return Err(EngineError(format!(
                "soft_limit is {soft} and hard_limit {hard}; the soft limit must be the smaller one"
            )));
        }
        Ok(out)
    }

    /// The engine's options for these settings, without those that are always the same.
    pub(crate) fn options(&self) -> Options {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut options = Options::default();
        options.create_if_missing(true);
        let is_leveled = self.style == "leveled";
        options.set_compaction_style(if is_leveled {
            DBCompactionStyle::Level
        } else {
            DBCompactionStyle::Universal
        });
        let algorithm = match self.compression.as_str() {
            "none" => DBCompressionType::None,
            "zstd" => DBCompressionType::Zstd,
            _ => DBCompressionType::Lz4,
        };
        options.set_compression_type(algorithm);
        if self.has_blobs {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(BLOB_BYTES_MIN);
            options.set_enable_blob_gc(true);
            options.set_blob_compression_type(algorithm);
        }
        options.set_write_buffer_size(size(self.memtable_bytes));
        options.set_use_direct_reads(self.is_direct);
        options.set_use_direct_io_for_flush_and_compaction(self.is_direct);
        if let Some(rate) = self.delayed_write_rate {
            options.set_delayed_write_rate(rate);
        }
        if let Some(limit) = self.soft_limit_bytes {
            options.set_soft_pending_compaction_bytes_limit(size(limit));
        }
        if let Some(limit) = self.hard_limit_bytes {
            options.set_hard_pending_compaction_bytes_limit(size(limit));
        }
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_size(size(self.block_bytes));
        blocks.set_block_align(self.is_aligned);
        blocks.set_block_cache(&Cache::new_lru_cache(size(self.cache_bytes)));
        if self.bloom_bits > 0 {
            blocks.set_bloom_filter(f64::from(self.bloom_bits), false);
        }
        blocks.set_cache_index_and_filter_blocks(true);
        options.set_block_based_table_factory(&blocks);
        options
    }

    /// The options in the engine's own syntax, if given.
    pub(crate) fn own(&self) -> Option<&str> {
        self.own.as_ref().map(|own| own.text.as_str())
    }

    /// Describes the settings.
    pub(crate) fn describe(&self) -> String {
        let mut out = format!("{}, {}", self.style, self.compression);
        if self.has_blobs {
            out += ", blobs";
        }
        out += &format!(
            ", {}blocks of {}, cache {}, memtable {}, {}",
            if self.is_aligned { "aligned " } else { "" },
            size_text(self.block_bytes),
            size_text(self.cache_bytes),
            size_text(self.memtable_bytes),
            if self.bloom_bits > 0 {
                format!("bloom filter of {} bits", self.bloom_bits)
            } else {
                "no bloom filter".to_owned()
            }
        );
        if self.is_direct {
            out += ", direct I/O";
        }
        for (name, bytes) in [
            ("delayed write rate", self.delayed_write_rate),
            ("soft limit", self.soft_limit_bytes),
            ("hard limit", self.hard_limit_bytes),
        ] {
            if let Some(bytes) = bytes {
                out += &format!(", {name} {}", size_text(bytes));
            }
        }
        if let Some(own) = &self.own {
            out += &format!(", {}", own.about);
        }
        out
    }
}

/// A size in the largest unit in which it is a whole number.
fn size_text(bytes: u64) -> String {
    [(30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(
            || format!("{bytes} B"),
            |(shift, unit)| format!("{} {unit}", bytes >> shift),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_query(query: &str) -> Result<String, String> {
        let options = EngineOptions::parse(&format!("x?{query}")).unwrap();
        Settings::take(options)
            .map(|settings| settings.describe())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn everything_asked_for_is_in_the_name() {
        assert_eq!(
            describe_query("").unwrap(),
            "leveled, lz4, blocks of 4 KiB, cache 64 MiB, memtable 16 MiB, bloom filter of 10 bits"
        );
        assert_eq!(
            describe_query(
                "style=universal&compression=none&blobs=true&block=64K&cache=1G&wbuf=2M&bloom=0&\
                align=true&direct=true&delayed_write_rate=12582912&soft_limit=1G&hard_limit=2G"
            )
            .unwrap(),
            "universal, none, blobs, aligned blocks of 64 KiB, cache 1 GiB, memtable 2 MiB, no \
                bloom filter, direct I/O, delayed write rate 12 MiB, \
             soft limit 1 GiB, hard limit 2 GiB"
        );
    }

    #[test]
    fn refusals_say_what_was_given_and_what_is_allowed() {
        for (query, words) in [
            ("style=fifo", ["'fifo'", "universal"]),
            ("direct=maybe", ["'maybe'", "false, true"]),
            ("block=1", ["block is 1;", "256"]),
            ("block=1X", ["block:", "'X'"]),
            ("bloom=lots", ["'lots'", "0 (none) to 64"]),
            ("bloom=65", ["'65'", "0 (none) to 64"]),
            ("wbuf=1K", ["wbuf is 1024;", "65536"]),
            (
                "soft_limit=2G&hard_limit=1G",
                ["2147483648", "soft limit must be the smaller one"],
            ),
            ("align=true", ["compression lz4", "need compression none"]),
            (
                "options=a=1&options-file=x",
                ["both given", "give one of the two"],
            ),
            ("options-file=nowhere", ["nowhere", "No such file"]),
            ("shape=round", ["'shape'", "delayed_write_rate"]),
        ] {
            let text = describe_query(query).unwrap_err();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    fn a_file_of_options_becomes_a_string_without_what_the_lab_needs() {
        let text = "# written by RocksDB\n[Version]\n  rocksdb_version=11.1.2\n[DBOptions]\n  \
            max_background_jobs=3\n[CFOptions \"default\"]\n  comparator=other\n  \
            write_buffer_size=1048576\n  table_factory=BlockBasedTable\n\
            [TableOptions/BlockBasedTable \"default\"]\n  block_size=8192\n";
        assert_eq!(
            of_file(text),
            "max_background_jobs=3;write_buffer_size=1048576;\
                block_based_table_factory={block_size=8192}"
        );
    }
}
