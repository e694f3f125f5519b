//! Delayed replies: waits, the journal, streams, and long requests.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wire::flags;

use crate::client::Client;
use crate::toy::{ToyServer, eventually};

#[test]
fn wait_ends_at_the_deadline() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    let start = Instant::now();
    assert_eq!(client.run("wait", 60).int("timedOut"), 1);
    let took = start.elapsed();
    assert!(
        (Duration::from_millis(60)..Duration::from_millis(1500)).contains(&took),
        "{took:?}"
    );
}

#[test]
fn wait_ends_when_woken() {
    let running = ToyServer::start();
    let mut waiters: Vec<Client> = (0..20).map(|_| Client::tcp(&running)).collect();
    let start = Instant::now();
    for client in &mut waiters {
        client.send("wait", 30_000, 0);
    }
    let mut other = Client::unix(&running);
    let mut woken = 0;
    while woken < 20 {
        woken += other.run("wake", 1).int("woken");
    }
    for client in &mut waiters {
        assert_eq!(client.receive().int("timedOut"), 0);
        assert!(client.run("ping", 1).is_ok());
    }
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn requests_behind_a_wait_keep_their_order() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    client.send("ping", 1, 0);
    client.send("wait", 50, 0);
    client.send("ping", 2, 0);
    assert_eq!(client.receive().int("pong"), 1);
    assert_eq!(client.receive().int("timedOut"), 1);
    assert_eq!(client.receive().int("pong"), 2);
}

#[test]
fn gone_client_ends_its_wait() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    client.send("wait", 60_000, 0);
    eventually("request seen", || running.server().stats().requests == 1);
    drop(client);
    eventually("disconnected", || {
        running.toy().disconnected.load(Ordering::SeqCst) == 1
    });
}

#[test]
fn durable_reply_waits_for_the_journal_and_holds_nobody_up() {
    let running = ToyServer::start();
    let mut writers: Vec<Client> = (0..10).map(|_| Client::tcp(&running)).collect();
    for (n, client) in writers.iter_mut().enumerate() {
        client.send("ping", n as i32, 0);
        client.send("durable", 10 + n as i32, 0);
        client.send("ping", 77, 0);
    }
    let mut other = Client::tcp(&running);
    for (n, client) in writers.iter_mut().enumerate() {
        assert_eq!(
            client.receive().int("pong"),
            n as i32,
            "earlier replies do not wait"
        );
    }
    assert!(other.run("ping", 1).is_ok());
    eventually("all handled", || running.server().stats().requests == 21);
    // Exactly the eleven ping replies; the counter is updated after the send, so it may be late for
    // a moment.
    let pings = 11 * 48;
    eventually("pings counted", || {
        running.server().stats().bytes_out == pings
    });
    running.watermark.advance(9);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(
        running.server().stats().bytes_out,
        pings,
        "nothing leaves before its position"
    );
    running.watermark.advance(14);
    for (n, client) in writers.iter_mut().enumerate().take(5) {
        assert_eq!(client.receive().int("at"), 10 + n as i32);
        assert_eq!(client.receive().int("pong"), 77);
    }
    running.watermark.advance(1000);
    for client in &mut writers[5..] {
        assert!(client.receive().int("at") >= 15);
        assert_eq!(client.receive().int("pong"), 77);
    }
    assert_eq!(other.run("durable", 1000).int("at"), 1000);
}

#[test]
fn failed_flush_ends_the_connections_that_wait_for_it() {
    let running = ToyServer::start();
    let mut writers: Vec<Client> = (0..4).map(|_| Client::tcp(&running)).collect();
    for (n, client) in writers.iter_mut().enumerate() {
        client.send("durable", 10 + n as i32, 0);
    }
    eventually("all handled", || running.server().stats().requests == 4);
    running.watermark.fail(11);
    assert!(writers[0].try_receive().is_none() && writers[1].try_receive().is_none());
    // Later replies wait for the next flush, which also covers the failed one.
    running.watermark.advance(13);
    assert_eq!(writers[2].receive().int("at"), 12);
    assert_eq!(writers[3].receive().int("at"), 13);
    assert_eq!(Client::tcp(&running).run("durable", 11).int("at"), 11);
}

#[test]
fn durable_under_load_misses_no_announcement() {
    let running = ToyServer::start();
    let watermark = std::sync::Arc::clone(&running.watermark);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut at = 0;
            while !stop.load(Ordering::SeqCst) {
                at += 1;
                watermark.advance(at);
                std::thread::yield_now();
            }
        });
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let mut client = Client::tcp(&running);
                let watermark = &watermark;
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let at = (watermark.position() + 3) as i32;
                        assert_eq!(client.run("durable", at).int("at"), at);
                    }
                })
            })
            .collect();
        let failed = clients.into_iter().map(|c| c.join()).any(|r| r.is_err());
        stop.store(true, Ordering::SeqCst);
        assert!(!failed);
    });
}

#[test]
fn exhaust_streams_until_the_handler_stops() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    let mut expected = client.send("stream", 5, flags::EXHAUST_ALLOWED);
    for left in (0..=5).rev() {
        let answer = client.receive();
        assert_eq!(answer.int("left"), left);
        assert_eq!(answer.more_to_come, left > 0);
        // Each reply of a stream refers to the previous one.
        assert_eq!(answer.header.response_to, expected);
        expected = answer.header.request_id;
    }
    assert!(client.run("ping", 1).is_ok());
    assert!(
        !client.run("stream", 5).more_to_come,
        "not without the flag"
    );
    assert!(client.run("ping", 1).is_ok());
}

#[test]
fn stream_may_wait_between_replies_and_ends_with_its_client() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    let mut doc = model::DocBuf::new();
    doc.put("stream", model::Value::Int32(1_000_000));
    doc.put("pause", model::Value::Int32(5));
    let message = wire::MessageBuilder::new(1)
        .flags(flags::EXHAUST_ALLOWED)
        .body(doc.as_bytes())
        .build();
    client.stream.write_all(&message).unwrap();
    for left in (999_990..=1_000_000).rev() {
        assert_eq!(client.receive().int("left"), left);
    }
    drop(client);
    eventually("disconnected", || {
        running.toy().disconnected.load(Ordering::SeqCst) == 1
    });
}

/// An endless stream to a client that does not read must stop producing, and must not delay other
/// clients.
#[test]
fn stream_obeys_backpressure() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    client.send("stream", i32::MAX, flags::EXHAUST_ALLOWED);
    let mut other = Client::tcp(&running);
    let mut last = 0;
    eventually("stream stops", || {
        assert!(other.run("ping", 1).is_ok());
        let now = running.server().stats().bytes_out;
        let moved = now - last;
        last = now;
        std::thread::sleep(Duration::from_millis(20));
        moved < 1000
    });
}

#[test]
fn long_requests_hold_nobody_up() {
    let running = ToyServer::start();
    let mut slow: Vec<Client> = (0..10).map(|_| Client::tcp(&running)).collect();
    for client in &mut slow {
        client.send("slow", 400, 0);
    }
    let mut other = Client::tcp(&running);
    let start = Instant::now();
    for n in 0..50 {
        assert_eq!(other.run("ping", n).int("pong"), n);
    }
    assert!(
        start.elapsed() < Duration::from_millis(300),
        "{:?}",
        start.elapsed()
    );
    for client in &mut slow {
        assert_eq!(client.receive().int("slept"), 400);
        assert!(client.run("ping", 1).is_ok());
    }
    assert_eq!(running.server().stats().long_requests, 10);
}

/// The class is only a hint: when all drivers of a set are blocked, a spare driver starts.
#[test]
fn blocked_drivers_are_relieved() {
    let running = ToyServer::start();
    let mut other = Client::tcp(&running);
    assert!(other.run("ping", 1).is_ok());
    let mut blocking: Vec<Client> = (0..6).map(|_| Client::tcp(&running)).collect();
    let start = Instant::now();
    for client in &mut blocking {
        client.send("block", 1500, 0);
    }
    // Drivers that did not get a CPU yet are not blocked, and need no spare.
    let mut pings = 0;
    while pings < 50 || running.server().stats().spare_drivers == 0 {
        assert_eq!(other.run("ping", pings).int("pong"), pings);
        pings += 1;
        assert!(
            start.elapsed() < Duration::from_millis(1200),
            "{:?}, {pings} pings",
            start.elapsed()
        );
    }
    for client in &mut blocking {
        assert_eq!(client.receive().int("slept"), 1500);
    }
}

#[test]
fn handler_learns_that_the_client_has_gone() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    client.send("untilGone", 1, 0);
    eventually("request seen", || running.server().stats().requests == 1);
    drop(client);
    eventually("gave up", || {
        running.toy().gave_up.load(Ordering::SeqCst) == 1
    });
    eventually("disconnected", || {
        running.toy().disconnected.load(Ordering::SeqCst) == 1
    });
}

/// One driver may fetch two requests at once and block in the first while the other driver sleeps:
/// the second request must not wait for the first. The first ends only after the ping is answered,
/// so an error makes the test hang instead of being late.
#[test]
fn request_fetched_with_a_blocking_one_is_not_stranded() {
    let running = ToyServer::start();
    let mut pinging = Client::tcp(&running);
    for round in 0..400 {
        let mut holder = Client::tcp(&running);
        assert!(holder.run("ping", 0).is_ok());
        holder.send("untilGone", 1, 0);
        assert_eq!(pinging.run("ping", round).int("pong"), round);
        drop(holder);
    }
    eventually("all let go", || {
        running.toy().gave_up.load(Ordering::SeqCst) == 400
    });
}

/// A closed connection gives its descriptor back at once, not when its slot is used again.
#[test]
fn closed_connections_keep_no_descriptor() {
    if !crate::toy::run_alone("waiting::closed_connections_keep_no_descriptor") {
        return;
    }
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let running = ToyServer::start();
    let before = descriptors();
    let mut clients: Vec<Client> = (0..50).map(|_| Client::tcp(&running)).collect();
    for client in &mut clients {
        assert!(client.run("ping", 1).is_ok());
    }
    assert!(descriptors() >= before + 100);
    drop(clients);
    eventually("descriptors are back", || descriptors() <= before);
}
