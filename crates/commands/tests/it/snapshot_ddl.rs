//! Transactions, snapshot reads and their cursors use the collections, views and indexes of their
//! snapshot, whatever other clients do to the catalog; a write of a transaction conflicts when the
//! name now belongs to another collection.

use crate::behaviour::{logging_store, send, serve};
use crate::interrupts::{code, json};
use commands::{Config, Connection, Dispatcher};
use model::{Binary, DocBuf, Timestamp, Value, doc};
use std::sync::Arc;
use store::Store;

/// More documents than are deleted individually when a collection is dropped.
const DOCUMENTS: i32 = 1100;

/// Each kind of change, as commands for database `d` (or for `admin` with that prefix).
const CHANGES: &[(&str, &[&str])] = &[
    ("drop", &["{'drop': 'c'}"]),
    (
        "rename away",
        &["admin {'renameCollection': 'd.c', 'to': 'd.away'}"],
    ),
    (
        "rename over",
        &["admin {'renameCollection': 'd.other', 'to': 'd.c', 'dropTarget': true}"],
    ),
    (
        "$out",
        &["{'aggregate': 'other', 'pipeline': [{'$out': 'c'}], 'cursor': {}}"],
    ),
    ("dropDatabase", &["{'dropDatabase': 1}"]),
    (
        "drop and create again",
        &[
            "{'drop': 'c'}",
            "{'create': 'c'}",
            "{'insert': 'c', 'documents': [{'_id': 7, 'a': 'new'}]}",
        ],
    ),
];

/// Changes after which the name still belongs to the same collection.
const SMALLER_CHANGES: &[(&str, &[&str])] = &[
    ("dropIndexes", &["{'dropIndexes': 'c', 'index': '*'}"]),
    (
        "createIndexes",
        &["{'createIndexes': 'c', 'indexes': [{'key': {'t': 1}, 'name': 't'}]}"],
    ),
    (
        "an index of the same name on something else",
        &[
            "{'dropIndexes': 'c', 'index': 'a'}",
            "{'createIndexes': 'c', 'indexes': [{'key': {'a': 1, 't': 1}, 'name': 'a'}]}",
        ],
    ),
    (
        "collMod",
        &[
            "{'collMod': 'c', 'validator': {'a': {'$type': 'string'}}}",
            "{'collMod': 'v', 'viewOn': 'other', 'pipeline': []}",
        ],
    ),
    (
        "a view dropped",
        &[
            "{'drop': 'v'}",
            "{'create': 'v', 'viewOn': 'other', 'pipeline': []}",
        ],
    ),
];

const READS: &[&str] = &[
    "{'find': 'c', 'filter': {}, 'batchSize': 5000}",
    "{'find': 'c', 'filter': {'_id': 7}}",
    "{'find': 'c', 'filter': {'_id': {'$gt': 1090}}, 'sort': {'_id': -1}}",
    "{'find': 'c', 'filter': {'a': {'$lt': 1}}, 'hint': 'a', 'batchSize': 5000}",
    "{'find': 'c', 'filter': {'t': 12}, 'batchSize': 5000}",
    "{'distinct': 'c', 'key': 'a'}",
    "{'aggregate': 'c', 'pipeline': [{'$count': 'n'}], 'cursor': {}}",
    "{'aggregate': 'c', 'pipeline': [{'$group': {'_id': '$a', 'n': {'$sum': 1}}},
        {'$sort': {'_id': 1}}], 'cursor': {}}",
    "{'find': 'v', 'filter': {}, 'batchSize': 5000}",
    "{'distinct': 'v', 'key': 'doubled'}",
    "{'aggregate': 'left', 'pipeline': [{'$lookup': {'from': 'c', 'localField': 'k',
        'foreignField': '_id', 'as': 'found'}}], 'cursor': {}}",
    "{'aggregate': 'left', 'pipeline': [{'$lookup': {'from': 'c', 'localField': 'k',
        'foreignField': 'a', 'as': 'found'}}, {'$project': {'n': {'$size': '$found'}}}],
        'cursor': {}}",
    "{'aggregate': 'left', 'pipeline': [{'$lookup': {'from': 'v', 'let': {'k': '$k'},
        'pipeline': [{'$match': {'$expr': {'$eq': ['$doubled', '$$k']}}}], 'as': 'found'}}],
        'cursor': {}}",
    "{'aggregate': 'left', 'pipeline': [{'$unionWith': 'c'}, {'$count': 'n'}], 'cursor': {}}",
    "{'aggregate': 'left', 'pipeline': [{'$graphLookup': {'from': 'c', 'startWith': '$k',
        'connectFromField': 'next', 'connectToField': '_id', 'as': 'chain'}},
        {'$project': {'n': {'$size': '$chain'}}}], 'cursor': {}}",
];

struct Server {
    store: Arc<Store>,
    dispatcher: Arc<Dispatcher>,
}

impl Server {
    /// Frees the space of dropped collections and indexes; returns how many are left.
    fn sweep(&self) -> usize {
        self.store.save_references(&|| Ok(())).expect("saving");
        self.store.sweep_dropped().expect("a sweep")
    }

    /// A server with `c`, a view `v` on it, and `left`, `other`, `unrelated`.
    fn new() -> Server {
        let store = logging_store();
        let dispatcher = serve(Config::default(), Arc::clone(&store));
        let s = Server { store, dispatcher };
        let fill = |name: &str, count: i32, step: i32| {
            DocBuf::build(|w| {
                w.put("insert", name);
                let mut a = w.array("documents");
                for i in 0..count {
                    let (id, next) = (i * step, (i + 1) * step);
                    let mut d = a.doc();
                    d.put("_id", id)
                        .put("a", i % 7)
                        .put("k", i)
                        .put("next", next % 40)
                        // Long enough for the log to refer to the document.
                        .put("pad", "p".repeat(200).as_str());
                    d.array("t").push(i % 20).push(i % 20 + 1);
                }
            })
        };
        let mut c = s.client();
        for insert in [
            fill("c", DOCUMENTS, 1),
            fill("other", 5, 1000),
            fill("left", 3, 1),
            fill("unrelated", 3, 1),
        ] {
            assert_eq!(
                code(&send(&s.dispatcher, &mut c.conn, "d", insert.doc())),
                0
            );
        }
        c.run_all(&[
            "{'createIndexes': 'c', 'indexes': [{'key': {'a': 1}, 'name': 'a'},
                {'key': {'t': 1, 'a': 1}, 'name': 'ta'}]}",
            "{'create': 'v', 'viewOn': 'c', 'pipeline': [{'$match': {'_id': {'$lt': 30}}},
                {'$set': {'doubled': {'$multiply': ['$_id', 2]}}}]}",
        ]);
        s
    }

    fn client(&self) -> Client {
        Client {
            dispatcher: Arc::clone(&self.dispatcher),
            conn: self.dispatcher.connect("127.0.0.1:50000"),
            reads: ReadMode::Latest,
        }
    }
}

/// The fields that a client adds to its commands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReadMode {
    Latest,
    /// A snapshot session, with its time once it is known.
    Snapshot(Option<Timestamp>),
    /// A transaction, and whether it has begun.
    Transaction(bool),
}

struct Client {
    dispatcher: Arc<Dispatcher>,
    conn: Connection,
    reads: ReadMode,
}

impl Client {
    fn run(&mut self, command: &str) -> DocBuf {
        let (db, command) = match command.strip_prefix("admin ") {
            Some(command) => ("admin", command),
            None => ("d", command),
        };
        let mut command = json(&command.replace('\'', "\""));
        match &mut self.reads {
            ReadMode::Latest => {}
            ReadMode::Snapshot(None) => {
                command.put("readConcern", &doc! { "level": "snapshot" });
            }
            ReadMode::Snapshot(Some(at)) => {
                let at = Value::Timestamp(*at);
                let concern = doc! { "level": "snapshot", "atClusterTime": at };
                command.put("readConcern", &concern);
            }
            ReadMode::Transaction(begun) => {
                if !std::mem::replace(begun, true) {
                    command.put("startTransaction", true);
                }
                command.put(
                    "lsid",
                    &doc! { "id": Binary { subtype: 4, bytes: &[9; 16] } },
                );
                command.put("txnNumber", 1i64);
                command.put("autocommit", false);
            }
        }
        let reply = send(&self.dispatcher, &mut self.conn, db, command.doc());
        let inside = reply.doc().field("cursor").as_doc();
        let at = inside.map_or(Value::Missing, |c| c.field("atClusterTime"));
        if let (ReadMode::Snapshot(None), Value::Timestamp(at)) = (self.reads, at) {
            self.reads = ReadMode::Snapshot(Some(at));
        }
        reply
    }

    fn run_all(&mut self, commands: &[&str]) {
        for command in commands {
            let reply = self.run(command);
            assert_eq!(code(&reply), 0, "{command}: {reply:?}");
        }
    }

    /// The results of a read.
    fn read_results(&mut self, read: &str) -> String {
        let reply = self.run(read);
        assert_eq!(code(&reply), 0, "{read}: {reply:?}");
        match reply.doc().field("cursor").as_doc() {
            Some(cursor) => {
                assert_eq!(cursor.field("id").as_i64_exact(), Some(0), "{read}");
                format!("{:?}", cursor.field("firstBatch"))
            }
            None => format!("{:?}", reply.doc().field("values")),
        }
    }

    fn read_everything(&mut self) -> Vec<String> {
        READS.iter().map(|read| self.read_results(read)).collect()
    }
}

fn assert_same(found: &[String], expected: &[String], what: &str) {
    for ((found, expected), read) in found.iter().zip(expected).zip(READS) {
        let short = |s: &str| s.chars().take(300).collect::<String>();
        assert!(
            found == expected,
            "{what}: {read}\n found {}\n not {}",
            short(found),
            short(expected)
        );
    }
}

/// A reader reads `first`, another client changes the catalog, and the reader then reads
/// everything.
fn read_beside(reads: ReadMode, first: &str, change: &(&str, &[&str])) {
    let s = Server::new();
    let (name, commands) = change;
    let what = format!("{name}, {reads:?}, {first}");
    let expected = s.client().read_everything();
    let mut reader = s.client();
    reader.reads = reads;
    reader.read_results(first);
    s.client().run_all(commands);
    s.sweep();
    assert_same(&reader.read_everything(), &expected, &what);
    // And again, when the collections of the names have already been looked up.
    s.sweep();
    assert_same(&reader.read_everything(), &expected, &what);
    let now = s.client().run(READS[6]);
    if let ReadMode::Transaction(_) = reads {
        reader.run_all(&["admin {'commitTransaction': 1}"]);
    }
    let later = s.client().run(READS[6]);
    let counted = |d: &DocBuf| format!("{:?}", d.doc().field("cursor").as_doc());
    assert_eq!(counted(&now), counted(&later), "{what}");
}

#[test]
fn a_transaction_reads_what_was_there_beside_every_change_of_the_catalog() {
    for change in CHANGES.iter().chain(SMALLER_CHANGES) {
        for first in [READS[0], "{'find': 'unrelated'}"] {
            read_beside(ReadMode::Transaction(false), first, change);
        }
    }
}

#[test]
fn a_snapshot_session_reads_what_was_there_beside_every_change_of_the_catalog() {
    for change in CHANGES.iter().chain(SMALLER_CHANGES) {
        for first in [READS[0], "{'find': 'unrelated'}"] {
            read_beside(ReadMode::Snapshot(None), first, change);
        }
    }
}

/// The remaining batches of a cursor come from the same state as the first.
#[test]
fn a_parked_cursor_of_a_snapshot_goes_on_beside_every_change_of_the_catalog() {
    let finds = [
        "{'find': 'c', 'filter': {}, 'batchSize': 200}",
        "{'find': 'c', 'filter': {'a': {'$gte': 0}}, 'hint': 'a', 'batchSize': 200}",
        "{'find': 'c', 'filter': {'t': {'$gte': 0}}, 'hint': 'ta', 'batchSize': 200}",
        "{'aggregate': 'c', 'pipeline': [{'$match': {'_id': {'$gte': 0}}}],
            'cursor': {'batchSize': 200}}",
    ];
    let all = [ReadMode::Snapshot(None), ReadMode::Transaction(false)];
    for (change, reads) in CHANGES.iter().flat_map(|c| all.map(|r| (c, r))) {
        for find in finds {
            let s = Server::new();
            let mut reader = s.client();
            reader.reads = reads;
            let mut reply = reader.run(find);
            let (mut count, mut batch) = (0, "firstBatch");
            loop {
                assert_eq!(
                    code(&reply),
                    0,
                    "{}, {reads:?}, {find}: {reply:?}",
                    change.0
                );
                let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
                count += cursor
                    .field(batch)
                    .as_array()
                    .map_or(0, |a| a.iter().count());
                let id = cursor.field("id").as_i64_exact().unwrap_or(0);
                if id == 0 {
                    break;
                }
                if batch == "firstBatch" {
                    s.client().run_all(change.1);
                    s.sweep();
                }
                batch = "nextBatch";
                reply = reader.run(&format!(
                    "{{'getMore': {{'$numberLong': '{id}'}}, 'collection': 'c', 'batchSize': 400}}"
                ));
            }
            assert_eq!(count, DOCUMENTS as usize, "{}, {reads:?}, {find}", change.0);
        }
    }
}

#[test]
fn a_write_of_a_transaction_to_a_name_that_leads_elsewhere_by_then_conflicts() {
    let writes = [
        "{'insert': 'c', 'documents': [{'_id': 'n'}]}",
        "{'update': 'c', 'updates': [{'q': {'_id': 7}, 'u': {'$set': {'b': 1}}}]}",
        "{'update': 'c', 'updates': [{'q': {'none': 7}, 'u': {'$set': {'b': 1}}}]}",
        "{'delete': 'c', 'deletes': [{'q': {'a': 3}, 'limit': 0}]}",
        "{'findAndModify': 'c', 'query': {'_id': 7}, 'update': {'$set': {'b': 1}}}",
    ];
    let over = [
        ("dropIndexes", &["{'dropIndexes': 'c', 'index': 'a'}"][..]),
        (
            "collMod",
            &["{'collMod': 'c', 'validator': {'a': {'$type': 'string'}}}"],
        ),
    ];
    for (change, write) in CHANGES
        .iter()
        .chain(&over)
        .flat_map(|c| writes.map(|w| (c, w)))
    {
        let s = Server::new();
        let mut writer = s.client();
        writer.reads = ReadMode::Transaction(false);
        writer.read_results("{'find': 'unrelated'}");
        s.client().run_all(change.1);
        let before = s.client().run(READS[6]);
        let reply = writer.run(write);
        assert_eq!(code(&reply), 112, "{}: {write}: {reply:?}", change.0);
        let labels = format!("{:?}", reply.doc().field("errorLabels"));
        assert!(labels.contains("TransientTransactionError"), "{reply:?}");
        let code = code(&writer.run("admin {'commitTransaction': 1}"));
        assert_eq!(code, 251, "{}: {write}", change.0);
        let counted = |d: &DocBuf| format!("{:?}", d.doc().field("cursor").as_doc());
        let after = s.client().run(READS[6]);
        assert_eq!(counted(&before), counted(&after), "{}: {write}", change.0);
    }
}

#[test]
fn a_collection_made_since_is_not_there_for_a_transaction_and_cannot_be_made_by_it() {
    let s = Server::new();
    for (number, write) in [
        "{'insert': 'made0', 'documents': [{'_id': 1}]}",
        "{'create': 'made1'}",
        "{'update': 'made2', 'updates': [{'q': {'_id': 1}, 'u': {'a': 1}, 'upsert': true}]}",
    ]
    .iter()
    .enumerate()
    {
        let s2 = Server::new();
        let mut writer = s2.client();
        writer.reads = ReadMode::Transaction(false);
        writer.read_results("{'find': 'unrelated'}");
        let insert = format!("{{'insert': 'made{number}', 'documents': [{{'_id': 7}}]}}");
        s2.client().run_all(&[&insert]);
        let find = format!("{{'find': 'made{number}'}}");
        assert_eq!(
            writer.read_results(&find),
            s.client().read_results("{'find': 'missing'}")
        );
        assert_eq!(code(&writer.run(write)), 112, "{write}");
    }
}

/// Their order and their buckets are those of the reader's snapshot, too.
#[test]
fn capped_and_time_series_collections_are_read_as_they_were() {
    let reads = [
        "{'find': 'k'}",
        "{'find': 'k', 'sort': {'$natural': -1}, 'limit': 3}",
        "{'find': 's', 'sort': {'t': 1}, 'projection': {'_id': 0}}",
        "{'aggregate': 's', 'pipeline': [{'$group': {'_id': '$m', 'n': {'$sum': '$v'}}},
            {'$sort': {'_id': 1}}], 'cursor': {}}",
        "{'find': 'local', 'filter': {}}",
    ];
    let changes: [&[&str]; 4] = [
        &["{'drop': 'k'}", "{'drop': 's'}"],
        &["{'dropDatabase': 1}"],
        &[
            "{'convertToCapped': 'k', 'size': 4096}",
            "{'collMod': 's',
            'expireAfterSeconds': {'$numberLong': '1000'}}",
        ],
        &[
            "{'drop': 'k'}",
            "{'create': 'k'}",
            "{'insert': 'k', 'documents': [{'_id': 1}]}",
            "{'drop': 's'}",
            "{'create': 's'}",
            "{'insert': 's', 'documents': [{'_id': 1}]}",
        ],
    ];
    let all = [ReadMode::Snapshot(None), ReadMode::Transaction(false)];
    for (change, how) in changes.iter().flat_map(|c| all.map(|r| (c, r))) {
        let s = Server::new();
        s.client().run_all(&[
            "{'create': 'k', 'capped': true, 'size': 100000, 'max': 5}",
            "{'insert': 'k', 'documents': [{'_id': 9}, {'_id': 8}, {'_id': 1}, {'_id': 5},
                {'_id': 4}, {'_id': 7}]}",
            "{'create': 's', 'timeseries': {'timeField': 't', 'metaField': 'm'}}",
            "{'insert': 's', 'documents': [
                {'t': {'$date': {'$numberLong': '1000'}}, 'm': 1, 'v': 1},
                {'t': {'$date': {'$numberLong': '2000'}}, 'm': 1, 'v': 2},
                {'t': {'$date': {'$numberLong': '3000'}}, 'm': 2, 'v': 4}]}",
        ]);
        let expected: Vec<String> = reads.iter().map(|r| s.client().read_results(r)).collect();
        let mut reader = s.client();
        reader.reads = how;
        reader.read_results("{'find': 'unrelated'}");
        s.client().run_all(change);
        s.sweep();
        for (read, expected) in reads.iter().zip(&expected) {
            assert_eq!(
                reader.read_results(read),
                *expected,
                "{change:?}, {how:?}, {read}"
            );
        }
    }
}

/// Data that is kept on disk for readers is deleted after they have ended.
#[test]
fn dropped_data_goes_when_the_last_reader_that_sees_it_has_ended() {
    let s = Server::new();
    let mut reader = s.client();
    reader.reads = ReadMode::Transaction(false);
    reader.read_results("{'find': 'unrelated'}");
    s.client().run_all(&["{'drop': 'c'}"]);
    let (lower, upper) = ([0; 4], [0xFF; 4]);
    let engine = s.store.engine();
    let range = storage::KeyRange::new(&lower, &upper);
    let size = || {
        engine
            .approx_size(storage::Table::Doc, range)
            .expect("a size")
    };
    s.sweep();
    let kept = size();
    reader.run_all(&["admin {'commitTransaction': 1}"]);
    assert_eq!(s.sweep(), 0);
    assert!(size() * 10 < kept, "{} of {kept} bytes are left", size());
}
