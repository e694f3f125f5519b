//! The suite that every engine passes, and the comparison with the memory engine.

use engine_tikv::{Config, TikvEngine};
use storage::conformance::{self, Databases};

use crate::tools::{config, open, pd};

/// `None` without a cluster.
fn databases() -> Option<Databases<TikvEngine>> {
    let first = config(&pd()?);
    let open = move |number: u32| {
        open(&Config {
            prefix: format!("{}-{number}", first.prefix),
            ..first.clone()
        })
    };
    Some(Databases::new(open, |engine| {
        engine.sweep().expect("a sweep");
    }))
}

#[test]
fn tikv_keeps_the_contract() {
    if let Some(databases) = databases() {
        conformance::run(&databases, 1);
    }
}

#[test]
fn tikv_answers_as_the_memory_engine_does() {
    if let Some(databases) = databases() {
        conformance::compare(&databases, 10);
    }
}
