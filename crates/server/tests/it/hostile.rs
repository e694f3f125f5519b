//! Ten thousand hostile frames on live sockets, while an honest client works.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use wire::{Compressor, MessageBuilder, compress_message};

use crate::client::{Client, document};
use crate::toy::{ToyServer, eventually, run_alone};

const FRAMES: usize = 10_000;
/// Pause of each attacker; four of them send about 8,000 frames a second.
const PACE: Duration = Duration::from_micros(400);

fn corpus() -> Vec<Vec<u8>> {
    let ping = document("ping", 1);
    let plain = MessageBuilder::new(1)
        .body(&ping)
        .sequence("documents", [&ping[..], &ping[..]])
        .build();
    let zeros = vec![0u8; 30_000_000];
    let bomb = |id: u8, data: &[u8], declared: i32| {
        let mut out = wire::Header {
            message_len: 25 + data.len() as i32,
            request_id: 1,
            response_to: 0,
            op_code: 2012,
        }
        .to_bytes()
        .to_vec();
        out.extend_from_slice(&2013i32.to_le_bytes());
        out.extend_from_slice(&declared.to_le_bytes());
        out.push(id);
        out.extend_from_slice(data);
        out
    };
    let zstd = zstd::bulk::compress(&zeros, 1).unwrap();
    let mut out = vec![
        MessageBuilder::new(1).body(&ping).build(),
        MessageBuilder::new(1).flags(1).body(&ping).build(),
        // Declares 47 MB and sends 30 bytes.
        [&47_000_000i32.to_le_bytes()[..], &[0; 26]].concat(),
        bomb(3, &zstd, 30_000_000),
        bomb(3, &zstd, 1000),
        bomb(1, &[0x80, 0xC3, 0xE4, 0x0D, 0, 0], 30_000_000),
    ];
    out.extend(Compressor::ALL.map(|c| compress_message(&plain, c)));
    out.push(plain);
    out
}

fn mutate(frame: &mut Vec<u8>, rng: &mut StdRng) {
    match rng.random_range(0..8) {
        0 => {
            frame.resize(rng.random_range(1..400), 0);
            rng.fill_bytes(frame);
        }
        1 => frame.truncate(rng.random_range(0..=frame.len())),
        2 => {
            let odd =
                [0, 15, 16, -1, i32::MAX, i32::MIN, 48_000_000, 48_000_001][rng.random_range(0..8)];
            frame[..4].copy_from_slice(&odd.to_le_bytes());
        }
        3 => {}
        _ => {
            for _ in 0..rng.random_range(1..5) {
                let at = rng.random_range(4..frame.len().min(200));
                frame[at] = rng.random();
            }
        }
    }
}

fn rss_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<usize>()
        .unwrap()
        / 1024
}

/// Number of replies that the honest client gets during the attack.
const HONEST: usize = 500;
/// Longest duration of the attack.
const ATTACK_MAX: Duration = Duration::from_secs(30);

#[test]
fn ten_thousand_hostile_frames() {
    if !run_alone("hostile::ten_thousand_hostile_frames") {
        return;
    }
    let running = ToyServer::start();
    let corpus = corpus();
    let before = rss_mib();
    let peak = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let honest = AtomicUsize::new(0);
    let address = running.server().tcp_addresses()[0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::tcp(&running);
            while !done.load(Ordering::SeqCst) {
                let n = honest.fetch_add(1, Ordering::SeqCst) as i32;
                assert_eq!(client.run("ping", n).int("pong"), n);
                peak.fetch_max(rss_mib(), Ordering::SeqCst);
            }
        });
        let attackers: Vec<_> = (0..4)
            .map(|seed| {
                let (corpus, honest) = (&corpus, &honest);
                scope.spawn(move || {
                    let began = Instant::now();
                    let mut rng = StdRng::seed_from_u64(seed);
                    let mut stream = TcpStream::connect(address).unwrap();
                    let mut sink = vec![0; 65536];
                    // On a loaded machine the attack continues until the honest client has had its
                    // requests answered in the middle of it.
                    let is_over = |sent| {
                        let had_turns = honest.load(Ordering::SeqCst) > HONEST;
                        sent >= FRAMES / 4 && (had_turns || began.elapsed() > ATTACK_MAX)
                    };
                    for _ in (0..).take_while(|sent| !is_over(*sent)) {
                        let mut frame = corpus[rng.random_range(0..corpus.len())].clone();
                        mutate(&mut frame, &mut rng);
                        // Without the pause all frames would arrive within 0.2 s over thousands of
                        // connections. The number of answers that the honest client gets before
                        // that backlog is gone would not show whether it is served.
                        std::thread::sleep(PACE);
                        stream.set_nonblocking(true).unwrap();
                        let mut broken = stream.write_all(&frame).is_err();
                        broken |= matches!(stream.read(&mut sink), Ok(0));
                        // Half of the frames continue a broken stream, the others start a new one.
                        if broken || rng.random_bool(0.5) {
                            stream = TcpStream::connect(address).unwrap();
                        }
                    }
                })
            })
            .collect();
        let fine = attackers.into_iter().map(|a| a.join()).all(|r| r.is_ok());
        done.store(true, Ordering::SeqCst);
        assert!(fine);
    });
    assert!(Client::tcp(&running).run("ping", 5).is_ok());
    let stats = running.server().stats();
    assert!(
        honest.load(Ordering::SeqCst) > HONEST,
        "the honest client starved: {honest:?} of {stats:?}"
    );
    assert!(stats.refused_messages > FRAMES as u64 / 20, "{stats:?}");
    assert_eq!(stats.panics, 0, "{:?}", running.toy().panics.lock());
    // Each of the two drivers may hold one decompression bomb of 30 MB; four bombs at once would
    // exceed this.
    let grown = peak.load(Ordering::SeqCst).saturating_sub(before);
    assert!(grown < 250, "grew by {grown} MiB");
    eventually("all gone", || {
        running.server().stats().current_connections == 0
    });
}

/// A client that never finishes a message costs only the bytes it has sent, and only its own
/// connection.
#[test]
fn unfinished_messages_hold_only_what_was_sent() {
    if !run_alone("hostile::unfinished_messages_hold_only_what_was_sent") {
        return;
    }
    let running = ToyServer::start();
    let before = rss_mib();
    let mut held = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(running.server().tcp_addresses()[0]).unwrap();
        stream
            .write_all(&[&47_000_000i32.to_le_bytes()[..], &[0; 1000]].concat())
            .unwrap();
        held.push(stream);
    }
    let mut client = Client::tcp(&running);
    assert!(client.run("ping", 1).is_ok());
    std::thread::sleep(Duration::from_millis(50));
    assert!(
        rss_mib().saturating_sub(before) < 200,
        "grew by {} MiB",
        rss_mib() - before
    );
    assert_eq!(running.server().stats().current_connections, 201);
}
