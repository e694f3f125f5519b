//! The log of several stores that write to one engine (ADR 0114): every reader sees the same
//! entries, whichever store it reads through and wherever it begins; they lead to the data that is
//! there; what a store leaves is published by others.

use crate::joined::{Member, STORES, add, key_of, ns, on_all};
use crate::log::hooks;
use model::{Doc, DocBuf, Namespace, Timestamp, Value, doc};
use operation::{Operation, SystemClock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use storage::MemoryEngine;
use store::{Change, LogKeeper, NamespaceHash, SessionRecord, Store, VisitResult, apply_diff};

type Entries = Vec<(u64, DocBuf)>;

fn members_of(engine: &Arc<MemoryEngine>, bytes_max: u64) -> Vec<Member> {
    let join = |_| Member::join_with(engine, hooks(bytes_max));
    (0..STORES).map(join).collect()
}

fn members() -> Vec<Member> {
    members_of(&Arc::new(MemoryEngine::new_checked()), 1 << 30)
}

fn keep(all: &[Member]) -> Vec<LogKeeper> {
    all.iter().map(|m| m.store.keep_log().unwrap()).collect()
}

/// A pseudo-random number.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// The entries from a time on that can be read now, at most this many.
fn read(store: &Store, from: u64, max: usize) -> Entries {
    let mut reader = store.read_log(Timestamp::from_u64(from)).unwrap();
    let mut all = Vec::new();
    loop {
        let read = reader.visit(3, &mut |time, doc| {
            all.push((time.as_u64(), doc.to_buf()));
            all.len() < max
        });
        match read.unwrap() {
            VisitResult::More if all.len() < max => {}
            VisitResult::Lost => panic!("entries from {from} were removed"),
            _ => return all,
        }
    }
}

/// Sets a flag when it is dropped, also by a failing test.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Reads until `ended` is set and then everything up to the last change.
fn tail(member: &Member, ended: &AtomicBool) -> Entries {
    let mut reader = member.store.read_log(Timestamp::from_u64(0)).unwrap();
    let mut all = Vec::new();
    loop {
        let last = ended.load(Ordering::SeqCst);
        let read = reader.visit(5, &mut |time, doc| {
            all.push((time.as_u64(), doc.to_buf()));
            true
        });
        match read.unwrap() {
            VisitResult::End if last => return all,
            VisitResult::End => std::thread::sleep(Duration::from_millis(1)),
            VisitResult::More => {}
            VisitResult::Lost => panic!("nothing was removed"),
        }
        reader.pause();
    }
}

/// Applies entries to the documents of the collection.
fn replay(entries: &Entries) -> BTreeMap<i64, DocBuf> {
    let mut docs = BTreeMap::new();
    let mut exists = false;
    for (_, entry) in entries {
        let o = entry.doc().field("o").as_doc().unwrap();
        if let Some(list) = o.field("applyOps").as_array() {
            for operation in list.iter() {
                replay_one(&mut docs, operation.as_doc().unwrap());
            }
        } else if o.contains("create") {
            assert!(!exists, "created twice");
            exists = true;
        } else if o.contains("drop") {
            assert!(exists, "dropped twice");
            (exists, docs) = (false, BTreeMap::new());
        } else if entry.doc().field("ns").as_str() == Some("db.c") {
            assert!(exists, "no collection: {entry:?}");
            replay_one(&mut docs, entry.doc());
        }
    }
    docs
}

fn replay_one(docs: &mut BTreeMap<i64, DocBuf>, operation: Doc<'_>) {
    let doc = |name: &str| operation.field(name).as_doc().unwrap();
    let id = |doc: Doc<'_>| doc.field("_id").as_i64_exact().unwrap();
    match operation.field("op").as_str() {
        Some("i") => {
            let old = docs.insert(id(doc("o")), doc("o").to_buf());
            assert_eq!(old, None, "inserted twice: {operation:?}");
        }
        Some("u") => {
            let old = docs.get(&id(doc("o2"))).expect("it is there");
            let new = match doc("o").field("diff").as_doc() {
                Some(diff) => apply_diff(old.doc(), diff).unwrap(),
                None => doc("o").to_buf(),
            };
            docs.insert(id(doc("o2")), new);
        }
        Some("d") => assert!(docs.remove(&id(doc("o"))).is_some(), "{operation:?}"),
        other => panic!("{other:?}"),
    }
}

fn documents(member: &Member) -> BTreeMap<i64, DocBuf> {
    let id = |d: &DocBuf| d.doc().field("_id").as_i64_exact().unwrap();
    let found = member.documents();
    found.into_iter().map(|d| (id(&d), d)).collect()
}

/// Changes a document by a random statement.
fn change_one(member: &Member, seed: &mut u64) {
    let id = (random(seed) % 12) as i32;
    let kind = random(seed) % 6;
    let changed = member.run(|c| {
        let writer = c.writer(crate::test_operation());
        let key = key_of(c, id);
        match kind {
            0 => writer.modify(&key, &mut |_| Ok(Change::Delete)).map(|_| ()),
            1 | 2 => writer.modify(&key, &mut |old| add(1, old)).map(|_| ()),
            _ => {
                let docs = (0..kind as i32 * 2).map(|n| doc! { "_id": id + n, "n": 0i64 });
                let docs: Vec<DocBuf> = docs.collect();
                let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
                writer.insert(&docs, false).map(|_| ())
            }
        }
    });
    changed.unwrap();
}

#[test]
fn all_readers_see_the_same_entries_and_they_lead_to_the_data() {
    let all = members();
    let keepers = keep(&all);
    all[0].create().unwrap();
    let (ended, transactions) = (AtomicBool::new(false), AtomicUsize::new(0));
    let seen = std::thread::scope(|s| {
        let readers: Vec<_> = all
            .iter()
            .map(|member| s.spawn(|| tail(member, &ended)))
            .collect();
        let _ends = SetAtEnd(&ended);
        on_all(&all, |who, m| {
            let mut seed = 77 + who as u64;
            for n in 0..150 {
                change_one(m, &mut seed);
                if who == 0 && n % 40 == 20 {
                    m.drop_collection();
                    m.create().unwrap();
                }
                if who == 1 && n % 50 == 25 {
                    let name = format!("k{n}");
                    match m.create_index(&crate::index(&name, &name, false)) {
                        // The collection was dropped meanwhile.
                        Err(e) if e.code() == 276 => {}
                        built => assert!(built.unwrap()),
                    }
                }
                if n % 3 == 1 {
                    // As if the others were dead, while they publish themselves.
                    m.store.publish_left_log(Duration::ZERO).unwrap();
                }
                if who == 2 && n % 5 == 0 {
                    let done = increase_two(m, who as u8, i64::from(n) + 1);
                    transactions.fetch_add(usize::from(done), Ordering::SeqCst);
                }
            }
        });
        for member in &all {
            member.store.publish_log().unwrap();
        }
        ended.store(true, Ordering::SeqCst);
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect::<Vec<Entries>>()
    });
    assert!(
        transactions.into_inner() > 3,
        "transactions were not committed"
    );
    assert!(seen[0].len() > 300, "{}", seen[0].len());
    assert!(seen[0].is_sorted_by(|a, b| a.0 < b.0), "times do not grow");
    for two in seen.windows(2) {
        let at = two[0].iter().zip(&two[1]).position(|(a, b)| a != b);
        let ends = [two[0].last(), two[1].last()].map(|e| e.map(|(time, _)| *time));
        let differ = at.map(|n| (&two[0][n], &two[1][n]));
        assert!(
            two[0] == two[1],
            "{} {} {ends:?}: {at:?} {differ:?}",
            two[0].len(),
            two[1].len()
        );
    }
    for (time, entry) in &seen[0] {
        let shown = entry.doc().field("ts");
        assert!(matches!(shown, Value::Timestamp(ts) if ts.as_u64() == *time));
    }
    let replayed = replay(&seen[0]);
    for member in &all {
        assert_eq!(documents(member), replayed);
    }
    // A reader that goes on at any time, through any store.
    for (n, (time, _)) in seen[0].iter().enumerate() {
        let rest = read(&all[n % STORES].store, *time, 4);
        assert!(rest == seen[0][n..(n + 4).min(seen[0].len())], "from {n}");
        let after = read(&all[(n + 1) % STORES].store, *time + 1, 2);
        assert!(after == seen[0][n + 1..(n + 3).min(seen[0].len())]);
    }
    drop(keepers);
}

/// Increases two documents, if they are there, in a transaction; whether it was committed.
fn increase_two(member: &Member, session: u8, number: i64) -> bool {
    let Some(c) = member.find() else {
        return false;
    };
    let transaction = member.store.begin_transaction(None).unwrap();
    let keys = [1, 2].map(|id| key_of(&c, id));
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut record = SessionRecord::new([session; 16]);
    member.store.begin_retryable(&mut record, number).unwrap();
    let change = &mut |_: usize, old: Doc<'_>| add(1, old);
    let writer = c.writer(crate::test_operation());
    let changed = writer.modify_in(&keys, change, &mut |_, _| {}, &transaction);
    let committed = changed.and_then(|()| {
        let writer = member.store.writer(crate::test_operation());
        writer.commit_transaction(&transaction, &mut record)
    });
    committed.is_ok() && transaction.has_written()
}

/// An operation of its own, which tells the time of its change.
fn operation() -> Operation {
    Operation::new_detached(Arc::new(SystemClock::default()))
}

/// Increases a document; returns the time of the change.
fn increase(member: &Member, id: i32) -> u64 {
    let operation = operation();
    let done = member.run(|c| {
        let key = key_of(c, id);
        c.writer(&operation).modify(&key, &mut |old| add(1, old))
    });
    done.unwrap();
    operation.writes().time()
}

#[test]
fn what_is_told_as_the_time_lies_between_earlier_and_later_changes() {
    let all = members();
    let keepers = keep(&all);
    all[0].create().unwrap();
    let docs: Vec<DocBuf> = (0..4).map(|id| doc! { "_id": id, "n": 0i64 }).collect();
    all[0].insert(&docs);
    // The latest time that anybody was told, and the latest of an acknowledged change.
    let (told, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
    on_all(&all, |who, m| {
        for n in 0..150 {
            let before = told.load(Ordering::SeqCst);
            let time = increase(m, if n % 3 == 0 { 3 } else { who as i32 });
            assert!(time > before, "a change after {before} has the time {time}");
            acknowledged.fetch_max(time, Ordering::SeqCst);
            let earlier = acknowledged.load(Ordering::SeqCst);
            m.view();
            let now = m.store.log().unwrap().current().as_u64();
            assert!(now >= earlier, "{now} is told after a change at {earlier}");
            told.fetch_max(now, Ordering::SeqCst);
        }
    });
    // A stream that begins there misses nothing later and shows nothing earlier.
    all[1].view();
    let start = all[1].store.log().unwrap().current().as_u64() + 1;
    let later: Vec<u64> = (0..20).map(|n| increase(&all[n % STORES], 3)).collect();
    for member in &all {
        let times: Vec<u64> = read(&member.store, start, 100)
            .iter()
            .map(|(time, _)| *time)
            .collect();
        assert_eq!(times, later);
    }
    drop(keepers);
}

#[test]
fn what_a_store_has_left_is_published_by_another() {
    let all = members();
    let engine = Arc::clone(&all[0].engine);
    all[0].create().unwrap();
    all[0].store.publish_log().unwrap();
    let dying = Member::join_with(&engine, hooks(1 << 30));
    // A commit with more than one position.
    let many: Vec<DocBuf> = (100..200).map(|id| doc! { "_id": id, "n": 0i64 }).collect();
    assert_eq!(dying.insert(&many), 100);
    dying.insert(&[doc! { "_id": 1i32, "n": 0i64 }]);
    let left: Vec<u64> = (0..20).map(|_| increase(&dying, 1)).collect();
    drop(dying);
    // Later changes cannot be read before those that were left.
    let after = increase(&all[0], 1);
    all[0].store.publish_log().unwrap();
    assert!(all[1].store.log().unwrap().visible().as_u64() < left[0]);
    assert!(read(&all[1].store, left[0], 100).is_empty());
    let published = on_all(&all, |_, m| {
        let left = m.store.publish_left_log(Duration::ZERO);
        left.unwrap()
    });
    assert!(published.contains(&true));
    assert!(!all[0].store.publish_left_log(Duration::ZERO).unwrap());
    for member in &all {
        let found = read(&member.store, left[0], 100);
        let times: Vec<u64> = found.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [&left[..], &[after]].concat());
        let whole = read(&member.store, 0, 1000);
        assert_eq!(replay(&whole), documents(member));
    }
}

#[test]
fn a_store_that_was_thought_dead_goes_on() {
    let all = members();
    all[0].create().unwrap();
    all[0].insert(&[doc! { "_id": 1i32, "n": 0i64 }]);
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(increase(&all[0], 1));
        assert!(all[1].store.publish_left_log(Duration::ZERO).unwrap());
        times.push(increase(&all[0], 1));
        // Its own attempt finds what the other has published.
        all[0].store.publish_log().unwrap();
    }
    let found = read(&all[2].store, times[0], 100);
    let found: Vec<u64> = found.iter().map(|(time, _)| *time).collect();
    assert_eq!(found, times);
    let c = Namespace::new("local", "oplog.rs").unwrap();
    for member in &all {
        member.view();
        let c = member.store.collection(&c).unwrap().unwrap();
        assert_eq!(c.count(), read(&member.store, 0, 1000).len() as u64);
    }
}

#[test]
fn a_statement_of_many_documents_has_a_time_for_each() {
    let all = members();
    all[0].create().unwrap();
    let docs: Vec<DocBuf> = (0..100).map(|id| doc! { "_id": id, "n": 0i64 }).collect();
    assert_eq!(all[0].insert(&docs), 100);
    let removed = all[1].run(|c| {
        let keys: Vec<Vec<u8>> = (0..100).map(|id| key_of(c, id)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let writer = c.writer(crate::test_operation());
        writer.modify_many(&keys, &mut |_, _| Ok(Change::Delete), &mut |_, _| {})
    });
    removed.unwrap();
    all.iter().for_each(|m| m.store.publish_log().unwrap());
    let entries = read(&all[2].store, 0, 1000);
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
    for op in ["i", "d"] {
        let of = |e: &&(u64, DocBuf)| e.1.doc().field("op").as_str() == Some(op);
        let times: Vec<u64> = entries.iter().filter(of).map(|(time, _)| *time).collect();
        // They were one commit.
        assert_eq!(times, (times[0]..times[0] + 100).collect::<Vec<u64>>());
    }
    assert!(replay(&entries).is_empty());
}

#[test]
fn a_capped_collection_logs_what_it_deletes() {
    let all = members();
    let options = doc! { "capped": true, "size": 1i64 << 20, "max": 30i64 };
    all[0].create_with(&options).unwrap();
    for (n, member) in all.iter().enumerate() {
        let first = n as i32 * 100;
        let docs: Vec<DocBuf> = (first..first + 60).map(|id| doc! { "_id": id }).collect();
        assert_eq!(member.insert(&docs), 60);
    }
    all.iter().for_each(|m| m.store.publish_log().unwrap());
    let entries = read(&all[1].store, 0, 1000);
    let kept = documents(&all[2]);
    assert_eq!(kept.len(), 30);
    assert_eq!(replay(&entries), kept);
}

#[test]
fn measurements_have_times_of_their_own() {
    let all = members();
    let options = doc! { "timeseries": { "timeField": "t" } };
    all[0].create_with(&options).unwrap();
    let docs: Vec<DocBuf> = (0..50)
        .map(|id| doc! { "_id": id, "t": Value::Date(1000 * i64::from(id)) })
        .collect();
    assert_eq!(all[1].insert(&docs), 50);
    all.iter().for_each(|m| m.store.publish_log().unwrap());
    let entries = read(&all[2].store, 0, 1000);
    assert_eq!(replay(&entries).len(), 50);
}

/// The times of `local.oplog.rs`.
fn times_of_collection(store: &Store, reverse: bool) -> Vec<u64> {
    let log = Namespace::new("local", "oplog.rs").unwrap();
    let view = store.begin_moment().unwrap().unwrap();
    let c = store.collection_in(&view, &log).unwrap().unwrap();
    let mut times = Vec::new();
    let mut scan = c.scan(&view, reverse);
    while scan
        .visit(7, &mut |row| {
            match row.doc.field("ts") {
                Value::Timestamp(ts) => times.push(ts.as_u64()),
                other => panic!("{other:?}"),
            }
            true
        })
        .unwrap()
    {}
    times
}

#[test]
fn the_collection_shows_the_log_forwards_and_backwards() {
    let all = members();
    all[0].create().unwrap();
    let docs: Vec<DocBuf> = (0..9).map(|id| doc! { "_id": id, "n": 0i64 }).collect();
    all[0].insert(&docs);
    for n in 0..40 {
        increase(&all[n % STORES], (n % 9) as i32);
    }
    all.iter().for_each(|m| m.store.publish_log().unwrap());
    let times: Vec<u64> = read(&all[0].store, 0, 1000)
        .iter()
        .map(|(time, _)| *time)
        .collect();
    assert!(times.len() > 50);
    for member in &all {
        assert_eq!(times_of_collection(&member.store, false), times);
        let mut back = times_of_collection(&member.store, true);
        back.reverse();
        assert_eq!(back, times);
    }
}

#[test]
fn the_logs_together_keep_their_size_and_begin_at_one_time() {
    const BYTES_MAX: u64 = 64 << 10;
    let all = members_of(&Arc::new(MemoryEngine::new_checked()), BYTES_MAX);
    all[0].create().unwrap();
    let text = "x".repeat(500);
    let mut cut = 0;
    for n in 0..600 {
        let doc = doc! { "_id": n, "text": text.as_str() };
        let member = &all[n as usize % STORES];
        member.insert(&[doc]);
        if n % 20 == 19 {
            all.iter().for_each(|m| m.store.publish_log().unwrap());
            cut += usize::from(member.store.truncate_log().unwrap());
        }
    }
    assert!(cut > 2, "{cut}");
    let kept = read_kept(&all[0].store);
    let bytes: usize = kept.iter().map(|(_, doc)| doc.as_bytes().len()).sum();
    assert!(
        (BYTES_MAX / 2..BYTES_MAX * 2).contains(&(bytes as u64)),
        "{bytes}"
    );
    assert_eq!(
        kept.last()
            .unwrap()
            .1
            .doc()
            .field("o2")
            .as_doc()
            .unwrap()
            .len_bytes(),
        14
    );
    for member in &all {
        assert!(read_kept(&member.store) == kept);
        let log = member.store.log().unwrap();
        assert!(log.oldest().as_u64() > 0 && log.oldest().as_u64() <= kept[0].0);
        let before = Timestamp::from_u64(log.oldest().as_u64() - 1);
        let mut lost = member.store.read_log(before).unwrap();
        let read = lost.visit(1, &mut |_, _| true).unwrap();
        assert_eq!(read, VisitResult::Lost);
    }
    // A log that was removed from the list while it was empty is put back.
    let engine = Arc::clone(&all[0].engine);
    let idle = Member::join_with(&engine, hooks(BYTES_MAX));
    idle.store.publish_log().unwrap();
    for n in 600..900 {
        all[0].insert(&[doc! { "_id": n, "text": text.as_str() }]);
        all[0].store.publish_log().unwrap();
    }
    assert!(all[0].store.truncate_log().unwrap());
    let logs = |engine: &MemoryEngine| {
        let mut logs = 0;
        let range = storage::KeyRange::new(b"l\x01", b"l\x02");
        let opts = storage::CursorOpts::default();
        let cursor = storage::Reader::cursor(engine, storage::Table::Meta, range, opts);
        let each = &mut |_: &[u8], _: &[u8]| {
            logs += 1;
            true
        };
        assert!(!cursor.unwrap().visit(100, each).unwrap());
        logs
    };
    assert_eq!(logs(&engine), 1);
    idle.insert(&[doc! { "_id": -1i32 }]);
    idle.store.publish_log().unwrap();
    assert_eq!(logs(&engine), 2);
    let kept = read_kept(&all[0].store);
    assert!(
        kept.last()
            .unwrap()
            .1
            .doc()
            .field("o")
            .as_doc()
            .unwrap()
            .len_bytes()
            < 20
    );
    assert!(read_kept(&idle.store) == kept);
    // Settings that one store changes are those of all.
    let resized = all[1]
        .store
        .resize_log(crate::test_operation(), Some(8 << 20), None);
    resized.unwrap();
    all[2].store.log().unwrap().renew().unwrap();
    assert_eq!(all[2].store.log().unwrap().bytes_max(), 8 << 20);
    assert!(read_kept(&all[2].store) == kept);
}

/// All entries that were not removed.
fn read_kept(store: &Store) -> Entries {
    store.log().unwrap().renew().unwrap();
    read(store, store.log().unwrap().oldest().as_u64(), usize::MAX)
}

#[test]
fn a_reader_that_waits_is_woken_by_a_change_of_another_store() {
    let all = members();
    let keepers = keep(&all);
    all[0].create().unwrap();
    all[0].insert(&[doc! { "_id": 1i32, "n": 0i64 }]);
    let log = all[1].store.log().unwrap();
    log.renew().unwrap();
    let watch = log.watch(NamespaceHash::hash(ns().db(), Some(ns().coll())));
    let woken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&woken);
    let waker = watch.wake(Arc::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let next = Timestamp::from_u64(log.visible().as_u64() + 1);
    assert!(!watch.has_from(next));
    let time = increase(&all[2], 1);
    let until = Instant::now() + Duration::from_secs(20);
    while woken.load(Ordering::SeqCst) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(watch.has_from(next) && log.visible().as_u64() >= time);
    assert_eq!(read(&all[1].store, next.as_u64(), 10).len(), 1);
    drop((waker, keepers));
}

#[test]
fn a_process_alone_ends_the_log_of_several_and_they_begin_again() {
    let engine = Arc::new(MemoryEngine::new_checked());
    let all = members_of(&engine, 1 << 30);
    all[0].create().unwrap();
    all[0].insert(&[doc! { "_id": 1i32, "n": 0i64 }]);
    all[0].store.publish_log().unwrap();
    // One change is never published.
    let last = increase(&all[1], 1);
    drop(all);
    let alone = Store::open(engine.clone(), hooks(1 << 30)).unwrap();
    let log = alone.log().unwrap();
    assert!(log.oldest().as_u64() > last && !log.is_shared());
    assert!(
        read(&alone, log.oldest().as_u64(), 10).len() == 1,
        "the entry of the start"
    );
    let ended = log.latest();
    drop(alone);
    let again = members_of(&engine, 1 << 30);
    let oldest = again[2].store.log().unwrap().oldest();
    assert!(oldest > ended);
    let time = increase(&again[0], 1);
    assert!(time > oldest.as_u64());
    again.iter().for_each(|m| m.store.publish_log().unwrap());
    assert_eq!(read(&again[1].store, time, 10).len(), 1);
    // Without a log nobody may join them.
    let other = Store::join(engine, Arc::new(store::NoHooks));
    assert_eq!(other.err().map(|e| e.code()), Some(115));
}
