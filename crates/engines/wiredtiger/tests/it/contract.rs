//! The suite every engine passes, and the comparison with the memory engine.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use engine_wiredtiger::WiredTigerEngine;
use storage::conformance::{self, Factory};
use storage::{Contract, Engine, MemoryEngine, Mirror, Observed};

use crate::tools::{config, library, open, root};

struct Fresh {
    root: tempfile::TempDir,
    // Number of the last directory and the engine in it; weak, for the suite decides when it dies.
    last: Mutex<(u32, Weak<WiredTigerEngine>)>,
}

impl Fresh {
    fn new() -> Self {
        Self {
            root: root(),
            last: Mutex::default(),
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.root.path().join(number.to_string())
    }

    fn open(&self, number: u32) -> Arc<WiredTigerEngine> {
        let engine = open(&config(&self.path(number)));
        let engine = Arc::new(engine.expect("the engine opens"));
        self.last.lock().unwrap().1 = Arc::downgrade(&engine);
        engine
    }
}

impl Factory for Fresh {
    fn fresh(&self) -> Arc<dyn Engine> {
        let number = {
            let mut last = self.last.lock().unwrap();
            last.0 += 1;
            last.0
        };
        self.open(number)
    }

    fn reopen(&self) -> Option<Arc<dyn Engine>> {
        let number = self.last.lock().unwrap().0;
        Some(self.open(number))
    }

    fn rewrite(&self, _engine: &dyn Engine) {
        let engine = self.last.lock().unwrap().1.upgrade();
        let engine = engine.expect("the engine is open");
        engine.sweep().expect("a sweep");
    }
}

#[test]
fn wiredtiger_keeps_the_contract() {
    if library().is_some() {
        conformance::run(&Fresh::new(), 1);
    }
}

/// Every operation of random histories is done on WiredTiger and on the memory engine, and
/// compared.
#[test]
fn wiredtiger_answers_as_the_memory_engine_does() {
    struct Mirrored(Fresh);
    impl Factory for Mirrored {
        fn fresh(&self) -> Arc<dyn Engine> {
            let mirror = Mirror::new(self.0.fresh(), Arc::new(MemoryEngine::new()));
            Arc::new(Observed::new(Arc::new(mirror), Contract::default()))
        }
        fn reopen(&self) -> Option<Arc<dyn Engine>> {
            None
        }
        fn rewrite(&self, engine: &dyn Engine) {
            self.0.rewrite(engine);
        }
    }
    if library().is_none() {
        return;
    }
    let mirrored = Mirrored(Fresh::new());
    for seed in 100..110 {
        conformance::random_operations(&mirrored, seed, 400);
    }
}
