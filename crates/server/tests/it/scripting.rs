//! Hostile scripts against the real binary: each ends within bounded time and memory, and other
//! clients are served meanwhile.

use crate::driver::Process;
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;
use std::time::{Duration, Instant};

/// Scripts that loop, allocate and recurse.
const HOSTILE: &[&str] = &[
    "while (true);",
    "let a = []; while (true) a.push(new Array(1e5).fill('x'))",
    "function f() { return f() + f() } return f()",
];

fn code(result: Result<Document, mongodb::error::Error>) -> i32 {
    match result.map_err(|e| *e.kind) {
        Ok(_) => 0,
        Err(ErrorKind::Command(e)) => e.code,
        Err(other) => panic!("{other:?}"),
    }
}

/// Resident memory now, in kilobytes.
fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find(|l| l.starts_with("VmRSS:"))
        .unwrap_or_default();
    let digits = line.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    digits.unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_scripts_end_and_others_are_served_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path());
    let client = process.client("maxPoolSize=20").await;
    let db = client.database("test");
    db.run_command(doc! { "insert": "c", "documents": [{ "_id": 1, "n": 1 }] })
        .await
        .unwrap();
    let before_kb = resident_kb(process.pid());
    let mut running = Vec::new();
    for script in HOSTILE.iter().chain(HOSTILE) {
        let (db, script) = (db.clone(), (*script).to_owned());
        running.push(tokio::spawn(async move {
            let begun = Instant::now();
            let find = doc! { "find": "c", "filter": { "$where": &script }, "maxTimeMS": 2000 };
            (code(db.run_command(find).await), begun.elapsed(), script)
        }));
    }
    // Half of the scripts run for two seconds on two processors.
    let (mut served, mut slowest, begun) = (0, Duration::ZERO, Instant::now());
    while begun.elapsed() < Duration::from_millis(1500) {
        let asked = Instant::now();
        let found = db
            .run_command(doc! { "find": "c", "filter": { "_id": 1 } })
            .await;
        assert!(found.is_ok(), "{found:?}");
        slowest = slowest.max(asked.elapsed());
        served += 1;
    }
    assert!(
        served >= 5,
        "{served} requests, the slowest took {slowest:?}"
    );
    for one in running {
        let (code, took, script) = one.await.unwrap();
        assert!(matches!(code, 50 | 139), "{script}: {code}");
        assert!(took < Duration::from_secs(20), "{script}: {took:?}");
    }
    let after_kb = resident_kb(process.pid());
    println!("{served} requests served, slowest {slowest:?}; {before_kb} -> {after_kb} KiB");
    assert!(
        after_kb < 512 << 10,
        "{before_kb} KiB before, {after_kb} KiB after"
    );
    let usable = doc! { "find": "c", "filter": { "$where": "this.n == 1" } };
    assert_eq!(code(db.run_command(usable).await), 0);
    process.stop();
}

#[tokio::test]
async fn a_looping_script_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path());
    let client = process.client("maxPoolSize=5").await;
    let db = client.database("test");
    db.run_command(doc! { "insert": "c", "documents": [{ "_id": 1 }] })
        .await
        .unwrap();
    let other = db.clone();
    let loops = tokio::spawn(async move {
        code(
            other
                .run_command(doc! { "find": "c", "filter": { "$where": "while (true);" } })
                .await,
        )
    });
    let admin = client.database("admin");
    let mut killed = false;
    for _ in 0..200 {
        let ops = admin
            .run_command(doc! { "currentOp": 1, "command.find": "c" })
            .await
            .unwrap();
        for op in ops.get_array("inprog").unwrap() {
            let opid = op.as_document().and_then(|d| d.get("opid").cloned());
            killed |= admin
                .run_command(doc! { "killOp": 1, "op": opid })
                .await
                .is_ok();
        }
        if killed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(killed);
    assert_eq!(loops.await.unwrap(), 11601);
    process.stop();
}
