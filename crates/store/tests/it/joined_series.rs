//! Time series to which several stores write: no measurement is lost or there twice, whoever
//! inserts, changes, deletes or packs, and no bucket is extended by two of them.

use crate::joined::{Member, STORES, members, ns, on_all};
use model::{Doc, DocBuf, Result, Value, doc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::{CursorOpts, KeyRange, Reader, Table};
use store::{Change, Collection, ModifyOutcome, ReadView};

fn options() -> DocBuf {
    doc! { "timeseries": { "timeField": "t", "metaField": "m", "granularity": "seconds",
    "bucketMaxSpanSeconds": 3600i32 } }
}

fn measurement(id: i32, sensor: i32, v: i32) -> DocBuf {
    let time = Value::Date(i64::from(id % 1000) * 1000);
    doc! { "t": time, "m": { "sensor": sensor }, "_id": id, "v": v }
}

fn start() -> Vec<Member> {
    let all = members();
    all[0].create_with(&options()).unwrap();
    let spec = doc! { "v": 2i32, "key": { "m.sensor": 1i32, "t": 1i32 }, "name": "m_t" };
    all[1].create_index(&spec).unwrap();
    all
}

/// The values of all measurements, by id; each is there once.
fn values(member: &Member) -> BTreeMap<i64, i64> {
    let mut found = BTreeMap::new();
    for doc in member.documents() {
        let field = |name: &str| doc.doc().field(name).as_i64_exact().unwrap();
        assert_eq!(found.insert(field("_id"), field("v")), None, "there twice");
    }
    found
}

fn validate(all: &[Member]) {
    for member in all {
        member.view();
        let c = member.find().unwrap();
        assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
    }
}

/// Every measurement with a row of its own lies in a bucket with a head, by which indexes find it.
fn check_heads(member: &Member) {
    const KEY_LEN: usize = 21;
    let (mut heads, mut rows) = (BTreeSet::new(), BTreeSet::new());
    let opts = CursorOpts::default();
    let mut cursor = member
        .engine
        .cursor(Table::Doc, KeyRange::ALL, opts)
        .unwrap();
    while cursor
        .visit(100, &mut |key, _| {
            match key.len() {
                KEY_LEN => heads.insert(key.to_vec()),
                _ => rows.insert(key[..KEY_LEN].to_vec()),
            };
            true
        })
        .unwrap()
    {}
    assert!(rows.is_subset(&heads), "a bucket has lost its head");
}

/// The keys of the measurements for which `wanted` is true.
fn keys(c: &Arc<Collection>, view: &ReadView, wanted: &dyn Fn(Doc<'_>) -> bool) -> Vec<Vec<u8>> {
    let (mut keys, mut scan) = (Vec::new(), c.scan(view, false));
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

/// Changes the measurement with this id; false when another store has changed its bucket since it
/// was found.
fn change(member: &Member, id: i32, new: &dyn Fn(Doc<'_>) -> Change) -> bool {
    let view = member.view();
    let mut changed = false;
    let done: Result<()> = member.run(|c| {
        let found = keys(c, &view, &|d| {
            d.field("_id").as_i64_exact() == Some(i64::from(id))
        });
        let found: Vec<&[u8]> = found.iter().map(Vec::as_slice).collect();
        let writer = c.writer(crate::test_operation());
        writer.modify_many(&found, &mut |_, doc| Ok(new(doc)), &mut |_, outcome| {
            changed |= matches!(
                outcome,
                ModifyOutcome::Replaced(_) | ModifyOutcome::Deleted(_)
            );
        })
    });
    done.unwrap();
    changed
}

#[test]
fn measurements_by_all_of_them_are_there_once() {
    let all = start();
    on_all(&all, |who, member| {
        for n in 0..60 {
            let from = who as i32 * 100_000 + n * 10;
            let docs: Vec<DocBuf> = (from..from + 10)
                .map(|id| measurement(id, id % 3, 1))
                .collect();
            assert_eq!(member.insert(&docs), 10);
        }
    });
    for member in &all {
        assert_eq!(values(member).len(), STORES * 600);
    }
    validate(&all);
}

#[test]
fn a_bucket_that_another_has_packed_takes_no_further_measurement() {
    let all = start();
    all[0].insert(&[measurement(1, 1, 1)]);
    // The open bucket of the first store is changed, and so packed, by the second one.
    assert!(change(&all[1], 1, &|_| Change::Replace(
        measurement(1, 1, 7).as_bytes().to_vec()
    )));
    all[0].insert(&[measurement(2, 1, 2)]);
    assert!(change(&all[2], 2, &|_| Change::Delete));
    all[0].insert(&[measurement(3, 1, 3)]);
    for member in &all {
        assert_eq!(values(member), [(1, 7), (3, 3)].into());
    }
    validate(&all);
}

#[test]
fn changes_and_deletions_beside_inserts_lose_nothing() {
    const EACH: i32 = 120;
    let all = start();
    let (changed, deleted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    on_all(&all, |who, member| {
        let first = who as i32 * 100_000;
        for n in 0..EACH {
            let id = first + n;
            assert_eq!(member.insert(&[measurement(id, n % 2, 1)]), 1);
            if n % 5 == 4 {
                // Each store changes and deletes its own ones, which share buckets with others
                // that it inserts, and with those that other stores regroup.
                let more = |old: Doc<'_>| {
                    let v = old.field("v").as_i64_exact().unwrap() as i32;
                    Change::Replace(measurement(id, 2, v + 1).as_bytes().to_vec())
                };
                while !change(member, id, &more) {}
                changed.fetch_add(1, Ordering::SeqCst);
                while !change(member, id - 1, &|_| Change::Delete) {}
                deleted.fetch_add(1, Ordering::SeqCst);
            }
            if n % 17 == 0 {
                let packed =
                    member.run(|c| c.writer(crate::test_operation()).pack_buckets(&|| Ok(())));
                packed.unwrap();
            }
        }
    });
    let (changed, deleted) = (changed.into_inner(), deleted.into_inner());
    for member in &all {
        let found = values(member);
        assert_eq!(found.len(), STORES * EACH as usize - deleted);
        let sum: i64 = found.values().sum();
        assert_eq!(sum as usize, found.len() + changed);
    }
    validate(&all);
    let c = all[0].find().unwrap();
    assert_eq!(c.ns(), &ns());
}

#[test]
fn a_change_of_the_catalog_does_not_close_buckets() {
    let all = start();
    for n in 0..20 {
        all[0].insert(&[measurement(n, 1, 1)]);
        let other = model::Namespace::new("db", &format!("other{n}")).unwrap();
        let writer = all[1].store.writer(crate::test_operation());
        writer
            .create_collection(&other, DocBuf::new(), [n as u8; 16])
            .unwrap();
    }
    let view = all[2].view();
    let c = all[2].store.collection_in(&view, &ns()).unwrap().unwrap();
    let (mut buckets, mut scan) = (0, c.scan_series(&view, Default::default(), None).unwrap());
    while scan.next_bucket().unwrap().is_some() {
        buckets += 1;
    }
    assert_eq!(buckets, 1);
}

/// A bucket that is emptied, and so removed, while its owner inserts into it.
#[test]
fn a_bucket_that_goes_conflicts_with_an_insert_into_it() {
    let mut all = start();
    all[1].insert(&[measurement(1, 1, 1)]);
    crate::joined_capped::meet(
        &all,
        |member| assert!(change(member, 1, &|_| Change::Delete)),
        |member| assert_eq!(member.insert(&[measurement(2, 1, 2)]), 1),
    );
    for member in &all {
        assert_eq!(values(member), [(2, 2)].into());
    }
    validate(&all);
    check_heads(&all[0]);
    // The other way round: the owner inserts, and another one empties the bucket.
    all.swap(0, 1);
    crate::joined_capped::meet(
        &all,
        |member| assert_eq!(member.insert(&[measurement(3, 1, 3)]), 1),
        |member| assert!(change(member, 2, &|_| Change::Delete)),
    );
    for member in &all {
        assert_eq!(values(member), [(3, 3)].into());
    }
    validate(&all);
    check_heads(&all[0]);
}
