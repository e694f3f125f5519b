//! Requests and replies: every framing, pipelines, sizes, panics.

use std::io::Write;
use std::sync::atomic::Ordering;

use wire::{Compressor, MessageBuilder, compress_message, flags};

use crate::client::{Client, document};
use crate::toy::{ToyServer, eventually};

#[test]
fn tcp_and_unix_answer() {
    let running = ToyServer::start();
    let mut clients = [Client::tcp(&running), Client::unix(&running)];
    for client in &mut clients {
        for n in 0..100 {
            assert_eq!(client.run("ping", n).int("pong"), n);
        }
    }
    let stats = running.server().stats();
    assert_eq!(
        (
            stats.current_connections,
            stats.total_connections,
            stats.requests
        ),
        (2, 2, 200)
    );
    assert!(stats.bytes_in > 200 * 40 && stats.bytes_out > 200 * 40);
}

#[test]
fn unix_socket_is_private_and_named_after_the_port() {
    use std::os::unix::fs::PermissionsExt;
    let running = ToyServer::start();
    let path = running.server().unix_path().unwrap();
    let port = running.server().tcp_addresses()[0].port();
    assert_eq!(
        path.file_name().unwrap().to_str().unwrap(),
        format!("mongodb-{port}.sock")
    );
    assert_eq!(
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777,
        0o700
    );
}

#[test]
fn legacy_handshake_is_answered_in_kind() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    let mut payload = [
        &0i32.to_le_bytes()[..],
        b"admin.$cmd\0",
        &[0; 4],
        &(-1i32).to_le_bytes(),
    ]
    .concat();
    payload.extend_from_slice(&document("isMaster", 1));
    let header = wire::Header {
        message_len: payload.len() as i32 + 16,
        request_id: 5,
        response_to: 0,
        op_code: 2004,
    };
    client
        .stream
        .write_all(&[&header.to_bytes()[..], &payload].concat())
        .unwrap();
    let answer = client.receive();
    assert_eq!((answer.op_code, answer.header.response_to), (1, 5));
    assert!(answer.int("connectionId") > 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    // More than one receive buffer and more than any budget, with a long request in the middle.
    let mut all = Vec::new();
    for n in 0..5000 {
        let name = if n == 2500 { "slow" } else { "ping" };
        all.extend(
            MessageBuilder::new(n)
                .body(&document(name, if n == 2500 { 20 } else { n }))
                .build(),
        );
    }
    client.stream.write_all(&all).unwrap();
    for n in 0..5000 {
        let answer = client.receive();
        assert_eq!(answer.header.response_to, n);
        assert_eq!(
            answer.int(if n == 2500 { "slept" } else { "pong" }),
            if n == 2500 { 20 } else { n }
        );
    }
    assert_eq!(running.server().stats().long_requests, 1);
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    let running = ToyServer::start();
    let mut client = Client::unix(&running);
    for byte in MessageBuilder::new(1).body(&document("ping", 3)).build() {
        client.stream.write_all(&[byte]).unwrap();
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    assert_eq!(client.receive().int("pong"), 3);
}

#[test]
fn large_messages_go_both_ways() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    assert_eq!(client.run("big", 12_000_000).body.len(), 12_000_000 + 15);
    let payload = "e".repeat(10_000_000);
    let mut doc = model::DocBuf::new();
    doc.put("echo", model::Value::String(&payload));
    client
        .stream
        .write_all(&MessageBuilder::new(1).body(doc.as_bytes()).build())
        .unwrap();
    assert_eq!(client.receive().body, doc.as_bytes());
    // A client that does not read delays no other client, and still gets every reply in order.
    for n in 0..5 {
        client.send("big", 3_000_000 + n, 0);
    }
    client.send("ping", 9, 0);
    let mut other = Client::tcp(&running);
    assert_eq!(other.run("ping", 1).int("pong"), 1);
    for n in 0..5 {
        assert_eq!(client.receive().body.len(), 3_000_015 + n);
    }
    assert_eq!(client.receive().int("pong"), 9);
}

#[test]
fn more_to_come_gets_no_reply() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    for _ in 0..3 {
        client.send("quiet", 1, flags::MORE_TO_COME);
    }
    assert_eq!(client.run("ping", 4).int("pong"), 4);
    assert_eq!(running.toy().without_reply.load(Ordering::SeqCst), 3);
}

#[test]
fn checksum_and_compression_are_answered_in_kind() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    client.send("ping", 1, flags::CHECKSUM_PRESENT);
    assert!(client.receive().checksum);
    for compressor in [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        let mut doc = model::DocBuf::new();
        doc.put("echo", model::Value::String(&"x".repeat(5000)));
        let plain = MessageBuilder::new(1).body(doc.as_bytes()).build();
        client
            .stream
            .write_all(&compress_message(&plain, compressor))
            .unwrap();
        let answer = client.receive();
        assert_eq!((answer.op_code, &answer.body[..]), (2012, doc.as_bytes()));
    }
}

#[test]
fn panic_becomes_an_error_and_the_connection_stays() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    for n in 0..20 {
        let answer = client.run("panic", n);
        assert!(!answer.is_ok());
        assert_eq!(answer.int("code"), 1);
        assert_eq!(client.run("ping", n).int("pong"), n);
    }
    assert_eq!(running.server().stats().panics, 20);
    assert_eq!(running.toy().panics.lock()[3], "panic: toy panic 3");
}

#[test]
fn handler_that_appends_nothing_is_reported() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    assert_eq!(client.run("nothing", 1).int("code"), 10334);
    assert!(client.run("ping", 1).is_ok());
}

#[test]
fn malformed_sections_are_answered_and_the_connection_stays() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    let ping = document("ping", 1);
    client
        .stream
        .write_all(&MessageBuilder::new(8).body(&ping).body(&ping).build())
        .unwrap();
    let answer = client.receive();
    assert_eq!((answer.int("code"), answer.header.response_to), (40430, 8));
    assert!(client.run("ping", 1).is_ok());
    assert_eq!(running.server().stats().refused_messages, 1);
}

#[test]
fn close_sends_what_was_appended() {
    let running = ToyServer::start();
    let mut client = Client::tcp(&running);
    assert_eq!(client.run("bye", 1).int("bye"), 1);
    assert!(client.try_receive().is_none());
    let mut client = Client::tcp(&running);
    client.send("drop", 1, 0);
    assert!(client.try_receive().is_none());
    eventually("both disconnected", || {
        running.toy().disconnected.load(Ordering::SeqCst) == 2
    });
}
