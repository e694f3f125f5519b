//! Long commands that wait for a transaction without a thread: builds of indexes, validate, `$out`,
//! `$merge`, convertToCapped. Each continues where it was, however often it waits.

use crate::interrupts::json;
use crate::transactions::{Client, Server, WaitingClient, code, pairs};
use crate::waiting::{begin_command, ends, number, with_claim};
use model::DocBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, MemoryEngine, Table};

const DOCS: i32 = 600;
const HELD: i32 = 300;
/// Far more than a server has threads.
const MANY: usize = 700;

/// Runs a job when a build begins to read documents, and counts its steps.
#[derive(Default)]
struct BuildObserver {
    steps: AtomicUsize,
    job: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Observer for BuildObserver {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::Cursor {
            table: Table::Doc,
            opts,
            ..
        } = call
            && !opts.fill_cache
            && self.steps.fetch_add(1, Ordering::SeqCst) == 0
            && let Some(job) = self.job.lock().unwrap().take()
        {
            // Not on the thread of the build, which is executing a command.
            std::thread::spawn(job).join().unwrap();
        }
        Ok(())
    }
}

struct Build {
    server: Server,
    engine: Arc<ObservedEngine<BuildObserver>>,
    transaction: Arc<Mutex<Client>>,
    command: DocBuf,
    builder: WaitingClient,
}

/// A build that waits for a transaction which began while the build was running.
fn build_in_its_middle(unique: bool) -> Build {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        BuildObserver::default(),
    ));
    let server = Server::start_on(engine.clone());
    server.fill("c", DOCS);
    let transaction = Arc::new(Mutex::new(server.client(1)));
    let claims = Arc::clone(&transaction);
    *engine.observer().job.lock().unwrap() = Some(Box::new(move || {
        let r = claims.lock().unwrap().begin().set(HELD, 1000);
        assert_eq!(code(&r), 0, "{r:?}");
    }));
    engine.observer().steps.store(0, Ordering::SeqCst);
    let command = json(&format!(
        r#"{{"createIndexes": "c", "indexes": [
            {{"key": {{"a": 1}}, "name": "a", "unique": {unique}}}]}}"#
    ));
    let builder = begin_command(&server, &command);
    Build {
        server,
        engine,
        transaction,
        command,
        builder,
    }
}

fn is_valid(s: &Server) -> DocBuf {
    let r = s.client(7).run(r#"{"validate": "c"}"#);
    assert_eq!(r.doc().field("valid").as_bool(), Some(true), "{r:?}");
    r
}

#[test]
fn an_index_build_that_meets_a_claim_continues_where_it_stopped() {
    for (unique, commits) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut b = build_in_its_middle(unique);
        let mut other = b.server.client(2);
        // The build does not block other writes.
        let write = r#"{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 5000}}},
            {"q": {"_id": 500}, "u": {"$set": {"a": 6000}}}]}"#;
        assert_eq!(code(&other.run(write)), 0);
        {
            let mut t = b.transaction.lock().unwrap();
            assert_eq!(code(&if commits { t.commit() } else { t.abort() }), 0);
        }
        let r = ends(&b.server, &mut b.builder, &b.command);
        assert_eq!(code(&r), 0, "{r:?}");
        assert_eq!(
            (
                number(&r, "numIndexesBefore"),
                number(&r, "numIndexesAfter")
            ),
            (Some(1), Some(2))
        );
        assert!(!r.doc().contains("note"), "{r:?}");
        // The documents were not read again.
        assert_eq!(b.engine.observer().steps.load(Ordering::SeqCst), 1);
        is_valid(&b.server);
        let a = if commits { 1000 } else { HELD };
        let find = format!(r#"{{"find": "c", "hint": "a", "filter": {{"a": {a}}}}}"#);
        assert_eq!(pairs(&other.run(&find)).len(), 1);
    }
}

#[test]
fn many_wait_for_the_build_of_another_and_take_over_when_its_client_goes() {
    for goes in [false, true] {
        let mut b = build_in_its_middle(false);
        let mut waiting: Vec<_> = (0..MANY)
            .map(|_| begin_command(&b.server, &b.command))
            .collect();
        assert_eq!(code(&b.transaction.lock().unwrap().commit()), 0);
        // The transaction has ended, but they still wait for the build.
        for client in &mut waiting {
            assert!(client.bell.take());
            assert_eq!(client.run(&b.server, &b.command, true), None);
        }
        assert!(!waiting.iter().any(|w| w.bell.take()));
        if goes {
            drop(b.builder);
        } else {
            let r = ends(&b.server, &mut b.builder, &b.command);
            assert_eq!(code(&r), 0, "{r:?}");
        }
        let mut built = usize::from(!goes);
        for client in &mut waiting {
            let r = ends(&b.server, client, &b.command);
            assert_eq!(code(&r), 0, "{r:?}");
            built += usize::from(!r.doc().contains("note"));
        }
        assert_eq!(built, 1);
        is_valid(&b.server);
    }
}

#[test]
fn a_build_that_fails_behind_a_wait_leaves_nothing() {
    let mut b = build_in_its_middle(true);
    let mut other = b.server.client(2);
    // One document was already read by the build, the other was not.
    let write = r#"{"update": "c", "updates": [{"q": {"_id": 590}, "u": {"$set": {"a": 599}}}]}"#;
    assert_eq!(code(&other.run(write)), 0);
    assert_eq!(code(&b.transaction.lock().unwrap().commit()), 0);
    let r = ends(&b.server, &mut b.builder, &b.command);
    assert_eq!(code(&r), 11000, "{r:?}");
    let r = other.run(r#"{"listIndexes": "c"}"#);
    let batch = r
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap()
        .field("firstBatch");
    assert_eq!(batch.as_array().map(|b| b.len()), Some(1), "{r:?}");
    is_valid(&b.server);
}

#[test]
fn merge_resumes_after_the_documents_already_written() {
    let merges = [
        // First with a sort, then in the order of the scan.
        r#"{"aggregate": "d", "cursor": {}, "pipeline": [{"$sort": {"_id": 1}}, {"$merge":
            {"into": "c", "whenMatched": [{"$set": {"a": {"$add": ["$a", 1]}}}]}}]}"#,
        r#"{"aggregate": "d", "cursor": {}, "pipeline": [{"$match": {"_id": {"$gte": 0}}},
            {"$merge": {"into": "c", "whenMatched": [{"$set": {"a": {"$add": ["$a", 1]}}}]}}]}"#,
    ];
    for (merge, commits) in merges.iter().flat_map(|m| [(m, true), (m, false)]) {
        let (s, mut t) = with_claim(DOCS, HELD);
        s.fill("d", DOCS + 10);
        let merge = json(merge);
        let mut clients: Vec<_> = (0..3).map(|_| begin_command(&s, &merge)).collect();
        let mut other = s.client(2);
        let changed = pairs(&other.run(r#"{"find": "c", "filter": {"_id": {"$lt": 5}}}"#));
        assert_eq!(changed, (0..5).map(|n| (n, n + 3)).collect::<Vec<_>>());
        assert_eq!(code(&if commits { t.commit() } else { t.abort() }), 0);
        for client in &mut clients {
            let r = ends(&s, client, &merge);
            assert_eq!(code(&r), 0, "{r:?}");
            let cursor = r.doc().field("cursor").as_doc().unwrap();
            assert_eq!(cursor.field("ns").as_str(), Some("db.d"));
            assert_eq!(
                cursor.field("firstBatch").as_array().map(|b| b.len()),
                Some(0)
            );
        }
        let find = r#"{"find": "c", "sort": {"_id": 1}, "batchSize": 1000}"#;
        let all = pairs(&other.run(find));
        assert_eq!(all.len(), DOCS as usize + 10);
        for (id, a) in all {
            let before = if commits && id == i64::from(HELD) {
                1000
            } else {
                id
            };
            // The last ten documents were inserted by the first merge and changed by two.
            let times = if id < i64::from(DOCS) { 3 } else { 2 };
            assert_eq!(a, before + times, "{id}");
        }
    }
}

#[test]
fn commands_that_replace_a_collection_wait_without_a_thread() {
    let commands = [
        r#"{"aggregate": "d", "cursor": {}, "pipeline": [{"$out": "c"}]}"#,
        r#"{"convertToCapped": "c", "size": 1000000}"#,
        r#"{"validate": "c"}"#,
    ];
    for command in commands {
        let s = Server::with_documents(DOCS);
        s.fill("d", 5);
        let mut other = s.client(2);
        let make = r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"},
            {"key": {"b": 1}, "name": "b"}]}"#;
        assert_eq!(code(&other.run(make)), 0);
        let mut t = s.client(1);
        assert_eq!(code(&t.begin().set(HELD, 1000)), 0);
        let change = json(command);
        // The client of one disconnects while it waits, and one reaches its time limit.
        drop(begin_command(&s, &change));
        let mut limited = change.clone();
        limited.put("maxTimeMS", 10i32);
        let mut late = begin_command(&s, &limited);
        s.advance_ms(20);
        let r = late.run(&s, &limited, true).expect("a reply");
        assert_eq!(code(&r), 50, "{command}");
        drop(late);
        let mut clients: Vec<_> = (0..MANY).map(|_| begin_command(&s, &change)).collect();
        assert_eq!(code(&t.set(HELD, 1001)), 0, "{command}");
        assert_eq!(code(&t.commit()), 0);
        for (n, client) in clients.iter_mut().enumerate() {
            let r = ends(&s, client, &change);
            assert_eq!(code(&r), 0, "{command} {n} {r:?}");
        }
        let names = other.run(r#"{"listCollections": 1, "nameOnly": true}"#);
        let names = format!("{names:?}");
        assert!(!names.contains("tmp.agg_out"), "{command} {names}");
        let count = number(&other.run(r#"{"count": "c"}"#), "n");
        let replaced = command.contains("$out");
        let all = if replaced { 5 } else { i64::from(DOCS) };
        assert_eq!(count, Some(all), "{command}");
        let indexes = if command.contains("Capped") { 1 } else { 3 };
        assert_eq!(
            number(&is_valid(&s), "nIndexes"),
            Some(indexes),
            "{command}"
        );
    }
}

fn indexes(s: &Server) -> usize {
    let r = s.client(7).run(r#"{"listIndexes": "c"}"#);
    let cursor = r.doc().field("cursor").as_doc().unwrap();
    cursor.field("firstBatch").as_array().map_or(0, |b| b.len())
}

/// Regression: nobody continued the build of the index. Writers went on maintaining it, and it
/// refused duplicates although it did not exist.
#[test]
fn a_build_whose_client_goes_leaves_nothing() {
    let b = build_in_its_middle(true);
    let mut other = b.server.client(2);
    drop(b.builder);
    let expire = || commands::workers::run_shared_once(b.server.dispatcher().service());
    // The transaction still blocks the removal; the worker neither waits for it nor blocks other
    // operations.
    expire();
    let insert = |id: i32| format!(r#"{{"insert": "c", "documents": [{{"_id": {id}, "a": 1}}]}}"#);
    assert_eq!(code(&other.run(&insert(5000))), 11000);
    assert_eq!(code(&b.transaction.lock().unwrap().commit()), 0);
    expire();
    assert_eq!(code(&other.run(&insert(5000))), 0);
    assert_eq!(number(&is_valid(&b.server), "nIndexes"), Some(1));
    let r = other.run(r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#);
    assert_eq!(number(&r, "numIndexesBefore"), Some(1), "{r:?}");
    assert_eq!(indexes(&b.server), 2);
}

#[test]
fn an_index_that_becomes_unique_waits_without_a_thread() {
    let unique = json(
        r#"{"collMod": "c", "index": {"name": "a", "unique": true},
            "validator": {"_id": {"$gte": 0}}}"#,
    );
    for (commits, goes) in [(true, false), (false, false), (true, true)] {
        let s = Server::with_documents(DOCS);
        let mut other = s.client(2);
        for command in [
            r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#,
            r#"{"collMod": "c", "index": {"name": "a", "prepareUnique": true}}"#,
        ] {
            assert_eq!(code(&other.run(command)), 0);
        }
        let mut t = s.client(1);
        assert_eq!(code(&t.begin().set(HELD, 1000)), 0);
        let mut client = begin_command(&s, &unique);
        if goes {
            drop(client);
            assert_eq!(code(&t.commit()), 0);
            commands::workers::run_shared_once(s.dispatcher().service());
            client = WaitingClient::new(&s);
        } else {
            // It waits for the transaction twice: to change the options, and to read the document.
            assert_eq!(code(&if commits { t.commit() } else { t.abort() }), 0);
            assert!(client.bell.take());
        }
        let r = client.run(&s, &unique, !goes).expect("a reply");
        assert_eq!(code(&r), 0, "{r:?}");
        assert_eq!(r.doc().field("unique_new").as_bool(), Some(true), "{r:?}");
        assert_eq!(indexes(&s), 2);
        let twice = r#"{"insert": "c", "documents": [{"_id": 5000, "a": 1}]}"#;
        assert_eq!(code(&other.run(twice)), 11000);
        assert_eq!(number(&is_valid(&s), "nIndexes"), Some(2));
        let told = r#"{"count": "oplog.rs", "$db": "local", "query": {"o.collMod": "c",
            "o.index.unique": true}}"#;
        assert_eq!(number(&other.run(told), "n"), Some(1));
    }
}

#[test]
fn a_rebuild_in_its_middle_goes_on_where_it_was() {
    for goes in [false, true] {
        let engine = Arc::new(ObservedEngine::new(
            Arc::new(MemoryEngine::new()),
            BuildObserver::default(),
        ));
        let s = Server::start_on(engine.clone());
        s.fill("c", DOCS);
        let mut other = s.client(2);
        for command in [
            r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#,
            r#"{"collMod": "c", "index": {"name": "a", "prepareUnique": true}}"#,
        ] {
            assert_eq!(code(&other.run(command)), 0);
        }
        let t = Arc::new(Mutex::new(s.client(1)));
        let claims = Arc::clone(&t);
        *engine.observer().job.lock().unwrap() = Some(Box::new(move || {
            assert_eq!(code(&claims.lock().unwrap().begin().set(HELD, 1000)), 0);
        }));
        engine.observer().steps.store(0, Ordering::SeqCst);
        let unique = json(r#"{"collMod": "c", "index": {"name": "a", "unique": true}}"#);
        let mut client = begin_command(&s, &unique);
        if goes {
            drop(client);
            assert_eq!(code(&t.lock().unwrap().commit()), 0);
            commands::workers::run_shared_once(s.dispatcher().service());
            // The old index can still be used.
            let r = other.run(r#"{"count": "c", "query": {"a": 5}, "hint": "a"}"#);
            assert_eq!(number(&r, "n"), Some(1), "{r:?}");
        } else {
            assert_eq!(code(&t.lock().unwrap().commit()), 0);
            let r = ends(&s, &mut client, &unique);
            assert_eq!(code(&r), 0, "{r:?}");
            assert_eq!(engine.observer().steps.load(Ordering::SeqCst), 1);
        }
        assert_eq!(number(&is_valid(&s), "nIndexes"), Some(2));
        let listed = format!("{:?}", other.run(r#"{"listIndexes": "c"}"#));
        assert_eq!(listed.contains("unique: true"), !goes, "{listed}");
    }
}

#[test]
fn apply_ops_goes_on_behind_what_it_has_applied() {
    let apply = json(
        r#"{"applyOps": [
            {"op": "i", "ns": "db.c", "o": {"_id": 5000, "a": 5000}},
            {"op": "u", "ns": "db.c", "o2": {"_id": 300}, "o": {"$v": 2, "diff": {"u": {"b": 1}}}},
            {"op": "d", "ns": "db.c", "o": {"_id": 5000}},
            {"op": "c", "ns": "db.$cmd", "o": {"applyOps": [
                {"op": "c", "ns": "db.$cmd", "o": {"create": "made"}},
                {"op": "i", "ns": "db.made", "o": {"_id": 1}},
                {"op": "c", "ns": "db.$cmd", "o": {"createIndexes": "c", "v": 2, "key": {"a": 1},
                    "name": "a"}},
                {"op": "c", "ns": "db.$cmd", "o": {"dropDatabase": 1}},
                {"op": "c", "ns": "db.$cmd", "o": {"create": "made"}},
                {"op": "c", "ns": "db.$cmd", "o": {"create": "again"}}]}}],
            "$db": "admin"}"#,
    );
    let s = Server::with_documents(DOCS);
    let mut t = s.client(1);
    assert_eq!(code(&t.begin().set(HELD, 1000)), 0);
    let mut client = begin_command(&s, &apply);
    assert_eq!(code(&t.commit()), 0);
    // The next transaction blocks the build of the index.
    assert_eq!(code(&t.begin().set(HELD + 1, 1001)), 0);
    assert!(client.bell.take());
    assert_eq!(client.run(&s, &apply, true), None);
    assert_eq!(code(&t.commit()), 0);
    let r = ends(&s, &mut client, &apply);
    assert_eq!(code(&r), 0, "{r:?}");
    assert_eq!(number(&r, "applied"), Some(4), "{r:?}");
    let mut other = s.client(2);
    for (filter, times) in [
        (r#"{"op": "i", "o._id": 5000}"#, 1),
        (r#"{"op": "d", "o._id": 5000}"#, 1),
        (r#"{"op": "u", "o.diff.i.b": 1}"#, 1),
        (r#"{"op": "i", "ns": "db.made"}"#, 1),
        (r#"{"o.create": "made"}"#, 2),
        (r#"{"o.create": "again"}"#, 1),
        (r#"{"o.dropDatabase": 1}"#, 1),
    ] {
        let count = format!(r#"{{"count": "oplog.rs", "$db": "local", "query": {filter}}}"#);
        assert_eq!(number(&other.run(&count), "n"), Some(times), "{filter}");
    }
}
