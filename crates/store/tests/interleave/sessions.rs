//! Retryable writes of one session that race, through the whole store over the memory engine. The
//! engine's own locks are unknown to the scheduler: while one of them is held, no task may wait for
//! another.

use crate::interleave;
use model::{Doc, DocBuf, MongoError, Namespace, Value, doc};
use shuttle::sync::Mutex;
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use storage::observe::{Fault, FaultInjector, ObservedEngine};
use storage::{MemoryEngine, StorageError};
use store::{
    Change, Collection, NoHooks, NumberOrder, ReadView, RetryImage, SessionRecord, StatementLog,
    Store,
};

const SESSION: [u8; 16] = [5; 16];

struct Server {
    store: Store,
    c: Arc<Collection>,
    /// As in the commands, only one attempt of a session runs at a time.
    record: Mutex<SessionRecord>,
    applied: AtomicU32,
}

type Engine = ObservedEngine<FaultInjector>;

fn server(engine: Arc<Engine>) -> Arc<Server> {
    let store = Store::open(engine, Arc::new(NoHooks)).unwrap();
    let ns = Namespace::new("db", "c").unwrap();
    let c = store
        .writer(&crate::test_operation())
        .create_collection(&ns, DocBuf::new(), [7; 16])
        .unwrap();
    c.writer(&crate::test_operation())
        .insert(&[doc! { "_id": 1i32, "n": 0i32 }.doc()], true)
        .unwrap();
    Arc::new(Server {
        store,
        c,
        record: Mutex::new(SessionRecord::new(SESSION)),
        applied: AtomicU32::new(0),
    })
}

fn number(d: Doc<'_>) -> i32 {
    match d.get("n") {
        Some(Value::Int32(n)) => n,
        other => panic!("n is {other:?}"),
    }
}

fn engine() -> Arc<Engine> {
    Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        FaultInjector::default(),
    ))
}

impl Server {
    fn increment(&self, log: Option<&mut StatementLog<'_>>) -> Result<(), MongoError> {
        let mut key = Vec::new();
        self.c.record_key(&Value::Int32(1), &mut key);
        let decide = &mut |d: Doc<'_>| {
            let n = number(d);
            Ok(Change::Replace(
                doc! { "_id": 1i32, "n": n + 1 }.as_bytes().to_vec(),
            ))
        };
        self.c
            .writer(&crate::test_operation())
            .modify_logged(&key, decide, log)
            .map(|_| ())
    }

    /// One attempt of the session's write number 1: `$inc`.
    fn attempt(&self) -> Result<(), MongoError> {
        let mut record = self.record.lock().unwrap();
        let begun = self.store.begin_retryable(&mut record, 1)?;
        if record.find(0).is_some() {
            assert_eq!(begun, NumberOrder::Again);
            return Ok(());
        }
        self.increment(Some(&mut StatementLog {
            record: &mut record,
            ids: &[0],
            keep: RetryImage::Fact,
        }))?;
        self.applied.fetch_add(1, Relaxed);
        Ok(())
    }

    fn n(&self) -> i32 {
        let mut n = None;
        let mut scan = self.c.scan(&ReadView::LATEST, false);
        let row = &mut |r: store::Row<'_>| {
            n = Some(number(r.doc));
            true
        };
        while scan.visit(10, row).unwrap() {}
        n.unwrap()
    }
}

fn attempts(
    server: &Arc<Server>,
    number: usize,
) -> Vec<thread::JoinHandle<Result<(), MongoError>>> {
    (0..number)
        .map(|_| {
            let server = server.clone();
            thread::spawn(move || server.attempt())
        })
        .collect()
}

#[test]
fn one_of_two_racing_attempts_is_applied() {
    interleave(150, || {
        let s = server(engine());
        let tasks = attempts(&s, 2);
        let other = {
            let s = s.clone();
            thread::spawn(move || s.increment(None))
        };
        tasks.into_iter().for_each(|t| t.join().unwrap().unwrap());
        other.join().unwrap().unwrap();
        assert_eq!((s.applied.load(Relaxed), s.n()), (1, 2));
    });
}

#[test]
fn an_attempt_whose_answer_was_lost_is_not_applied_again() {
    interleave(150, || {
        for work_is_done in [true, false] {
            let engine = engine();
            let s = server(engine.clone());
            let error = StorageError::Full {
                context: "test".to_owned(),
            };
            engine.observer().plan(Some(Fault {
                after_calls: 0,
                error,
                lasting: false,
                work_is_done,
                writes_only: true,
            }));
            let mut failed = 0;
            for task in attempts(&s, 3) {
                failed += usize::from(task.join().unwrap().is_err());
            }
            // The first attempt failed; whether it was applied is recorded on disk, where the other
            // attempts found it.
            assert_eq!(
                (failed, s.n()),
                (1, 1),
                "applied before the error: {work_is_done}"
            );
            assert_eq!(s.applied.load(Relaxed), u32::from(!work_is_done));
        }
    });
}

#[test]
fn a_restart_between_two_attempts_changes_nothing() {
    interleave(100, || {
        let engine = engine();
        let s = server(engine);
        let first = attempts(&s, 1);
        let other = {
            let s = s.clone();
            thread::spawn(move || s.increment(None))
        };
        first.into_iter().for_each(|t| t.join().unwrap().unwrap());
        // A new process has only this record of the session.
        *s.record.lock().unwrap() = SessionRecord::new(SESSION);
        attempts(&s, 2)
            .into_iter()
            .for_each(|t| t.join().unwrap().unwrap());
        other.join().unwrap().unwrap();
        assert_eq!((s.applied.load(Relaxed), s.n()), (1, 2));
    });
}
