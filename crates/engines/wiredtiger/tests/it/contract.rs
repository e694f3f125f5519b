//! The suite that every engine passes, and the comparison with the memory engine.

use engine_wiredtiger::WiredTigerEngine;
use storage::conformance::{self, Databases};

use crate::tools::{config, library, open, root};

/// `None` without the library.
fn databases() -> Option<Databases<WiredTigerEngine>> {
    library()?;
    let root = root();
    let open = move |number: u32| {
        let engine = open(&config(&root.path().join(number.to_string())));
        engine.expect("the engine opens")
    };
    Some(Databases::new(open, |engine| {
        engine.sweep().expect("a sweep");
    }))
}

#[test]
fn wiredtiger_keeps_the_contract() {
    if let Some(databases) = databases() {
        conformance::run(&databases, 1);
    }
}

#[test]
fn wiredtiger_answers_as_the_memory_engine_does() {
    if let Some(databases) = databases() {
        conformance::compare(&databases, 10);
    }
}
