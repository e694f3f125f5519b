//! Writes and changes of the catalog that wait for a transaction without a thread: a command that
//! has already written something continues where it was.

use crate::interrupts::json;
use crate::observability::int;
use crate::transactions::{Client, FIND, Server, WaitingClient, code, pairs};
use model::{Binary, DocBuf, doc};

pub(crate) fn number(r: &DocBuf, name: &str) -> Option<i64> {
    r.doc().field(name).as_i64_exact()
}

/// A server with `n` documents, and a transaction that has set the `a` of one of them to 1000.
pub(crate) fn with_claim(n: i32, id: i32) -> (Server, Client) {
    let s = Server::with_documents(n);
    let mut t = s.client(1);
    assert_eq!(code(&t.begin().set(id, 1000)), 0);
    (s, t)
}

pub(crate) fn begin_command(s: &Server, command: &DocBuf) -> WaitingClient {
    let mut client = WaitingClient::new(s);
    assert_eq!(client.run(s, command, false), None, "{command:?}");
    client
}

pub(crate) fn ends(s: &Server, client: &mut WaitingClient, command: &DocBuf) -> DocBuf {
    assert!(client.bell.take());
    client.run(s, command, true).expect("a reply")
}

const DOCS: i32 = 600;
const HELD: i32 = 300;

#[test]
fn a_statement_of_many_documents_resumes_in_its_middle() {
    for index in [false, true] {
        for commits in [true, false] {
            let (s, mut t) = with_claim(DOCS, HELD);
            let mut other = s.client(2);
            let held = i64::from(HELD);
            let mut filter = "{}";
            if index {
                assert_eq!(code(&t.abort()), 0);
                let make = r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#;
                assert_eq!(code(&other.run(make)), 0);
                assert_eq!(code(&t.begin().set(HELD, 1000)), 0);
                // The update moves the documents forward in the index.
                filter = r#"{"a": {"$gte": 0}}"#;
            }
            let update = json(&format!(
                r#"{{"update": "c", "updates": [{{"q": {filter}, "multi": true,
                    "u": [{{"$set": {{"a": {{"$add": ["$a", 1]}}, "at": "$$NOW"}}}}]}}]}}"#
            ));
            let mut client = begin_command(&s, &update);
            // The changes made so far are visible to everybody.
            let changed = pairs(&other.run(
                r#"{"find": "c", "filter": {"at": {"$exists": 1}},
                "batchSize": 1000}"#,
            ));
            assert!(!changed.is_empty() && changed.len() < HELD as usize + 1);
            s.advance_ms(7);
            assert_eq!(code(&if commits { t.commit() } else { t.abort() }), 0);
            let r = ends(&s, &mut client, &update);
            let all = Some(i64::from(DOCS));
            assert_eq!(
                (number(&r, "n"), number(&r, "nModified")),
                (all, all),
                "{r:?}"
            );
            let find = r#"{"find": "c", "sort": {"_id": 1}, "batchSize": 1000}"#;
            for (id, a) in pairs(&other.run(find)) {
                let before = if commits && id == held { 1000 } else { id };
                assert_eq!(a, before + 1);
            }
            let times = other.run(r#"{"distinct": "c", "key": "at"}"#);
            assert_eq!(
                times.doc().field("values").as_array().map(|v| v.len()),
                Some(1)
            );
        }
    }
}

#[test]
fn many_deletes_and_batches_of_statements_keep_what_they_did() {
    let (s, mut t) = with_claim(DOCS, HELD);
    let delete = json(
        r#"{"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1},
            {"q": {"_id": {"$lt": 310}}, "limit": 0}, {"q": {"_id": 400}, "limit": 1}]}"#,
    );
    let update = json(
        r#"{"update": "c", "ordered": false, "updates": [
            {"q": {"_id": 500}, "u": {"$inc": {"a": 1}}},
            {"q": {"_id": 501}, "u": {"$inc": {"_id": 1}}},
            {"q": {"_id": 1500}, "u": {"$set": {"a": 2}}, "upsert": true},
            {"q": {"_id": {"$gte": 290, "$lt": 502}}, "u": {"$inc": {"b": 1}}, "multi": true},
            {"q": {"_id": 501}, "u": {"$inc": {"a": 1}}}]}"#,
    );
    let bulk = json(
        r#"{"bulkWrite": 1, "$db": "admin", "nsInfo": [{"ns": "db.c"}], "ops": [
            {"insert": 0, "document": {"_id": 2000}},
            {"update": 0, "filter": {"_id": 2000}, "updateMods": {"$inc": {"a": 1}}},
            {"update": 0, "filter": {"_id": 300}, "updateMods": {"$inc": {"c": 1}}},
            {"delete": 0, "filter": {"_id": 599}}]}"#,
    );
    let mut bulk_client = begin_command(&s, &bulk);
    let mut update_client = begin_command(&s, &update);
    let mut delete_client = begin_command(&s, &delete);
    assert_eq!(code(&t.commit()), 0);
    let r = ends(&s, &mut bulk_client, &bulk);
    for (name, n) in [
        ("nInserted", 1),
        ("nModified", 2),
        ("nDeleted", 1),
        ("nErrors", 0),
    ] {
        assert_eq!(number(&r, name), Some(n), "{name} {r:?}");
    }
    let r = ends(&s, &mut update_client, &update);
    let upserted = r.doc().field("upserted").as_array().map(|u| u.len());
    let errors = r.doc().field("writeErrors").as_array().expect("errors");
    let at = errors
        .get(0)
        .and_then(|e| e.as_doc().map(|d| d.field("index").as_i64_exact()));
    assert_eq!((errors.len(), at), (1, Some(Some(1))), "{r:?}");
    // 290 to 501, two single documents, and the new one: the delete continues after it.
    let matched = number(&r, "n").expect("n");
    assert_eq!(upserted, Some(1));
    assert_eq!(matched, 215, "{r:?}");
    let r = ends(&s, &mut delete_client, &delete);
    // It has deleted 0 to 309 and 400.
    assert_eq!(number(&r, "n"), Some(311), "{r:?}");
    let left = pairs(
        &s.client(3)
            .run(r#"{"find": "c", "sort": {"_id": 1}, "batchSize": 1000}"#),
    );
    // The rest without 599, and with 1500 and 2000.
    assert_eq!(left.len(), 600 - 311 - 1 + 2);
    assert!(left.contains(&(500, 501)) && left.contains(&(501, 502)));
    assert!(left.contains(&(1500, 2)) && left.contains(&(2000, 1)));
}

#[test]
fn inserts_of_several_batches_resume_after_the_documents_already_written() {
    for (ordered, commits) in [(true, true), (true, false), (false, true), (false, false)] {
        for retryable in [false, true] {
            let s = Server::with_documents(1);
            let mut t = s.client(1);
            t.begin()
                .ok(r#"{"insert": "c", "documents": [{"_id": 1280}]}"#);
            let mut documents: Vec<String> =
                (1000..1400).map(|i| format!(r#"{{"_id": {i}}}"#)).collect();
            // One document already exists, and one can never be stored.
            documents[5] = r#"{"_id": 0}"#.to_owned();
            documents[390] = r#"{"_id": [1]}"#.to_owned();
            if ordered {
                documents.remove(390);
                documents.remove(5);
            }
            let mut insert = json(&format!(
                r#"{{"insert": "c", "ordered": {ordered}, "documents": [{}]}}"#,
                documents.join(", ")
            ));
            if retryable {
                insert.put(
                    "lsid",
                    &doc! { "id": Binary { subtype: 4, bytes: &[9; 16] } },
                );
                insert.put("txnNumber", 1i64);
            }
            let mut client = begin_command(&s, &insert);
            assert_eq!(code(&if commits { t.commit() } else { t.abort() }), 0);
            let r = ends(&s, &mut client, &insert);
            let errors = r.doc().field("writeErrors").as_array();
            let at: Vec<_> = errors
                .iter()
                .flat_map(|e| e.iter())
                .map(|e| e.as_doc().and_then(|d| d.field("index").as_i64_exact()))
                .collect();
            let (n, expected) = match (ordered, commits) {
                (true, true) => (279, vec![Some(279)]),
                (true, false) => (398, vec![]),
                (false, true) => (397, vec![Some(5), Some(280), Some(390)]),
                (false, false) => (398, vec![Some(5), Some(390)]),
            };
            assert_eq!((number(&r, "n"), at), (Some(n), expected), "{r:?}");
            assert!(!r.doc().contains("retriedStmtIds"));
            let there = s.client(4).run(r#"{"count": "c"}"#);
            assert_eq!(number(&there, "n"), Some(n + 1 + i64::from(commits)));
        }
    }
}

#[test]
fn a_retry_beside_one_that_waits_writes_nothing_twice() {
    let (s, mut t) = with_claim(3, 1);
    let mut update = json(
        r#"{"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"a": 1}}},
            {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}},
            {"q": {"_id": 2}, "u": {"$inc": {"a": 1}}}]}"#,
    );
    update.put(
        "lsid",
        &doc! { "id": Binary { subtype: 4, bytes: &[9; 16] } },
    );
    update.put("txnNumber", 1i64);
    let mut first = begin_command(&s, &update);
    let mut second = begin_command(&s, &update);
    assert_eq!(code(&t.commit()), 0);
    let retried = |r: &DocBuf| -> Vec<i64> {
        let list = r.doc().field("retriedStmtIds").as_array();
        let numbers = list.iter().flat_map(|l| l.iter());
        numbers.filter_map(|v| v.as_i64_exact()).collect()
    };
    // The first one is woken; the second tries before the first has run.
    let r = second.run(&s, &update, true).expect("a reply");
    assert_eq!((number(&r, "n"), retried(&r)), (Some(3), vec![0]), "{r:?}");
    let r = ends(&s, &mut first, &update);
    assert_eq!(
        (number(&r, "n"), retried(&r)),
        (Some(3), vec![1, 2]),
        "{r:?}"
    );
    let all = pairs(&s.client(4).run(FIND));
    assert_eq!(all, vec![(0, 1), (1, 1001), (2, 3)]);
}

// Regression: each of them held a thread, and with enough of them the server answered no request.
#[test]
fn a_thousand_that_have_written_wait_without_a_thread() {
    let (s, mut t) = with_claim(1001, 1000);
    let update = |n: i32| {
        json(&format!(
            r#"{{"update": "c", "updates": [{{"q": {{"_id": {n}}}, "u": {{"$inc": {{"b": 1}}}}}},
                {{"q": {{"_id": {{"$gte": 1000}}}}, "u": {{"$inc": {{"a": 1}}}},
                    "multi": true}}]}}"#
        ))
    };
    let mut waiting: Vec<_> = (0..1000)
        .map(|n| (n, begin_command(&s, &update(n))))
        .collect();
    let written = s.client(2).run(r#"{"count": "c", "query": {"b": 1}}"#);
    assert_eq!(number(&written, "n"), Some(1000));
    assert_eq!(code(&t.commit()), 0);
    for (n, client) in &mut waiting {
        let r = ends(&s, client, &update(*n));
        assert_eq!(
            (number(&r, "n"), number(&r, "nModified")),
            (Some(2), Some(2))
        );
    }
    let held = s.client(2).run(r#"{"find": "c", "filter": {"_id": 1000}}"#);
    assert_eq!(pairs(&held), vec![(1000, 2000)]);
    let written = s.client(2).run(r#"{"count": "c", "query": {"b": 1}}"#);
    assert_eq!(number(&written, "n"), Some(1000));
}

#[test]
fn a_statement_ends_when_its_collection_goes_while_it_waits() {
    for again in [false, true] {
        let (s, mut t) = with_claim(DOCS, HELD);
        let update = json(
            r#"{"update": "c", "updates": [{"q": {}, "u": {"$inc": {"b": 1}}, "multi": true}]}"#,
        );
        let mut client = begin_command(&s, &update);
        let drop = json(r#"{"drop": "c"}"#);
        let mut dropping = begin_command(&s, &drop);
        assert_eq!(code(&t.commit()), 0);
        assert_eq!(code(&ends(&s, &mut dropping, &drop)), 0);
        if again {
            let r = s
                .client(2)
                .run(r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
            assert_eq!(code(&r), 0);
        }
        assert_eq!(code(&ends(&s, &mut client, &update)), 175);
        let changed = s.client(2).run(r#"{"count": "c", "query": {"b": 1}}"#);
        assert_eq!(number(&changed, "n"), Some(0));
    }
}

#[test]
fn changes_of_the_catalog_wait_without_a_thread_and_keep_newcomers_out() {
    let commands = [
        r#"{"collMod": "c", "validationLevel": "off"}"#,
        r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b"}]}"#,
        r#"{"dropIndexes": "c", "index": "a"}"#,
        r#"{"renameCollection": "db.d", "to": "db.c", "dropTarget": true, "$db": "admin"}"#,
        r#"{"renameCollection": "db.c", "to": "db.e", "$db": "admin"}"#,
        r#"{"drop": "c"}"#,
        r#"{"dropDatabase": 1}"#,
    ];
    for command in commands {
        let s = Server::with_documents(2);
        let mut other = s.client(2);
        let make = r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#;
        assert_eq!(code(&other.run(make)), 0);
        assert_eq!(
            code(&other.run(r#"{"insert": "d", "documents": [{"_id": 5}]}"#)),
            0
        );
        let mut t = s.client(1);
        assert_eq!(code(&t.begin().set(0, 1000)), 0);
        let change = json(command);
        // When the client of a waiting change disconnects, other operations may continue.
        let update = r#"{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"b": 1}}}]}"#;
        let gone = begin_command(&s, &change);
        let mut writer = begin_command(&s, &json(update));
        assert!(!writer.bell.take());
        drop(gone);
        assert_eq!(code(&ends(&s, &mut writer, &json(update))), 0, "{command}");
        let mut client = begin_command(&s, &change);
        let mut writer = begin_command(&s, &json(update));
        assert_eq!(code(&other.run(r#"{"insert": "f", "documents": [{}]}"#)), 0);
        assert_eq!(
            pairs(&other.run(r#"{"find": "c", "filter": {"_id": 1}}"#)).len(),
            1
        );
        // The transaction itself can continue.
        assert_eq!(code(&t.set(0, 1001)), 0);
        assert_eq!(code(&t.commit()), 0);
        assert!(!writer.bell.take(), "{command}");
        assert_eq!(code(&ends(&s, &mut client, &change)), 0, "{command}");
        let r = ends(&s, &mut writer, &json(update));
        assert_eq!(code(&r), 0, "{command}");
    }
}

/// The statement has written something, so it cannot be refused any more, and it does not queue for
/// a ticket.
#[test]
fn a_statement_resumes_in_its_middle_however_many_wait_for_tickets() {
    let (s, mut t) = with_claim(DOCS, HELD);
    let mut other = s.client(2);
    let update =
        json(r#"{"update": "c", "updates": [{"q": {}, "u": {"$inc": {"a": 1}}, "multi": true}]}"#);
    let mut client = begin_command(&s, &update);
    let one = r#"{"setParameter": 1, "wiredTigerConcurrentWriteTransactions": 1, "$db": "admin"}"#;
    assert_eq!(code(&other.run(one)), 0);
    for _ in 0..2 {
        commands::workers::run_shared_once(s.dispatcher().service());
        s.advance_ms(2);
    }
    // Another write holds the only ticket until its time limit.
    let mut busy = s.client(3);
    let busy = std::thread::spawn(move || {
        busy.run(
            r#"{"update": "c", "maxTimeMS": 1000, "updates": [{"u": {"$set": {"b": 1}},
                "q": {"_id": 0, "$where": "while (true) {}"}}]}"#,
        )
    });
    let status = r#"{"serverStatus": 1, "$db": "admin"}"#;
    while int(&other.run(status), "queues.execution.write.out") == 0 {
        std::thread::yield_now();
    }
    assert_eq!(code(&t.commit()), 0);
    let r = ends(&s, &mut client, &update);
    assert_eq!(number(&r, "nModified"), Some(i64::from(DOCS)), "{r:?}");
    s.advance_ms(2000);
    assert_eq!(code(&busy.join().expect("a reply")), 50);
}

/// Regression: the profile showed the duration of a write, but not that it had waited for a
/// transaction.
#[test]
fn the_profile_tells_of_a_wait_for_a_document() {
    let (s, mut t) = with_claim(3, 1);
    let mut other = s.client(2);
    assert_eq!(code(&other.run(r#"{"profile": 2}"#)), 0);
    let update = json(
        r#"{"update": "c", "comment": "waits", "updates": [{"q": {"_id": 1},
            "u": {"$set": {"a": 7}}}]}"#,
    );
    let mut client = begin_command(&s, &update);
    s.advance_ms(120);
    assert_eq!(code(&t.abort()), 0);
    assert_eq!(
        number(&ends(&s, &mut client, &update), "nModified"),
        Some(1)
    );
    let profiled =
        other.run(r#"{"find": "system.profile", "filter": {"command.comment": "waits"}}"#);
    let cursor = profiled.doc().field("cursor").as_doc().expect("a cursor");
    let first = cursor.field("firstBatch").as_array().expect("a batch");
    let first = first
        .get(0)
        .and_then(|v| v.as_doc())
        .map(model::Doc::to_buf);
    let waited = int(
        &first.expect("the update"),
        "locks.Document.timeAcquiringMicros.w",
    );
    assert_eq!(waited, 120_000);
}
