//! Search indexes on files and kill -9: after catching up no document is missing, and a deleted
//! document is never returned, on a member of a set and on a standalone server.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection};

use crate::driver::{Process, all};

/// Number of documents before the index is created.
const BEFORE: i32 = 4000;
const ROUNDS: i32 = 5;

/// The acknowledged documents.
#[derive(Default)]
struct Model {
    there: BTreeSet<i32>,
    gone: BTreeSet<i32>,
    /// Documents whose last write may or may not have been executed.
    unsure: BTreeSet<i32>,
}

fn coll(client: &Client) -> Collection<Document> {
    client.database("search").collection("c")
}

fn document(n: i32) -> Document {
    doc! { "_id": n, "t": format!("common word{n}") }
}

/// `_id`s of all documents that a search finds.
async fn find_ids(client: &Client) -> BTreeSet<i32> {
    let stages = [
        doc! { "$search": { "text": { "query": "common", "path": "t" } } },
        doc! { "$project": { "_id": 1 } },
    ];
    let cursor = coll(client).aggregate(stages).await.unwrap();
    let docs = all(cursor).await;
    docs.iter().map(|d| d.get_i32("_id").unwrap()).collect()
}

async fn status(client: &Client) -> String {
    let cursor = coll(client)
        .aggregate([doc! { "$listSearchIndexes": {} }])
        .await
        .unwrap();
    let list = all(cursor).await;
    list[0].get_str("status").unwrap().to_owned()
}

impl Model {
    /// Checks that no deleted document is found, also while the index catches up.
    fn check_gone(&self, found: &BTreeSet<i32>) {
        let returned: Vec<&i32> = self.gone.intersection(found).collect();
        assert!(returned.is_empty(), "deleted and returned: {returned:?}");
    }

    fn check(&self, found: &BTreeSet<i32>) {
        self.check_gone(found);
        let missing: Vec<&i32> = self.there.difference(found).collect();
        assert!(missing.is_empty(), "missing: {missing:?}");
        let more: Vec<&i32> = found.difference(&self.there).collect();
        assert!(
            more.iter().all(|n| self.unsure.contains(n)),
            "more: {more:?}"
        );
    }

    /// Writes until the server is killed.
    async fn write(&mut self, client: &Client, first: i32) {
        let c = coll(client);
        for n in first.. {
            self.unsure = [n].into();
            if c.insert_one(document(n)).await.is_err() {
                return;
            }
            self.there.insert(n);
            let Some(old) = self.there.first().copied() else {
                continue;
            };
            self.unsure = [old].into();
            if c.delete_one(doc! { "_id": old }).await.is_err() {
                return;
            }
            self.there.remove(&old);
            self.gone.insert(old);
        }
    }
}

async fn wait_ready(client: &Client, model: &Model) {
    let began = Instant::now();
    while status(client).await != "READY" {
        model.check_gone(&find_ids(client).await);
        assert!(began.elapsed() < Duration::from_secs(120));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    model.check(&find_ids(client).await);
}

async fn kill_while_indexing(dbpath: &Path, options: &[&str]) {
    let mut model = Model::default();
    let mut server = Process::start_with(dbpath, options);
    let client = server.client("directConnection=true").await;
    coll(&client)
        .insert_many((0..BEFORE).map(document))
        .await
        .unwrap();
    model.there.extend(0..BEFORE);
    let index = doc! { "definition": { "mappings": { "dynamic": true } } };
    let create = doc! { "createSearchIndexes": "c", "indexes": [index] };
    client.database("search").run_command(create).await.unwrap();
    for round in 0..ROUNDS {
        let client = server
            .client("directConnection=true&retryWrites=false")
            .await;
        let pid = rustix::process::Pid::from_raw(server.pid() as i32).unwrap();
        // The first kills hit the scan, later ones the following of the log.
        let after = Duration::from_millis(40 + 150 * u64::try_from(round).unwrap());
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        });
        model.write(&client, BEFORE + 100_000 * (round + 1)).await;
        killer.join().unwrap();
        drop(server);
        server = Process::start_with(dbpath, options);
        let client = server.client("directConnection=true").await;
        // The result of the interrupted writes is known now.
        for n in std::mem::take(&mut model.unsure) {
            match coll(&client).find_one(doc! { "_id": n }).await.unwrap() {
                Some(_) => _ = model.there.insert(n),
                None if model.there.remove(&n) => _ = model.gone.insert(n),
                None => {}
            }
        }
        model.check_gone(&find_ids(&client).await);
        if round % 2 == 1 {
            wait_ready(&client, &model).await;
        }
    }
    let client = server.client("directConnection=true").await;
    wait_ready(&client, &model).await;
    assert!(!model.gone.is_empty(), "no round got so far as to delete");
    server.stop();
}

fn run(options: &[&str]) {
    let dbpath = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(kill_while_indexing(dbpath.path(), options));
}

#[test]
fn a_kill_while_a_member_of_a_set_indexes_loses_nothing() {
    run(&[]);
}

#[test]
fn a_kill_while_a_standalone_server_indexes_loses_nothing() {
    run(&["--standalone"]);
}
