//! Log entries of a time series, applied on another server: the resulting measurements, and the
//! number of engine calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use commands::{Config, Dispatcher, StoreHooks, SystemClock};
use model::{Doc, DocBuf, Value, doc};
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, MemoryEngine};

use crate::behaviour::{logging_store, send, serve, store};

/// Counts the steps of cursors.
#[derive(Default)]
struct Steps(AtomicU64);

impl Observer for Steps {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if matches!(call, Call::Cursor { .. } | Call::Visit { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn run(s: &Dispatcher, db: &str, command: &DocBuf) -> DocBuf {
    send(s, &mut s.connect("127.0.0.1:1"), db, command.doc())
}

fn run_ok(s: &Dispatcher, db: &str, command: &DocBuf) -> DocBuf {
    let reply = run(s, db, command);
    assert!(reply.doc().field("ok").truthy(), "{:?}", reply.doc());
    reply
}

fn batch(s: &Dispatcher, db: &str, command: &DocBuf) -> Vec<DocBuf> {
    let reply = run_ok(s, db, command);
    let cursor = reply.doc().field("cursor").as_doc().unwrap();
    let batch = cursor.field("firstBatch").as_array().unwrap();
    batch.iter().map(|d| d.as_doc().unwrap().to_buf()).collect()
}

fn create(s: &Dispatcher) {
    let options = doc! { "create": "series", "timeseries": { "timeField": "t", "metaField": "m" } };
    run_ok(s, "d", &options);
}

fn measurement(n: i32) -> DocBuf {
    doc! { "_id": n, "t": Value::Date(i64::from(n) * 1000), "m": n % 3, "v": n / 7 }
}

fn insert(s: &Dispatcher, docs: impl Iterator<Item = DocBuf>) {
    let command = DocBuf::build(|w| {
        w.put("insert", "series");
        let mut list = w.array("documents");
        docs.for_each(|d| _ = list.push(d.doc()));
    });
    run_ok(s, "d", &command);
}

fn all(s: &Dispatcher) -> Vec<DocBuf> {
    let find = doc! { "find": "series", "sort": { "_id": 1i32, "v": 1i32 },
    "batchSize": 100_000i32 };
    batch(s, "d", &find)
}

fn apply(entries: &[DocBuf]) -> DocBuf {
    DocBuf::build(|w| {
        let mut list = w.array("applyOps");
        entries.iter().for_each(|e| _ = list.push(e.doc()));
    })
}

#[test]
fn the_log_of_a_time_series_is_played_with_few_steps_for_each_entry() {
    let source = serve(Config::default(), logging_store());
    create(&source);
    for begin in (0..4000).step_by(100) {
        insert(&source, (begin..begin + 100).map(measurement));
    }
    let delete = doc! { "delete": "series", "deletes": [{ "q": { "v": { "$lt": 40i32 } },
    "limit": 0i32 }] };
    run_ok(&source, "d", &delete);
    let update = doc! { "update": "series", "updates": [{ "q": { "m": 2i32 },
    "u": { "$set": { "m": 9i32 } }, "multi": true }] };
    let changed = run_ok(&source, "d", &update);
    assert!(changed.doc().field("nModified").truthy(), "{changed:?}");
    let find = doc! { "find": "oplog.rs", "filter": { "op": { "$in": ["i", "d"] },
    "ns": "d.series" }, "sort": { "ts": 1i32 }, "batchSize": 100_000i32 };
    let entries = batch(&source, "local", &find);
    assert_eq!(entries.len(), 4000 + 280);

    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        Steps::default(),
    ));
    let hooks = Arc::new(StoreHooks::new(Arc::new(SystemClock::default())));
    let opened = store::Store::open(engine.clone(), hooks).unwrap();
    let target = serve(Config::default(), Arc::new(opened));
    create(&target);
    let before = engine.observer().0.load(Ordering::Relaxed);
    for part in entries.chunks(500) {
        run_ok(&target, "admin", &apply(part));
    }
    let steps = engine.observer().0.load(Ordering::Relaxed) - before;
    let most = entries.len() as u64 / 4;
    assert!(steps < most, "{steps} steps for {} entries", entries.len());

    let updates = doc! { "find": "oplog.rs", "filter": { "op": "u", "ns": "d.series" },
    "sort": { "ts": 1i32 }, "batchSize": 100_000i32 };
    for part in batch(&source, "local", &updates).chunks(500) {
        run_ok(&target, "admin", &apply(part));
    }
    assert_eq!(all(&target), all(&source));
    // Applying entries twice has the same result, if nothing was changed since.
    let kept = all(&target);
    let same = |e: &&DocBuf| {
        e.doc()
            .field("o")
            .as_doc()
            .unwrap()
            .field("m")
            .as_i64_exact()
            != Some(2)
    };
    let again: Vec<DocBuf> = entries[3000..].iter().filter(same).cloned().collect();
    run_ok(&target, "admin", &apply(&again));
    assert_eq!(all(&target), kept);
}

fn entry(op: &str, o: Doc<'_>) -> DocBuf {
    doc! { "op": op, "ns": "d.series", "o": o }
}

#[test]
fn entries_of_one_id_and_entries_without_a_time() {
    let s = serve(Config::default(), store());
    create(&s);
    let of = |id: i32, v: i32| {
        let time = Value::Date(i64::from(v) * 86_400_000);
        doc! { "_id": id, "t": time, "m": 1i32, "v": v }
    };
    let key = |id: i32| doc! { "_id": id };
    // Two measurements have the same `_id`, and one measurement is inserted twice. Their times are
    // far apart.
    let inserted = [of(1, 1), of(1, 2), of(1, 2), of(2, 9), of(3, 400)];
    let entries: Vec<DocBuf> = inserted.iter().map(|o| entry("i", o.doc())).collect();
    let reply = run_ok(&s, "admin", &apply(&entries));
    assert_eq!(reply.doc().field("applied").as_i64_exact(), Some(5));
    assert_eq!(all(&s), [of(1, 1), of(1, 2), of(2, 9), of(3, 400)]);
    // Each delete removes one measurement. A missing `_id` is no failure, and 1.0 equals 1.
    let one = doc! { "_id": 1.0 };
    let deletes = [one.doc(), key(7).doc(), key(3).doc()].map(|o| entry("d", o));
    run_ok(&s, "admin", &apply(&deletes));
    assert_eq!(all(&s), [of(1, 2), of(2, 9)]);
    // A delete with a time: a measurement with another time is a different one.
    let (wrong, right) = (of(2, 1), of(2, 9));
    run_ok(&s, "admin", &apply(&[entry("d", wrong.doc())]));
    assert_eq!(all(&s).len(), 2);
    let mixed = [
        entry("d", right.doc()),
        entry("i", of(4, 4).doc()),
        entry("d", key(1).doc()),
        entry("i", of(5, 5).doc()),
        entry("i", of(1, 1).doc()),
        entry("d", key(4).doc()),
    ];
    run_ok(&s, "admin", &apply(&mixed));
    assert_eq!(all(&s), [of(1, 1), of(5, 5)]);
}

#[test]
fn the_first_that_is_refused_ends_it() {
    let s = serve(Config::default(), store());
    create(&s);
    let index = doc! { "createIndexes": "series", "indexes": [{ "key": { "at": "2dsphere" },
    "name": "at" }] };
    run_ok(&s, "d", &index);
    let at = |n: i32, at: Value<'_>| {
        let mut one = measurement(n);
        one.put("at", at);
        entry("i", one.doc())
    };
    let place = doc! { "type": "Point", "coordinates": [1i32, 2i32] };
    let good = |n| at(n, Value::Document(place.doc()));
    let bad = at(2, Value::String("nowhere"));
    let reply = run(&s, "admin", &apply(&[good(1), bad, good(3)]));
    assert!(!reply.doc().field("ok").truthy(), "{:?}", reply.doc());
    let results = reply.doc().field("results").as_array().unwrap();
    let results: Vec<bool> = results.iter().map(|r| r.truthy()).collect();
    assert_eq!(results, [true, false]);
    assert_eq!(all(&s).len(), 1);
}
