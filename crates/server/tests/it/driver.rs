//! The official Rust driver, unchanged, against the real binary in a process of its own.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::options::{IndexOptions, ReturnDocument};
use mongodb::{Client, Collection, Cursor, IndexModel};

const DATABASE: &str = "smoke_rust";

/// A server on a free port; killed if a test fails before it was stopped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
}

impl Process {
    pub(crate) fn start(dbpath: &Path) -> Process {
        Process::start_with(dbpath, &[])
    }

    /// With more options.
    pub(crate) fn start_with(dbpath: &Path, options: &[&str]) -> Process {
        // Port 0 would be enough for clients that connect directly, but members of a replica set
        // name their port.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let child = Command::new(env!("CARGO_BIN_EXE_quarry"))
            .args([
                "serve",
                "--bind_ip",
                "127.0.0.1",
                "--nounixsocket",
                "--memory",
                "256M",
                "--port",
                &port.to_string(),
                "--dbpath",
            ])
            .arg(dbpath)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut process = Process {
            child,
            address: format!("127.0.0.1:{port}"),
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(&process.address).is_err() {
            assert_eq!(
                process.child.try_wait().unwrap(),
                None,
                "the server ended before it accepted connections"
            );
            assert!(
                Instant::now() < deadline,
                "the server does not accept connections"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        process
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) async fn client(&self, options: &str) -> Client {
        Client::with_uri_str(format!(
            "mongodb://{}/?serverSelectionTimeoutMS=30000&{options}",
            self.address
        ))
        .await
        .unwrap()
    }

    /// Sends SIGTERM; the exit status must be 0.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) async fn all(mut cursor: Cursor<Document>) -> Vec<Document> {
    let mut found = Vec::new();
    while cursor.advance().await.unwrap() {
        found.push(cursor.deserialize_current().unwrap());
    }
    found
}

async fn set_name(client: &Client) -> String {
    let hello = client
        .database("admin")
        .run_command(doc! { "hello": 1 })
        .await
        .unwrap();
    assert!(hello.get_bool("isWritablePrimary").unwrap());
    hello.get_str("setName").unwrap().to_owned()
}

async fn count_ended_sessions(client: &Client) -> i64 {
    let status = client
        .database("admin")
        .run_command(doc! { "serverStatus": 1 })
        .await
        .unwrap();
    let commands = status
        .get_document("metrics")
        .and_then(|m| m.get_document("commands"))
        .unwrap();
    match commands
        .get_document("endSessions")
        .ok()
        .and_then(|count| count.get("total"))
    {
        Some(Bson::Int64(total)) => *total,
        Some(Bson::Int32(total)) => i64::from(*total),
        _ => 0,
    }
}

async fn fill(items: &Collection<Document>) {
    let item = |n: i32| doc! { "_id": n, "n": n, "group": n % 10, "name": format!("item {n}") };
    assert_eq!(
        items.insert_one(item(0)).await.unwrap().inserted_id,
        Bson::Int32(0)
    );
    assert_eq!(
        items
            .insert_many((1..1000).map(item))
            .await
            .unwrap()
            .inserted_ids
            .len(),
        999
    );
}

async fn read(items: &Collection<Document>) {
    let filter = doc! { "group": 3, "n": { "$gte": 100 } };
    let find = items
        .find(filter)
        .sort(doc! { "n": -1 })
        .projection(doc! { "_id": 0, "n": 1 })
        .limit(2);
    assert_eq!(
        all(find.await.unwrap()).await,
        [doc! { "n": 993 }, doc! { "n": 983 }]
    );
    let seen = all(items
        .find(doc! {})
        .sort(doc! { "n": 1 })
        .batch_size(100)
        .await
        .unwrap())
    .await;
    assert_eq!(
        seen.iter()
            .map(|item| item.get_i32("n").unwrap())
            .collect::<Vec<_>>(),
        (0..1000).collect::<Vec<_>>()
    );
    assert_eq!(
        items.count_documents(doc! { "group": 1 }).await.unwrap(),
        100
    );
    assert_eq!(items.estimated_document_count().await.unwrap(), 1000);
    assert_eq!(
        items
            .distinct("group", doc! { "n": { "$lt": 3 } })
            .await
            .unwrap(),
        [Bson::Int32(0), Bson::Int32(1), Bson::Int32(2)]
    );
    let stages = [
        doc! { "$match": { "group": { "$lte": 1 } } },
        doc! { "$group": { "_id": "$group", "sum": { "$sum": "$n" } } },
        doc! { "$sort": { "_id": -1 } },
    ];
    let groups = all(items.aggregate(stages).await.unwrap()).await;
    assert_eq!(
        groups,
        [
            doc! { "_id": 1, "sum": 49600 },
            doc! { "_id": 0, "sum": 49500 }
        ]
    );
}

async fn write(items: &Collection<Document>) {
    let one = items
        .update_one(
            doc! { "_id": 7 },
            doc! { "$set": { "name": "seven" }, "$inc": { "n": 1000 } },
        )
        .await
        .unwrap();
    assert_eq!((one.matched_count, one.modified_count), (1, 1));
    let upsert = items
        .update_one(doc! { "_id": "new" }, doc! { "$set": { "name": "new" } })
        .upsert(true)
        .await
        .unwrap();
    assert_eq!(upsert.upserted_id, Some(Bson::String("new".to_owned())));
    let update = items
        .find_one_and_update(doc! { "_id": 7 }, doc! { "$inc": { "n": -1000 } })
        .return_document(ReturnDocument::After);
    assert_eq!(
        update.await.unwrap(),
        Some(doc! { "_id": 7, "n": 7, "group": 7, "name": "seven" })
    );
    assert_eq!(
        items
            .delete_one(doc! { "_id": "new" })
            .await
            .unwrap()
            .deleted_count,
        1
    );
    assert_eq!(
        items
            .delete_many(doc! { "group": 8 })
            .await
            .unwrap()
            .deleted_count,
        100
    );
}

async fn index(items: &Collection<Document>) {
    let unique = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder()
        .keys(doc! { "name": 1 })
        .options(unique)
        .build();
    assert_eq!(
        items.create_index(model).await.unwrap().index_name,
        "name_1"
    );
    let mut names = items.list_index_names().await.unwrap();
    names.sort();
    assert_eq!(names, ["_id_", "name_1"]);
    let error = items
        .insert_one(doc! { "_id": "twin", "name": "seven" })
        .await
        .unwrap_err();
    match *error.kind {
        ErrorKind::Write(WriteFailure::WriteError(ref e)) => assert_eq!(e.code, 11000, "{e:?}"),
        ref other => panic!("expected a duplicate key, given {other:?}"),
    }
}

async fn walk(server: &Process) {
    let watcher = server.client("directConnection=true").await;
    watcher
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await
        .unwrap();
    let ended = count_ended_sessions(&watcher).await;
    let client = server
        .client(&format!("replicaSet={}", set_name(&watcher).await))
        .await;
    let items = client.database(DATABASE).collection::<Document>("items");
    fill(&items).await;
    read(&items).await;
    write(&items).await;
    index(&items).await;
    assert_eq!(
        client
            .database(DATABASE)
            .list_collection_names()
            .await
            .unwrap(),
        ["items"]
    );
    assert!(
        client
            .list_database_names()
            .await
            .unwrap()
            .contains(&DATABASE.to_owned())
    );
    client.shutdown().await;
    assert!(
        count_ended_sessions(&watcher).await > ended,
        "the driver ends its sessions when it closes"
    );
}

async fn after_restart(server: &Process) {
    let client = server.client("directConnection=true").await;
    let database = client.database(DATABASE);
    let items = database.collection::<Document>("items");
    assert_eq!(items.count_documents(doc! {}).await.unwrap(), 900);
    assert_eq!(
        items.find_one(doc! { "name": "seven" }).await.unwrap(),
        Some(doc! { "_id": 7, "n": 7, "group": 7, "name": "seven" })
    );
    assert_eq!(items.list_index_names().await.unwrap().len(), 2);
    items.drop().await.unwrap();
    assert!(database.list_collection_names().await.unwrap().is_empty());
    database.drop().await.unwrap();
    assert!(
        !client
            .list_database_names()
            .await
            .unwrap()
            .contains(&DATABASE.to_owned())
    );
}

#[test]
fn the_official_driver_walks_through_and_finds_all_after_a_restart() {
    let dbpath = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let server = Process::start(dbpath.path());
    runtime.block_on(walk(&server));
    server.stop();
    let server = Process::start(dbpath.path());
    runtime.block_on(after_restart(&server));
    server.stop();
}
