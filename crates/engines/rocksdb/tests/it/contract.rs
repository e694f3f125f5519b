//! The suite that every engine passes, and the comparison with the memory engine.

use engine_rocksdb::{Config, RocksEngine};
use storage::Table;
use storage::conformance::{self, Databases};

use crate::encryption::master;

fn databases(sealed: bool) -> Databases<RocksEngine> {
    let root = tempfile::tempdir().expect("a temporary directory");
    let open = move |number: u32| {
        let path = root.path().join(number.to_string());
        let config = Config {
            master_key: sealed.then(master),
            ..Config::with_budget(path, 64 << 20)
        };
        RocksEngine::open(config).expect("the engine opens")
    };
    Databases::new(open, |engine| {
        engine.compact_all(Table::Doc).expect("a compaction");
    })
}

#[test]
fn rocksdb_keeps_the_contract() {
    conformance::run(&databases(false), 1);
}

#[test]
fn rocksdb_keeps_the_contract_with_encrypted_data() {
    conformance::run(&databases(true), 1);
}

#[test]
fn rocksdb_answers_as_the_memory_engine_does() {
    conformance::compare(&databases(false), 4);
}
