//! LMDB, which is part of the binary.

use super::advice::advise;
use super::kind::{EngineKind, EngineOptions, OpenedEngine, Source};
use engine_lmdb::{Config, LmdbEngine};

pub(super) static KIND: EngineKind = EngineKind {
    open_source: Some(|options, _| {
        let config = Config {
            read_only: true,
            ..Config::at(options.path)
        };
        open_by(&config, options).map(Source::of)
    }),
    ..EngineKind::new("lmdb", open)
};

const REMARK: &str = "lmdb flushes every commit, whatever write concern asks for; its cache is \
    the system's page cache, outside of --memory; its file does not shrink";

fn open(options: &EngineOptions<'_>) -> Result<OpenedEngine, String> {
    let engine = open_by(&Config::at(options.path), options)?;
    Ok(OpenedEngine {
        remark: Some(REMARK.to_owned()),
        ..OpenedEngine::of(engine)
    })
}

fn open_by(config: &Config, options: &EngineOptions<'_>) -> Result<LmdbEngine, String> {
    LmdbEngine::open(config).map_err(|e| advise(&e, &options.path.display().to_string()))
}
