//! Connections that end at every byte of a request and of a reply. A request that did not arrive
//! completely does nothing, one that did is done once however often it is repeated, and lost
//! connections leave nothing behind on the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::{Binary, DocBuf, doc};
use wire::MessageBuilder;

use crate::backup::{connect, ok};
use crate::client::Client;
use crate::driver::Process;

const CLIENTS: usize = 4;

/// What a client sends on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversation {
    Insert,
    Update,
    FindAndModify,
    Transaction,
    Read,
}

const ALL: [Conversation; 5] = [
    Conversation::Insert,
    Conversation::Update,
    Conversation::FindAndModify,
    Conversation::Transaction,
    Conversation::Read,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Request,
    Reply,
}

/// A connection that ends after so many bytes of a step's request or reply.
#[derive(Clone, Copy, Debug)]
struct Cut {
    conversation: Conversation,
    step: usize,
    side: Side,
    bytes: usize,
}

impl Conversation {
    fn steps(self) -> usize {
        match self {
            Conversation::Transaction => 3,
            Conversation::Read => 2,
            _ => 1,
        }
    }

    /// The command of a step for the document `id`; a cursor is that of the step before.
    fn command(self, step: usize, id: i32, number: i64, cursor: i64) -> DocBuf {
        let increment = doc! { "$inc": { "n": 1i32 } };
        let mut command = match (self, step) {
            (Conversation::Insert, _) | (Conversation::Transaction, 0) => {
                doc! { "insert": "c", "documents": [{ "_id": id, "n": 1i32 }] }
            }
            (Conversation::Update, _) => {
                doc! { "update": "c", "updates": [
                { "q": { "_id": id }, "u": &increment, "upsert": true }] }
            }
            (Conversation::FindAndModify, _) => {
                doc! { "findAndModify": "c", "query": { "_id": id },
                "update": &increment, "upsert": true, "new": true }
            }
            (Conversation::Transaction, 1) => {
                doc! { "update": "pairs", "updates": [
                { "q": { "_id": id }, "u": &increment, "upsert": true }] }
            }
            (Conversation::Transaction, _) => doc! { "commitTransaction": 1i32 },
            (Conversation::Read, 0) => {
                doc! { "find": "fixed", "sort": { "_id": 1i32 }, "batchSize": 2i32 }
            }
            (Conversation::Read, _) => doc! { "getMore": cursor, "collection": "fixed" },
        };
        let is_commit = command.doc().contains("commitTransaction");
        command.put("$db", if is_commit { "admin" } else { "cuts" });
        let mut session = [0; 16];
        session[..4].copy_from_slice(&id.to_be_bytes());
        let uuid = Binary {
            subtype: 4,
            bytes: &session,
        };
        command.put("lsid", &doc! { "id": uuid });
        if self != Conversation::Read {
            command.put("txnNumber", number);
        }
        if self == Conversation::Transaction {
            command.put("autocommit", false);
            if step == 0 {
                command.put("startTransaction", true);
            }
        }
        command
    }
}

/// One connection.
struct Link {
    stream: TcpStream,
    cursor: i64,
}

impl Link {
    fn open(server: &Process) -> Link {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        let wait = Some(Duration::from_secs(30));
        stream.set_read_timeout(wait).unwrap();
        Link { stream, cursor: 0 }
    }

    fn message(&self, what: Conversation, step: usize, id: i32, number: i64) -> Vec<u8> {
        let command = what.command(step, id, number, self.cursor);
        MessageBuilder::new(7)
            .flags(0)
            .body(command.as_bytes())
            .build()
    }

    /// Runs one step; returns the reply and the number of its bytes.
    fn run(&mut self, what: Conversation, step: usize, id: i32, number: i64) -> (DocBuf, usize) {
        let message = self.message(what, step, id, number);
        self.stream.write_all(&message).unwrap();
        let answer = Client::new(Box::new(self.stream.try_clone().unwrap())).receive();
        let bytes = answer.header.message_len as usize;
        let reply = DocBuf::from_bytes(answer.body).unwrap();
        let cursor = reply.doc().field("cursor").as_doc();
        if let Some(open) = cursor.and_then(|c| c.field("id").as_i64_exact()) {
            self.cursor = open;
        }
        (reply, bytes)
    }

    /// Makes the connection end by a reset.
    fn reset(&self) {
        let at_once = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.stream, at_once).unwrap();
    }
}

fn is_ok(reply: &DocBuf) -> bool {
    let failed = reply.doc().contains("writeErrors");
    reply.doc().field("ok").as_f64() == Some(1.0) && !failed
}

/// Every place where a conversation can be cut.
fn list_cuts(server: &Process) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (n, conversation) in ALL.into_iter().enumerate() {
        let (mut link, id) = (Link::open(server), -1 - n as i32);
        for step in 0..conversation.steps() {
            let request = link.message(conversation, step, id, 1).len();
            let (reply, reply_bytes) = link.run(conversation, step, id, 1);
            assert!(is_ok(&reply), "{reply:?}");
            let of = |side, bytes| Cut {
                conversation,
                step,
                side,
                bytes,
            };
            cuts.extend((0..request).map(|bytes| of(Side::Request, bytes)));
            cuts.extend((0..reply_bytes).map(|bytes| of(Side::Reply, bytes)));
        }
    }
    cuts
}

/// Cuts a conversation and finishes it on a new connection, as a driver does.
fn cut_and_repeat(server: &Process, cut: Cut, id: i32) {
    let Cut {
        conversation,
        step,
        side,
        bytes,
    } = cut;
    let mut link = Link::open(server);
    for before in 0..step {
        let (reply, _) = link.run(conversation, before, id, 1);
        assert!(is_ok(&reply), "{cut:?}: {reply:?}");
    }
    let message = link.message(conversation, step, id, 1);
    match side {
        Side::Request => link.stream.write_all(&message[..bytes]).unwrap(),
        Side::Reply => {
            link.stream.write_all(&message).unwrap();
            let mut part = vec![0; bytes];
            link.stream.read_exact(&mut part).unwrap();
        }
    }
    // Without a byte of its reply, a request may or may not have been executed.
    let is_known = side == Side::Request || bytes > 0;
    if is_known && id % 2 == 0 {
        link.reset();
    }
    drop(link);
    let mut link = Link::open(server);
    let (first, number) = match conversation {
        // A commit is repeated, another statement begins the transaction anew.
        Conversation::Transaction if step == 2 => (2, 1),
        Conversation::Transaction => (0, 2),
        _ => (0, 1),
    };
    for again in first..conversation.steps() {
        let (reply, _) = link.run(conversation, again, id, number);
        assert!(is_ok(&reply), "{cut:?}: {reply:?}");
        let retried =
            reply.doc().contains("retriedStmtIds") || reply.doc().contains("retriedStmtId");
        let is_single = !matches!(conversation, Conversation::Transaction | Conversation::Read);
        let expected = is_single && side == Side::Reply;
        assert!(!is_known || retried == expected, "{cut:?}: {reply:?}");
    }
}

fn count(client: &mut Client, coll: &str, query: &DocBuf) -> i64 {
    let count = doc! { "count": coll, "query": query, "$db": "cuts" };
    let reply = ok(client, &count);
    reply.doc().field("n").as_i64_exact().unwrap()
}

/// Waits until a number of `serverStatus` has the value.
fn await_status(client: &mut Client, path: &[&str], value: i64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let status = ok(client, &doc! { "serverStatus": 1i32, "$db": "admin" });
        let (last, folders) = path.split_last().unwrap();
        let folder = folders.iter().fold(status.doc(), |d, name| {
            d.field(name).as_doc().unwrap_or_else(|| panic!("{name}"))
        });
        let found = folder.field(last).as_i64_exact();
        if found == Some(value) {
            return;
        }
        assert!(Instant::now() < deadline, "{path:?} is {found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_connection_cut_at_any_byte_loses_and_repeats_nothing() {
    let dbpath = tempfile::tempdir().unwrap();
    let server = Process::start(dbpath.path());
    let mut client = connect(server.address());
    for n in 0..5i32 {
        let insert = doc! { "insert": "fixed", "documents": [{ "_id": n }], "$db": "cuts" };
        ok(&mut client, &insert);
    }
    let cuts = list_cuts(&server);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cut) = cuts.get(id) else { return };
                    cut_and_repeat(&server, *cut, i32::try_from(id).unwrap());
                }
            });
        }
    });
    // Each document once, incremented once; those of `list_cuts` are four and one.
    let of = |wanted: &[Conversation]| {
        let found = cuts.iter().filter(|c| wanted.contains(&c.conversation));
        i64::try_from(found.count()).unwrap()
    };
    let once = doc! { "n": 1i32 };
    let (writes, pairs) = (of(&ALL[..4]) + 4, of(&[Conversation::Transaction]) + 1);
    assert_eq!(count(&mut client, "c", &once), writes);
    assert_eq!(count(&mut client, "c", &doc! {}), writes);
    assert_eq!(count(&mut client, "pairs", &once), pairs);
    assert_eq!(count(&mut client, "pairs", &doc! {}), pairs);
    // Cursors and transactions are of sessions, which outlive connections.
    await_status(&mut client, &["connections", "current"], 1);
    let end = doc! { "killAllSessions": [], "$db": "admin" };
    ok(&mut client, &end);
    await_status(&mut client, &["transactions", "currentOpen"], 0);
    await_status(&mut client, &["metrics", "cursor", "open", "total"], 0);
    for coll in ["c", "pairs", "fixed"] {
        let validate = doc! { "validate": coll, "full": true, "$db": "cuts" };
        let reply = ok(&mut client, &validate);
        assert_eq!(
            reply.doc().field("valid").as_bool(),
            Some(true),
            "{reply:?}"
        );
    }
    println!("{} cuts", cuts.len());
    server.stop();
}
