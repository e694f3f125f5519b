//! A store that does not answer for a while, and an oracle whose time jumps, on clusters of their
//! own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use engine_tikv::{Config, TikvMember};
use rustix::process::{Pid, Signal, kill_process};

use storage::{Durability, Engine, Table, WriteBatch};

use crate::tools::{Cluster, config, get, open, put, stand_by};
use crate::writer::{self, LEASE, Writer};

fn cluster() -> Option<(Cluster, i32)> {
    match Cluster::start() {
        Ok(cluster) => {
            let store = cluster.store?;
            Some((cluster, store))
        }
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// Stops the store for a while.
fn silence(store: i32, duration: Duration) {
    let store = Pid::from_raw(store).unwrap();
    kill_process(store, Signal::STOP).unwrap();
    std::thread::sleep(duration);
    kill_process(store, Signal::CONT).unwrap();
}

#[test]
fn a_short_silence_is_waited_for_and_a_long_one_ends_the_server() {
    let Some((cluster, store)) = cluster() else {
        return;
    };
    let own = config(&cluster.pd);
    let writer = Writer::start("one", &own);
    let before = writer.wait_acknowledged(20);
    silence(store, Duration::from_secs(4));
    // The lease has expired meanwhile; no other server has taken it, so it is renewed.
    assert!(LEASE < Duration::from_secs(4));
    let during = writer.wait_acknowledged(before + 50);
    silence(store, Duration::from_secs(25));
    let said = writer.end();
    let last = said
        .iter()
        .filter_map(|line| writer::parse_acknowledged(line))
        .next_back();
    let refused = said.iter().any(|line| line.starts_with("refused "));
    assert!(refused, "{said:?}");
    let engine = open(&Config {
        standby: Some(Arc::default()),
        ..own
    });
    writer::check(&engine, last.unwrap_or(during));
}

/// Moves the time of the oracle forward.
fn move_oracle(pd: &str, by: Duration) {
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap() + by;
    let body = format!("{{\"tso\":\"{}\"}}", now.as_millis() << 18);
    let mut stream = TcpStream::connect(pd).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /pd/api/v1/admin/reset-ts HTTP/1.1\r\nHost: {pd}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The lease has expired by the oracle's time, but not by the holder's clock: while the holder
/// answers, no other server does.
#[test]
fn a_jump_of_the_oracle_makes_no_second_holder() {
    let Some((cluster, _)) = cluster() else {
        return;
    };
    let own = config(&cluster.pd);
    let first = open(&own);
    put(&first, 1, b"one").unwrap();
    let (standby, told) = stand_by(&own);
    // The standby may have seen the row before the jump or not: both cases must work.
    for minutes in 1..=3 {
        move_oracle(&cluster.pd[0], Duration::from_secs(60 * minutes));
        assert!(told.recv_timeout(own.lease / 2).is_err());
        assert_eq!(get(&first, 1).as_deref(), Some(&b"one"[..]));
    }
    put(&first, 2, b"two").unwrap();
    first.close().unwrap();
    let second = standby.join().unwrap();
    assert_eq!(get(&second, 2).as_deref(), Some(&b"two"[..]));
}

/// The time of an oracle that was moved ahead stands still until its clock has caught up.
#[test]
fn members_take_their_turns_while_the_time_of_the_oracle_stands_still() {
    let Some((cluster, _)) = cluster() else {
        return;
    };
    let own = config(&cluster.pd);
    let members: Vec<_> = (0..2)
        .map(|_| TikvMember::join(&own).expect("a member joins"))
        .collect();
    move_oracle(&cluster.pd[0], Duration::from_secs(60));
    // They renew their leases.
    std::thread::sleep(own.lease / 2);
    let begun = Instant::now();
    for round in 0..4u8 {
        for member in &members {
            let unit = member.begin_exclusive().expect("a unit").expect("one");
            let mut batch = WriteBatch::new();
            batch.put(Table::Meta, b"catalog", &[round]);
            let done = unit.commit(&batch, Durability::Buffered);
            done.expect("nothing conflicts");
        }
    }
    let holder = Writer::start("turn", &own);
    holder.wait_acknowledged(0);
    std::thread::sleep(Duration::from_millis(900));
    holder.kill();
    put(&members[0], 1, b"one").expect("a write");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

/// A server that starts again gets the number of its earlier process, perhaps in the millisecond in
/// which that one numbered rows.
#[test]
fn rows_get_new_numbers_after_a_start_while_the_time_of_the_oracle_stands_still() {
    const COUNT: usize = 16_000;
    let Some((cluster, _)) = cluster() else {
        return;
    };
    let own = config(&cluster.pd);
    move_oracle(&cluster.pd[0], Duration::from_secs(60));
    let mut end = 0;
    for _ in 0..3 {
        let member = TikvMember::join(&own).expect("a member joins");
        // More than were reserved when it joined: each takes nearly all numbers of a millisecond.
        for _ in 0..1200 {
            let first = member.number_rows(COUNT).expect("a member numbers rows");
            assert!(first >= end, "{first} was given before {end}");
            end = first + COUNT as u64;
        }
        put(&member, 1, b"one").expect("a write");
    }
}

/// Where others wait for the lease, a server that cannot renew it reports that when the lease
/// expires, not when the next request fails.
#[test]
fn a_lease_that_runs_out_is_lost_at_once_where_others_wait() {
    let Some((cluster, store)) = cluster() else {
        return;
    };
    let own = Config {
        lease: LEASE,
        patience: Duration::ZERO,
        ..config(&cluster.pd)
    };
    let engine = open(&own);
    let (tell, told) = mpsc::channel();
    engine.on_durable(Box::new(move |flushed| _ = tell.send(flushed)));
    put(&engine, 1, b"one").unwrap();
    assert!(matches!(told.recv(), Ok(storage::FlushEvent::Durable(_))));
    let store = Pid::from_raw(store).unwrap();
    kill_process(store, Signal::STOP).unwrap();
    let lost = told.recv_timeout(LEASE + Duration::from_secs(2));
    kill_process(store, Signal::CONT).unwrap();
    assert_eq!(lost, Ok(storage::FlushEvent::Lost));
}
