//! The suite every engine passes, and the comparison with the memory engine.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use engine_lmdb::{Config, LmdbEngine};
use storage::conformance::{self, Factory};
use storage::{Contract, Engine, MemoryEngine, Mirror, Observed};

pub(crate) struct Lmdb {
    root: tempfile::TempDir,
    // Number of the last directory and the engine in it; weak, for the suite decides when it dies.
    last: Mutex<(u32, Weak<LmdbEngine>)>,
}

impl Lmdb {
    pub(crate) fn new() -> Self {
        // Thousands of commits, each with its flushes: in memory where there is such a device.
        let memory = std::path::Path::new("/dev/shm");
        let root = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Self {
            root: root.expect("a temporary directory"),
            last: Mutex::default(),
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.root.path().join(number.to_string())
    }

    fn open(&self, number: u32) -> Arc<LmdbEngine> {
        let engine = LmdbEngine::open(&Config::at(self.path(number))).expect("the engine opens");
        let engine = Arc::new(engine);
        self.last.lock().unwrap().1 = Arc::downgrade(&engine);
        engine
    }
}

impl Factory for Lmdb {
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
        engine
            .expect("the engine is open")
            .sweep()
            .expect("a sweep");
    }
}

#[test]
fn lmdb_keeps_the_contract() {
    conformance::run(&Lmdb::new(), 1);
}

/// Every operation of random histories is done on LMDB and on the memory engine, and compared.
#[test]
fn lmdb_answers_as_the_memory_engine_does() {
    struct Mirrored(Lmdb);
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
    let mirrored = Mirrored(Lmdb::new());
    for seed in 100..110 {
        conformance::random_operations(&mirrored, seed, 400);
    }
}
