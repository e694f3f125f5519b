//! A factory for engines with numbered databases, and one whose engines are compared with the
//! memory engine on every call. Must not know: where databases lie.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::model::random_operations;
use super::tools::Factory;
use crate::engine::Engine;
use crate::memory::MemoryEngine;
use crate::mirror::Mirror;
use crate::observe::{Contract, ObservedEngine};

/// Engines on databases 1, 2, 3 and so on.
pub struct Databases<E> {
    open: Box<dyn Fn(u32) -> E>,
    rewrite: fn(&E),
    // The last number and its engine; weak, because the suite decides when the engine is dropped.
    last: Mutex<(u32, Weak<E>)>,
}

impl<E: Engine + 'static> Databases<E> {
    /// `open` opens the database with a number, `rewrite` is [`Factory::rewrite`].
    pub fn new(open: impl Fn(u32) -> E + 'static, rewrite: fn(&E)) -> Databases<E> {
        Databases {
            open: Box::new(open),
            rewrite,
            last: Mutex::default(),
        }
    }

    fn open(&self, step: u32) -> Arc<dyn Engine> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.0 += step;
        let engine = Arc::new((self.open)(last.0));
        last.1 = Arc::downgrade(&engine);
        engine
    }
}

impl<E: Engine + 'static> Factory for Databases<E> {
    fn fresh(&self) -> Arc<dyn Engine> {
        self.open(1)
    }

    fn reopen(&self) -> Option<Arc<dyn Engine>> {
        Some(self.open(0))
    }

    fn rewrite(&self, _engine: &dyn Engine) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = last.1.upgrade();
        (self.rewrite)(&engine.expect("the engine is open"));
    }
}

struct MirrorFactory<'f>(&'f dyn Factory);

impl Factory for MirrorFactory<'_> {
    fn fresh(&self) -> Arc<dyn Engine> {
        let mirror = Mirror::new(self.0.fresh(), Arc::new(MemoryEngine::new()));
        Arc::new(ObservedEngine::new(Arc::new(mirror), Contract::default()))
    }

    fn reopen(&self) -> Option<Arc<dyn Engine>> {
        None
    }

    fn rewrite(&self, engine: &dyn Engine) {
        self.0.rewrite(engine);
    }
}

/// Runs random histories on the engine and on the memory engine, and compares every result.
///
/// # Panics
/// When they differ.
pub fn compare(factory: &dyn Factory, histories: u64) {
    for seed in 100..100 + histories {
        random_operations(&MirrorFactory(factory), seed, 400);
    }
}
