//! RocksDB, the default.

use super::advice::advise;
use super::kind::{
    EngineKind, EngineOptions, LockedDirectory, OpenedEngine, SalvagedSource, Source,
};
use crate::output::print_line;
use engine_rocksdb::{Config, DirectoryCopy, RocksEngine};
use std::path::Path;
use std::sync::Arc;

pub(super) static KIND: EngineKind = EngineKind {
    takes_key: true,
    repairs_journal: true,
    open_files: |options| {
        let bytes = usize::try_from(options.bytes).unwrap_or(usize::MAX);
        u64::from(engine_rocksdb::open_files_max(bytes))
    },
    open_source: Some(open_source),
    open_rest: Some(open_rest),
    lend: Some(copy_files),
    is_fixed: engine_rocksdb::is_final,
    ..EngineKind::new("rocksdb", open)
};

fn borrow(options: &EngineOptions<'_>, to: &Path) -> Result<DirectoryCopy, String> {
    let borrowed = DirectoryCopy::make(options.path, to);
    borrowed.map_err(|e| advise(&e, &options.path.display().to_string()))
}

fn open_source(options: &EngineOptions<'_>, scratch: &Path) -> Result<Source, String> {
    let config = config(options)?;
    let borrowed = borrow(options, scratch)?;
    let opened = borrowed.open(config);
    let engine = opened.map_err(|e| advise(&e, &options.path.display().to_string()))?;
    Ok(Source {
        engine: Arc::new(engine),
        _lent: Some(LockedDirectory::of(borrowed)),
    })
}

fn open_rest(
    options: &EngineOptions<'_>,
    copy: &Path,
    rest: &Path,
) -> Result<SalvagedSource, String> {
    let config = config(options)?;
    let borrowed = borrow(options, copy)?;
    let opened = borrowed.open_rest(&config, rest);
    let opened = opened.map_err(|e| advise(&e, &options.path.display().to_string()))?;
    Ok(SalvagedSource {
        source: Source {
            engine: Arc::new(opened.engine),
            _lent: Some(LockedDirectory::of(borrowed)),
        },
        left_out: opened.left_out,
    })
}

/// The files are not opened, so no key is needed for encrypted ones.
fn copy_files(options: &EngineOptions<'_>, to: &Path) -> Result<LockedDirectory, String> {
    borrow(options, to).map(LockedDirectory::of)
}

fn config(options: &EngineOptions<'_>) -> Result<Config, String> {
    engine_rocksdb::raise_open_files_limit();
    let bytes = usize::try_from(options.bytes).unwrap_or(usize::MAX);
    let mut config = Config::with_budget(options.path, bytes);
    config.journal_commit_interval_ms = options.journal_commit_interval_ms;
    config.repair = options.repair;
    if options.linked {
        // RocksDB would shorten obsolete files before it removes them, and these are links.
        config.delete_bytes_per_s = 0;
    }
    if let Some(source) = options.key {
        config.master_key = Some(Arc::new(source.key_of(options.path)?));
    }
    Ok(config)
}

fn open(options: &EngineOptions<'_>) -> Result<OpenedEngine, String> {
    let path = options.path;
    match RocksEngine::open(config(options)?) {
        Ok(engine) => {
            if let Some(report) = engine.repair_note() {
                print_line(format_args!(
                    "quarry: repaired {}: {report}",
                    path.display()
                ));
            }
            Ok(OpenedEngine {
                data_key: engine.data_key(),
                ..OpenedEngine::of(engine)
            })
        }
        Err(e) => Err(advise(&e, &path.display().to_string())),
    }
}
