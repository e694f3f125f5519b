//! The memory engine by another name.

use super::kind::{EngineKind, OpenedEngine};
use storage::MemoryEngine;

pub(super) static KIND: EngineKind = EngineKind {
    open_files: |_| 0,
    ..EngineKind::new("toy", |_| Ok(OpenedEngine::plain(MemoryEngine::new())))
};
