//! One server at a time: refusal, standby, take-over, and what a former holder can no longer do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine_tikv::{Config, TikvEngine};
use rustix::process::Signal;
use storage::{Durability, Engine, StorageError, Table, WriteBatch};

use crate::tools::{config, get, key, open, pd, put, stand_by};
use crate::writer::{self, LEASE, Writer};

fn refusal(config: &Config) -> StorageError {
    match TikvEngine::open(config) {
        Ok(_) => panic!("the database is held by another"),
        Err(error) => error,
    }
}

#[test]
fn the_second_is_refused_until_the_first_is_closed() {
    let Some(pd) = pd() else {
        return;
    };
    let own = Config {
        name: "the first".to_owned(),
        ..config(&pd)
    };
    let first = open(&own);
    put(&first, 1, b"one").unwrap();
    let error = refusal(&own);
    assert!(matches!(error, StorageError::Locked { .. }), "{error}");
    let line = error.to_string();
    assert!(line.contains("the first") && !line.contains('\n'), "{line}");
    first.close().unwrap();
    let began = Instant::now();
    let second = open(&own);
    assert!(
        began.elapsed() < own.lease / 2,
        "a lease that was given up is waited for"
    );
    assert_eq!(get(&second, 1).as_deref(), Some(&b"one"[..]));
}

#[test]
fn a_standby_waits_and_takes_over() {
    let Some(pd) = pd() else {
        return;
    };
    let own = config(&pd);
    let first = open(&own);
    put(&first, 1, b"one").unwrap();
    let (standby, told) = stand_by(&own);
    // Waits longer than the lease: it is renewed, so no other server takes over.
    assert!(told.recv_timeout(own.lease + own.lease / 4).is_err());
    put(&first, 2, b"two").unwrap();
    first.close().unwrap();
    told.recv_timeout(own.lease / 2)
        .expect("it takes over at once");
    let second = standby.join().unwrap();
    assert_eq!(get(&second, 2).as_deref(), Some(&b"two"[..]));
    assert!(matches!(put(&first, 3, b"late"), Err(StorageError::Closed)));
}

#[test]
fn a_killed_server_loses_nothing() {
    let Some(pd) = pd() else {
        return;
    };
    let own = Config {
        lease: LEASE,
        standby: Some(Arc::default()),
        ..config(&pd)
    };
    for round in 1..=3 {
        let writer = Writer::start("one", &own);
        let last = writer.wait_acknowledged(round * 100);
        let last = writer.kill().unwrap_or(last);
        let began = Instant::now();
        let engine = open(&own);
        assert!(began.elapsed() < LEASE * 3, "{:?}", began.elapsed());
        writer::check(&engine, last);
        engine.close().unwrap();
    }
}

#[test]
fn a_server_that_died_on_this_machine_is_not_waited_for() {
    let Some(pd) = pd() else {
        return;
    };
    let own = Config {
        lease: Duration::from_secs(60),
        standby: Some(Arc::default()),
        ..config(&pd)
    };
    let writer = Writer::start("one", &own);
    let last = writer.wait_acknowledged(10);
    let last = writer.kill().unwrap_or(last);
    let began = Instant::now();
    let engine = open(&own);
    assert!(began.elapsed() < own.lease / 2, "{:?}", began.elapsed());
    writer::check(&engine, last);
    engine.close().unwrap();
}

/// A server that was stopped for longer than its lease resumes after another has taken over: it
/// commits nothing any more, whether it was in the middle of a commit or begins one, and reports
/// that.
#[test]
fn a_server_that_slept_commits_no_more() {
    let Some(pd) = pd() else {
        return;
    };
    for kind in ["one", "asked"] {
        let own = Config {
            lease: LEASE,
            standby: Some(Arc::default()),
            ..config(&pd)
        };
        let mut writer = Writer::start(kind, &own);
        if kind == "asked" {
            writer.ask();
        }
        writer.wait_acknowledged(0);
        writer.signal(Signal::STOP);
        let engine = open(&own);
        // The commit in progress when it was stopped may be there, but nothing changes any more.
        let stored = (0..).find(|n| get(&engine, *n).is_none()).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(stored), b"of the new one");
        engine.apply(&batch, Durability::Buffered).unwrap();
        if kind == "asked" {
            // Sent while it is stopped, so that it begins a commit as soon as it resumes.
            writer.ask();
        }
        writer.signal(Signal::CONT);
        let rest = writer.end();
        assert!(rest.iter().any(|line| line == "lost"), "{rest:?}");
        // The commit in progress may have been completed before the other server began.
        let words = ["taken over", "outcome of the commit is unknown"];
        let refused = rest.iter().find(|line| line.starts_with("refused "));
        assert!(
            refused.is_some_and(|line| words.iter().any(|word| line.contains(word))),
            "{rest:?}"
        );
        let now = get(&engine, stored);
        assert_eq!(now.as_deref(), Some(&b"of the new one"[..]));
        assert_eq!(get(&engine, stored + 1), None);
    }
}
