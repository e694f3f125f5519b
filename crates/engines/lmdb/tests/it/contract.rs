//! The suite that every engine passes, and the comparison with the memory engine.

use engine_lmdb::{Config, LmdbEngine};
use storage::conformance::{self, Databases};

fn databases() -> Databases<LmdbEngine> {
    // The suite does thousands of commits with flushes, so it uses a directory in memory where
    // there is one.
    let memory = std::path::Path::new("/dev/shm");
    let root = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    let root = root.expect("a temporary directory");
    let open = move |number: u32| {
        let config = Config::at(root.path().join(number.to_string()));
        LmdbEngine::open(&config).expect("the engine opens")
    };
    Databases::new(open, |engine| engine.sweep().expect("a sweep"))
}

#[test]
fn lmdb_keeps_the_contract() {
    conformance::run(&databases(), 1);
}

#[test]
fn lmdb_answers_as_the_memory_engine_does() {
    conformance::compare(&databases(), 10);
}
