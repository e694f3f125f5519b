//! Consumers of the log: positions that survive, for how long the log is kept for a consumer, and
//! that entries are repeated but never left out after a crash at any point.

use crate::log::{collection, open, open_for};
use model::{MongoError, Timestamp, doc};
use std::sync::Arc;
use storage::MemoryEngine;
use store::{Audience, Collection, ConsumerState, Lifetime, LogConsumer, Store, VisitResult};

const SIZE: u64 = 100_000;

fn insert(c: &Arc<Collection>, ids: std::ops::Range<i32>) {
    let pad = "x".repeat(1000);
    for n in ids {
        let doc = doc! { "_id": n, "pad": pad.as_str() };
        c.writer(crate::test_operation())
            .insert(&[doc.doc()], true)
            .unwrap();
    }
}

fn consume(store: &Store, name: &str, from: u64, lifetime: Lifetime) -> LogConsumer {
    let from = Timestamp::from_u64(from);
    store.consume_log(name, from, lifetime).unwrap().unwrap()
}

/// Reads all entries; returns their number.
fn read_all(consumer: &mut LogConsumer) -> u64 {
    let mut entries = 0;
    let mut count = |_: Timestamp, _: model::Doc<'_>| {
        entries += 1;
        true
    };
    while consumer.visit(10, &mut count).unwrap() == VisitResult::More {}
    entries
}

fn state(store: &Store, name: &str) -> ConsumerState {
    let all = store.log_consumers().unwrap();
    all.into_iter().find(|c| c.name == name).unwrap()
}

fn save(consumer: &LogConsumer) {
    consumer.save(consumer.next(), &mut |_| Ok(())).unwrap();
}

#[test]
fn the_log_is_held_for_a_consumer_until_it_has_saved() {
    let engine = Arc::new(MemoryEngine::new());
    let (store, now_ms) = open(&engine, SIZE);
    let c = collection(&store, "c");
    let mut slow = consume(&store, "slow", 0, Lifetime::Durable);
    let mut quick = consume(&store, "quick", 0, Lifetime::Process);
    insert(&c, 0..150);
    now_ms.fetch_add(3000, std::sync::atomic::Ordering::Relaxed);
    assert!(!store.truncate_log().unwrap(), "it is held");
    let entries = read_all(&mut quick);
    // The entries of the start, the collection and the documents.
    assert_eq!(entries, 152);
    save(&quick);
    assert_eq!(state(&store, "quick").lag_operations, 0);
    assert_eq!(state(&store, "quick").lag_ms, 0);
    assert_eq!(state(&store, "slow").lag_operations, entries);
    assert_eq!(state(&store, "slow").lag_ms, 3000);
    assert!(!store.truncate_log().unwrap(), "for the slowest");

    let mut half = 0;
    while half < 100 {
        slow.visit(1, &mut |_, _| {
            half += 1;
            true
        })
        .unwrap();
    }
    slow.record_position(slow.next());
    assert_eq!(state(&store, "slow").lag_operations, 52);
    assert!(!store.truncate_log().unwrap(), "read is not saved");
    save(&slow);
    assert!(store.truncate_log().unwrap());
    let oldest = store.log().unwrap().oldest();
    assert!(oldest > Timestamp::from_u64(0) && oldest <= slow.next());
    slow.pause();
    assert_eq!(read_all(&mut slow), 52);
    assert!(!state(&store, "slow").stale);
}

#[test]
fn a_consumer_beyond_the_bound_must_begin_anew() {
    let engine = Arc::new(MemoryEngine::new());
    let (store, _) = open(&engine, SIZE);
    let c = collection(&store, "c");
    let mut slow = consume(&store, "slow", 0, Lifetime::Durable);
    insert(&c, 0..300);
    assert!(store.truncate_log().unwrap());
    let log = store.log().unwrap();
    let held = collection_size(&store);
    // Whole rows of some 1,300 bytes are removed.
    assert!(held > SIZE && held < log.held_bytes_max() + 1_300, "{held}");
    assert!(state(&store, "slow").stale);
    assert_eq!(slow.visit(1, &mut |_, _| true).unwrap(), VisitResult::Lost);
    // The log is not kept for it any more.
    assert!(store.truncate_log().unwrap());
    assert!(collection_size(&store) <= SIZE + SIZE / 16);
    // The consumer begins again with the current state.
    let (at, _) = store.snapshot_at().unwrap().unwrap();
    let mut anew = consume(&store, "slow", at.as_u64() + 1, Lifetime::Durable);
    insert(&c, 300..310);
    assert_eq!(read_all(&mut anew), 10);
    assert!(!state(&store, "slow").stale);
}

fn collection_size(store: &Store) -> u64 {
    let ns = model::Namespace::new("local", "oplog.rs").unwrap();
    store.collection(&ns).unwrap().unwrap().size_bytes()
}

#[test]
fn positions_survive_and_hold_the_log_before_their_consumers_are_back() {
    let engine = Arc::new(MemoryEngine::new());
    let (store, _) = open(&engine, SIZE);
    let c = collection(&store, "c");
    let at = {
        let mut kept = consume(&store, "kept", 0, Lifetime::Durable);
        let _gone = consume(&store, "gone", 0, Lifetime::Process);
        assert_eq!(store.log().unwrap().consumer_names(), ["gone", "kept"]);
        insert(&c, 0..10);
        read_all(&mut kept);
        save(&kept);
        kept.next()
    };
    assert_eq!(store.log().unwrap().consumer_names(), ["kept"]);
    drop((c, store));
    let (store, _) = open(&engine, SIZE);
    let ns = model::Namespace::new("db", "c").unwrap();
    let c = store.collection(&ns).unwrap().unwrap();
    let log = store.log().unwrap();
    assert_eq!(log.saved_position("kept"), Some(at));
    insert(&c, 10..160);
    assert!(store.truncate_log().unwrap(), "what was saved may go");
    assert!(log.oldest() <= at);
    let mut kept = consume(&store, "kept", at.as_u64(), Lifetime::Durable);
    // The entry of the start is among them.
    assert_eq!(read_all(&mut kept), 151);
    drop(kept);
    store.end_log_consumer("kept").unwrap();
    assert!(store.truncate_log().unwrap());
    drop((c, store));
    let (store, _) = open(&engine, SIZE);
    assert!(store.log().unwrap().consumer_names().is_empty());
}

/// The second registration of a name stays when the first is dropped.
#[test]
fn a_name_belongs_to_whom_registered_last() {
    let engine = Arc::new(MemoryEngine::new());
    let (store, _) = open(&engine, SIZE);
    let first = consume(&store, "one", 0, Lifetime::Process);
    let second = consume(&store, "one", 0, Lifetime::Process);
    drop(first);
    assert_eq!(store.log().unwrap().consumer_names(), ["one"]);
    drop(second);
    assert!(store.log().unwrap().consumer_names().is_empty());
}

/// Pseudo-random numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % n
    }
}

/// The disk of a trial consumer: times of entries, in the order in which they arrived.
#[derive(Default)]
struct ConsumerDisk(Vec<u64>);

/// One run of the trial consumer: it reads some entries, saves some, and ends anywhere.
fn live(store: &Store, saved: &mut ConsumerDisk, numbers: &mut Numbers, to_the_end: bool) {
    let log = store.log().unwrap();
    let at = log.saved_position("trial").map_or(0, |t| t.as_u64());
    let mut consumer = consume(store, "trial", at, Lifetime::Durable);
    let mut read = Vec::new();
    loop {
        let rows = 1 + numbers.below(7) as usize;
        let got = consumer
            .visit(rows, &mut |time, _| {
                read.push(time.as_u64());
                true
            })
            .unwrap();
        assert_ne!(got, VisitResult::Lost);
        if numbers.below(3) == 0 || got == VisitResult::End {
            let dies = !to_the_end && numbers.below(4) == 0;
            let result = consumer.save(consumer.next(), &mut |_| {
                saved.0.append(&mut read);
                match dies {
                    true => Err(MongoError::internal("killed before the position is saved")),
                    false => Ok(()),
                }
            });
            if result.is_err() {
                return;
            }
        }
        if got == VisitResult::End || !to_the_end && numbers.below(6) == 0 {
            return;
        }
    }
}

#[test]
fn every_entry_is_seen_in_order_whenever_the_consumer_dies() {
    let engine = Arc::new(MemoryEngine::new());
    let (mut saved, mut numbers) = (ConsumerDisk::default(), Numbers(7));
    let (mut repeated, mut ids) = (0, 0);
    for life in 0..60 {
        let (store, _) = open(&engine, 30_000_000);
        let c = match life {
            0 => collection(&store, "c"),
            _ => {
                let ns = model::Namespace::new("db", "c").unwrap();
                store.collection(&ns).unwrap().unwrap()
            }
        };
        let more = numbers.below(20) as i32;
        insert(&c, ids..ids + more);
        ids += more;
        live(&store, &mut saved, &mut numbers, life == 59);
    }
    let (store, _) = open(&engine, 30_000_000);
    let mut wanted = Vec::new();
    let mut all = store.read_log(Timestamp::from_u64(0)).unwrap();
    let mut list = |time: Timestamp, _: model::Doc<'_>| {
        wanted.push(time.as_u64());
        true
    };
    while all.visit(100, &mut list).unwrap() == VisitResult::More {}
    // The last start came after the consumer's last run.
    wanted.pop();
    let mut seen: Vec<u64> = Vec::new();
    for time in saved.0 {
        match seen.binary_search(&time) {
            Ok(_) => repeated += 1,
            Err(place) => {
                assert_eq!(place, seen.len(), "first seen behind a later one");
                seen.push(time);
            }
        }
    }
    assert_eq!(seen, wanted);
    assert!(repeated > 10, "no death fell between the two saves");
}

/// Documents of 100,000 bytes.
fn insert_large(c: &Arc<Collection>, ids: std::ops::Range<i32>) {
    let pad = "x".repeat(100_000);
    for n in ids {
        let doc = doc! { "_id": n, "pad": pad.as_str() };
        c.writer(crate::test_operation())
            .insert(&[doc.doc()], true)
            .unwrap();
    }
}

fn with_index(c: &Arc<Collection>) {
    c.writer(crate::test_operation())
        .alter_search_indexes(|list| {
            list.push(doc! { "id": "x" });
            Ok(())
        })
        .unwrap();
}

/// A log that is kept only for consumers has the changes of collections with search indexes, from
/// the moment on at which they get one.
#[test]
fn a_log_for_consumers_has_what_they_follow() {
    let engine = Arc::new(MemoryEngine::new());
    let (store, _) = open_for(&engine, SIZE, Audience::Consumers);
    assert!(store.log().is_none() && store.feed().is_some());
    let (c, other) = (collection(&store, "c"), collection(&store, "other"));
    insert(&c, 0..3);
    let (at, view) = {
        with_index(&c);
        store.snapshot_at().unwrap().unwrap()
    };
    insert(&c, 3..5);
    insert(&other, 0..7);
    let mut scan = c.scan(&view, false);
    let mut seen = 0;
    while scan
        .visit(10, &mut |_| {
            seen += 1;
            true
        })
        .unwrap()
    {}
    let mut consumer = consume(&store, "search", at.as_u64() + 1, Lifetime::Durable);
    assert_eq!((seen, read_all(&mut consumer)), (3, 2));
    drop((c, other));
    // The same with a handle that is opened later.
    drop(store);
    let (store, _) = open_for(&engine, SIZE, Audience::Consumers);
    let ns = model::Namespace::new("db", "c").unwrap();
    insert(&store.collection(&ns).unwrap().unwrap(), 5..6);
    let mut consumer = consume(&store, "search", at.as_u64() + 1, Lifetime::Durable);
    assert_eq!(read_all(&mut consumer), 3);
}

/// The log is cut to a small size once all consumers have read it, and kept for those that have
/// not.
#[test]
fn a_log_for_consumers_is_held_and_cut() {
    let engine = Arc::new(MemoryEngine::new());
    let (store, now_ms) = open_for(&engine, 60 << 20, Audience::Consumers);
    let c = collection(&store, "c");
    with_index(&c);
    let mut consumer = consume(&store, "search", 0, Lifetime::Durable);
    insert_large(&c, 0..200);
    now_ms.fetch_add(3000, std::sync::atomic::Ordering::Relaxed);
    assert!(!store.truncate_log().unwrap(), "it is held");
    assert_eq!(read_all(&mut consumer), 200);
    save(&consumer);
    assert!(store.truncate_log().unwrap(), "16 MiB stay");
    assert!(!store.truncate_log().unwrap());
    insert_large(&c, 200..900);
    assert!(store.truncate_log().unwrap(), "not held beyond 60 MiB");
    assert_eq!(
        consumer.visit(1, &mut |_, _| true).unwrap(),
        VisitResult::Lost
    );
}

/// Changes that one kind of log lacks are not taken as read by a consumer of the other kind.
#[test]
fn a_position_is_of_one_kind_of_log() {
    let engine = Arc::new(MemoryEngine::new());
    let mut audience = Audience::Everybody;
    for round in 0..4 {
        let (store, _) = open_for(&engine, SIZE, audience);
        let c = collection(&store, &format!("c{round}"));
        with_index(&c);
        insert(&c, 0..1);
        let at = store.feed().unwrap().visible();
        drop((c, store));
        audience = match audience {
            Audience::Everybody => Audience::Consumers,
            Audience::Consumers => Audience::Everybody,
        };
        let (store, _) = open_for(&engine, SIZE, audience);
        let mut consumer = consume(&store, "search", at.as_u64() + 1, Lifetime::Process);
        assert_eq!(
            consumer.visit(1, &mut |_, _| true).unwrap(),
            VisitResult::Lost
        );
        drop(store);
    }
}
