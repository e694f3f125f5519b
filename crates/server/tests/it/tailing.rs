//! Waiting for data and being interrupted, over sockets, with the official driver where possible.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use mongodb::options::CursorType;

use crate::driver::Process;

/// A message without checksum: header, flags, one body section.
fn message(command: &Document) -> Vec<u8> {
    let body = mongodb::bson::serialize_to_vec(command).unwrap();
    let mut out = Vec::new();
    for n in [21 + body.len() as i32, 1, 0, 2013, 0i32] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    out.push(0);
    out.extend_from_slice(&body);
    out
}

async fn list_running(client: &mongodb::Client, what: &str) -> Vec<Document> {
    let ops = client
        .database("admin")
        .run_command(doc! { "currentOp": 1, format!("command.{what}"): { "$exists": true } })
        .await
        .unwrap();
    ops.get_array("inprog")
        .unwrap()
        .iter()
        .filter_map(|op| op.as_document().cloned())
        .collect()
}

async fn wait_running(client: &mongodb::Client, what: &str, count: usize) -> Vec<Document> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let ops = list_running(client, what).await;
        if ops.len() == count {
            return ops;
        }
        assert!(
            Instant::now() < deadline,
            "{what}: {} running, {count} expected",
            ops.len()
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn tail(server: &Process) {
    let client = server.client("directConnection=true").await;
    let db = client.database("tails");
    db.create_collection("c")
        .capped(true)
        .size(1 << 20)
        .await
        .unwrap();
    let c = db.collection::<Document>("c");
    c.insert_one(doc! { "_id": 100 }).await.unwrap();
    let mut tail = c
        .find(doc! {})
        .cursor_type(CursorType::TailableAwait)
        .max_await_time(Duration::from_secs(20))
        .await
        .unwrap();
    assert!(tail.advance().await.unwrap());
    // Each insert arrives long before the await time is over, also with an id less than the others.
    for id in [50, 7, 200] {
        let writer = c.clone();
        let insert = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            writer.insert_one(doc! { "_id": id }).await.unwrap();
            Instant::now()
        });
        assert!(tail.advance().await.unwrap());
        let got = Instant::now();
        assert_eq!(tail.deserialize_current().unwrap(), doc! { "_id": id });
        let late = got.saturating_duration_since(insert.await.unwrap());
        assert!(late < Duration::from_millis(300), "{late:?}");
    }
}

const FOREVER: &str = "forever";

fn forever() -> Document {
    let range = doc! { "$range": [0, 100_000] };
    doc! {
        "aggregate": 1, "cursor": {}, "$db": "admin", "comment": FOREVER,
        "pipeline": [
            { "$documents": [{ "x": 1 }] }, { "$set": { "x": &range } }, { "$unwind": "$x" },
                { "$set": { "y": &range } }, { "$unwind": "$y" },
            { "$match": { "x": -1 } }
        ]
    }
}

/// An operation whose client has disconnected, or that an operator kills, ends within half a
/// second.
async fn interrupt(server: &Process) {
    let client = server.client("directConnection=true").await;
    let heavy = doc! { "$expr": { "$gt": [{ "$size": { "$filter": { "input": { "$range": [0,
    200_000] }, "cond": { "$gt": ["$$this", 1] } } } }, -1] } };
    let db = client.database("tails");
    let many: Vec<Document> = (0..2000).map(|i| doc! { "_id": i }).collect();
    db.collection::<Document>("many")
        .insert_many(many)
        .await
        .unwrap();
    let find = doc! { "find": "many", "filter": heavy, "$db": "tails" };
    // A long command has a thread of its own; a find runs on the thread that reads sockets, which
    // must notice the end as well.
    for (command, name) in [(forever(), "pipeline"), (find, "find")] {
        let mut socket = TcpStream::connect(&server.address).unwrap();
        socket.write_all(&message(&command)).unwrap();
        wait_running(&client, name, 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(socket);
        let gone = Instant::now();
        wait_running(&client, name, 0).await;
        assert!(
            gone.elapsed() < Duration::from_millis(500),
            "{name}: {:?}",
            gone.elapsed()
        );

        let mut socket = TcpStream::connect(&server.address).unwrap();
        socket.write_all(&message(&command)).unwrap();
        let op = wait_running(&client, name, 1).await;
        let opid = op[0].get("opid").unwrap().clone();
        client
            .database("admin")
            .run_command(doc! { "killOp": 1, "op": opid })
            .await
            .unwrap();
        let killed = Instant::now();
        wait_running(&client, name, 0).await;
        assert!(
            killed.elapsed() < Duration::from_millis(500),
            "{name}: {:?}",
            killed.elapsed()
        );
    }
}

#[test]
fn waits_and_interruptions_over_sockets() {
    let dbpath = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let server = Process::start(dbpath.path());
    runtime.block_on(tail(&server));
    runtime.block_on(interrupt(&server));
    // A running operation does not delay the shutdown.
    let mut socket = TcpStream::connect(&server.address).unwrap();
    socket.write_all(&message(&forever())).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let signal = Instant::now();
    server.stop();
    assert!(
        signal.elapsed() < Duration::from_secs(5),
        "{:?}",
        signal.elapsed()
    );
}
