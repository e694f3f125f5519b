//! Search on a standalone server: its log exists only for search; and what clients see of it.

use crate::behaviour::feeding_store;
use crate::search::{Server, aggregate, dynamic};
use commands::Config;
use model::{Doc, doc};
use std::path::Path;
use std::sync::Arc;
use store::Store;

fn standalone(store: Arc<Store>, folder: Option<&Path>) -> Server {
    let config = Config {
        replica_set: None,
        search_folder: folder.map(Path::to_owned),
        ..Config::default()
    };
    Server::start_with(config, store)
}

#[test]
fn a_standalone_server_searches_and_follows_every_change() {
    let mut s = standalone(feeding_store(), None);
    s.insert(&[
        doc! { "_id": 1i32, "t": "one" },
        doc! { "_id": 2i32, "t": "two" },
    ]);
    s.create(dynamic());
    s.wait_ready("default");
    assert_eq!(s.search_word("one"), [1]);
    s.insert(&[doc! { "_id": 3i32, "t": "three" }]);
    s.wait_found("three", &[3]);
    let set = doc! { "q": { "_id": 3i32 }, "u": { "$set": { "t": "four" } } };
    s.ok(&doc! { "update": "c", "updates": [&set] });
    s.wait_found("four", &[3]);
    assert!(s.search_word("three").is_empty());
    s.ok(&doc! { "delete": "c", "deletes": [{ "q": { "_id": 1i32 }, "limit": 1i32 }] });
    assert!(s.search_word("one").is_empty());
    s.ok(&doc! { "renameCollection": "db.c", "to": "db.d", "$db": "admin" });
    s.ok(&doc! { "insert": "d", "documents": [{ "_id": 5i32, "t": "five" }] });
    let five = || doc! { "$search": { "text": { "query": "five", "path": "t" } } };
    s.wait("after a rename", |s| s.aggregate("d", &[five()]).len() == 1);
}

#[test]
fn changes_made_without_a_feed_are_applied_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = feeding_store();
    let mut s = standalone(store.clone(), Some(folder.path()));
    s.insert(&[
        doc! { "_id": 1i32, "t": "one" },
        doc! { "_id": 2i32, "t": "one two" },
    ]);
    s.create(dynamic());
    s.wait_ready("default");
    s.stop();
    s.ok(&doc! { "delete": "c", "deletes": [{ "q": { "_id": 1i32 }, "limit": 1i32 }] });
    s.insert(&[doc! { "_id": 3i32, "t": "one" }]);
    drop(s);
    let mut s = standalone(store, Some(folder.path()));
    s.wait_ready("default");
    assert_eq!(s.search_word("one"), [3, 2]);
}

/// Collections without search indexes are not logged, and clients cannot see the log.
#[test]
fn the_log_is_for_search_alone() {
    let store = feeding_store();
    let mut s = standalone(store.clone(), None);
    let written = |store: &Store| {
        let mut consumer = store
            .consume_log(
                "test",
                model::Timestamp::from_u64(0),
                store::Lifetime::Process,
            )
            .expect("no failure")
            .expect("a log");
        let mut entries = 0;
        while consumer
            .visit(100, &mut |_, entry: Doc<'_>| {
                entries += i32::from(entry.field("op").as_str() != Some("n"));
                true
            })
            .expect("no failure")
            == store::VisitResult::More
        {}
        entries
    };
    s.insert(&[doc! { "_id": 1i32, "t": "one" }]);
    s.ok(&doc! { "insert": "other", "documents": [{ "_id": 1i32 }] });
    assert_eq!(written(&store), 0);
    s.create(dynamic());
    s.wait_ready("default");
    s.insert(&[doc! { "_id": 2i32, "t": "two" }]);
    s.ok(&doc! { "insert": "other", "documents": [{ "_id": 2i32 }] });
    assert_eq!(written(&store), 1);
    s.ok(&doc! { "dropSearchIndex": "c", "name": "default" });
    s.insert(&[doc! { "_id": 3i32, "t": "three" }]);
    assert_eq!(written(&store), 1);
    assert!(store.log().is_none());
    let named = doc! { "listCollections": 1i32, "$db": "local", "nameOnly": true };
    let names = s.batch(&named);
    let is_log = |d: &model::DocBuf| d.doc().field("name").as_str() == Some("oplog.rs");
    assert!(!names.iter().any(is_log), "{names:?}");
    let watch = aggregate("c", &[doc! { "$changeStream": {} }]);
    assert_eq!(s.code(&watch), 40573);
    let hello = s.run(&doc! { "hello": 1i32 });
    assert!(hello.doc().get("setName").is_none());
    assert!(hello.doc().get("operationTime").is_none());
}
