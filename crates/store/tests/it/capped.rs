//! Capped collections: insertion order, room for new documents, readers whose position is deleted;
//! drops while readers are active.

use crate::{dump, index, open};
use model::{DocBuf, Namespace, doc};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, CursorOpts, KeyRange, MemoryEngine, Reader, Table};
use store::ReadView;
use store::{Change, Collection, NoHooks, Store};

fn create_capped(store: &Store) -> Arc<Collection> {
    let ns = Namespace::new("db", "c").unwrap();
    store
        .writer(crate::test_operation())
        .create_collection(&ns, doc! { "capped": true, "size": 100_000i64 }, [7; 16])
        .unwrap()
}

/// Changes the limits; documents beyond them are deleted.
fn limit(c: &Arc<Collection>, bytes: u64, docs: Option<u64>) {
    let size = i64::try_from(bytes).unwrap_or(i64::MAX);
    let mut options = doc! { "capped": true, "size": size };
    if let Some(docs) = docs {
        options.put("max", i64::try_from(docs).unwrap());
    }
    c.writer(crate::test_operation())
        .set_options(options, None)
        .unwrap();
    c.writer(crate::test_operation()).trim().unwrap();
}

fn insert(c: &Arc<Collection>, ids: &[i64]) {
    let docs: Vec<_> = ids.iter().map(|i| doc! { "_id": *i }).collect();
    c.writer(crate::test_operation())
        .insert(&docs.iter().map(|d| d.doc()).collect::<Vec<_>>(), true)
        .unwrap();
}

fn ids(docs: &[DocBuf]) -> Vec<i64> {
    docs.iter()
        .map(|d| d.doc().field("_id").as_i64_exact().unwrap())
        .collect()
}

fn entries(engine: &MemoryEngine) -> usize {
    let range = KeyRange {
        lower: &[0],
        upper: &[0xff],
    };
    let mut cursor = engine
        .cursor(Table::Cap, range, CursorOpts::default())
        .unwrap();
    let mut n = 0;
    while cursor
        .visit(100, &mut |_, _| {
            n += 1;
            true
        })
        .unwrap()
    {}
    n
}

#[test]
fn order_survives_restarts_and_trimming() {
    let engine = Arc::new(MemoryEngine::new());
    let c = create_capped(&open(&engine));
    insert(&c, &[5, 1, 9]);
    insert(&c, &[3]);
    drop(c);
    let store = open(&engine);
    let c = store
        .collection(&Namespace::new("db", "c").unwrap())
        .unwrap()
        .unwrap();
    insert(&c, &[0, 7]);
    assert_eq!(ids(&dump(&c, false)), [5, 1, 9, 3, 0, 7]);
    assert_eq!(ids(&dump(&c, true)), [7, 0, 3, 9, 1, 5]);
    limit(&c, u64::MAX, Some(4));
    assert_eq!(
        (ids(&dump(&c, false)), c.count(), entries(&engine)),
        (vec![9, 3, 0, 7], 4, 4)
    );
    // A changed document keeps its place; a deleted one leaves none.
    let mut key = Vec::new();
    c.record_key(&model::Value::Int64(3), &mut key);
    c.writer(crate::test_operation())
        .modify(&key, &mut |_| {
            Ok(Change::Replace(
                doc! { "_id": 3i64, "x": "long" }.into_bytes(),
            ))
        })
        .unwrap();
    c.record_key(&model::Value::Int64(0), &mut key);
    c.writer(crate::test_operation())
        .modify(&key, &mut |_| Ok(Change::Delete))
        .unwrap();
    assert_eq!(
        (ids(&dump(&c, false)), entries(&engine)),
        (vec![9, 3, 7], 3)
    );
    assert!(c.validate().unwrap().errors.is_empty());
    limit(&c, 1, None);
    assert_eq!(
        ids(&dump(&c, false)),
        [7],
        "the newest stays however small the room"
    );
    // Fewer and more keys than are deleted one by one.
    for more in [0, 3000] {
        let c = match store
            .collection(&Namespace::new("db", "c").unwrap())
            .unwrap()
        {
            Some(c) => c,
            None => create_capped(&store),
        };
        insert(&c, &(100..100 + more).collect::<Vec<_>>());
        store
            .writer(crate::test_operation())
            .drop_collection(&Namespace::new("db", "c").unwrap())
            .unwrap();
        assert_eq!(entries(&engine), 0);
        drop(open(&engine));
    }
}

#[test]
fn a_collection_made_capped_gets_its_order() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = crate::collection(&store, "c");
    insert(&c, &[5, 1, 9]);
    c.writer(crate::test_operation())
        .set_options(doc! { "capped": true, "size": 1000i64 }, None)
        .unwrap();
    insert(&c, &[2]);
    assert_eq!(
        (ids(&dump(&c, false)), entries(&engine)),
        (vec![5, 1, 9, 2], 4)
    );
}

#[test]
fn a_scan_overtaken_by_truncation_ends_with_an_error() {
    let c = create_capped(&open(&Arc::new(MemoryEngine::new())));
    insert(&c, &[1, 2, 3, 4]);
    let mut seen = Vec::new();
    let mut tail = c.tail(false);
    let mut see = |scan: &mut store::Scan, max: usize| {
        let more = scan.visit(max, &mut |row| {
            seen.push(row.doc.field("_id").as_i64_exact().unwrap());
            true
        });
        scan.pause();
        (more.map_err(|e| e.code()), std::mem::take(&mut seen))
    };
    assert_eq!(see(&mut tail, 9), (Ok(false), vec![1, 2, 3, 4]));
    insert(&c, &[0]);
    limit(&c, u64::MAX, Some(2));
    let mut late = c.scan(&ReadView::LATEST, false);
    assert_eq!(see(&mut late, 1), (Ok(true), vec![4]));
    assert_eq!(
        see(&mut tail, 9),
        (Ok(false), vec![0]),
        "its place, 4, is still there"
    );
    insert(&c, &[8]);
    limit(&c, u64::MAX, Some(2));
    assert_eq!(see(&mut late, 9).0, Err(136));
    assert_eq!(see(&mut tail, 9), (Ok(false), vec![8]));
}

/// A reader of a collection that is being dropped gets all documents or an error, never a part of
/// them without an error.
#[test]
fn a_drop_under_a_reader_is_reported_as_a_drop() {
    let ns = Namespace::new("db", "c").unwrap();
    let mut told = BTreeSet::new();
    for round in 0..40 {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(&engine);
        let c = crate::collection(&store, "c");
        c.writer(crate::test_operation())
            .create_index(index("a_1", "a", false))
            .unwrap();
        let count = if round % 2 == 0 { 900 } else { 2000 };
        let docs: Vec<_> = (0..count).map(|i| doc! { "_id": i, "a": i % 10 }).collect();
        c.writer(crate::test_operation())
            .insert(&docs.iter().map(|d| d.doc()).collect::<Vec<_>>(), true)
            .unwrap();
        let go = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..3)
            .map(|kind| {
                let (c, go) = (c.clone(), go.clone());
                std::thread::spawn(move || {
                    let all = vec![store::KeyInterval {
                        lower: vec![0],
                        upper: vec![0xff],
                    }];
                    let by_index = c.indexes()[0].clone();
                    for _ in 0..50 {
                        let mut n = 0;
                        let mut each = |_: store::Row<'_>| {
                            n += 1;
                            true
                        };
                        let walked = if kind == 0 {
                            let mut scan = c.scan(&ReadView::LATEST, false);
                            std::iter::repeat_with(|| scan.visit(100, &mut each))
                                .find(|m| !matches!(m, Ok(true)))
                        } else {
                            let mut scan = c.scan_index(
                                &ReadView::LATEST,
                                &by_index,
                                by_index.multikey_bits(),
                                all.clone().into(),
                                kind == 2,
                            );
                            std::iter::repeat_with(|| scan.visit(100, &mut each))
                                .find(|m| !matches!(m, Ok(true)))
                        };
                        go.store(true, Ordering::Release);
                        match walked {
                            Some(Err(e)) => return Err(e.code()),
                            _ if n != count => return Ok(n),
                            _ => {}
                        }
                    }
                    Ok(count)
                })
            })
            .collect();
        while !go.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        store
            .writer(crate::test_operation())
            .drop_collection(&ns)
            .unwrap();
        for r in readers {
            let end = r.join().unwrap();
            assert!(end == Ok(count) || end == Err(175), "{end:?} of {count}");
            told.insert(end.is_err());
        }
    }
    assert!(told.contains(&true), "no reader met a drop");
}

/// Counts commits.
#[derive(Default)]
struct Commits(AtomicUsize);

impl Observer for Commits {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::Apply { .. } = call {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// A commit for each deleted document made inserts into a full collection three times as expensive.
#[test]
fn truncation_uses_few_commits_and_removes_no_more_than_needed() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        Commits::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = create_capped(&store);
    let width = |id: i64| 20 + (id * id % 97) as usize;
    let mut kept: VecDeque<(i64, u64)> = VecDeque::new();
    for round in 0..30i64 {
        let docs: Vec<DocBuf> = (round * 200..(round + 1) * 200)
            .map(|id| doc! { "_id": id, "pad": "x".repeat(width(id)).as_str() })
            .collect();
        let views: Vec<_> = docs.iter().map(|d| d.doc()).collect();
        for (n, d) in views.iter().enumerate() {
            kept.push_back((round * 200 + n as i64, d.len_bytes() as u64));
        }
        let (bytes, docs) = match round % 3 {
            0 => (25_000, None),
            1 => (u64::MAX, Some(300)),
            _ => (20_000, Some(290)),
        };
        let mut size: u64 = kept.iter().map(|(_, len)| len).sum();
        while size > bytes || docs.is_some_and(|d| kept.len() as u64 > d) {
            size -= kept.pop_front().unwrap().1;
        }
        limit(&c, bytes, docs);
        let before = engine.observer().0.load(Ordering::SeqCst);
        assert_eq!(
            c.writer(crate::test_operation())
                .insert(&views, true)
                .unwrap()
                .count,
            200
        );
        let commits = engine.observer().0.load(Ordering::SeqCst) - before;
        assert!(commits <= 3, "{commits} commits in round {round}");
        let left: Vec<i64> = kept.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids(&dump(&c, false)), left, "round {round}");
        assert_eq!((c.count(), c.size_bytes()), (left.len() as u64, size));
    }
    assert!(c.validate().unwrap().errors.is_empty());
}

/// The newest documents of all are there, although others insert, trim and change meanwhile.
#[test]
fn room_is_made_while_others_write() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let c = create_capped(&store);
    limit(&c, 100_000, Some(50));
    std::thread::scope(|s| {
        for t in 0..3i64 {
            let c = c.clone();
            s.spawn(move || {
                for round in 0..40i64 {
                    let first = (t * 40 + round) * 10;
                    insert(&c, &(first..first + 10).collect::<Vec<_>>());
                    let mut key = Vec::new();
                    c.record_key(&model::Value::Int64(first), &mut key);
                    c.writer(crate::test_operation())
                        .modify(&key, &mut |_| {
                            Ok(Change::Replace(
                                doc! { "_id": first, "a": 1i32 }.into_bytes(),
                            ))
                        })
                        .unwrap();
                }
            });
        }
    });
    let left = ids(&dump(&c, false));
    assert_eq!((left.len(), c.count()), (50, 50));
    assert!(c.validate().unwrap().errors.is_empty());
}

/// Counts reads of the oldest documents.
#[derive(Default)]
struct OldestReadCounter(AtomicUsize);

impl Observer for OldestReadCounter {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        let table = Table::Cap;
        if matches!(call, Call::Cursor { table: t, .. } if *t == table) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// An insert into a full collection searched for the oldest document each time.
#[test]
fn the_oldest_are_looked_for_now_and_then() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        OldestReadCounter::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = create_capped(&store);
    limit(&c, 100_000, Some(500));
    for id in 0..2000 {
        insert(&c, &[id]);
        assert_eq!(c.count(), 500.min(id as u64 + 1));
    }
    let looks = engine.observer().0.load(Ordering::SeqCst);
    assert!(looks <= 10, "{looks} looks for 1500 documents");
    assert_eq!(ids(&dump(&c, false)), (1500..2000).collect::<Vec<_>>());
    assert!(c.validate().unwrap().errors.is_empty());
}

/// A document that was read ahead may be deleted by others, and inserted again under a new number,
/// before it is its turn to be deleted.
#[test]
fn a_document_that_was_inserted_again_is_among_the_newest() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let c = create_capped(&store);
    let mut kept: VecDeque<i64> = (0..100).collect();
    insert(&c, &(0..100).collect::<Vec<_>>());
    limit(&c, u64::MAX, Some(99));
    kept.pop_front();
    let delete = |id: i64| {
        let mut key = Vec::new();
        c.record_key(&model::Value::Int64(id), &mut key);
        c.writer(crate::test_operation())
            .modify(&key, &mut |_| Ok(Change::Delete))
            .unwrap();
    };
    // Some among those that are deleted next, and one after a document that stays.
    for id in [1, 3, 4, 50, 52] {
        delete(id);
        kept.retain(|k| *k != id);
    }
    insert(&c, &[3, 4, 1]);
    kept.extend([3, 4, 1]);
    limit(&c, 100_000, Some(90));
    for id in 1000..1300 {
        insert(&c, &[id]);
        kept.push_back(id);
        while kept.len() > 90 {
            kept.pop_front();
        }
        assert_eq!(ids(&dump(&c, false)), Vec::from_iter(kept.iter().copied()));
    }
    assert!(c.validate().unwrap().errors.is_empty());
}

/// An insert into a capped collection handles its documents in order. To make room for the first
/// one it deletes an old document; the second one has the `_id` of that document.
#[test]
fn an_id_is_free_when_the_insert_itself_has_deleted_its_document() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let c = create_capped(&store);
    limit(&c, 100_000, Some(3));
    insert(&c, &[1, 2, 3]);
    let docs = [4i64, 1, 3].map(|id| doc! { "_id": id });
    let docs: Vec<_> = docs.iter().map(DocBuf::doc).collect();
    for ordered in [true, false] {
        let done = c
            .writer(crate::test_operation())
            .insert(&docs, ordered)
            .unwrap();
        let refused: Vec<_> = done.errors.iter().map(|(n, e)| (*n, e.code())).collect();
        let (count, wrong, left) = match ordered {
            // 4 deletes 1, 1 deletes 2, and 3 is still there.
            true => (2, vec![(2, 11_000)], vec![3, 4, 1]),
            // 4 and 1 are there, and 3 too.
            false => (
                0,
                vec![(0, 11_000), (1, 11_000), (2, 11_000)],
                vec![3, 4, 1],
            ),
        };
        assert_eq!((done.count, refused), (count, wrong));
        assert_eq!(ids(&dump(&c, false)), left);
    }
    assert!(c.validate().unwrap().errors.is_empty());
}

/// A place without its document, after a document that stays, made readers begin after that
/// document.
#[test]
fn a_document_that_stays_is_shown_though_the_next_is_gone() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let c = create_capped(&store);
    insert(&c, &[0]);
    let large = doc! { "_id": 1i64, "pad": "x".repeat(300).as_str() };
    c.writer(crate::test_operation())
        .insert(&[large.doc()], true)
        .unwrap();
    insert(&c, &(2..20).collect::<Vec<_>>());
    // Reads ahead, and deletes one document.
    limit(&c, u64::MAX, Some(19));
    let mut key = Vec::new();
    c.record_key(&model::Value::Int64(3), &mut key);
    c.writer(crate::test_operation())
        .modify(&key, &mut |_| Ok(Change::Delete))
        .unwrap();
    // Going by the average size, more documents than the large one would have to be deleted.
    limit(&c, c.size_bytes() - 150, None);
    let left: Vec<i64> = [2].into_iter().chain(4..20).collect();
    assert_eq!(ids(&dump(&c, false)), left);
    limit(&c, u64::MAX, Some(16));
    assert_eq!(ids(&dump(&c, false)), left[1..]);
    assert!(c.validate().unwrap().errors.is_empty());
}

/// Old documents were deleted by a commit after that of the insert: readers saw more than the
/// limit.
#[test]
fn readers_see_no_more_than_the_limits() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let c = create_capped(&store);
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", true))
        .unwrap();
    limit(&c, 100_000, Some(20));
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let reader = s.spawn(|| {
            let mut most = (0, 0);
            while !done.load(Ordering::Acquire) {
                let mut seen = 0;
                let mut scan = c.scan(&ReadView::LATEST, false);
                let mut each = |_: store::Row<'_>| {
                    seen += 1;
                    true
                };
                while let Ok(true) = scan.visit(1000, &mut each) {}
                most = most.max((seen, c.count()));
            }
            most
        });
        for round in 0..300i64 {
            let docs: Vec<_> = (round * 7..round * 7 + 7)
                .map(|i| doc! { "_id": i, "a": i })
                .collect();
            c.writer(crate::test_operation())
                .insert(&docs.iter().map(|d| d.doc()).collect::<Vec<_>>(), true)
                .unwrap();
        }
        done.store(true, Ordering::Release);
        let (seen, counted) = reader.join().unwrap();
        assert!(
            seen <= 20 && counted == 20,
            "{seen} seen, {counted} counted"
        );
    });
    // More documents at once than fit, by number and by bytes.
    c.writer(crate::test_operation()).drop_index("a_1").unwrap();
    insert(&c, &(5000..5100).collect::<Vec<_>>());
    assert_eq!(ids(&dump(&c, false)), (5080..5100).collect::<Vec<_>>());
    limit(&c, 100, None);
    insert(&c, &(6000..6100).collect::<Vec<_>>());
    assert_eq!(ids(&dump(&c, false)), (6095..6100).collect::<Vec<_>>());
    assert!(c.size_bytes() <= 100, "{}", c.size_bytes());
    assert!(c.validate().unwrap().errors.is_empty());
}

/// A document may change after it was read ahead: then its new entries must be deleted with it.
#[test]
fn a_document_that_has_changed_goes_with_its_new_entries() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = create_capped(&store);
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", false))
        .unwrap();
    limit(&c, 100_000, Some(10));
    insert(&c, &(0..11).collect::<Vec<_>>());
    for id in 2..6i64 {
        let mut key = Vec::new();
        c.record_key(&model::Value::Int64(id), &mut key);
        let new = doc! { "_id": id, "a": id * 100 };
        c.writer(crate::test_operation())
            .modify(&key, &mut |_| Ok(Change::Replace(new.as_bytes().to_vec())))
            .unwrap();
    }
    insert(&c, &(11..30).collect::<Vec<_>>());
    assert_eq!(ids(&dump(&c, false)), (20..30).collect::<Vec<_>>());
    let validated = c.validate().unwrap();
    assert!(validated.errors.is_empty(), "{:?}", validated.errors);
    assert_eq!(entries(&engine), 10);
}

/// Counts documents that are read in batches.
#[derive(Default)]
struct BatchReadCounter(AtomicUsize);

impl Observer for BatchReadCounter {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::MultiGet { table, keys } = call
            && *table == Table::Doc
        {
            self.0.fetch_add(keys.len(), Ordering::SeqCst);
        }
        Ok(())
    }
}

/// A change of a document makes everything that was read ahead stale; little is lost then.
#[test]
fn changes_between_inserts_cost_few_reads() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        BatchReadCounter::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = create_capped(&store);
    limit(&c, 100_000, Some(500));
    insert(&c, &(0..500).collect::<Vec<_>>());
    for id in 500..1500i64 {
        insert(&c, &[id]);
        let mut key = Vec::new();
        c.record_key(&model::Value::Int64(id), &mut key);
        let new = doc! { "_id": id, "done": true };
        c.writer(crate::test_operation())
            .modify(&key, &mut |_| Ok(Change::Replace(new.as_bytes().to_vec())))
            .unwrap();
    }
    let read = engine.observer().0.load(Ordering::SeqCst);
    assert!(read <= 6_000, "{read} documents read for 1000 that go");
    assert_eq!(ids(&dump(&c, false)), (1000..1500).collect::<Vec<_>>());
    assert!(c.validate().unwrap().errors.is_empty());
}
