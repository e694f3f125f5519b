//! Data in memory only, without a directory.

use super::kind::{EngineKind, OpenedEngine};
use storage::MemoryEngine;

pub(super) static KIND: EngineKind = EngineKind {
    open_files: |_| 0,
    ..EngineKind::new("memory", |_| Ok(OpenedEngine::of(MemoryEngine::new())))
};
