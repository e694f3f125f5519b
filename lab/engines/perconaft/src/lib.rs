//! `PerconaFT`, the fractal tree of TokuMX and TokuDB, from the user's own shared library and
//! header, as a target of the lab. The lab neither links nor ships it: the adapter is compiled when
//! the engine is opened.
//!
//! Promises: one dictionary of bytes; a batch is a transaction; reads use snapshots without locks;
//! deletes are sent down the tree without reading the key. Must not know: rows, workloads.

use lab_kit::engine::{Counters, EngineError, EngineOptions, LabEngine};
use lab_shim::{AdapterSpec, EngineSpec, Statistics, count};

const ADAPTER: &str = include_str!("adapter.c");
const LIBRARY: &str = "libtokufractaltree.so";
const ADVICE: &str = "build and install PerconaFT and a C compiler, and name ?include=DIR (of \
                      PerconaFT's db.h) &library=PATH (of libtokufractaltree.so)";
const PARAMETERS: &str =
    "compression (none, quicklz, zlib, lzma), page, basement, include, library";
/// Numbers of compression methods in the engine's interface.
const METHODS: [(&str, u32); 4] = [("none", 0), ("quicklz", 9), ("zlib", 11), ("lzma", 10)];
const PAGE_BYTES: u64 = 4 << 20;
const BASEMENT_BYTES: u64 = 64 << 10;

/// Opens an environment in a directory.
///
/// # Errors
/// Compiler, header or library are absent, the directory cannot be used, or a parameter is unknown.
pub fn open(mut options: EngineOptions) -> Result<Box<dyn LabEngine>, EngineError> {
    let adapter_spec = AdapterSpec::of(&mut options, "PerconaFT", ADAPTER, LIBRARY, ADVICE);
    let compression = options
        .take("compression")
        .unwrap_or_else(|| "quicklz".to_owned());
    let (page, basement) = (
        options.take_bytes("page")?.unwrap_or(PAGE_BYTES),
        options.take_bytes("basement")?.unwrap_or(BASEMENT_BYTES),
    );
    options.check_all_taken(PARAMETERS)?;
    let Some((_, method)) = METHODS.iter().find(|(name, _)| *name == compression) else {
        return Err(EngineError(format!(
            "compression is '{compression}'; allowed is {PARAMETERS}"
        )));
    };
    if page > u64::from(u32::MAX) || basement > page || basement == 0 {
        return Err(EngineError(format!(
            "basement is {basement} and page {page} bytes; a basement must fit into a page, and \
             a page must be below 4 GiB"
        )));
    }
    let spec = EngineSpec {
        about: format!(
            "fractal tree, {compression}, pages of {} KiB with basements of {} KiB, cache {} MiB \
                and the system's",
            page >> 10,
            basement >> 10,
            options.cache_bytes >> 20
        ),
        durability: options.durability,
        has_log: true,
        is_compacting,
        counters,
    };
    let settings = [
        ("cache", options.cache_bytes.to_string()),
        ("compression", method.to_string()),
        ("page", page.to_string()),
        ("basement", basement.to_string()),
    ];
    lab_shim::open(&adapter_spec, &options.path, &settings, spec)
}

const USER: &str = "ft: bytes of messages injected at root (all trees)";
const WRITTEN: &[&str] = &[
    "ft: leaf nodes flushed to disk (not for checkpoint) (bytes)",
    "ft: nonleaf nodes flushed to disk (not for checkpoint) (bytes)",
    "ft: leaf nodes flushed to disk (for checkpoint) (bytes)",
    "ft: nonleaf nodes flushed to disk (for checkpoint) (bytes)",
];

/// Whether the tree still flushes messages downwards in the background: whether nodes were written
/// since the earlier statistics.
fn is_compacting(before: &Statistics, now: &Statistics) -> bool {
    WRITTEN
        .iter()
        .any(|name| before.get(*name) != now.get(*name))
}

/// Reads the counters by the names of PerconaFT. If another version has other names, a counter is
/// unknown.
fn counters(found: &Statistics) -> Counters {
    Counters {
        user_bytes: count(found, USER),
        log_bytes: count(found, "logger: writes (bytes)"),
        written_bytes: WRITTEN.iter().map(|name| count(found, name)).sum(),
        ..Counters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_kit::engine::{KeyChange, contract};
    use std::path::Path;
    use std::process::Command;

    const FAKE: &str = "tests/fake";

    /// Compiles the fake library; `None`, with a message, if there is no C compiler.
    fn fake(directory: &Path) -> Option<String> {
        let library = directory.join("libfake.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let ran = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(format!("{FAKE}/tree.c"))
            .output();
        match ran {
            Ok(ran) => assert!(
                ran.status.success(),
                "{}",
                String::from_utf8_lossy(&ran.stderr)
            ),
            Err(error) => {
                eprintln!("skipped: no C compiler {compiler}: {error}");
                return None;
            }
        }
        Some(format!("include={FAKE}&library={}", library.display()))
    }

    #[test]
    fn passes_the_engine_contract_on_a_stand_in() {
        let built = tempfile::tempdir().unwrap();
        let Some(address) = fake(built.path()) else {
            return;
        };
        for form in [
            "",
            "&compression=none&page=1M&basement=16K",
            "&durability=sync",
        ] {
            let directory = tempfile::tempdir().unwrap();
            contract::check_with(directory.path(), &format!("{address}{form}"), &open);
        }
    }

    #[test]
    fn transactions_that_lose_are_tried_again() {
        let built = tempfile::tempdir().unwrap();
        let Some(address) = fake(built.path()) else {
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let engine = open(
            EngineOptions::parse(&format!("{}?{address}", directory.path().display())).unwrap(),
        )
        .unwrap();
        let mut session = engine.session().unwrap();
        // The fake library refuses each seventh transaction.
        for batch in 0..60_u32 {
            let rows: Vec<_> = (0..50)
                .map(|n| KeyChange::Put((batch * 50 + n).to_be_bytes().to_vec(), vec![1; 10]))
                .collect();
            session.write(&rows, false).unwrap();
        }
        let mut seen = 0;
        session
            .scan(&[0], &[255], false, &mut |_, _| {
                seen += 1;
                true
            })
            .unwrap();
        assert_eq!(seen, 3_000);
        let counters = engine.counters();
        assert_eq!(
            (
                counters.user_bytes,
                counters.log_bytes,
                counters.written_bytes
            ),
            (Some(42_000), Some(12), None),
            "nodes for checkpoints are not told"
        );
        let statistics = engine.statistics();
        assert_eq!(statistics["rows: keys, estimated"], 3_000);
        assert!(
            statistics
                .get("checkpoint: last began: Sat Nov 21 16:00")
                .is_none(),
            "{statistics}"
        );
    }

    #[test]
    fn what_is_absent_is_one_clear_line() {
        for (address, reason) in [
            (
                "x?include=nowhere&library=nowhere/libtokufractaltree.so",
                ADVICE.to_owned(),
            ),
            ("x?compression=best", "'best'".to_owned()),
            ("x?page=4K&basement=64K", "basement is 65536".to_owned()),
            ("x?basement=0", "basement is 0".to_owned()),
        ] {
            let text = open(EngineOptions::parse(address).unwrap())
                .err()
                .unwrap()
                .to_string();
            assert!(text.contains(&reason) && !text.contains('\n'), "{text}");
        }
    }
}
