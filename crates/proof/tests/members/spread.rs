//! Collections whose documents are spread over parts of the key space (ADR 0115), through the
//! commands of a server. Prints what they cost beside others.

use model::{Doc, DocBuf, doc};
use storage::{CursorOpts, KeyRange, MAX_KEY, Reader, SPREAD, Table};

use crate::counts::{Server, measure};
use crate::{Cluster, take_turn};

const DOCUMENTS: i32 = 3_000;
const COLLECTIONS: [&str; 2] = ["plain", "spread"];

fn create(server: &mut Server) {
    let options = doc! { "tikv": doc! { "spread": true }.doc() };
    server.send(&doc! { "create": "plain" });
    server.send(&doc! { "create": "spread", "storageEngine": options.doc() });
    for collection in COLLECTIONS {
        server.send(&doc! { "createIndexes": collection, "indexes": [
            { "key": { "b": 1i32 }, "name": "b" },
        ] });
        for from in (0..DOCUMENTS).step_by(1_000) {
            server.send(&insert(collection, from, 1_000));
        }
        server.send(&doc! { "delete": collection, "deletes": [
            { "q": { "b": 3i32 }, "limit": 0i32 },
        ] });
        server.send(&doc! { "update": collection, "updates": [
            { "q": { "b": 5i32 }, "u": { "$set": { "c": 1i32 } }, "multi": true },
        ] });
    }
}

fn insert(collection: &str, from: i32, count: i32) -> DocBuf {
    DocBuf::build(|command| {
        command.put("insert", collection);
        let mut documents = command.array("documents");
        for n in from..from + count {
            documents.push(&doc! { "_id": n, "b": n % 10 });
        }
    })
}

/// All batches of a cursor.
fn read_all(server: &mut Server, collection: &str, command: &DocBuf) -> Vec<DocBuf> {
    let (mut documents, mut batch) = (Vec::new(), "firstBatch");
    let mut reply = server.send(command);
    loop {
        let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
        let found = cursor.field(batch).as_array().expect("a batch");
        documents.extend(found.iter().filter_map(|v| v.as_doc().map(Doc::to_buf)));
        let id = cursor.field("id").as_i64_exact().expect("a number");
        if id == 0 {
            return documents;
        }
        batch = "nextBatch";
        reply = server.send(&doc! { "getMore": id, "collection": collection });
    }
}

#[test]
fn a_spread_collection_answers_as_another_one() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let _turn = take_turn();
    let mut server = Server::join(&cluster);
    create(&mut server);
    let find = |rest: DocBuf| {
        move |collection: &str| {
            DocBuf::build(|command| {
                command.put("find", collection);
                rest.doc()
                    .iter()
                    .for_each(|(name, v)| _ = command.put(name, v));
            })
        }
    };
    let queries = [
        find(doc! {}),
        find(doc! { "sort": { "_id": 1i32 }, "batchSize": 7i32 }),
        find(doc! { "sort": { "_id": -1i32 }, "limit": 300i32 }),
        find(doc! { "sort": { "$natural": -1i32 }, "skip": 1000i32, "batchSize": 500i32 }),
        find(doc! { "filter": { "_id": { "$gte": 700i32, "$lt": 1900i32 } }, "skip": 5i32 }),
        find(doc! { "filter": { "_id": { "$in": [1i32, 2i32, 13i32, 2999i32] } } }),
        find(doc! { "filter": { "b": 5i32 }, "sort": { "_id": 1i32 } }),
        find(doc! { "filter": { "_id": 42i32 } }),
    ];
    for query in &queries {
        let [plain, spread] = COLLECTIONS.map(|c| read_all(&mut server, c, &query(c)));
        assert!(!plain.is_empty() && plain == spread, "{:?}", query("c"));
    }
    let checked = server.send(&doc! { "validate": "spread", "full": true });
    assert!(checked.doc().field("valid").truthy(), "{checked:?}");
    let counted = server.send(&doc! { "count": "spread" });
    assert_eq!(counted.doc().field("n").as_i64_exact(), Some(2_700));
    for collection in COLLECTIONS {
        let by_id = measure(&mut server, |server, n| {
            server.send(&doc! { "find": collection, "filter": { "_id": n } });
        });
        let added = measure(&mut server, |server, n| {
            server.send(&insert(collection, 10_000 + n, 1));
        });
        let scanned = measure(&mut server, |server, _| {
            let scan = doc! { "find": collection, "sort": { "_id": 1i32 }, "limit": 100i32 };
            server.send(&scan);
        });
        for (name, cost) in [("read", by_id), ("insert", added), ("scan of 100", scanned)] {
            println!(
                "{collection:8} {name:12} {:5.2} {:5.2} {}",
                cost.stores, cost.oracle, cost.kinds
            );
        }
    }
    let spread = SPREAD.to_be_bytes();
    let count_spread = |server: &Server| {
        let range = KeyRange::new(&spread, MAX_KEY);
        let cursor = server
            .engine
            .cursor(Table::Doc, range, CursorOpts::default());
        let mut count = 0;
        let each = &mut |_: &[u8], _: &[u8]| {
            count += 1;
            true
        };
        cursor
            .expect("a cursor")
            .visit(usize::MAX, each)
            .expect("a read");
        count
    };
    assert!(count_spread(&server) >= 2_700);
    let _idle = server.reconnect();
    server.send(&doc! { "drop": "spread" });
    let plain = server.send(&doc! { "count": "plain" });
    assert!(plain.doc().field("n").as_i64_exact() >= Some(2_700));
    let sweep = |_| server.store().sweep_dropped().expect("a sweep");
    let left = (0..10).map(sweep).find(|left| *left == 0);
    assert_eq!(
        left,
        Some(0),
        "the connection that waits for a request reads nothing"
    );
    assert_eq!(count_spread(&server), 0);
}
