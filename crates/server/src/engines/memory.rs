//! Data in memory only, without a directory.

use super::kind::{EngineKind, Opened};
use storage::MemoryEngine;

pub(super) static KIND: EngineKind = EngineKind {
    open_files: |_| 0,
    ..EngineKind::new("memory", |_| Ok(Opened::plain(MemoryEngine::new())))
};
