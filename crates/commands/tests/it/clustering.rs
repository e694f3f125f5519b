//! Clustering indexes, as clients see them: queries give the same results as a scan and read no
//! document. Unsupported options are refused.

use crate::standalone::Standalone;
use serde_json::{Value as Json, json};

/// 300 documents, every tenth with an array in the key.
fn start_filled() -> Standalone {
    let mut server = Standalone::new();
    let documents: Vec<Json> = (0..300)
        .map(|i| {
            let tags = if i % 10 == 0 {
                json!([i, -i])
            } else {
                json!(i)
            };
            json!({ "_id": i, "a": i % 20, "tags": tags, "pad": "x".repeat(50), "in": { "n": i } })
        })
        .collect();
    server.ok(&json!({ "insert": "c", "documents": documents }));
    server.ok(&json!({ "createIndexes": "c", "indexes": [
        { "key": { "a": 1, "_id": -1 }, "name": "whole", "clustering": true },
        { "key": { "tags": 1 }, "name": "some", "clustering": ["a", "in"] },
    ] }));
    server
}

fn find_documents(server: &mut Standalone, find: &Json) -> Json {
    server.ok(find)["cursor"]["firstBatch"].take()
}

fn find(filter: &Json, more: &Json) -> Json {
    let mut find = json!({ "find": "c", "filter": filter, "batchSize": 1000 });
    for (name, value) in more.as_object().into_iter().flatten() {
        find[name] = value.clone();
    }
    find
}

#[test]
fn ranges_are_answered_without_reading_documents() {
    let mut server = start_filled();
    let filter = json!({ "a": { "$gte": 3, "$lt": 5 } });
    let order = json!({ "a": 1, "_id": -1 });
    let by_index = find_documents(
        &mut server,
        &find(&filter, &json!({ "sort": order, "hint": "whole" })),
    );
    let looked = server.read_totals();
    assert_eq!((looked.keys, looked.docs), (30, 0));
    let by_scan = json!({ "sort": order, "hint": { "$natural": 1 } });
    assert_eq!(
        by_index,
        find_documents(&mut server, &find(&filter, &by_scan))
    );
    // Fields that are not in the key, and paths inside them.
    let deep = json!({ "a": 3, "in.n": { "$gt": 100 } });
    let by_index = find_documents(&mut server, &find(&deep, &json!({ "sort": { "_id": 1 } })));
    assert_eq!(server.read_totals().docs, 0);
    let by_scan = json!({ "sort": { "_id": 1 }, "hint": { "$natural": 1 } });
    assert_eq!(
        by_index,
        find_documents(&mut server, &find(&deep, &by_scan))
    );
    let explained = server.ok(&json!({ "explain": find(&deep, &json!({})),
        "verbosity": "executionStats" }));
    assert_eq!(explained["queryPlanner"]["winningPlan"]["stage"], "IXSCAN");
    assert_eq!(explained["executionStats"]["totalDocsExamined"], 0);
}

#[test]
fn stored_fields_cover_queries_that_need_no_other_field() {
    let mut server = start_filled();
    let (filter, projection) = (json!({ "tags": { "$lt": 25 } }), json!({ "a": 1, "in": 1 }));
    let natural = json!({ "$natural": 1 });
    for (projection, docs) in [(projection, 0), (json!({ "pad": 1 }), 52)] {
        let more = |hint: &Json| {
            json!({ "projection": projection, "sort": { "_id": 1 },
            "hint": hint })
        };
        let by_index = find_documents(&mut server, &find(&filter, &more(&json!("some"))));
        // 25 documents, and 27 more with a second entry; each is read once.
        assert_eq!(server.read_totals().docs, docs, "{projection}");
        assert_eq!(
            by_index,
            find_documents(&mut server, &find(&filter, &more(&natural)))
        );
    }
    let pipeline = json!([{ "$match": { "tags": { "$gte": 0 } } },
        { "$group": { "_id": "$a", "n": { "$sum": "$in.n" } } }, { "$sort": { "_id": 1 } }]);
    let grouped = |hint: &Json| {
        json!({ "aggregate": "c", "pipeline": pipeline, "cursor": {},
        "hint": hint })
    };
    let by_index = find_documents(&mut server, &grouped(&json!("some")));
    assert_eq!(server.read_totals().docs, 0);
    assert_eq!(by_index, find_documents(&mut server, &grouped(&natural)));
}

#[test]
fn every_change_of_a_document_is_in_its_entries() {
    let mut server = start_filled();
    server.ok(&json!({ "update": "c", "updates": [
        { "q": { "a": 7 }, "u": { "$set": { "in.n": -1, "new": "y" } }, "multi": true },
        { "q": { "_id": 20 }, "u": { "$set": { "tags": [1, 2, 3] } } },
    ] }));
    server.ok(&json!({ "delete": "c", "deletes": [{ "q": { "_id": 47 }, "limit": 1 }] }));
    for filter in [json!({ "a": 7 }), json!({ "a": 0 })] {
        let more = |hint: Json| json!({ "sort": { "_id": 1 }, "hint": hint });
        let by_index = find_documents(&mut server, &find(&filter, &more(json!("whole"))));
        assert_eq!(server.read_totals().docs, 0);
        let by_scan = find_documents(&mut server, &find(&filter, &more(json!({ "$natural": 1 }))));
        assert_eq!(by_index, by_scan);
    }
    let valid = server.ok(&json!({ "validate": "c", "full": true }));
    assert_eq!(valid["valid"], true, "{valid}");
    // A write reads the document that it changes.
    let explained = server.ok(&json!({ "explain": { "update": "c", "updates": [
        { "q": { "a": 7 }, "u": { "$set": { "b": 1 } } }] }, "verbosity": "executionStats" }));
    assert_eq!(explained["executionStats"]["totalDocsExamined"], 1);
}

#[test]
fn collations_and_hashes_carry_documents_too() {
    let mut server = Standalone::new();
    let words = ["a", "A", "b", "B", "c"];
    let documents: Vec<Json> = { words.iter().enumerate() }
        .map(|(i, word)| json!({ "_id": i, "w": word, "n": i }))
        .collect();
    server.ok(&json!({ "insert": "c", "documents": documents }));
    let collation = json!({ "locale": "en", "strength": 1 });
    server.ok(&json!({ "createIndexes": "c", "indexes": [
        { "key": { "w": 1 }, "name": "w", "collation": collation, "clustering": true },
        { "key": { "n": "hashed" }, "name": "h", "clustering": ["w"] },
    ] }));
    let more = json!({ "collation": collation, "sort": { "_id": 1 }, "hint": "w" });
    let by_index = find_documents(&mut server, &find(&json!({ "w": "A" }), &more));
    assert_eq!(server.read_totals().docs, 0);
    assert_eq!(
        by_index,
        json!([{ "_id": 0, "w": "a", "n": 0 }, { "_id": 1, "w": "A", "n": 1 }])
    );
    let more = json!({ "projection": { "w": 1 }, "hint": "h" });
    let by_hash = find_documents(&mut server, &find(&json!({ "n": 3 }), &more));
    assert_eq!(server.read_totals().docs, 0);
    assert_eq!(by_hash, json!([{ "_id": 3, "w": "B" }]));
}

#[test]
fn what_cannot_be_carried_is_refused() {
    let mut server = start_filled();
    let sphere = json!({ "at": "2dsphere" });
    let cases = [
        (json!({ "b": 1 }), json!(1), 14),
        (json!({ "b": 1 }), json!("a"), 14),
        (json!({ "b": 1 }), json!([]), 67),
        (json!({ "b": 1 }), json!(["a.b"]), 67),
        (json!({ "b": 1 }), json!(["$a"]), 67),
        (json!({ "b": 1 }), json!([1]), 67),
        (sphere, json!(true), 67),
        (json!({ "b": "text" }), json!(true), 67),
        (json!({ "$**": 1 }), json!(["a"]), 67),
        (json!({ "_id": 1 }), json!(true), 197),
    ];
    for (key, clustering, code) in cases {
        let reply = server.answer(&json!({ "createIndexes": "c", "indexes": [
            { "key": key, "name": "n", "clustering": clustering }] }));
        assert_eq!(reply["code"], code, "{key} {clustering}: {reply}");
    }
    // An index with the same key and other contents is a different index.
    let again = |clustering: Json| {
        json!({ "createIndexes": "c", "indexes": [
        { "key": { "a": 1, "_id": -1 }, "name": "whole", "clustering": clustering }] })
    };
    assert_eq!(server.answer(&again(json!(true)))["ok"], 1.0);
    assert_eq!(server.answer(&again(json!(["pad"])))["code"], 85);
    server.ok(&json!({ "create": "series", "timeseries": { "timeField": "t" } }));
    let reply = server.answer(&json!({ "createIndexes": "series", "indexes": [
        { "key": { "t": 1 }, "name": "t", "clustering": true }] }));
    assert_eq!(reply["code"], 72, "{reply}");
    let listed = server.ok(&json!({ "listIndexes": "c" }));
    assert_eq!(listed["cursor"]["firstBatch"][1]["clustering"], true);
}
