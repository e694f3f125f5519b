//! Time-series collections: measurements in buckets, open and packed, across restarts; measurements
//! of collections created before there were buckets; metrics of their space.

use crate::open;
use model::{Doc, DocBuf, Namespace, Value, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::observe::{Call, Fault, FaultInjector, ObservedEngine, Observer};
use storage::{Caps, MemoryEngine, Reader, Table};
use store::{BucketView, Change, Collection, ModifyOutcome, ReadView, SeriesRead, Store};

const HOUR: i64 = 3_600_000;

fn options() -> DocBuf {
    doc! { "timeseries": { "timeField": "t", "metaField": "m", "granularity": "seconds",
    "bucketMaxSpanSeconds": 3600i32 } }
}

fn series(store: &Store) -> Arc<Collection> {
    let ns = Namespace::new("db", "s").unwrap();
    let c = store
        .writer(crate::test_operation())
        .create_collection(&ns, options(), [7; 16])
        .unwrap();
    c.writer(crate::test_operation())
        .create_index(doc! { "v": 2i32, "key": { "m": 1i32, "t": 1i32 }, "name": "m_1_t_1" })
        .unwrap();
    c
}

fn measurement(id: i32, time_ms: i64, sensor: i32) -> DocBuf {
    doc! { "t": Value::Date(time_ms), "m": { "sensor": sensor }, "_id": id,
    "v": f64::from(id) / 4.0 }
}

fn insert(c: &Arc<Collection>, docs: &[DocBuf]) {
    let views: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
    let done = c
        .writer(crate::test_operation())
        .insert(&views, true)
        .unwrap();
    assert_eq!((done.count, done.errors.len()), (docs.len(), 0));
}

fn valid(c: &Arc<Collection>) {
    let v = c.validate().unwrap();
    assert_eq!(v.errors, Vec::<String>::new());
}

fn all(c: &Arc<Collection>) -> Vec<DocBuf> {
    crate::dump(c, false)
}

fn ids(docs: &[DocBuf]) -> Vec<i64> {
    docs.iter()
        .map(|d| d.doc().field("_id").as_i64_exact().unwrap())
        .collect()
}

fn keys(c: &Arc<Collection>, wanted: impl Fn(Doc<'_>) -> bool) -> Vec<Vec<u8>> {
    let (mut keys, mut scan) = (Vec::new(), c.scan(&ReadView::LATEST, false));
    while scan
        .visit(100, &mut |row| {
            if wanted(row.doc) {
                keys.push(row.key.to_vec());
            }
            true
        })
        .unwrap()
    {}
    keys
}

fn change(
    c: &Arc<Collection>,
    wanted: impl Fn(Doc<'_>) -> bool,
    into: impl Fn(Doc<'_>) -> Change,
) -> usize {
    let found = keys(c, wanted);
    let views: Vec<&[u8]> = found.iter().map(Vec::as_slice).collect();
    let mut changed = 0;
    c.writer(crate::test_operation())
        .modify_many(&views, &mut |_, doc| Ok(into(doc)), &mut |_, m| {
            changed += usize::from(matches!(
                m,
                ModifyOutcome::Replaced(_) | ModifyOutcome::Deleted(_)
            ));
        })
        .unwrap();
    changed
}

#[test]
fn measurements_lie_in_buckets_and_come_in_their_order() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = series(&store);
    let minute = 60_000;
    // Two sensors in parallel: one measurement is late but inside its bucket, one is an hour later,
    // and two are before the beginning of their sensor's bucket.
    let times = [
        (1, 5, 0),
        (2, 4, 1),
        (3, 3, 0),
        (4, 70, 0),
        (5, 7, 0),
        (6, 5, 1),
        (7, 71, 0),
    ];
    let docs = times.map(|(id, t, s)| measurement(id, t * minute, s));
    insert(&c, &docs);
    assert_eq!(ids(&all(&c)), [3, 2, 6, 1, 5, 4, 7]);
    assert_eq!(ids(&crate::dump(&c, true)), [7, 4, 5, 1, 6, 2, 3]);
    assert_eq!(c.count(), 7);
    valid(&c);
    let before = all(&c);
    let shown = c.bucket_stats().unwrap();
    c.writer(crate::test_operation())
        .pack_buckets(&|| Ok(()))
        .unwrap();
    assert_eq!(all(&c), before, "packed, byte for byte the same");
    assert_eq!(c.bucket_stats().unwrap().buckets, shown.buckets);
    assert_eq!(
        c.size_bytes(),
        before
            .iter()
            .map(|d| d.as_bytes().len() as u64)
            .sum::<u64>()
    );
    valid(&c);
}

#[test]
fn full_buckets_are_packed_and_one_id_may_come_twice() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = series(&store);
    let docs: Vec<DocBuf> = (0..2500)
        .map(|i| measurement(i % 100, i64::from(i) * 1000, 1))
        .collect();
    insert(&c, &docs);
    let s = c.bucket_stats().unwrap();
    assert_eq!((s.buckets, s.inserts, s.closed_by_count), (3, 3, 2));
    assert_eq!(all(&c), docs);
    // Only the open bucket still has rows: two packed heads, one open head, 500 rows, and the mark
    // of the open bucket.
    assert_eq!(rows(&engine, Table::Doc, &c).len(), 2 + 1 + 500);
    assert_eq!(rows(&engine, Table::Cap, &c).len(), 1);
    valid(&c);
}

/// Keys of a table that belong to the collection.
fn rows(engine: &MemoryEngine, table: Table, c: &Arc<Collection>) -> Vec<Vec<u8>> {
    let mut prefix = Vec::new();
    c.record_key(&Value::Missing, &mut prefix);
    prefix.truncate(4);
    let mut upper = Vec::new();
    storage::prefix_end(&prefix, &mut upper);
    let range = storage::KeyRange {
        lower: &prefix,
        upper: &upper,
    };
    let mut found = Vec::new();
    let mut cursor = engine
        .cursor(table, range, storage::CursorOpts::default())
        .unwrap();
    while cursor
        .visit(1000, &mut |key, _| {
            found.push(key.to_vec());
            true
        })
        .unwrap()
    {}
    found
}

#[test]
fn a_restart_closes_open_buckets() {
    let engine = Arc::new(MemoryEngine::new());
    let first: Vec<DocBuf> = (0..50)
        .map(|i| measurement(i, i64::from(i) * 1000, i % 5))
        .collect();
    insert(&series(&open(&engine)), &first);
    let store = open(&engine);
    let c = store
        .collection(&Namespace::new("db", "s").unwrap())
        .unwrap()
        .unwrap();
    let found = all(&c);
    assert_eq!(found.len(), 50);
    valid(&c);
    // The next insert packs them, and opens a bucket of its own.
    insert(&c, &[measurement(50, 60_000, 0)]);
    assert_eq!(rows(&engine, Table::Cap, &c).len(), 1);
    assert_eq!(rows(&engine, Table::Doc, &c).len(), 5 + 1 + 1);
    assert_eq!(all(&c).len(), 51);
    valid(&c);
}

#[test]
fn a_bucket_has_an_entry_for_each_value_of_its_meta() {
    let c = series(&open(&Arc::new(MemoryEngine::new())));
    let one = DocBuf::build(|w| {
        w.put("_id", 1i32).put("t", Value::Date(1000));
        let mut m = w.array("m");
        for tag in ["a", "b", "c", "d"] {
            m.push(tag);
        }
    });
    insert(&c, &[one]);
    valid(&c);
}

#[test]
fn measurements_are_deleted_and_moved() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = series(&store);
    let docs: Vec<DocBuf> = (0..1500)
        .map(|i| measurement(i, i64::from(i) * 2000, i % 2))
        .collect();
    insert(&c, &docs);
    let sensor = |d: Doc<'_>| {
        d.field("m")
            .as_doc()
            .unwrap()
            .field("sensor")
            .as_i64_exact()
    };
    // Deletes some measurements of an open and of a packed bucket.
    let gone = change(
        &c,
        |d| d.field("_id").as_i64_exact().unwrap() % 10 == 3,
        |_| Change::Delete,
    );
    assert_eq!((gone, c.count()), (150, 1350));
    valid(&c);
    // Moves all measurements of a sensor to another one.
    let moved = change(
        &c,
        |d| sensor(d) == Some(0),
        |d| {
            let new = DocBuf::build(|w| {
                for (name, v) in d.iter() {
                    match name {
                        "m" => _ = w.doc("m").put("sensor", 9i32),
                        _ => _ = w.put(name, v),
                    }
                }
            });
            Change::Replace(new.into_bytes())
        },
    );
    assert_eq!(moved, 750);
    valid(&c);
    let left = all(&c);
    assert_eq!(
        left.iter().filter(|d| sensor(d.doc()) == Some(9)).count(),
        750
    );
    let mut found = ids(&left);
    found.sort_unstable();
    let wanted: Vec<i64> = (0..1500).filter(|i| i % 10 != 3).collect();
    assert_eq!(found, wanted);
    // A bucket that was changed takes no further measurement.
    insert(&c, &[measurement(2000, 2000, 1)]);
    valid(&c);
    assert_eq!(change(&c, |_| true, |_| Change::Delete), 1351);
    assert_eq!((c.count(), c.bucket_stats().unwrap().buckets), (0, 0));
    assert_eq!(rows(&engine, Table::Doc, &c).len(), 0);
    assert_eq!(rows(&engine, Table::Cap, &c).len(), 0);
    valid(&c);
}

#[test]
fn measurements_without_buckets_are_read_and_changed() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    // The former layout: each measurement under its id, with index entries of its own.
    let plain = crate::collection(&store, "plain");
    plain
        .writer(crate::test_operation())
        .create_index(doc! { "v": 2i32, "key": { "m": 1i32, "t": 1i32 }, "name": "m_1_t_1" })
        .unwrap();
    let old: Vec<DocBuf> = (0..20)
        .map(|i| measurement(i, i64::from(i) * 1000, i % 2))
        .collect();
    insert(&plain, &old);
    plain
        .writer(crate::test_operation())
        .set_options(options(), None)
        .unwrap();
    drop(plain);
    drop(store);
    let store = open(&engine);
    let c = store
        .collection(&Namespace::new("db", "plain").unwrap())
        .unwrap()
        .unwrap();
    assert!(c.is_unpacked());
    assert_eq!(ids(&all(&c)), (0..20).collect::<Vec<i64>>());
    valid(&c);
    insert(&c, &[measurement(20, 5000, 0), measurement(3, 6000, 1)]);
    assert_eq!(c.count(), 22);
    valid(&c);
    let gone = change(
        &c,
        |d| d.field("_id").as_i64_exact() == Some(3),
        |_| Change::Delete,
    );
    assert_eq!((gone, all(&c).len()), (2, 20));
    valid(&c);
}

#[test]
fn only_what_is_asked_for_is_decoded() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = series(&store);
    for hour in 0..24 {
        let docs: Vec<DocBuf> = (0..60)
            .map(|i| measurement(i, hour * HOUR + i64::from(i) * 60_000, i % 2))
            .collect();
        insert(&c, &docs);
    }
    c.writer(crate::test_operation())
        .pack_buckets(&|| Ok(()))
        .unwrap();
    let read = |times, fields: Option<&[&str]>, sensor: Option<i32>| {
        let index = c.indexes()[0].clone();
        let by = sensor.map(|s| {
            let meta = doc! { "sensor": s };
            let mut low = Vec::new();
            index.encode_bound(0, &Value::Document(meta.doc()), &mut low);
            let high = [&low[..], &[0xFE]].concat();
            let interval = store::KeyInterval {
                lower: low,
                upper: high,
            };
            c.scan_index(&ReadView::LATEST, &index, 0, vec![interval].into(), false)
        });
        let read = SeriesRead {
            times,
            fields: fields.map(|f| f.iter().map(|s| (*s).to_owned()).collect()),
            reverse: false,
        };
        let mut scan = c.scan_series(&ReadView::LATEST, read, by).unwrap();
        let mut docs = Vec::new();
        while scan
            .visit(7, &mut |row| {
                docs.push(row.doc.to_buf());
                true
            })
            .unwrap()
        {
            scan.pause();
        }
        (docs, scan.counts())
    };
    let (docs, counts) = read(None, None, None);
    assert_eq!((docs.len(), counts.read), (24 * 60, 48));
    let (docs, counts) = read(Some((5 * HOUR, 6 * HOUR - 1)), Some(&["v"]), None);
    assert_eq!((docs.len(), counts.read, counts.passed), (60, 2, 2));
    assert_eq!(docs[0], doc! { "t": Value::Date(5 * HOUR), "v": 0.0 });
    let (docs, counts) = read(Some((5 * HOUR, 6 * HOUR - 1)), None, Some(1));
    assert_eq!((docs.len(), counts.read, counts.keys), (30, 1, 24));
}

#[test]
fn buckets_are_shown_and_restored() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = series(&store);
    let docs: Vec<DocBuf> = (0..1200)
        .map(|i| measurement(i, i64::from(i) * 1000, i % 3))
        .collect();
    insert(&c, &docs);
    let shown = |c: &Arc<Collection>| {
        let mut scan = c
            .scan_series(&ReadView::LATEST, SeriesRead::default(), None)
            .unwrap();
        let mut buckets: Vec<BucketView> = Vec::new();
        while let Some(b) = scan.next_bucket().unwrap() {
            buckets.push(b);
            scan.pause();
        }
        buckets
    };
    let buckets = shown(&c);
    assert_eq!(buckets.len() as i64, c.bucket_stats().unwrap().buckets);
    let ns = Namespace::new("db", "copy").unwrap();
    let copy = store
        .writer(crate::test_operation())
        .create_collection(&ns, options(), [8; 16])
        .unwrap();
    for b in &buckets {
        assert_eq!(
            copy.writer(crate::test_operation())
                .restore_bucket(b, None)
                .unwrap()
                .count,
            b.measurements.len()
        );
        // The second time the bucket exists already.
        let again = copy
            .writer(crate::test_operation())
            .restore_bucket(b, None)
            .unwrap();
        assert_eq!((again.count, again.errors[0].1.code()), (0, 11000));
    }
    assert_eq!(all(&copy), all(&c));
    assert_eq!(
        shown(&copy)
            .iter()
            .map(|b| (b.start_ms, b.rest))
            .collect::<Vec<_>>(),
        buckets
            .iter()
            .map(|b| (b.start_ms, b.rest))
            .collect::<Vec<_>>()
    );
    valid(&copy);
    insert(&copy, &docs[..10]);
    valid(&copy);
}

/// After a crash the state is that after some number of commits: from each of them the collection
/// is valid, has every acknowledged measurement, and can be written to.
#[test]
fn every_commit_leaves_a_sound_collection() {
    let docs: Vec<DocBuf> = (0..1100)
        .map(|i| measurement(i, i64::from(i) * 4000, 1))
        .collect();
    let script = |c: &Arc<Collection>, acknowledged: &mut u64| {
        for chunk in docs.chunks(220) {
            let views: Vec<Doc<'_>> = chunk.iter().map(DocBuf::doc).collect();
            *acknowledged += c
                .writer(crate::test_operation())
                .insert(&views, true)?
                .count as u64;
        }
        let found = keys(c, |d| d.field("_id").as_i64_exact().unwrap() % 300 == 7);
        for key in found {
            c.writer(crate::test_operation())
                .modify(&key, &mut |_| Ok(Change::Delete))?;
            *acknowledged -= 1;
        }
        c.writer(crate::test_operation()).pack_buckets(&|| Ok(()))
    };
    let mut commits = 0;
    loop {
        let memory = Arc::new(MemoryEngine::new());
        let engine = Arc::new(ObservedEngine::new(
            memory.clone(),
            FaultInjector::default(),
        ));
        let store = Store::open(engine.clone(), Arc::new(store::NoHooks)).unwrap();
        let c = series(&store);
        engine.observer().plan(Some(Fault {
            after_calls: commits,
            error: storage::StorageError::Closed,
            lasting: true,
            work_is_done: false,
            writes_only: true,
        }));
        let mut acknowledged = 0;
        let done = script(&c, &mut acknowledged).is_ok();
        let store = open(&memory);
        let c = store
            .collection(&Namespace::new("db", "s").unwrap())
            .unwrap()
            .unwrap();
        valid(&c);
        assert!(c.count() >= acknowledged, "{} of {acknowledged}", c.count());
        assert_eq!(all(&c).len() as u64, c.count());
        insert(&c, &[measurement(5000, 0, 1), measurement(5001, HOUR, 2)]);
        c.writer(crate::test_operation())
            .pack_buckets(&|| Ok(()))
            .unwrap();
        valid(&c);
        assert_eq!(rows(&memory, Table::Cap, &c).len(), 0);
        if done {
            break;
        }
        commits += 1;
    }
    assert!(commits > 10, "{commits}");
}

/// Counts commits.
#[derive(Default)]
struct CommitCounter(AtomicUsize);

impl Observer for CommitCounter {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::Apply { .. } = call {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// Measurements that come in no order close a bucket each. On an engine that flushes each commit,
/// an insert would wait for as many flushes.
#[test]
fn an_insert_packs_the_buckets_it_closes_in_one_commit() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        CommitCounter::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(store::NoHooks)).unwrap();
    let c = series(&store);
    insert(&c, &[measurement(0, 1000 * HOUR, 1)]);
    let before = engine.observer().0.load(Ordering::SeqCst);
    let backwards: Vec<DocBuf> = (1..=20)
        .map(|n| measurement(n, i64::from(1000 - n) * HOUR, 1))
        .collect();
    insert(&c, &backwards);
    let commits = engine.observer().0.load(Ordering::SeqCst) - before;
    // Heads, measurements, packed buckets.
    assert!(commits <= 3, "{commits} commits");
    assert_eq!(ids(&all(&c)), (0..=20).rev().collect::<Vec<_>>());
    valid(&c);
}
