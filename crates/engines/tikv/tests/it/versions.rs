//! Overwritten versions: how long they can be read, and that they are removed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use engine_tikv::Config;
use storage::{Engine, StorageError, Table};

use crate::tools::{config, get, key, open, pd, put};

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
    // Two seconds, and half a minute for reads in progress, before PD's clock.
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let moved = loop {
        match safe_point_ms(&pd[0]) {
            Ok(ms) if ms > 0 => break ms,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let age_s = now_ms.saturating_sub(moved) / 1_000;
    assert!((31..120).contains(&age_s), "{age_s} s behind");
    let mut told = 0;
    engine.stats(&mut |name, n| {
        if name == "versions.safe_point_ms" {
            told = n;
        }
    });
    assert!(told > 0, "the engine's own figure");
}
