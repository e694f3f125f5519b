//! Changes of the catalog beside each other: none waits for the commit of one of another name.

use crate::collection;
use model::{DocBuf, Namespace, doc};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{BatchOp, Caps, MemoryEngine, Table, WriteBatch};
use store::{NoHooks, Store};

const LIMIT: Duration = Duration::from_secs(10);

/// A device that does not answer commits of one kind for a while.
struct SlowDevice {
    is_slow: fn(&WriteBatch) -> bool,
    state: Mutex<DeviceState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeviceState {
    is_stopped: bool,
    waiting: usize,
}

impl Observer for SlowDevice {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::Apply { batch, .. } = call
            && (self.is_slow)(batch)
        {
            let mut state = self.state.lock();
            state.waiting += 1;
            self.changed.notify_all();
            self.changed.wait_while(&mut state, |s| s.is_stopped);
            state.waiting -= 1;
        }
        Ok(())
    }
}

impl SlowDevice {
    fn new(is_slow: fn(&WriteBatch) -> bool) -> SlowDevice {
        SlowDevice {
            is_slow,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn set_stopped(&self, is_stopped: bool) {
        self.state.lock().is_stopped = is_stopped;
        self.changed.notify_all();
    }

    /// The number of commits that wait, once it is `wanted` or the time is up.
    fn await_waiting(&self, wanted: usize) -> usize {
        let until = Instant::now() + LIMIT;
        let mut state = self.state.lock();
        while state.waiting < wanted && !self.changed.wait_until(&mut state, until).timed_out() {}
        state.waiting
    }
}

fn ns(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

#[test]
fn changes_of_different_names_wait_for_one_flush_together() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        SlowDevice::new(|_| true),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    for name in ["dropped", "from", "to", "other"] {
        collection(&store, name);
    }
    drop(store);
    // No collection is open.
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let device = engine.observer();
    device.set_stopped(true);
    let catalog = || store.writer(crate::test_operation());
    let (waiting, opened) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let made = catalog().create_collection(&ns("created"), DocBuf::new(), [8; 16]);
            assert!(made.is_ok());
        });
        scope.spawn(|| catalog().drop_collection(&ns("dropped")).unwrap());
        scope.spawn(|| {
            let renamed = catalog().rename_collection(&ns("from"), &ns("to"), true);
            renamed.unwrap();
        });
        let waiting = device.await_waiting(3);
        let (sender, receiver) = mpsc::channel();
        let store = &store;
        scope.spawn(move || {
            let found = store.collection(&ns("other")).unwrap();
            sender.send(found.is_some()).unwrap();
        });
        let opened = receiver.recv_timeout(LIMIT);
        device.set_stopped(false);
        (waiting, opened)
    });
    assert_eq!(waiting, 3, "each change is on its way to the device");
    assert_eq!(opened, Ok(true), "a collection is opened meanwhile");
    let entries = store.list_collections("db").unwrap();
    let names: Vec<&str> = entries.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["created", "other", "to"]);
}

/// Whether a batch deletes the record of a dropped identifier.
fn forgets_dropped(batch: &WriteBatch) -> bool {
    batch.iter().any(|op| match op {
        BatchOp::Delete { table, key } => table == Table::Meta && key.starts_with(b"d"),
        _ => false,
    })
}

#[test]
fn drops_wait_for_one_flush_together_when_they_free_their_space() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        SlowDevice::new(forgets_dropped),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let names = ["one", "two", "three"];
    for name in names {
        let c = collection(&store, name);
        let document = doc! { "_id": 1i32 };
        let writer = c.writer(crate::test_operation());
        writer.insert(&[document.doc()], true).unwrap();
    }
    let device = engine.observer();
    device.set_stopped(true);
    let waiting = std::thread::scope(|scope| {
        for name in names {
            let catalog = store.writer(crate::test_operation());
            scope.spawn(move || catalog.drop_collection(&ns(name)).unwrap());
        }
        let waiting = device.await_waiting(3);
        device.set_stopped(false);
        waiting
    });
    assert_eq!(waiting, 3, "each drop is on its way to the device");
    assert_eq!(store.sweep_dropped().unwrap(), 0);
}
