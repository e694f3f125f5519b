//! A retryable write, a kill -9, a restart, the same write again: it is answered from the session's
//! record.

use std::net::TcpStream;

use model::{Binary, Doc, DocBuf, Value, doc};

use crate::client::Client;
use crate::driver::Process;

/// The command as the only write of a session.
fn with_txn_number(number: i64, mut command: DocBuf) -> Vec<u8> {
    command.put("$db", "retry");
    command.put(
        "lsid",
        &doc! { "id": Binary { subtype: 4, bytes: &[7; 16] } },
    );
    command.put("txnNumber", number);
    command.into_bytes()
}

fn ask(server: &Process, body: &[u8]) -> DocBuf {
    let mut client = Client::new(Box::new(TcpStream::connect(server.address()).unwrap()));
    DocBuf::from_bytes(client.call(body).body).unwrap()
}

fn list(d: Doc<'_>, name: &str) -> Vec<i64> {
    d.field(name)
        .as_array()
        .map(|a| a.iter().filter_map(|v| v.as_i64_exact()).collect())
        .unwrap_or_default()
}

#[test]
fn writes_are_not_repeated_after_a_kill() {
    let dbpath = tempfile::tempdir().unwrap();
    let mut server = Process::start(dbpath.path());
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1i32, "n": 0i32 }, { "_id": 2i32,
    "n": 0i32 }] };
    ask(&server, &with_txn_number(1, insert.clone()));
    let update = doc! { "update": "c", "updates": [
        { "q": { "_id": 1i32 }, "u": { "$inc": { "n": 1i32 } } },
        { "q": { "_id": 2i32 }, "u": { "$inc": { "n": 1i32 } } },
    ] };
    let modify = doc! { "findAndModify": "c", "query": { "_id": 1i32 },
    "update": { "$inc": { "n": 10i32 } }, "new": true };
    for (number, command, statements) in [(2, &update, vec![0, 1]), (3, &modify, vec![])] {
        let first = ask(&server, &with_txn_number(number, command.clone()));
        assert_eq!(first.doc().field("ok").as_f64(), Some(1.0), "{first:?}");
        // Killed, not stopped.
        drop(server);
        server = Process::start(dbpath.path());
        let again = ask(&server, &with_txn_number(number, command.clone()));
        assert_eq!(list(again.doc(), "retriedStmtIds"), statements, "{again:?}");
        assert_eq!(again.doc().contains("retriedStmtId"), number == 3);
        assert_eq!(
            again.doc().field("nModified").as_i64_exact(),
            (number == 2).then_some(2)
        );
    }
    let all = ask(
        &server,
        doc! { "find": "c", "filter": {}, "sort": { "_id": 1i32 }, "$db": "retry" }.as_bytes(),
    );
    let batch = all
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap()
        .field("firstBatch")
        .as_array()
        .unwrap();
    let values: Vec<i64> = batch
        .iter()
        .filter_map(|v: Value<'_>| v.as_doc()?.field("n").as_i64_exact())
        .collect();
    assert_eq!(values, [11, 1]);
    server.stop();
}
