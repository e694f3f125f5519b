//! A small RocksDB directory, with or without encryption, for tests.

use cipher::MasterKey;
use engine_rocksdb::{CacheKind, Config, RocksEngine};
use std::path::Path;
use std::sync::Arc;

/// A key of 32 bytes, which differ for each letter.
pub(crate) fn master_key(letter: char) -> Arc<MasterKey> {
    let text = String::from_iter(std::iter::repeat_n(letter, 42)) + "E=";
    Arc::new(MasterKey::parse(&text).expect("32 bytes"))
}

/// Opens a directory that is encrypted if there is a key.
pub(crate) fn open_rocksdb(
    path: &Path,
    key: Option<Arc<MasterKey>>,
) -> storage::Result<Arc<RocksEngine>> {
    let config = Config {
        background_jobs: 1,
        statistics: false,
        cache_kind: CacheKind::Lru,
        free_bytes_min: 0,
        free_percent_min: 0,
        journal_commit_interval_ms: 5,
        master_key: key,
        ..Config::with_budget(path, 64 << 20)
    };
    RocksEngine::open(config).map(Arc::new)
}
