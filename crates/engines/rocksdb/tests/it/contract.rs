//! The suite every engine passes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use engine_rocksdb::{Config, RocksEngine};
use storage::conformance::{self, Factory};
use storage::{Engine, Table};

use crate::encryption::master;

pub(crate) struct Rocks {
    root: tempfile::TempDir,
    // Number of the last directory and the engine in it; weak, for the suite decides when it dies.
    last: Mutex<(u32, Weak<RocksEngine>)>,
    sealed: bool,
}

impl Rocks {
    pub(crate) fn new() -> Self {
        Self {
            root: tempfile::tempdir().expect("a temporary directory"),
            last: Mutex::default(),
            sealed: false,
        }
    }

    /// The same with encrypted data.
    fn sealed() -> Self {
        Self {
            sealed: true,
            ..Self::new()
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.root.path().join(number.to_string())
    }

    fn open(&self, number: u32) -> Arc<dyn Engine> {
        let engine = RocksEngine::open(Config {
            master_key: self.sealed.then(master),
            ..Config::with_budget(self.path(number), 64 << 20)
        })
        .expect("the engine opens");
        let engine = Arc::new(engine);
        self.last.lock().unwrap().1 = Arc::downgrade(&engine);
        engine
    }
}

impl Factory for Rocks {
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
        let engine = self
            .last
            .lock()
            .unwrap()
            .1
            .upgrade()
            .expect("the engine is open");
        engine.compact(Table::Doc).expect("a compaction");
    }
}

#[test]
fn rocksdb_keeps_the_contract() {
    conformance::run(&Rocks::new(), 1);
}

#[test]
fn rocksdb_keeps_the_contract_with_encrypted_data() {
    conformance::run(&Rocks::sealed(), 1);
}
