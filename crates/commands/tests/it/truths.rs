//! The server's reports about single operations, indexes, sizes and itself are correct.

use crate::access::{user, with_root};
use crate::behaviour::send;
use crate::interrupts::{code, fill};
use crate::observability::{LoggingServer, int};
use model::{Binary, Doc, DocBuf, Value, doc};

/// The first documents of a cursor.
pub(crate) fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
    let batch = cursor.field("firstBatch").as_array().expect("a batch");
    let docs = batch.iter().filter_map(|v| v.as_doc().map(Doc::to_buf));
    docs.collect()
}

fn read_profile(s: &mut LoggingServer, filter: &str) -> Vec<DocBuf> {
    batch(&s.ok(&format!(
        r#"{{"find": "system.profile", "filter": {filter}}}"#
    )))
}

#[test]
fn the_profile_has_the_counters_and_cost_of_writes_by_id() {
    let mut s = LoggingServer::new();
    fill(s.server(), 50);
    s.ok(r#"{"profile": 2}"#);
    s.ok(r#"{"delete": "c", "deletes": [{"q": {"_id": 7}, "limit": 1}]}"#);
    s.ok(r#"{"delete": "c", "deletes": [{"q": {"_id": 7}, "limit": 1}]}"#);
    s.ok(r#"{"update": "c", "updates": [{"q": {"_id": 8}, "u": {"$set": {"z": 1}}}]}"#);
    s.ok(r#"{"findAndModify": "c", "query": {"_id": 9}, "remove": true}"#);
    s.ok(r#"{"aggregate": "c", "cursor": {}, "pipeline": [{"$sort": {"t": 1}}]}"#);
    s.ok(r#"{"profile": 0}"#);
    let of = |s: &mut LoggingServer, filter: &str| read_profile(s, filter);
    let deletes = of(&mut s, r#"{"op": "remove"}"#);
    let shown: Vec<_> = deletes
        .iter()
        .map(|d| (int(d, "keysExamined"), int(d, "docsExamined")))
        .collect();
    assert_eq!(shown, [(1, 1), (0, 0)]);
    let (update, modify) = (
        of(&mut s, r#"{"op": "update"}"#),
        of(&mut s, r#"{"command.findAndModify": "c"}"#),
    );
    for one in [&deletes[0], &update[0], &modify[0]] {
        assert_eq!(int(one, "docsExamined"), 1, "{one:?}");
        let plan = one.doc().field("planSummary");
        assert_eq!(plan.as_str(), Some("EXPRESS_IXSCAN { _id: 1 }"), "{one:?}");
        assert!(!one.doc().contains("_id"), "{one:?}");
        assert_eq!(int(one, "locks.Global.acquireCount.w"), 1);
        assert_eq!(int(one, "locks.Collection.acquireCount.w"), 1);
        assert!(one.doc().field("storage").as_doc().is_some());
        assert!(int(one, "cpuNanos") > 0, "{one:?}");
    }
    let read = of(&mut s, r#"{"command.aggregate": "c"}"#);
    assert_eq!(int(&read[0], "locks.Collection.acquireCount.r"), 1);
    assert_eq!(code(&s.run("db", r#"{"validate": "system.profile"}"#)), 0);
    let valid = s.ok(r#"{"validate": "system.profile"}"#);
    assert_eq!(
        valid.doc().field("valid").as_bool(),
        Some(true),
        "{valid:?}"
    );
}

#[test]
fn an_index_counts_its_uses_since_it_was_made() {
    let mut s = LoggingServer::new();
    fill(s.server(), 20);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let before = s.service().clock.now_ms();
    s.ok(r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b_1"}]}"#);
    let stats = |s: &mut LoggingServer| {
        let list = r#"{"aggregate": "c", "cursor": {}, "pipeline": [{"$indexStats": {}}]}"#;
        let all = batch(&s.ok(list));
        let one = |name: &str| {
            let found = all
                .iter()
                .find(|d| d.doc().field("name").as_str() == Some(name));
            let found = found.expect("the index");
            let since = found
                .doc()
                .field("accesses")
                .as_doc()
                .map(|d| d.field("since").to_owned_value());
            let Some(Value::Date(since)) = since.as_ref().map(|v| v.get()) else {
                panic!("{found:?}");
            };
            (int(found, "accesses.ops"), since)
        };
        (one("_id_"), one("b_1"))
    };
    let ((id_before, id_since), (ops, since)) = stats(&mut s);
    assert_eq!(ops, 0);
    assert!(since >= before && id_since < before, "{id_since} {since}");
    s.ok(r#"{"find": "c", "filter": {"b": -3}}"#);
    s.ok(r#"{"find": "c", "filter": {"_id": 3}}"#);
    s.ok(r#"{"find": "c", "filter": {"_id": {"$gt": 3}}}"#);
    s.ok(r#"{"delete": "c", "deletes": [{"q": {"_id": 5}, "limit": 1}]}"#);
    assert_eq!(stats(&mut s), ((id_before + 3, id_since), (1, since)));
}

#[test]
fn sizes_tell_of_the_keys_and_of_databases() {
    let mut s = LoggingServer::new();
    fill(s.server(), 20);
    let stats = s.ok(r#"{"collStats": "c"}"#);
    let (ids, all) = (int(&stats, "indexSizes._id_"), int(&stats, "storageSize"));
    assert!(ids > 0 && all > ids, "{stats:?}");
    assert_eq!(int(&stats, "totalIndexSize"), ids);
    assert_eq!(int(&stats, "totalSize"), all + ids);
    let listed = s.run("admin", r#"{"listDatabases": 1, "filter": {"name": "db"}}"#);
    assert_eq!(int(&listed, "totalSize"), all + ids);
}

#[test]
fn an_option_of_another_engine_is_refused() {
    let mut s = LoggingServer::new();
    for (engine, expected) in [
        (
            r#"{"wiredTiger": {"configString": "block_compressor=zstd"}}"#,
            72,
        ),
        (r#"{"wiredTiger": {"configString": ""}}"#, 0),
        (r#"{"rocksdb": {}}"#, 72),
        // The engine of this server has one machine.
        (r#"{"tikv": {"spread": true}}"#, 72),
    ] {
        let create = format!(r#"{{"create": "d{expected}", "storageEngine": {engine}}}"#);
        let reply = s.run("db", &create);
        assert_eq!(code(&reply), expected, "{engine}: {reply:?}");
    }
    let status = s.run("admin", r#"{"serverStatus": 1, "wiredTiger": 1}"#);
    assert!(!status.doc().contains("wiredTiger"), "{status:?}");
}

#[test]
fn starts_and_sessions_are_on_record() {
    let mut s = LoggingServer::new();
    s.service().note_start().expect("noted");
    let starts = batch(&s.run("local", r#"{"find": "startup_log"}"#));
    let [start] = starts.as_slice() else {
        panic!("{starts:?}");
    };
    assert_eq!(int(start, "pid"), i64::from(std::process::id()));
    let build = start.doc().field("buildinfo").as_doc().expect("a build");
    assert_eq!(build.field("version").as_str(), Some("8.2.0"));
    assert!(start.doc().field("cmdLine").as_doc().is_some());

    let find = r#"{"find": "transactions"}"#;
    assert!(batch(&s.run("config", find)).is_empty());
    let session = r#""lsid": {"id": {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==",
        "subType": "04"}}}"#;
    s.ok(&format!(
        r#"{{"insert": "c", "documents": [{{"_id": 1}}], "txnNumber": {{"$numberLong": "5"}},
            {session}}}"#
    ));
    let records = batch(&s.run("config", find));
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(int(&records[0], "txnNum"), 5);
    let id = records[0].doc().field("_id").as_doc().expect("an id");
    assert!(id.contains("id") && id.contains("uid"), "{records:?}");
}

#[test]
fn a_session_that_names_another_user_is_refused() {
    let (s, mut root) = with_root();
    let none = || doc! { "r": [] };
    let mut a = user(&s, &mut root, "a", none());
    let digest = |name: &str| -> [u8; 32] {
        use sha2::{Digest, Sha256};
        Sha256::digest(format!("{name}@admin").as_bytes()).into()
    };
    let ping = |uid: &[u8]| {
        let id = Binary {
            subtype: 4,
            bytes: &[9; 16],
        };
        let uid = Binary {
            subtype: 0,
            bytes: uid,
        };
        doc! { "ping": 1i32, "lsid": { "id": id, "uid": uid } }
    };
    let code_of = |c: &mut _, uid: &[u8]| code(&send(&s, c, "d", ping(uid).doc()));
    assert_eq!(code_of(&mut a, &digest("b")), 13);
    assert_eq!(code_of(&mut a, &digest("a")), 0);
    assert_eq!(code_of(&mut a, &[1, 2]), 12);
}
