//! Overload: an operation without a ticket waits as long as allowed, and is refused with the labels
//! by which drivers back off; operations that need no ticket continue.

use crate::interrupts::{code, fill};
use crate::observability::{LoggingServer, int};
use model::{Doc, DocBuf, doc};
use std::time::Duration;

/// A read that computes until its time limit.
fn long_read(ms: i32) -> DocBuf {
    let busy = "for (let i = 0; i < 1e9; i++) {} return false";
    doc! { "find": "c", "filter": { "$where": busy }, "maxTimeMS": ms, "$db": "db" }
}

#[test]
fn a_waiter_for_a_ticket_times_out_while_others_continue() {
    let mut s = LoggingServer::new();
    fill(s.server(), 10);
    let set = |s: &mut LoggingServer, name: &str, to: i32| {
        let reply = s.run(
            "admin",
            &format!(r#"{{"setParameter": 1, "{name}": {to}}}"#),
        );
        assert_eq!(code(&reply), 0, "{reply:?}");
    };
    let reads = |s: &mut LoggingServer, path: &str| {
        let status = s.run("admin", r#"{"serverStatus": 1}"#);
        int(&status, &format!("queues.execution.read.{path}"))
    };
    assert_eq!(reads(&mut s, "totalTickets"), 128);
    set(&mut s, "wiredTigerConcurrentReadTransactions", 1);
    // Measures twice, as the background worker does.
    for _ in 0..2 {
        commands::workers::run_shared_once(s.service());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(reads(&mut s, "totalTickets"), 1);
    let admitted = reads(&mut s, "normalPriority.newAdmissions");
    let find = r#"{"find": "c"}"#;
    s.ok(find);
    assert_eq!(reads(&mut s, "normalPriority.newAdmissions"), admitted + 1);

    let service = s.service().arc().expect("a shared service");
    let server = commands::registry::dispatcher(service);
    let busy = std::thread::spawn(move || {
        let mut conn = server.connect("127.0.0.1:78");
        let reply = crate::behaviour::send(&server, &mut conn, "db", long_read(3000).doc());
        assert_eq!(code(&reply), 50, "{reply:?}");
    });
    while reads(&mut s, "out") == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The time limit also applies to the wait.
    let late = s.run("db", r#"{"find": "c", "maxTimeMS": 50}"#);
    assert_eq!(code(&late), 50, "{late:?}");
    set(&mut s, "admissionQueueTimeMaxMS", 50);
    let refused = s.run("db", find);
    assert_eq!(code(&refused), 462, "{refused:?}");
    let labels = refused
        .doc()
        .field("errorLabels")
        .as_array()
        .expect("labels");
    let labels: Vec<_> = labels.iter().filter_map(|l| l.as_str()).collect();
    assert_eq!(
        labels,
        [
            "SystemOverloadedError",
            "RetryableError",
            "NoWritesPerformed"
        ]
    );
    // Writes have their own tickets, and status commands need none.
    s.ok(r#"{"insert": "c", "documents": [{"_id": "new"}]}"#);
    s.ok(r#"{"ping": 1}"#);
    assert_eq!(reads(&mut s, "normalPriority.queueLength"), 0);
    assert_eq!(reads(&mut s, "normalPriority.addedToQueue"), 2);
    assert_eq!(reads(&mut s, "rejected"), 1);
    // An operation that may wait long enough runs, and the slow log reports its wait.
    set(&mut s, "admissionQueueTimeMaxMS", 60_000);
    s.ok(r#"{"profile": 2}"#);
    s.ok(r#"{"find": "c", "comment": "patient"}"#);
    busy.join().expect("the busy read");
    assert!(reads(&mut s, "normalPriority.totalTimeQueuedMicros") > 100_000);
    assert_eq!(reads(&mut s, "out"), 0);
    let found = s.ok(r#"{"find": "system.profile", "filter": {"command.comment": "patient"}}"#);
    let cursor = found.doc().field("cursor").as_doc().expect("a cursor");
    let first = cursor.field("firstBatch").as_array().expect("a batch");
    let profiled = first.get(0).and_then(|v| v.as_doc()).map(Doc::to_buf);
    let profiled = profiled.expect("the patient read");
    let waited = int(&profiled, "queues.execution.totalTimeQueuedMicros");
    assert!(waited > 100_000, "{profiled:?}");
}
