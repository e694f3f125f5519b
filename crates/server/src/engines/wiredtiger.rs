//! WiredTiger, whose library is the user's own.

use super::advice::advise;
use super::kind::{EngineKind, EngineOptions, OpenedEngine, Source};
use engine_wiredtiger::{Config, LIBRARY_NAME, Library, WiredTigerEngine};

pub(super) static KIND: EngineKind = EngineKind {
    is_missing: || Library::load(LIBRARY_NAME, None).is_err(),
    check: |options| load_library(options).map(|_| ()),
    open_source: Some(|options, _| {
        let config = Config {
            read_only: true,
            ..config(options)
        };
        let opened = WiredTigerEngine::open(&config, &load_library(options)?);
        let engine = opened.map_err(|e| advise(&e, &options.path.display().to_string()))?;
        Ok(Source::of(engine))
    }),
    ..EngineKind::new("wiredTiger", open)
};

/// The cache's share of the engine's memory; the rest is for sessions and checkpoints.
const CACHE_PERCENT: u64 = 80;

fn config(options: &EngineOptions<'_>) -> Config {
    let cache = options.bytes / 100 * CACHE_PERCENT;
    let mut config = Config::at(options.path, cache);
    config.journal_commit_interval_ms = options.journal_commit_interval_ms;
    config
}

fn load_library(options: &EngineOptions<'_>) -> Result<Library, String> {
    let name = options.wiredtiger_library.unwrap_or(LIBRARY_NAME);
    Library::load(name, options.wiredtiger_include)
}

fn open(options: &EngineOptions<'_>) -> Result<OpenedEngine, String> {
    let library = load_library(options)?;
    match WiredTigerEngine::open(&config(options), &library) {
        Ok(engine) => Ok(OpenedEngine {
            remark: Some(format!(
                "wiredTiger is {}, loaded from this machine; commits run one after another, data \
                 is not compressed, and a long snapshot fills the cache",
                library.version()
            )),
            ..OpenedEngine::of(engine)
        }),
        Err(e) => Err(advise(&e, &options.path.display().to_string())),
    }
}
