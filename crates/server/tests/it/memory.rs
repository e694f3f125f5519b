//! Messages are charged to their part of the memory budget: a message without memory is refused,
//! and nothing stays charged.

use std::io::Write;
use std::sync::Arc;

use ::memory::Budget;
use model::{DocBuf, Value};
use wire::{Compressor, MessageBuilder, compress_message};

use crate::client::Client;
use crate::toy::{ToyServer, eventually};

const MB: usize = 1 << 20;

fn start_limited(limit: usize) -> (ToyServer, Arc<Budget>) {
    let budget = Arc::new(Budget::new(limit, limit));
    let memory = budget.clone();
    (ToyServer::start_with(|c| c.memory = memory), budget)
}

/// An `echo` with this many bytes.
fn echo(bytes: usize, id: i32, flags: u32) -> Vec<u8> {
    let mut doc = DocBuf::new();
    doc.put("echo", Value::String(&"e".repeat(bytes)));
    doc.put("$db", Value::String("test"));
    MessageBuilder::new(id)
        .flags(flags)
        .body(doc.as_bytes())
        .build()
}

fn check_nothing_charged(budget: &Budget) {
    eventually("memory is charged or given back", || {
        budget.stats().used_bytes == 0
    });
}

#[test]
fn a_message_without_room_is_answered_and_the_connection_goes_on() {
    let (running, budget) = start_limited(8 * MB);
    let mut client = Client::tcp(&running);
    client.stream.write_all(&echo(12 * MB, 7, 0)).unwrap();
    let refused = client.receive();
    assert_eq!((refused.header.response_to, refused.int("code")), (7, 146));
    check_nothing_charged(&budget);
    assert!(client.run("ping", 1).is_ok(), "the connection goes on");
    client.stream.write_all(&echo(MB, 8, 0)).unwrap();
    assert_eq!(
        client.receive().header.response_to,
        8,
        "what has room is answered"
    );
    // A client that wants no reply gets none.
    client
        .stream
        .write_all(&echo(12 * MB, 9, wire::flags::MORE_TO_COME))
        .unwrap();
    assert!(client.run("ping", 2).is_ok());
    assert_eq!(budget.stats().refused, 2);
    check_nothing_charged(&budget);
}

#[test]
fn half_messages_are_charged_and_small_requests_are_served() {
    let (running, budget) = start_limited(8 * MB);
    let half_sent = |n| {
        let mut client = Client::tcp(&running);
        let message = echo(4 * MB, n, 0);
        client.stream.write_all(&message[..2 * MB]).unwrap();
        client
    };
    let mut half = vec![half_sent(0)];
    eventually("what has arrived is charged", || {
        budget.stats().used_bytes >= 2 * MB
    });
    half.extend((1..20).map(half_sent));
    // A buffer that grows from 2 MB to 4 MB needs both, 6 MB in all. So a message is refused only
    // while others hold more than 2 MB; at the end at least one half is kept, with 2 to 4 MB.
    eventually("the rest is refused", || {
        budget.stats().refused > 0 && budget.stats().used_bytes >= 2 * MB
    });
    assert!(
        budget.stats().used_bytes_max <= 9 * MB,
        "{:?}",
        budget.stats()
    );
    let mut small = Client::tcp(&running);
    assert!(small.run("ping", 1).is_ok());
    drop(half);
    check_nothing_charged(&budget);
}

#[test]
fn unread_replies_are_charged_until_their_connection_ends() {
    let (running, budget) = start_limited(64 * MB);
    let mut client = Client::tcp(&running);
    client.send("big", 16_000_000, 0);
    eventually("memory is charged or given back", || {
        budget.stats().used_bytes > 10 * MB
    });
    drop(client);
    check_nothing_charged(&budget);
    let mut client = Client::tcp(&running);
    client.send("big", 16_000_000, 0);
    assert_eq!(client.receive().body.len(), 16_000_000 + 15);
    check_nothing_charged(&budget);
}

#[test]
fn what_expands_is_charged_by_what_it_becomes() {
    let (running, budget) = start_limited(8 * MB);
    let bomb = compress_message(&echo(12 * MB, 1, 0), Compressor::Zstd);
    assert!(bomb.len() < 64 * 1024);
    let mut client = Client::tcp(&running);
    client.stream.write_all(&bomb).unwrap();
    assert!(
        client.try_receive().is_none(),
        "closed, because it cannot be known whether it wants an answer"
    );
    let mut client = Client::tcp(&running);
    client
        .stream
        .write_all(&compress_message(&echo(MB, 2, 0), Compressor::Zstd))
        .unwrap();
    assert_eq!(client.receive().header.response_to, 2);
    check_nothing_charged(&budget);
}
