//! The log of three members (ADR 0114): the position of a commit is its exact time, and all readers
//! see one order, also of what a member has left.

use crate::{Cluster, Server, join, ns, on_all};
use model::{Collate, Doc, DocBuf, Timestamp, Value, doc};
use operation::{Operation, SystemClock};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{
    Audience, Change, Hooks, LogKeeper, LogSettings, NoHooks, Predicate, Store, Terms, VisitResult,
};

/// Hooks with a log.
struct LogHooks;

impl Hooks for LogHooks {
    fn predicate(&self, f: Doc<'_>, c: Option<Doc<'_>>) -> model::Result<Predicate> {
        NoHooks.predicate(f, c)
    }

    fn collator(&self, c: Doc<'_>) -> model::Result<Option<Arc<dyn Collate>>> {
        NoHooks.collator(c)
    }

    fn terms(&self, d: Doc<'_>) -> model::Result<Arc<dyn Terms>> {
        NoHooks.terms(d)
    }

    fn log(&self) -> Option<LogSettings> {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH);
        Some(LogSettings {
            bytes_max: 1 << 30,
            uuid: [3; 16],
            audience: Audience::Everybody,
            now_ms: Arc::new(move || now().map_or(0, |now| now.as_millis() as i64)),
        })
    }
}

/// Times and entries that can be read now.
fn read(store: &Store, from: u64) -> Vec<(u64, DocBuf)> {
    let reader = store.read_log(Timestamp::from_u64(from));
    let mut reader = reader.expect("a log");
    let mut all = Vec::new();
    loop {
        let each = &mut |time: Timestamp, doc: Doc<'_>| {
            all.push((time.as_u64(), doc.to_buf()));
            true
        };
        match reader.visit(100, each).expect("a read") {
            VisitResult::More => {}
            VisitResult::End => return all,
            VisitResult::Lost => panic!("nothing was removed"),
        }
    }
}

/// Increases a number; the output is the time of the change.
fn increase(server: &Server, id: i32) -> u64 {
    let operation = Operation::new_detached(Arc::new(SystemClock::default()));
    server.run(|c| {
        let mut key = Vec::new();
        c.record_key(&Value::Int32(id), &mut key);
        c.writer(&operation).modify(&key, &mut |old| {
            let n = old.field("n").as_i64_exact().unwrap_or(0);
            let new = doc! { "_id": id, "n": n + 1 };
            Ok(Change::Replace(new.as_bytes().to_vec()))
        })
    });
    operation.writes().time()
}

#[test]
fn the_log_of_all_members_has_one_order() {
    const CHANGES: i64 = 25;
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let config = cluster.new_database();
    let all: Vec<Server> = (0..3).map(|_| join(&config, Arc::new(LogHooks))).collect();
    let keepers: Vec<LogKeeper> = all.iter().filter_map(|s| s.store.keep_log()).collect();
    assert_eq!(keepers.len(), 3);
    assert!(all[0].create());
    for id in 0..4i32 {
        assert!(all[0].insert(&doc! { "_id": id, "n": 0i64 }));
    }
    let times = on_all(&all, |who, server| {
        let changes =
            (0..CHANGES).map(|n| increase(server, if n % 2 == 0 { 3 } else { who as i32 }));
        changes.collect::<Vec<u64>>()
    });
    let first = *times.iter().flatten().min().expect("changes");
    let mut told: Vec<u64> = times.into_iter().flatten().collect();
    told.sort_unstable();
    for server in &all {
        let seen = read(&server.store, first);
        let seen_times: Vec<u64> = seen.iter().map(|(time, _)| *time).collect();
        assert_eq!(seen_times, told);
        // The numbers of each document grow one by one.
        for id in 0..4i64 {
            let numbers = seen.iter().filter_map(|(_, entry)| {
                let new = entry.doc().field("o").as_doc()?;
                let same = new.field("_id").as_i64_exact() == Some(id);
                new.field("n").as_i64_exact().filter(|_| same)
            });
            let numbers: Vec<i64> = numbers.collect();
            assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<i64>>());
        }
    }
    drop(keepers);
    for server in all {
        server.store.close().expect("it closes");
    }
}

#[test]
fn what_a_member_has_left_gets_the_times_of_its_commits() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let config = cluster.new_database();
    let (left, other) = (
        join(&config, Arc::new(LogHooks)),
        join(&config, Arc::new(LogHooks)),
    );
    assert!(left.create());
    let many: Vec<DocBuf> = (100..200).map(|id| doc! { "_id": id, "n": 0i64 }).collect();
    let docs: Vec<Doc<'_>> = many.iter().map(DocBuf::doc).collect();
    let inserted = left.run(|c| c.writer(&left.operation).insert(&docs, true));
    assert_eq!(inserted.count, 100);
    let last_of_many = left.operation.writes().time();
    assert!(left.insert(&doc! { "_id": 1i32, "n": 0i64 }));
    let last_of_one = left.operation.writes().time();
    let times: Vec<u64> = (0..4).map(|_| increase(&left, 1)).collect();
    drop(left);
    let first_of_many = last_of_many - 99;
    assert!(read(&other.store, first_of_many).is_empty());
    let published = other.store.publish_left_log(Duration::ZERO);
    assert!(published.expect("the cluster answers"));
    let seen = read(&other.store, first_of_many).into_iter();
    let seen: Vec<u64> = seen.map(|(time, _)| time).collect();
    // The other member finds the times that the first one was told.
    let many = (first_of_many..=last_of_many).chain([last_of_one]);
    assert_eq!(seen, many.chain(times).collect::<Vec<u64>>());
}

#[test]
fn a_state_of_an_earlier_time_is_read_through_any_member() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let config = cluster.new_database();
    let all: Vec<Server> = (0..3).map(|_| join(&config, Arc::new(LogHooks))).collect();
    assert!(all[0].create());
    assert!(all[0].insert(&doc! { "_id": 1i32, "n": 0i64 }));
    let number_at = |server: &Server, at: Timestamp| {
        let view = server.store.view_at(at).expect("a read");
        let view = view.expect("the engine keeps earlier states");
        let c = server.store.collection_in(&view, &ns()).expect("a read");
        let mut number = None;
        c.expect("a collection")
            .get_with(&view, &Value::Int32(1), &mut |doc| {
                number = doc.field("n").as_i64_exact();
            })
            .expect("a read");
        number
    };
    let mut times = Vec::new();
    for n in 0..6 {
        let told = all[n % 3].view();
        times.push(all[n % 3].store.time_of(&told).expect("a time"));
        increase(&all[(n + 1) % 3], 1);
    }
    // The catalog has changed since.
    all[2].create_index(&doc! { "v": 2i32, "key": { "n": 1i32 }, "name": "n_1" });
    for (n, at) in times.iter().enumerate() {
        for server in &all {
            assert_eq!(number_at(server, *at), Some(n as i64));
        }
    }
    let late = Timestamp {
        time: times[5].time + 60,
        ..times[5]
    };
    let refused = all[0].store.view_at(late).err();
    assert_eq!(refused.map(|e| e.code()), Some(246));
}
