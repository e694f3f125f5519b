//! Overwritten versions: how long they can be read, and that they are removed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use engine_tikv::{Config, TikvMember};
use storage::{Engine, StorageError, Table};

use crate::tools::{Cluster, config, get, key, open, pd, put};

/// PD's safe point, in milliseconds of its clock; PD's answer when there is none.
fn safe_point_ms(pd: &str) -> Result<u64, String> {
    let mut stream = TcpStream::connect(pd).unwrap();
    let request = "GET /pd/api/v1/gc/safepoint HTTP/1.0\r\nHost: pd\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let number = answer.split("\"gc_safe_point\":").nth(1);
    let number = number.map(|n| n.trim_start().chars());
    let digits: Option<String> = number.map(|n| n.take_while(char::is_ascii_digit).collect());
    let ts = digits.and_then(|d| d.parse::<u64>().ok());
    ts.map(|ts| ts >> 18).ok_or(answer)
}

/// Waits until the safe point is two seconds, and half a minute for reads in progress, before PD's
/// clock.
fn wait_until_moved(pd: &str) {
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let moved = loop {
        match safe_point_ms(pd) {
            Ok(ms) if ms > 0 => break ms,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let age_s = now_ms.saturating_sub(moved) / 1_000;
    assert!((31..120).contains(&age_s), "{age_s} s behind");
}

#[test]
fn the_safe_point_moves_and_older_views_end_with_an_error() {
    let Some(pd) = pd() else {
        return;
    };
    let engine = open(&Config {
        keep_versions: Some(Duration::from_secs(2)),
        ..config(&pd)
    });
    put(&engine, 1, b"old").unwrap();
    let view = engine.snapshot().unwrap();
    put(&engine, 1, b"new").unwrap();
    let mut found = Vec::new();
    let read = |found: &mut Vec<u8>| view.get(Table::Doc, &key(1), found);
    assert!(read(&mut found).unwrap() && found == b"old");
    std::thread::sleep(Duration::from_millis(2_100));
    let refused = read(&mut found);
    let is_refused = matches!(refused, Err(StorageError::SnapshotTooOld { kept_s: 2, .. }));
    assert!(is_refused, "{refused:?}");
    assert_eq!(get(&engine, 1).as_deref(), Some(&b"new"[..]));
    wait_until_moved(&pd[0]);
    assert!(told_safe_point(&engine) > 0, "the engine's own figure");
}

/// What an engine tells as the safe point that it has set.
fn told_safe_point(engine: &dyn Engine) -> i64 {
    let mut told = 0;
    engine.stats(&mut |name, n| {
        if name == "versions.safe_point_ms" {
            told = n;
        }
    });
    told
}

#[test]
fn one_member_moves_the_safe_point() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let config = Config {
        keep_versions: Some(Duration::from_secs(2)),
        ..config(&cluster.pd)
    };
    let mut members: Vec<TikvMember> = (0..2).map(|_| TikvMember::join(&config).unwrap()).collect();
    let wait = |member: &TikvMember| {
        let until = Instant::now() + Duration::from_secs(20);
        while told_safe_point(member) == 0 {
            assert!(Instant::now() < until, "nobody moves the safe point");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    wait(&members[0]);
    wait_until_moved(&cluster.pd[0]);
    assert_eq!(told_safe_point(&members[1]), 0);
    members.remove(0).close().unwrap();
    wait(&members[0]);
}
