//! The log of all changes: the entry of each change, their order, and how much is kept.

use model::{Doc, DocBuf, Namespace, Timestamp, Value, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use storage::MemoryEngine;
use store::{
    Audience, Change, ChangedPaths, Collection, Hooks, LogSettings, NoHooks, Paths, Predicate,
    ReadView, RetryImage, SessionRecord, Set, StatementLog, Store, Terms, VisitResult,
};

/// Hooks with a log and a clock of the test.
struct LogHooks {
    bytes_max: u64,
    audience: Audience,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Hooks for LogHooks {
    fn predicate(&self, f: Doc<'_>, c: Option<Doc<'_>>) -> model::Result<Predicate> {
        NoHooks.predicate(f, c)
    }
    fn collator(&self, c: Doc<'_>) -> model::Result<Option<Arc<dyn model::Collate>>> {
        NoHooks.collator(c)
    }
    fn terms(&self, d: Doc<'_>) -> model::Result<Arc<dyn Terms>> {
        NoHooks.terms(d)
    }
    fn log(&self) -> Option<LogSettings> {
        Some(LogSettings {
            bytes_max: self.bytes_max,
            audience: self.audience,
            uuid: [3; 16],
            now_ms: Arc::clone(&self.now_ms),
        })
    }
}

/// Hooks with a log and the clock of the system.
pub(crate) fn hooks(bytes_max: u64) -> Arc<dyn Hooks> {
    let since = || SystemTime::now().duration_since(UNIX_EPOCH);
    Arc::new(LogHooks {
        bytes_max,
        audience: Audience::Everybody,
        now_ms: Arc::new(move || since().map_or(0, |since| since.as_millis() as i64)),
    })
}

pub(crate) fn open(engine: &Arc<MemoryEngine>, bytes_max: u64) -> (Store, Arc<AtomicI64>) {
    open_for(engine, bytes_max, Audience::Everybody)
}

pub(crate) fn open_for(
    engine: &Arc<MemoryEngine>,
    bytes_max: u64,
    audience: Audience,
) -> (Store, Arc<AtomicI64>) {
    let now_ms = Arc::new(AtomicI64::new(100_000));
    let hooks = LogHooks {
        bytes_max,
        audience,
        now_ms: {
            let now_ms = Arc::clone(&now_ms);
            Arc::new(move || now_ms.load(Ordering::Relaxed))
        },
    };
    (
        Store::open(engine.clone(), Arc::new(hooks)).unwrap(),
        now_ms,
    )
}

/// Whether a store with a log opens.
pub(crate) fn try_open(engine: &Arc<MemoryEngine>, bytes_max: u64) -> model::Result<()> {
    let hooks = LogHooks {
        bytes_max,
        audience: Audience::Everybody,
        now_ms: Arc::new(|| 100_000),
    };
    Store::open(engine.clone(), Arc::new(hooks)).map(drop)
}

fn fresh() -> Store {
    open(&Arc::new(MemoryEngine::new()), 1 << 30).0
}

fn entries(store: &Store, from: u64) -> Vec<DocBuf> {
    let mut reader = store.read_log(Timestamp::from_u64(from)).unwrap();
    let mut all = Vec::new();
    while reader
        .visit(2, &mut |_, doc| {
            all.push(doc.to_buf());
            true
        })
        .unwrap()
        == VisitResult::More
    {}
    all
}

/// A short form of entries.
fn format_entries(all: &[DocBuf]) -> Vec<String> {
    let short = |d: &DocBuf| {
        let d = d.doc();
        let (op, doc) = (d.field("op"), |name: &str| d.field(name).as_doc());
        let o2 = doc("o2").map_or(String::new(), |o2| format!(" {o2:?}"));
        format!("{} {:?}{o2}", op.as_str().unwrap(), doc("o").unwrap())
    };
    all.iter()
        .filter(|d| d.doc().field("op").as_str() != Some("n"))
        .map(short)
        .collect()
}

pub(crate) fn collection(store: &Store, name: &str) -> Arc<Collection> {
    let ns = Namespace::new("db", name).unwrap();
    store
        .writer(crate::test_operation())
        .create_collection(&ns, DocBuf::new(), [7; 16])
        .unwrap()
}

fn key(c: &Arc<Collection>, id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    c.record_key(&Value::Int32(id), &mut key);
    key
}

#[test]
fn every_change_is_told_once_and_in_order() {
    let store = fresh();
    let c = collection(&store, "c");
    let docs = [
        doc! { "_id": 1i32 },
        doc! { "_id": 2i32 },
        doc! { "_id": 1i32 },
    ];
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
    let inserted = c
        .writer(crate::test_operation())
        .insert(&docs, false)
        .unwrap();
    assert_eq!((inserted.count, inserted.errors.len()), (2, 1));
    let mut paths = Paths::default();
    paths.add("a", Set::Whole);
    let touched = Arc::new(ChangedPaths::Paths(paths));
    c.writer(crate::test_operation())
        .modify(&key(&c, 1), &mut |_| {
            let new = doc! { "_id": 1i32, "a": 5i32 };
            Ok(Change::Update(new.into_bytes(), Arc::clone(&touched)))
        })
        .unwrap();
    let replaced = doc! { "_id": 1i32, "b": 6i32 };
    c.writer(crate::test_operation())
        .modify(&key(&c, 1), &mut |_| {
            Ok(Change::Replace(replaced.as_bytes().to_vec()))
        })
        .unwrap();
    c.writer(crate::test_operation())
        .modify(&key(&c, 2), &mut |_| Ok(Change::Delete))
        .unwrap();
    c.writer(crate::test_operation())
        .modify(&key(&c, 2), &mut |_| Ok(Change::Delete))
        .unwrap();
    let all = entries(&store, 0);
    assert_eq!(
        format_entries(&all),
        [
            "c { create: \"c\", idIndex: { v: 2, key: { _id: 1 }, name: \"_id_\" } }",
            "i { _id: 1 } { _id: 1 }",
            "i { _id: 2 } { _id: 2 }",
            "u { $v: 2, diff: { i: { a: 5 } } } { _id: 1 }",
            "u { _id: 1, b: 6 } { _id: 1 }",
            "d { _id: 2 }",
        ]
    );
    let times: Vec<u64> = all
        .iter()
        .map(|d| match d.doc().field("ts") {
            Value::Timestamp(t) => t.as_u64(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    let last = all.last().unwrap().doc();
    let fields: Vec<&str> = last.iter().map(|(n, _)| n).collect();
    assert_eq!(fields, ["op", "ns", "ui", "o", "ts", "t", "v", "wall"]);
    assert_eq!(last.field("ns").as_str(), Some("db.c"));
    assert!(matches!(last.field("wall"), Value::Date(100_000)));
    // Reads from a time in the middle of the row of two inserts.
    assert_eq!(format_entries(&entries(&store, times[3])).len(), 4);
}

#[test]
fn sessions_stand_in_the_entries() {
    let store = fresh();
    let c = collection(&store, "c");
    let mut record = SessionRecord::new([5; 16]);
    store.begin_retryable(&mut record, 9).unwrap();
    let docs = [doc! { "_id": 1i32 }, doc! { "_id": 2i32 }];
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
    let mut log = StatementLog {
        record: &mut record,
        ids: &[4, 5],
        keep: RetryImage::Fact,
    };
    c.writer(crate::test_operation())
        .insert_logged(&docs, true, Some(&mut log))
        .unwrap();
    let all = entries(&store, 0);
    let last = all.last().unwrap().doc();
    assert!(matches!(last.field("txnNumber"), Value::Int64(9)));
    assert!(matches!(last.field("stmtId"), Value::Int32(5)));
    let lsid = last.field("lsid").as_doc().unwrap();
    assert!(matches!(lsid.field("id"), Value::Binary(b) if b.bytes == [5; 16]));
}

#[test]
fn a_transaction_is_one_log_entry_or_none() {
    let store = fresh();
    let c = collection(&store, "c");
    let before = entries(&store, 0).len();
    let aborted = store.begin_transaction(None).unwrap();
    c.writer(crate::test_operation())
        .insert_in(&[doc! { "_id": 1i32 }.doc()], true, &aborted)
        .unwrap();
    drop(aborted);
    let t = store.begin_transaction(None).unwrap();
    c.writer(crate::test_operation())
        .insert_in(&[doc! { "_id": 1i32 }.doc()], true, &t)
        .unwrap();
    let keys = [&key(&c, 1)[..]];
    c.writer(crate::test_operation())
        .modify_in(&keys, &mut |_, _| Ok(Change::Delete), &mut |_, _| {}, &t)
        .unwrap();
    assert_eq!(entries(&store, 0).len(), before);
    let mut record = SessionRecord::new([5; 16]);
    store.begin_retryable(&mut record, 1).unwrap();
    store
        .writer(crate::test_operation())
        .commit_transaction(&t, &mut record)
        .unwrap();
    let all = entries(&store, 0);
    assert_eq!(all.len(), before + 1);
    let o = all.last().unwrap().doc().field("o").as_doc().unwrap();
    let ops: Vec<String> = o
        .field("applyOps")
        .as_array()
        .unwrap()
        .iter()
        .map(|op| {
            op.as_doc()
                .unwrap()
                .field("op")
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(ops, ["i", "d"]);
    assert!(!o.contains("count") && !o.contains("partialTxn"));
}

#[test]
fn a_large_transaction_is_a_chain() {
    let store = fresh();
    let c = collection(&store, "c");
    let t = store.begin_transaction(None).unwrap();
    let pad = "x".repeat(6 << 20);
    for n in 0..5i32 {
        let doc = doc! { "_id": n, "pad": pad.as_str() };
        c.writer(crate::test_operation())
            .insert_in(&[doc.doc()], true, &t)
            .unwrap();
    }
    let mut record = SessionRecord::new([5; 16]);
    store.begin_retryable(&mut record, 1).unwrap();
    store
        .writer(crate::test_operation())
        .commit_transaction(&t, &mut record)
        .unwrap();
    let all = entries(&store, 0);
    let links: Vec<Doc<'_>> = all
        .iter()
        .filter_map(|d| d.doc().field("o").as_doc())
        .filter(|o| o.contains("applyOps"))
        .collect();
    let sizes: Vec<usize> = links
        .iter()
        .map(|o| o.field("applyOps").as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [2, 2, 1]);
    assert!(links[0].field("partialTxn").truthy() && links[1].field("partialTxn").truthy());
    assert!(matches!(links[2].field("count"), Value::Int64(5)));
}

#[test]
fn writes_of_a_session_name_the_entry_before() {
    let store = fresh();
    let c = collection(&store, "c");
    let mut record = SessionRecord::new([5; 16]);
    for number in [1, 2] {
        store.begin_retryable(&mut record, number).unwrap();
        let first = 10 * number as i32;
        let docs = [doc! { "_id": first }, doc! { "_id": first + 1 }];
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
        let mut log = StatementLog {
            record: &mut record,
            ids: &[0, 1],
            keep: RetryImage::Fact,
        };
        c.writer(crate::test_operation())
            .insert_logged(&docs, true, Some(&mut log))
            .unwrap();
        let mut log = StatementLog {
            record: &mut record,
            ids: &[2],
            keep: RetryImage::Fact,
        };
        let delete = &mut |_: Doc<'_>| Ok(Change::Delete);
        c.writer(crate::test_operation())
            .modify_logged(&key(&c, first), delete, Some(&mut log))
            .unwrap();
        // This write does not belong to the session.
        c.writer(crate::test_operation())
            .insert(&[doc! { "_id": first + 2 }.doc()], true)
            .unwrap();
    }
    let mut last = 0;
    let mut of_sessions = 0;
    for (n, entry) in entries(&store, 0).iter().enumerate() {
        let d = entry.doc();
        assert_eq!(
            d.contains("prevOpTime"),
            d.contains("txnNumber"),
            "{n} {d:?}"
        );
        let Some(previous) = d.field("prevOpTime").as_doc() else {
            continue;
        };
        // Three entries for each transaction number: the first has no previous one.
        let expected = if of_sessions % 3 == 0 { 0 } else { last };
        let Value::Timestamp(ts) = previous.field("ts") else {
            panic!("{d:?}");
        };
        assert_eq!(ts.as_u64(), expected, "{d:?}");
        let term = if expected == 0 { -1 } else { 1 };
        assert_eq!(previous.field("t").as_i64_exact(), Some(term));
        if let Value::Timestamp(ts) = d.field("ts") {
            last = ts.as_u64();
        }
        of_sessions += 1;
    }
    assert_eq!(of_sessions, 6);
}

#[test]
fn catalog_changes_have_log_entries() {
    let store = fresh();
    let c = collection(&store, "c");
    let spec = doc! { "v": 2i32, "key": { "a": 1i32 }, "name": "a_1" };
    c.writer(crate::test_operation())
        .create_index(spec.clone())
        .unwrap();
    c.writer(crate::test_operation()).drop_index("a_1").unwrap();
    c.writer(crate::test_operation())
        .insert(&[doc! { "_id": 1i32 }.doc()], true)
        .unwrap();
    c.writer(crate::test_operation())
        .create_index(spec)
        .unwrap();
    c.writer(crate::test_operation())
        .set_options(
            doc! { "validationLevel": "off" },
            Some(doc! { "collMod": "c", "validationLevel": "off" }),
        )
        .unwrap();
    let (from, to) = (
        Namespace::new("db", "c").unwrap(),
        Namespace::new("db", "d").unwrap(),
    );
    store
        .writer(crate::test_operation())
        .rename_collection(&from, &to, false)
        .unwrap();
    store
        .writer(crate::test_operation())
        .drop_database("db")
        .unwrap();
    let told: Vec<String> = format_entries(&entries(&store, 0))
        .iter()
        .map(|s| s.split_whitespace().nth(2).unwrap_or("").to_owned())
        .collect();
    let expected = [
        "create:",
        "createIndexes:",
        "dropIndexes:",
        "_id:",
        "commitIndexBuild:",
        "collMod:",
        "renameCollection:",
        "drop:",
        "dropDatabase:",
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_log_is_a_collection() {
    let store = fresh();
    let c = collection(&store, "c");
    for n in 0..10i32 {
        let docs = [doc! { "_id": 2 * n }, doc! { "_id": 2 * n + 1 }];
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
        c.writer(crate::test_operation())
            .insert(&docs, true)
            .unwrap();
    }
    let ns = Namespace::new("local", "oplog.rs").unwrap();
    let log = store.collection(&ns).unwrap().unwrap();
    let all = entries(&store, 0);
    assert_eq!((all.len(), log.count()), (22, 22));
    assert!(log.is_log() && log.is_capped());
    for step in [1, 3, 100] {
        for reverse in [false, true] {
            let mut scan = log.scan(&ReadView::LATEST, reverse);
            let mut found = Vec::new();
            while scan
                .visit(step, &mut |row| {
                    found.push(row.doc.to_buf());
                    true
                })
                .unwrap()
            {
                scan.pause();
            }
            if reverse {
                found.reverse();
            }
            assert_eq!(found.len(), 22);
            assert!(found == all, "step {step}, reverse {reverse}");
        }
    }
    let time = |n: usize| match all[n].doc().field("ts") {
        Value::Timestamp(t) => t,
        other => panic!("{other:?}"),
    };
    for reverse in [false, true] {
        let mut scan = log.scan_log(&ReadView::LATEST, time(5), time(8), reverse, false);
        let mut found = 0;
        while scan
            .visit(100, &mut |_| {
                found += 1;
                true
            })
            .unwrap()
        {}
        assert_eq!(found, 4);
    }
    let mut tail = log.tail(false);
    while tail.visit(100, &mut |_| true).unwrap() {}
    c.writer(crate::test_operation())
        .insert(&[doc! { "_id": 100i32 }.doc()], true)
        .unwrap();
    let mut later = 0;
    tail.visit(100, &mut |_| {
        later += 1;
        true
    })
    .unwrap();
    assert_eq!(later, 1);
}

#[test]
fn what_is_too_much_goes_and_readers_are_told() {
    let engine = Arc::new(MemoryEngine::new());
    let (store, now_ms) = open(&engine, 100_000);
    let c = collection(&store, "c");
    let pad = "x".repeat(1000);
    let insert = |n: i32| {
        let doc = doc! { "_id": n, "pad": pad.as_str() };
        c.writer(crate::test_operation())
            .insert(&[doc.doc()], true)
            .unwrap();
    };
    insert(0);
    let mut slow = store.read_log(Timestamp::from_u64(0)).unwrap();
    slow.visit(1, &mut |_, _| true).unwrap();
    slow.pause();
    for n in 1..300 {
        insert(n);
    }
    assert!(store.truncate_log().unwrap());
    assert!(!store.truncate_log().unwrap());
    let ns = Namespace::new("local", "oplog.rs").unwrap();
    let log = store.collection(&ns).unwrap().unwrap();
    assert!(log.size_bytes() <= 102_000 && log.size_bytes() > 90_000);
    assert!(log.count() > 70 && log.count() < 100, "{}", log.count());
    assert_eq!(slow.visit(1, &mut |_, _| true).unwrap(), VisitResult::Lost);
    // Entries older than an hour may be removed.
    store
        .resize_log(crate::test_operation(), Some(50_000), Some(3_600_000))
        .unwrap();
    assert!(log.size_bytes() > 90_000);
    now_ms.fetch_add(2 * 3_600_000, Ordering::Relaxed);
    insert(300);
    assert!(store.truncate_log().unwrap());
    assert!(log.size_bytes() <= 52_000);
    let oldest = store.log().unwrap().oldest();
    drop((slow, log, c, store));
    // After a start the remaining entries are there, and no time is used twice.
    let (store, _) = open(&engine, 7);
    assert_eq!(store.log().unwrap().oldest(), oldest);
    assert_eq!(store.log().unwrap().bytes_max(), 50_000);
    let last = entries(&store, oldest.as_u64());
    assert!(last.len() > 30);
    drop(store);
    // A store without a log does not log its changes, so the log ends here.
    let plain = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    drop(plain);
    let (store, _) = open(&engine, 7);
    assert!(store.log().unwrap().oldest() > oldest);
    assert_eq!(
        format_entries(&entries(&store, store.log().unwrap().oldest().as_u64())).len(),
        0
    );
}

#[test]
fn readers_see_every_entry_while_many_write() {
    let store = Arc::new(fresh());
    let c = collection(&store, "c");
    let mut reader = store.read_log(Timestamp::from_u64(0)).unwrap();
    let writers: Vec<_> = (0..4i32)
        .map(|w| {
            let c = Arc::clone(&c);
            std::thread::spawn(move || {
                for n in 0..500 {
                    let id = n * 4 + w;
                    c.writer(crate::test_operation())
                        .insert(&[doc! { "_id": id }.doc()], true)
                        .unwrap();
                }
            })
        })
        .collect();
    let (mut seen, mut last) = (std::collections::BTreeSet::new(), 0);
    loop {
        // Checked first: if all writers have finished, the visit below must show all their entries.
        let all_written = writers.iter().all(JoinHandle::is_finished);
        let read = reader
            .visit(50, &mut |time, doc| {
                assert!(time.as_u64() > last);
                last = time.as_u64();
                if doc.field("op").as_str() == Some("i") {
                    let id = doc.field("o2").as_doc().unwrap().field("_id");
                    assert!(seen.insert(id.as_i64_exact().unwrap()));
                }
                true
            })
            .unwrap();
        if all_written && read != VisitResult::More {
            break;
        }
    }
    writers.into_iter().for_each(|w| w.join().unwrap());
    assert_eq!(seen.len(), 2000);
}

#[test]
fn a_snapshot_has_exactly_the_logged_changes_up_to_its_time() {
    let store = Arc::new(fresh());
    let c = collection(&store, "c");
    let writers: Vec<_> = (0..3i32)
        .map(|w| {
            let c = Arc::clone(&c);
            std::thread::spawn(move || {
                for n in 0..400 {
                    c.writer(crate::test_operation())
                        .insert(&[doc! { "_id": n * 3 + w }.doc()], true)
                        .unwrap();
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let (at, view) = store.snapshot_at().unwrap().unwrap();
        let told = entries(&store, 0)
            .iter()
            .filter(|d| matches!(d.doc().field("ts"), Value::Timestamp(t) if t <= at))
            .filter(|d| d.doc().field("op").as_str() == Some("i"))
            .count();
        let mut found = 0;
        let mut scan = c.scan_keys(&view, None, None, false);
        while scan
            .visit(1000, &mut |_| {
                found += 1;
                true
            })
            .unwrap()
        {}
        assert_eq!(found, told);
    }
    writers.into_iter().for_each(|w| w.join().unwrap());
}
