//! Servers beside each other, and the work of which there is one: a job has one owner, and gets
//! another when the owner has gone.

use model::{Doc, DocBuf, Namespace, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::{CursorOpts, Follower, KeyRange, MemoryEngine, Reader, Table};
use store::{NoHooks, Peer, RetryImage, SeenSessions, SessionRecord, StatementLog, Store};

/// Servers on one engine, whose clock stands still until it is set.
struct World {
    engine: Arc<MemoryEngine>,
}

impl World {
    fn new() -> World {
        let engine = Arc::new(MemoryEngine::new_checked());
        engine.set_time_ms(1_000_000);
        World { engine }
    }

    fn join(&self) -> Store {
        let follower = Arc::clone(&self.engine) as Arc<dyn Follower>;
        let store = Store::join(follower, Arc::new(NoHooks)).unwrap();
        store.say_alive().unwrap();
        store
    }

    /// The number of rows of one kind.
    fn rows(&self, kind: &[u8]) -> usize {
        let upper = [kind[0] + 1];
        let range = KeyRange::new(kind, &upper);
        let opened = self
            .engine
            .cursor(Table::Meta, range, CursorOpts::default());
        let (mut cursor, mut count) = (opened.unwrap(), 0);
        let each = &mut |_: &[u8], _: &[u8]| {
            count += 1;
            true
        };
        while cursor.visit(100, each).unwrap() {}
        count
    }
}

#[test]
fn a_job_has_one_owner_until_it_has_gone() {
    let world = World::new();
    let (a, b) = (world.join(), world.join());
    assert!(a.take_job("expiry").unwrap());
    assert!(!b.take_job("expiry").unwrap());
    assert!(b.take_job("another").unwrap() && !a.take_job("another").unwrap());
    // Nine seconds later both have said that they are alive.
    for now in [1_004_000, 1_009_000] {
        world.engine.set_time_ms(now);
        a.say_alive().unwrap();
        b.say_alive().unwrap();
        assert!(a.take_job("expiry").unwrap() && !b.take_job("expiry").unwrap());
    }
    // From here on the owner says nothing.
    world.engine.set_time_ms(1_015_000);
    b.say_alive().unwrap();
    assert!(
        !b.take_job("expiry").unwrap(),
        "the owner may still be alive"
    );
    world.engine.set_time_ms(1_019_001);
    assert!(b.take_job("expiry").unwrap());
    assert!(!b.is_alive(a.peer().unwrap()).unwrap());
    // It comes back, and finds that it has lost the job.
    assert!(!a.take_job("expiry").unwrap());
    a.say_alive().unwrap();
    assert!(!a.take_job("expiry").unwrap() && a.is_alive(a.peer().unwrap()).unwrap());
}

#[test]
fn one_of_many_servers_gets_a_job() {
    let world = World::new();
    let stores: Vec<Store> = (0..8).map(|_| world.join()).collect();
    for round in 0..20 {
        let owners = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for store in &stores {
                let (owners, job) = (&owners, format!("job {round}"));
                threads.spawn(move || {
                    if store.take_job(&job).unwrap() {
                        owners.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        // The first commit wins; nobody takes the job from a living owner.
        assert_eq!(owners.into_inner(), 1, "round {round}");
    }
}

#[test]
fn rows_of_servers_that_went_are_removed() {
    let world = World::new();
    let (a, b) = (world.join(), world.join());
    let gone = a.peer().unwrap();
    assert_eq!(Peer::parse(&gone.name()), Some(gone));
    world.engine.set_time_ms(1_069_999);
    b.say_alive().unwrap();
    b.forget_gone_peers().unwrap();
    assert_eq!(world.rows(b"h"), 2);
    world.engine.set_time_ms(1_070_000);
    b.forget_gone_peers().unwrap();
    assert_eq!(world.rows(b"h"), 1);
    assert!(b.is_alive(b.peer().unwrap()).unwrap());
}

#[test]
fn records_of_sessions_go_when_no_server_has_used_them() {
    let world = World::new();
    let (a, b) = (world.join(), world.join());
    let ns = Namespace::new("test", "c").unwrap();
    let operation = crate::test_operation();
    a.begin_moment().unwrap();
    a.writer(operation)
        .create_collection(&ns, DocBuf::new(), [7; 16])
        .unwrap();
    let mut records: Vec<SessionRecord> = (1..=3).map(|n| SessionRecord::new([n; 16])).collect();
    let write = |store: &Store, record: &mut SessionRecord, number: i64, id: i32| {
        store.begin_moment().unwrap();
        let c = store.collection(&ns).unwrap().unwrap();
        store.begin_retryable(record, number).unwrap();
        let (document, ids) = (doc! { "_id": id }, [0]);
        let docs: [Doc<'_>; 1] = [document.doc()];
        let mut log = StatementLog {
            record,
            ids: &ids,
            keep: RetryImage::Fact,
        };
        let mut done = Default::default();
        c.writer(crate::test_operation())
            .insert_with_progress(&docs, true, Some(&mut log), &mut done, &|| {})
            .unwrap();
    };
    for (n, record) in records.iter_mut().enumerate() {
        write(&a, record, 1, n as i32);
    }
    let mut seen = SeenSessions::default();
    let first = [1; 16];
    let is_open = |id: &[u8; 16]| *id == first;
    assert_eq!(b.sweep_unused_sessions(&mut seen, &is_open).unwrap(), 0);
    // The second session writes through the other server meanwhile.
    let mut again = SessionRecord::new([2; 16]);
    write(&b, &mut again, 2, 10);
    assert_eq!(b.sweep_unused_sessions(&mut seen, &is_open).unwrap(), 1);
    assert_eq!(world.rows(b"t"), 2);
    assert_eq!(b.sweep_unused_sessions(&mut seen, &|_| false).unwrap(), 2);
    assert_eq!(world.rows(b"t"), 0);
}

#[test]
fn a_transaction_that_another_server_has_fenced_is_not_committed() {
    let world = World::new();
    let (a, b) = (world.join(), world.join());
    let session = [5; 16];
    let commit = |number: i64| {
        a.begin_moment().unwrap();
        let mut record = SessionRecord::new(session);
        a.begin_retryable(&mut record, number).unwrap();
        let transaction = a.begin_transaction(None).unwrap();
        (record, transaction)
    };
    let finish = |(mut record, transaction): (SessionRecord, store::Transaction)| {
        let writer = a.writer(crate::test_operation());
        writer.commit_transaction(&transaction, &mut record)
    };
    // Fenced before its commit: the commit fails, and the record says so.
    let begun = commit(1);
    b.fence_transaction(session, 1).unwrap();
    assert_eq!(finish(begun).unwrap_err().code(), 112);
    let mut record = SessionRecord::new(session);
    b.load_session(&mut record).unwrap();
    assert_eq!((record.number(), record.is_committed()), (Some(1), false));
    // Committed before the fence: the fence changes nothing.
    finish(commit(2)).unwrap();
    b.fence_transaction(session, 2).unwrap();
    b.fence_transaction(session, 1).unwrap();
    let mut record = SessionRecord::new(session);
    b.load_session(&mut record).unwrap();
    assert_eq!((record.number(), record.is_committed()), (Some(2), true));
}
