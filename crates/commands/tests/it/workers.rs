//! Background workers: all get their turns, a failure or panic of one affects no other, and clients
//! see their progress.

use crate::behaviour::{send, serve};
use crate::interrupts::json;
use crate::observability::{LoggingServer, int};
use commands::workers::{self, Class, NextRound, Schedule, Scope, Worker};
use commands::{Config, StoreHooks, SystemClock};
use model::{MongoError, Namespace};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use storage::MemoryEngine;
use store::Store;

static CALM_ROUNDS: AtomicUsize = AtomicUsize::new(0);

const fn worker(name: &'static str, work: fn() -> workers::WorkerFn) -> Worker {
    Worker {
        name,
        class: Class::Shared,
        scope: Scope::Server,
        period: Duration::ZERO,
        is_due_early: workers::never,
        work,
        error: ("CONTROL", "the test's worker failed"),
    }
}

static PANICS: Worker = worker("panics", || {
    let mut rounds = 0;
    Box::new(move |_, _| {
        rounds += 1;
        assert!(rounds > 1, "the first round of each beginning panics");
        Ok(NextRound::Again)
    })
});
static FAILS: Worker = worker("fails", || {
    Box::new(|_, _| Err(MongoError::internal("as an engine may")))
});
static ENDS: Worker = worker("ends", || Box::new(|_, _| Ok(NextRound::Ended)));
static CALM: Worker = worker("calm", || {
    Box::new(|_, _| {
        CALM_ROUNDS.fetch_add(1, Ordering::Relaxed);
        Ok(NextRound::Again)
    })
});

#[test]
fn a_failing_or_panicking_worker_stops_no_worker() {
    let mut s = LoggingServer::new();
    let service = s.service().arc().expect("a shared service");
    let mut schedule = Schedule::new(&service, [&PANICS, &FAILS, &ENDS, &CALM]);
    for _ in 0..3 {
        let rest = schedule.run_due(&service, &|| true);
        assert_eq!(rest, Some(Duration::ZERO), "others are due at once");
    }
    assert_eq!(CALM_ROUNDS.load(Ordering::Relaxed), 3);
    let status = s.run("admin", r#"{"serverStatus": 1}"#);
    let number = |path: &str| int(&status, &format!("quarry.workers.{path}"));
    assert_eq!((number("fails.rounds"), number("fails.errors")), (3, 3));
    assert_eq!(number("ends.rounds"), 1, "it has ended");
    assert_eq!((number("calm.rounds"), number("calm.errors")), (3, 0));
    assert_eq!(number("panics.errors"), 1, "it begins again a second later");
    schedule.run_due(&service, &|| false);
    assert_eq!(
        CALM_ROUNDS.load(Ordering::Relaxed),
        3,
        "none begins after the end"
    );
}

#[test]
fn clients_see_the_workers_that_run() {
    let mut s = LoggingServer::new();
    let service = s.service().arc().expect("a shared service");
    let names = |s: &mut LoggingServer, command: &str| -> Vec<String> {
        let reply = s.run("admin", command);
        let list = reply.doc().field("inprog").as_array();
        let list = list.or_else(|| {
            reply
                .doc()
                .field("cursor")
                .as_doc()?
                .field("firstBatch")
                .as_array()
        });
        let list = list.expect("a list of operations");
        let of = |v: model::Value<'_>| Some(v.as_doc()?.field("desc").as_str()?.to_owned());
        list.iter().filter_map(of).collect()
    };
    workers::run_shared_once(&service);
    let all = r#"{"currentOp": 1, "$all": true}"#;
    let shown = names(&mut s, all);
    let shared = workers::ALL.iter().filter(|w| w.class == Class::Shared);
    for worker in shared {
        assert!(
            shown.iter().any(|name| name == worker.name),
            "{}: {shown:?}",
            worker.name
        );
    }
    let idle = r#"{"aggregate": 1, "pipeline": [{"$currentOp": {"idleConnections": true,
        "allUsers": true}}], "cursor": {}}"#;
    assert!(names(&mut s, idle).contains(&"cursors".to_owned()));
    let active = names(&mut s, r#"{"currentOp": 1}"#);
    assert!(!active.contains(&"cursors".to_owned()), "{active:?}");
    let status = s.run("admin", r#"{"serverStatus": 1}"#);
    assert_eq!(int(&status, "quarry.workers.logOfChanges.rounds"), 1);
}

#[test]
fn every_worker_has_a_name_of_its_own() {
    for worker in workers::ALL {
        let same = workers::ALL.iter().filter(|w| w.name == worker.name);
        assert_eq!(same.count(), 1, "{}", worker.name);
        assert!(workers::find(worker.name).is_some());
    }
}

/// Regression: with one round per second, the log would grow by everything written in a second.
#[test]
fn a_small_log_is_cut_when_it_has_grown_and_not_a_second_later() {
    let mb = 1 << 20;
    let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(mb);
    let store = Store::open(Arc::new(MemoryEngine::new()), Arc::new(hooks));
    let server = serve(Config::default(), Arc::new(store.expect("an empty store")));
    let mut conn = server.connect("127.0.0.1:1");
    let service = server.service().arc().expect("a shared service");
    let ends = AtomicBool::new(false);
    let keeps = || !ends.load(Ordering::Acquire);
    let most = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            workers::run(&service, workers::find("logOfChanges"), &keeps);
        });
        let log = Namespace::new("local", "oplog.rs").expect("a name");
        let log = service
            .store
            .collection(&log)
            .expect("read")
            .expect("a log");
        let text = "x".repeat(mb as usize / 4);
        let mut most = 0;
        for _ in 0..160 {
            let insert = format!(r#"{{"insert": "c", "documents": [{{"s": "{text}"}}]}}"#);
            let insert = json(&insert);
            send(&server, &mut conn, "db", insert.doc());
            most = most.max(log.size_bytes());
            // At the speed of a device; all of it takes less than a second.
            std::thread::sleep(Duration::from_millis(4));
        }
        ends.store(true, Ordering::Release);
        worker.thread().unpark();
        most
    });
    assert!(most > mb / 2, "{most} bytes: nothing was written");
    assert!(
        most < 4 * mb,
        "{most} bytes of log where a megabyte is kept"
    );
}
