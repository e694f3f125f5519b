//! Search indexes, as clients see them: built, updated, searched, redefined, dropped; and the
//! errors of a server without a log.

use crate::behaviour::{logging_store, logging_store_of, send, serve, store};
use commands::{Config, Connection, Dispatcher, workers};
use model::{Doc, DocBuf, Value, doc};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server with a running feeder.
pub(crate) struct Server {
    dispatcher: Arc<Dispatcher>,
    conn: Connection,
    stop: Arc<AtomicBool>,
    feeder: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn new() -> Server {
        Server::start_on(logging_store(), None)
    }

    fn start_on(store: Arc<store::Store>, search_folder: Option<PathBuf>) -> Server {
        let config = Config {
            search_folder,
            ..Config::default()
        };
        Server::start_with(config, store)
    }

    pub(crate) fn start_with(config: Config, store: Arc<store::Store>) -> Server {
        let dispatcher = serve(config, store);
        let mut server = Server {
            conn: dispatcher.connect("127.0.0.1:1"),
            dispatcher,
            stop: Arc::new(AtomicBool::new(false)),
            feeder: None,
        };
        server.feed();
        server
    }

    fn feed(&mut self) {
        self.stop.store(false, Ordering::Release);
        let service = self.dispatcher.service().arc().expect("the service");
        let stop = self.stop.clone();
        let go_on = move || !stop.load(Ordering::Acquire);
        let work = move || workers::run(&service, workers::find("search"), &go_on);
        self.feeder = Some(std::thread::spawn(work));
    }

    pub(crate) fn dispatcher(&self) -> &Arc<Dispatcher> {
        &self.dispatcher
    }

    /// Stops the feeder, as the end of a server does.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(feeder) = self.feeder.take() {
            feeder.join().expect("the feeder ends");
        }
    }

    pub(crate) fn run(&mut self, command: &DocBuf) -> DocBuf {
        send(&self.dispatcher, &mut self.conn, "db", command.doc())
    }

    pub(crate) fn ok(&mut self, command: &DocBuf) -> DocBuf {
        let r = self.run(command);
        assert_eq!(
            r.doc().field("ok").as_f64(),
            Some(1.0),
            "{command:?}: {r:?}"
        );
        r
    }

    pub(crate) fn code(&mut self, command: &DocBuf) -> i64 {
        let r = self.run(command);
        r.doc().field("code").as_i64_exact().unwrap_or(0)
    }

    pub(crate) fn batch(&mut self, command: &DocBuf) -> Vec<DocBuf> {
        let r = self.ok(command);
        let cursor = r.doc().field("cursor").as_doc().expect("a cursor");
        let batch = cursor.field("firstBatch").as_array().expect("a batch");
        batch
            .iter()
            .filter_map(|v| Some(v.as_doc()?.to_buf()))
            .collect()
    }

    pub(crate) fn aggregate(&mut self, coll: &str, stages: &[DocBuf]) -> Vec<DocBuf> {
        self.batch(&aggregate(coll, stages))
    }

    pub(crate) fn insert(&mut self, docs: &[DocBuf]) {
        let command = DocBuf::build(|w| {
            w.put("insert", "c");
            let mut list = w.array("documents");
            docs.iter().for_each(|d| _ = list.push(d));
        });
        self.ok(&command);
    }

    pub(crate) fn create(&mut self, index: DocBuf) {
        self.ok(&doc! { "createSearchIndexes": "c", "indexes": [&index] });
    }

    /// The entry of an index in `$listSearchIndexes`.
    pub(crate) fn index(&mut self, name: &str) -> Option<DocBuf> {
        let stage = doc! { "$listSearchIndexes": { "name": name } };
        self.aggregate("c", &[stage]).pop()
    }

    pub(crate) fn wait_ready(&mut self, name: &str) {
        self.wait(name, |s| {
            let index = s.index(name).expect("the index");
            let status = index.doc().field("status").as_str().map(str::to_owned);
            assert_ne!(status.as_deref(), Some("FAILED"), "{index:?}");
            status.as_deref() == Some("READY")
        });
    }

    pub(crate) fn wait(&mut self, what: &str, mut done: impl FnMut(&mut Server) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The `_id` values of documents with a word, best first.
    pub(crate) fn search_word(&mut self, word: &str) -> Vec<i64> {
        let text = doc! { "$search": { "text": { "query": word, "path": "t" } } };
        let docs = self.aggregate("c", &[text]);
        let id = |d: &DocBuf| d.doc().field("_id").as_i64_exact().unwrap_or(-1);
        docs.iter().map(id).collect()
    }

    /// How many documents have a word.
    pub(crate) fn count(&mut self, word: &str) -> i64 {
        let text = doc! { "$search": { "text": { "query": word, "path": "t" } } };
        let counted = self.aggregate("c", &[text, doc! { "$count": "n" }]);
        let n = counted
            .first()
            .and_then(|d| d.doc().field("n").as_i64_exact());
        n.unwrap_or(0)
    }

    pub(crate) fn wait_found(&mut self, word: &str, wanted: &[i64]) {
        self.wait(word, |s| s.search_word(word) == wanted);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

pub(crate) fn aggregate(coll: &str, stages: &[DocBuf]) -> DocBuf {
    DocBuf::build(|w| {
        w.put("aggregate", coll);
        let mut list = w.array("pipeline");
        stages.iter().for_each(|d| _ = list.push(d));
        drop(list);
        w.put("cursor", Doc::EMPTY);
    })
}

pub(crate) fn dynamic() -> DocBuf {
    doc! { "definition": { "mappings": { "dynamic": true } } }
}

#[test]
fn documents_come_in_the_order_of_their_scores() {
    let mut s = Server::new();
    s.insert(&[
        doc! { "_id": 1i32, "t": "a red fox in the wood" },
        doc! { "_id": 2i32, "t": "blue" },
        doc! { "_id": 3i32, "t": "red red red" },
    ]);
    s.create(dynamic());
    s.wait_ready("default");
    assert_eq!(s.search_word("red"), [3, 1]);
    let shown = s.aggregate(
        "c",
        &[
            doc! { "$search": { "text": { "query": "red", "path": "t" } } },
            doc! { "$project": { "score": { "$meta": "searchScore" },
            "same": { "$meta": "score" } } },
            doc! { "$match": { "score": { "$gt": 0i32 } } },
            doc! { "$limit": 1i32 },
        ],
    );
    let first = shown[0].doc();
    // ln(1 + 1.5 / 2.5) * 3 / (3 + 1.2 (0.25 + 0.75 * 3 / (10 / 3)))
    let wanted = (1.6f64).ln() * 3.0 / (3.0 + 1.2 * (0.25 + 0.75 * 3.0 / (10.0 / 3.0)));
    let score = first.field("score").as_f64().expect("a score");
    assert!((score - wanted).abs() < 1e-6, "{score} is not {wanted}");
    assert_eq!(first.field("same").as_f64(), Some(score));
    let meta = doc! { "$searchMeta": { "exists": { "path": "t" }, "count": { "type": "total" } } };
    let counted = s.aggregate("c", &[meta]);
    assert_eq!(counted, [doc! { "count": { "total": 3i64 } }]);
}

#[test]
fn an_index_follows_every_change() {
    let mut s = Server::new();
    s.insert(&[doc! { "_id": 1i32, "t": "one" }]);
    s.create(dynamic());
    s.wait_ready("default");
    s.insert(&[
        doc! { "_id": 2i32, "t": "two" },
        doc! { "_id": 3i32, "t": "three" },
    ]);
    s.wait_found("two", &[2]);
    let set = doc! { "q": { "_id": 2i32 }, "u": { "$set": { "t": "four" } } };
    s.ok(&doc! { "update": "c", "updates": [&set] });
    s.wait_found("four", &[2]);
    assert!(s.search_word("two").is_empty());
    // A deleted document is never returned, even if the index still contains it.
    s.stop();
    s.ok(&doc! { "delete": "c", "deletes": [{ "q": { "_id": 3i32 }, "limit": 1i32 }] });
    assert!(s.search_word("three").is_empty());
    s.ok(&doc! { "renameCollection": "db.c", "to": "db.d", "$db": "admin" });
    s.ok(&doc! { "insert": "d", "documents": [{ "_id": 5i32, "t": "five" }] });
    s.feed();
    let five = || doc! { "$search": { "text": { "query": "five", "path": "t" } } };
    s.wait("after a rename", |s| s.aggregate("d", &[five()]).len() == 1);
    s.ok(&doc! { "drop": "d" });
    assert!(s.aggregate("d", &[five()]).is_empty());
}

#[test]
fn changes_of_a_transaction_are_found_after_its_commit() {
    let mut s = Server::new();
    s.insert(&[doc! { "_id": 1i32, "t": "one" }]);
    s.create(dynamic());
    s.wait_ready("default");
    let id = model::Binary {
        subtype: 4,
        bytes: &[9; 16],
    };
    let in_transaction = |command: DocBuf, first: bool| {
        DocBuf::build(|w| {
            w.put_all(command.doc());
            w.put("lsid", doc! { "id": id }.doc());
            w.put("txnNumber", 1i64).put("autocommit", false);
            if first {
                w.put("startTransaction", true);
            }
        })
    };
    let insert = doc! { "insert": "c", "documents": [{ "_id": 2i32, "t": "two" }] };
    s.ok(&in_transaction(insert, true));
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 1i32 }, "limit": 1i32 }] };
    s.ok(&in_transaction(delete, false));
    assert_eq!(s.search_word("one"), [1]);
    let commit = doc! { "commitTransaction": 1i32, "$db": "admin" };
    s.ok(&in_transaction(commit, false));
    s.wait_found("two", &[2]);
    assert!(s.search_word("one").is_empty());
}

#[test]
fn an_index_in_a_folder_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = logging_store();
    let mut s = Server::start_on(store.clone(), Some(folder.path().to_owned()));
    s.insert(&[
        doc! { "_id": 1i32, "t": "one" },
        doc! { "_id": 2i32, "t": "one two" },
    ]);
    s.create(dynamic());
    s.wait_ready("default");
    s.stop();
    let files = std::fs::read_dir(folder.path())
        .expect("the folder")
        .count();
    assert_eq!(files, 1);
    // The feeder is not running.
    s.ok(&doc! { "delete": "c", "deletes": [{ "q": { "_id": 1i32 }, "limit": 1i32 }] });
    s.insert(&[doc! { "_id": 3i32, "t": "one" }]);
    drop(s);
    std::fs::create_dir(folder.path().join("left-over")).expect("a folder");
    let mut s = Server::start_on(store, Some(folder.path().to_owned()));
    s.wait_ready("default");
    assert_eq!(s.search_word("one"), [3, 2]);
    s.ok(&doc! { "dropSearchIndex": "c", "name": "default" });
    s.wait("the files go", |_| {
        std::fs::read_dir(folder.path())
            .expect("the folder")
            .count()
            == 0
    });
    assert!(s.search_word("one").is_empty());
}

/// `serverStatus.quarry.logConsumers`.
fn log_consumers(s: &mut Server) -> DocBuf {
    let status = s.ok(&doc! { "serverStatus": 1i32 });
    let quarry = status.doc().field("quarry").as_doc().expect("a section");
    let consumers = quarry.field("logConsumers").as_doc().expect("a section");
    consumers.to_buf()
}

#[test]
fn the_log_is_held_for_an_index_that_is_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = logging_store_of(100_000);
    let mut s = Server::start_on(store.clone(), Some(folder.path().to_owned()));
    s.insert(&[doc! { "_id": 0i32, "t": "first" }]);
    s.create(dynamic());
    s.wait_ready("default");
    s.wait("the lag goes", |s| {
        let now = log_consumers(s);
        now.doc().field("lagOperations").as_i64_exact() == Some(0)
    });
    s.stop();
    let pad = "x".repeat(1000);
    for n in 1..=150 {
        s.insert(&[doc! { "_id": n, "t": "later", "pad": pad.as_str() }]);
    }
    s.ok(&doc! { "delete": "c", "deletes": [{ "q": { "_id": 0i32 }, "limit": 1i32 }] });
    // Only the entries that the index has read may be deleted.
    store.truncate_log().expect("no failure");
    let states = store.log_consumers().expect("no failure");
    let oldest = store.log().expect("a log").oldest();
    assert!(oldest <= states[0].saved, "{oldest:?} {states:?}");
    let now = log_consumers(&mut s);
    let figure = |name: &str| now.doc().field(name).as_f64().unwrap_or(-1.0);
    assert_eq!((figure("count"), figure("stale")), (1.0, 0.0));
    assert!(figure("lagOperations") >= 151.0 && figure("lagSeconds") > 0.0);
    assert_eq!(figure("heldBytesMax"), 200_000.0);
    let list = now.doc().field("consumers").as_array().expect("a list");
    let one = list.iter().next().expect("one");
    let one = one.as_doc().expect("a document");
    assert_eq!(one.field("state").as_str(), Some("FOLLOWING"));
    assert!(
        one.field("name")
            .as_str()
            .expect("a name")
            .starts_with("search/")
    );
    drop(s);
    // The feeder continues at its position; then the log may be truncated.
    let mut s = Server::start_on(store.clone(), Some(folder.path().to_owned()));
    s.wait_ready("default");
    assert!(s.search_word("first").is_empty());
    assert_eq!(s.count("later"), 150);
    assert!(store.truncate_log().expect("no failure"));
    assert!(store.log().expect("a log").oldest() > oldest);
    // Beyond the limit, the index is STALE for the log and is built again.
    s.stop();
    for n in 151..=400 {
        s.insert(&[doc! { "_id": n, "t": "later", "pad": pad.as_str() }]);
    }
    assert!(store.truncate_log().expect("no failure"));
    let now = log_consumers(&mut s);
    assert_eq!(now.doc().field("stale").as_i64_exact(), Some(1));
    drop(s);
    let mut s = Server::start_on(store.clone(), Some(folder.path().to_owned()));
    s.wait_ready("default");
    assert_eq!(s.count("later"), 400);
    assert_eq!(store.log().expect("a log").consumer_names().len(), 1);
    s.ok(&doc! { "dropSearchIndex": "c", "name": "default" });
    s.wait("the consumer goes", |_| {
        store.log().expect("a log").consumer_names().is_empty()
    });
}

#[test]
fn definitions_are_made_changed_and_dropped() {
    let mut s = Server::new();
    let create = |index: DocBuf| doc! { "createSearchIndexes": "c", "indexes": [&index] };
    assert_eq!(s.code(&create(dynamic())), 26, "no collection");
    s.insert(&[doc! { "_id": 1i32, "t": "runs", "u": "runs" }]);
    for (index, code) in [
        (doc! {}, 40414),
        (doc! { "definition": 1i32 }, 14),
        (doc! { "definition": {}, "name": 1i32 }, 14),
        (doc! { "definition": {}, "other": 1i32 }, 40415),
        (doc! { "definition": {} }, 8),
        (
            doc! { "definition": { "mappings": { "dynamic": true } }, "type": "x" },
            8,
        ),
    ] {
        assert_eq!(s.code(&create(index.clone())), code, "{index:?}");
    }
    assert!(s.index("default").is_none());
    s.create(dynamic());
    assert_eq!(s.code(&create(dynamic())), 68, "twice");
    s.wait_ready("default");
    let index = s.index("default").expect("the index");
    let id = index.doc().field("id").as_str().expect("an id").to_owned();
    let shown = index.doc();
    assert_eq!(shown.field("type").as_str(), Some("search"));
    assert_eq!(shown.field("queryable").as_bool(), Some(true));
    assert_eq!(shown.field("numDocs").as_i64_exact(), Some(1));
    let definition = doc! { "mappings": { "dynamic": true } };
    assert_eq!(
        shown.field("latestDefinition").as_doc(),
        Some(definition.doc())
    );
    let by_id = s.batch(&doc! { "listSearchIndexes": "c", "id": &id });
    assert_eq!(by_id.len(), 1);
    let english = doc! { "analyzer": "lucene.english", "mappings": { "dynamic": true } };
    let update = |named: DocBuf| {
        DocBuf::build(|w| {
            w.put("updateSearchIndex", "c").put_all(named.doc());
            w.put("definition", &english);
        })
    };
    assert_eq!(s.code(&update(doc! { "name": "other" })), 27);
    assert_eq!(s.code(&update(doc! {})), 9);
    assert_eq!(s.code(&update(doc! { "name": "default", "id": &id })), 9);
    assert!(s.search_word("run").is_empty(), "not stemmed");
    s.ok(&update(doc! { "id": &id }));
    s.wait_ready("default");
    assert_eq!(s.search_word("run"), [1]);
    assert_eq!(
        s.code(&doc! { "dropSearchIndex": "c", "name": "other" }),
        27
    );
    s.ok(&doc! { "dropSearchIndex": "c", "name": "default" });
    assert!(s.index("default").is_none());
    assert!(s.search_word("run").is_empty());
    s.ok(&doc! { "create": "v", "viewOn": "c", "pipeline": [] });
    let of_view = doc! { "createSearchIndexes": "v", "indexes": [&dynamic()] };
    assert_eq!(s.code(&of_view), 166);
}

#[test]
fn vectors_are_searched_and_fused_with_texts() {
    let mut s = Server::new();
    s.insert(&[
        doc! { "_id": 1i32, "t": "red", "v": [1.0, 0.0], "k": "a" },
        doc! { "_id": 2i32, "t": "red red", "v": [0.0, 1.0], "k": "b" },
        doc! { "_id": 3i32, "t": "blue", "v": [3.0, 4.0], "k": "a" },
    ]);
    s.create(dynamic());
    s.create(
        doc! { "name": "vectors", "type": "vectorSearch", "definition": { "fields": [
        { "type": "vector", "path": "v", "numDimensions": 2i32, "similarity": "cosine" },
        { "type": "filter", "path": "k" }] } },
    );
    s.wait_ready("vectors");
    s.wait_ready("default");
    let near = |filter: DocBuf| {
        doc! { "$vectorSearch": { "index": "vectors", "path": "v", "queryVector": [1.0, 0.0],
        "numCandidates": 10i32, "limit": 2i32, "filter": &filter } }
    };
    let project = doc! { "$project": { "_id": 1i32, "score": { "$meta": "vectorSearchScore" },
    "none": { "$meta": "searchScore" } } };
    let found = s.aggregate("c", &[near(doc! {}), project.clone()]);
    assert_eq!(
        found,
        [
            doc! { "_id": 1i32, "score": 1.0 },
            doc! { "_id": 3i32, "score": f64::from(0.8f32) }
        ]
    );
    let found = s.aggregate("c", &[near(doc! { "k": "b" }), project]);
    assert_eq!(found, [doc! { "_id": 2i32, "score": 0.5 }]);
    let text = doc! { "$search": { "text": { "query": "red", "path": "t" } } };
    let fused = s.aggregate(
        "c",
        &[
            doc! { "$rankFusion": { "input": { "pipelines": {
            "near": [&near(doc! {})], "text": [&text] } } } },
            doc! { "$project": { "score": { "$meta": "score" } } },
        ],
    );
    let ids: Vec<_> = fused.iter().map(|d| d.doc().field("_id")).collect();
    // 1/61 + 1/62 for the first, then the second of both lists, by _id.
    assert_eq!(ids[0].as_i64_exact(), Some(1));
    assert_eq!(fused.len(), 3);
    let text_on_vectors = doc! { "$search": { "index": "vectors",
    "text": { "query": "red", "path": "t" } } };
    assert_eq!(s.code(&aggregate("c", &[text_on_vectors])), 8);
}

#[test]
fn stages_are_refused_where_they_cannot_be() {
    let mut s = Server::new();
    let text = || doc! { "$search": { "text": { "query": "red", "path": "t" } } };
    assert!(s.aggregate("nothing", &[text()]).is_empty());
    s.insert(&[doc! { "_id": 1i32, "t": "red" }]);
    assert!(s.aggregate("c", &[text()]).is_empty(), "no index");
    let meta = doc! { "$searchMeta": { "exists": { "path": "t" } } };
    assert_eq!(
        s.aggregate("c", &[meta]),
        [doc! { "count": { "lowerBound": 0i64 } }]
    );
    for (stages, code) in [
        (vec![doc! { "$search": "red" }], 10065),
        (vec![doc! { "$search": Value::Null }], 10065),
        (vec![doc! { "$search": [] }], 9),
        (vec![doc! { "$search": {} }], 8),
        (
            vec![
                doc! { "$match": {} },
                doc! { "$match": { "a": 1i32 } },
                text(),
            ],
            40602,
        ),
        (vec![doc! { "$facet": { "a": [&text()] } }], 40600),
        (vec![doc! { "$vectorSearch": { "limit": 0i32 } }], 7_912_700),
        (vec![doc! { "$listSearchIndexes": 1i32 }], 9),
        (vec![doc! { "$listSearchIndexes": { "x": 1i32 } }], 40415),
        (
            vec![doc! { "$listSearchIndexes": { "id": "a", "name": "b" } }],
            9,
        ),
    ] {
        assert_eq!(s.code(&aggregate("c", &stages)), code, "{stages:?}");
    }
    let on_database = doc! { "aggregate": 1i32, "pipeline": [&text()], "cursor": {} };
    assert_eq!(s.code(&on_database), 73);
}

#[test]
fn a_store_without_a_log_has_no_search() {
    let config = Config {
        replica_set: None,
        ..Config::default()
    };
    let dispatcher = serve(config, store());
    let mut conn = dispatcher.connect("127.0.0.1:1");
    let index = dynamic();
    for command in [
        doc! { "createSearchIndexes": "c", "indexes": [&index] },
        doc! { "listSearchIndexes": "c" },
        aggregate("c", &[doc! { "$search": { "exists": { "path": "a" } } }]),
        aggregate("c", &[doc! { "$searchMeta": {} }]),
        aggregate("c", &[doc! { "$vectorSearch": {} }]),
        aggregate("c", &[doc! { "$listSearchIndexes": {} }]),
        doc! { "explain": { "aggregate": "c", "pipeline": [{ "$search": {} }], "cursor": {} } },
    ] {
        let r = send(&dispatcher, &mut conn, "db", command.doc());
        assert_eq!(
            r.doc().field("code").as_i64_exact(),
            Some(31082),
            "{command:?}"
        );
    }
}
