//! A store that reads the data of another process: each generation begins once, and no reader gets
//! a view before the caches were renewed for it.

use model::{MongoError, Namespace};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use storage::{Engine, MemoryEngine};
use store::{Moment, NoHooks, Store};

struct World {
    engine: Arc<dyn Engine>,
}

impl World {
    fn new() -> World {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        Store::open(Arc::clone(&engine), Arc::new(NoHooks)).expect("the writer's store");
        World { engine }
    }

    fn moment(&self, announced: u8) -> Moment {
        Moment {
            snapshot: self.engine.snapshot().expect("a state"),
            announced: vec![announced],
        }
    }

    fn follow(&self) -> Arc<Store> {
        let engine = Arc::clone(&self.engine);
        let store = Store::follow(engine, Arc::new(NoHooks), &self.moment(0));
        Arc::new(store.expect("the reader's store"))
    }
}

#[test]
fn no_reader_sees_a_generation_before_its_caches_are_renewed() {
    let world = World::new();
    let store = world.follow();
    let (began, renewed) = (AtomicBool::new(false), AtomicBool::new(false));
    let moment = world.moment(1);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let renew = &mut || {
                began.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(200));
                renewed.store(true, Ordering::SeqCst);
                Ok(())
            };
            assert!(store.view_of(&moment, renew).is_ok());
        });
        while !began.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let again = &mut || panic!("it was renewed by the other");
        assert!(store.view_of(&moment, again).is_ok());
        assert!(renewed.load(Ordering::SeqCst));
    });
}

#[test]
fn a_renewal_that_fails_is_tried_again_and_one_that_succeeded_is_not() {
    let world = World::new();
    let store = world.follow();
    let calls = AtomicU64::new(0);
    let moment = world.moment(1);
    let failing = &mut || {
        calls.fetch_add(1, Ordering::SeqCst);
        Err(MongoError::internal("no answer"))
    };
    assert!(store.view_of(&moment, failing).is_err());
    for _ in 0..3 {
        let renew = &mut || {
            calls.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        assert!(store.view_of(&moment, renew).is_ok());
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(store.follows());
    let ns = Namespace::new("db", "c").unwrap();
    assert!(store.collection(&ns).unwrap().is_none());
}
