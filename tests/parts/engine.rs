//! The memory engine by another name.

use super::kind::{EngineKind, Opened};
use storage::MemoryEngine;

pub(super) static KIND: EngineKind = EngineKind {
    open_files: |_| 0,
    ..EngineKind::new("toy", |_| Ok(Opened::plain(MemoryEngine::new())))
};
