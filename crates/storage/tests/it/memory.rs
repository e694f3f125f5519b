//! The model itself must keep the contract.

use std::sync::Arc;

use storage::conformance::{self, Factory};
use storage::{Engine, MemoryEngine};

struct Memory;

impl Factory for Memory {
    fn fresh(&self) -> Arc<dyn Engine> {
        Arc::new(MemoryEngine::new())
    }

    fn reopen(&self) -> Option<Arc<dyn Engine>> {
        None
    }

    fn rewrite(&self, _engine: &dyn Engine) {}
}

#[test]
fn memory_engine_keeps_the_contract() {
    conformance::run(&Memory, 1);
}
