//! Several servers that write to one database at the same time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use engine_tikv::{Config, TikvEngine, TikvMember};
use storage::conformance::{self, Databases};
use storage::{
    CommitPos, CursorOpts, Durability, Engine, Follower, KeyRange, Reader, Result, StorageError,
    Table, Unit, WriteBatch, counter_decode,
};

use tikv_client::{CheckLevel, TransactionClient, TransactionOptions};

use crate::tools::{Cluster, config, get, key, open, pd, put};
use crate::writer::Writer;

fn join(config: &Config) -> TikvMember {
    TikvMember::join(config).expect("a member joins")
}

fn databases(pd: &[String]) -> Databases<TikvMember> {
    let first = config(pd);
    let open = move |number: u32| {
        join(&Config {
            prefix: format!("{}-{number}", first.prefix),
            ..first.clone()
        })
    };
    Databases::new(open, |engine| {
        engine.sweep().expect("a sweep");
    })
}

/// On a cluster of its own: while the store for tests applies the suite's largest commits, which
/// takes seconds, it answers no other test.
#[test]
fn a_member_keeps_the_contract() {
    match Cluster::open() {
        Ok(cluster) => conformance::run(&databases(&cluster.pd), 1),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

#[test]
fn a_member_answers_as_the_memory_engine_does() {
    if let Some(pd) = pd() {
        conformance::compare(&databases(&pd), 10);
    }
}

/// Three members of a new database.
fn three(pd: &[String]) -> Vec<TikvMember> {
    let config = config(pd);
    (0..3).map(|_| join(&config)).collect()
}

fn begin(member: &TikvMember) -> Result<Unit<'_>> {
    let engine: &dyn Engine = member;
    engine.begin()
}

fn number(reader: &dyn Reader, n: u32) -> u32 {
    let mut value = Vec::new();
    let found = reader.get(Table::Doc, &key(n), &mut value);
    match found.expect("a read") {
        true => u32::from_be_bytes(value[..].try_into().expect("a number")),
        false => 0,
    }
}

/// Adds 1 to a number in a unit, until that succeeds. The output is the number of conflicts.
fn increase(member: &TikvMember, n: u32) -> u32 {
    for conflicts in 0.. {
        let unit = begin(member).expect("a unit");
        let next = number(&unit, n) + 1;
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(n), &next.to_be_bytes());
        batch.add(Table::Meta, b"count", [1, i64::from(n)]);
        match unit.commit(&batch, Durability::Buffered) {
            Ok(_) => return conflicts,
            Err(StorageError::Conflict) => {}
            Err(e) => panic!("{e}"),
        }
    }
    unreachable!("it ends by success")
}

fn count(reader: &dyn Reader) -> [i64; 2] {
    let mut value = Vec::new();
    reader
        .get(Table::Meta, b"count", &mut value)
        .expect("a read");
    counter_decode(&value)
}

#[test]
fn no_change_of_another_member_is_lost() {
    const CHANGES: u32 = 60;
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    let conflicts = AtomicU32::new(0);
    std::thread::scope(|threads| {
        for member in &members {
            for _ in 0..2 {
                threads.spawn(|| {
                    let met = (0..CHANGES).map(|i| increase(member, i % 3)).sum();
                    conflicts.fetch_add(met, Ordering::Relaxed);
                });
            }
        }
    });
    let all = 6 * CHANGES;
    for member in &members {
        let moment = member.moment().expect("a moment").snapshot;
        let numbers: Vec<u32> = (0..3).map(|n| number(&*moment, n)).collect();
        assert_eq!(numbers, [all / 3; 3]);
        assert_eq!(count(&*moment), [i64::from(all), i64::from(all)]);
    }
    assert!(conflicts.into_inner() > 0, "they never met");
}

#[test]
fn units_of_one_member_that_change_different_documents_do_not_conflict() {
    let Some(pd) = pd() else { return };
    let member = join(&config(&pd));
    let units: Vec<Unit<'_>> = (0..8).map(|_| begin(&member).expect("a unit")).collect();
    for (n, unit) in (0..).zip(units) {
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(n), b"value");
        batch.add(Table::Meta, b"count", [1, 0]);
        let done = unit.commit(&batch, Durability::Buffered);
        assert!(done.is_ok(), "{n}: {done:?}");
    }
    assert_eq!(count(&member), [8, 0]);
}

#[test]
fn what_a_member_acknowledged_is_in_the_next_moment_of_the_others() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    for n in 0..30 {
        let writer = &members[n as usize % 3];
        put(writer, n, b"value").expect("a write");
        for reader in &members {
            let moment = reader.moment().expect("a moment").snapshot;
            assert!(moment.get(Table::Doc, &key(n), &mut Vec::new()).unwrap());
            assert_eq!(count(&*moment), [i64::from(n) + 1, 0]);
        }
    }
}

#[test]
fn units_that_meet_an_exclusive_commit_conflict() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    let write = |unit: Unit<'_>, n: u32| -> Result<CommitPos> {
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(n), b"value");
        unit.commit(&batch, Durability::Buffered)
    };
    let before: Vec<Unit<'_>> = members.iter().map(|m| begin(m).expect("a unit")).collect();
    let told = members[1].moment().expect("a moment").announced;
    let exclusive = members[0].begin_exclusive().expect("a unit");
    let mut batch = WriteBatch::new();
    batch.put(Table::Meta, b"catalog", b"value");
    let exclusive = exclusive.expect("it detects conflicts");
    exclusive
        .commit(&batch, Durability::Buffered)
        .expect("a commit");
    assert_ne!(members[1].moment().expect("a moment").announced, told);
    for (n, unit) in (0..).zip(before) {
        let done = write(unit, n);
        assert!(matches!(done, Err(StorageError::Conflict)), "{n}: {done:?}");
        assert_eq!(get(&members[0], n), None);
        write(begin(&members[n as usize]).expect("a unit"), n).expect("a commit");
    }
}

#[test]
fn a_commit_takes_several_positions() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    let mut taken: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let commit_often = |n: u32, member: &TikvMember| {
            let mut batch = WriteBatch::new();
            batch.put(Table::Doc, &key(n), b"value");
            batch.take_positions(100);
            let commit = |_| {
                let before = member.moment().expect("a moment").snapshot.pos().0;
                let unit = begin(member).expect("a unit");
                let pos = unit.commit(&batch, Durability::Buffered).expect("a commit");
                assert!(pos.0 - 99 > before, "{pos:?} after {before}");
                assert_eq!(pos.0 >> 18, (pos.0 - 99) >> 18);
                (pos.0 - 99, pos.0)
            };
            (0..20).map(commit).collect::<Vec<_>>()
        };
        let each = |(n, member)| scope.spawn(move || commit_often(n, member));
        let all: Vec<_> = (0u32..).zip(&members).map(each).collect();
        let all = all
            .into_iter()
            .map(|thread| thread.join().expect("commits"));
        all.flatten().collect()
    });
    taken.sort_unstable();
    assert!(taken.windows(2).all(|two| two[0].1 < two[1].0), "{taken:?}");
}

/// The stored key that ends like this one.
async fn find_stored(client: &TransactionClient, end: &[u8]) -> Vec<u8> {
    let ts = client.current_timestamp().await.expect("a time");
    let mut reader = client.snapshot(ts, TransactionOptions::new_optimistic());
    let found = reader.scan_keys(Vec::new().., 10_000).await.expect("keys");
    let keys: Vec<Vec<u8>> = found
        .map(Vec::from)
        .filter(|key| key.ends_with(end))
        .collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.into_iter().next().expect("one")
}

/// A commit that waits for others and is given up keeps none of its own locks: the slot goes on,
/// and so does the server.
#[test]
fn a_commit_that_others_block_for_long_succeeds_when_they_end() {
    let Some(cluster) = Cluster::open().ok() else {
        return;
    };
    let member = join(&config(&cluster.pd));
    let number = 0x5eed_f00d;
    put(&member, number, b"old").expect("a write");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut other = runtime.block_on(async {
        let client = TransactionClient::new(cluster.pd.clone())
            .await
            .expect("a client");
        let stored = find_stored(&client, &key(number)).await;
        let options = TransactionOptions::new_pessimistic().drop_check(CheckLevel::None);
        let mut other = client
            .begin_with_options(options)
            .await
            .expect("a transaction");
        other.get_for_update(stored).await.expect("a lock");
        other
    });
    // So large that its locks are asked for in several requests: it gets some of them.
    let mut batch = WriteBatch::new();
    (0..8).for_each(|n| batch.put(Table::Doc, &key(n), &[n as u8; 20_000]));
    batch.put(Table::Doc, &key(number), b"new");
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let blocked = scope.spawn(|| member.apply(&batch, Durability::Buffered));
        // Longer than a commit waits for locks.
        std::thread::sleep(Duration::from_secs(9));
        runtime
            .block_on(other.rollback())
            .expect("the lock is gone");
        blocked.join().expect("it ends").expect("a write");
        assert!(
            begun.elapsed() < Duration::from_secs(16),
            "{:?}",
            begun.elapsed()
        );
    });
    assert_eq!(get(&member, number).as_deref(), Some(&b"new"[..]));
    for n in 0..20 {
        put(&member, n, b"value").expect("every slot is usable");
    }
}

/// How long a unit of a member waits for its beginning.
fn wait_to_begin(member: &TikvMember) -> Duration {
    let begun = Instant::now();
    drop(begin(member).expect("a unit"));
    begun.elapsed()
}

#[test]
fn others_wait_for_a_turn_as_long_as_it_is_held() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    let turn = members[0].begin_exclusive().expect("a unit").expect("one");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| wait_to_begin(&members[1]));
        // Twice as long as others wait without a sign of the holder.
        std::thread::sleep(Duration::from_millis(1_500));
        let mut batch = WriteBatch::new();
        batch.put(Table::Meta, b"catalog", b"value");
        turn.commit(&batch, Durability::Buffered).expect("a commit");
        let waited = waits.join().expect("it begins");
        assert!(waited >= Duration::from_millis(1_400), "{waited:?}");
    });
    assert!(begin(&members[2]).is_ok());
}

#[test]
fn a_turn_that_is_given_up_holds_nobody_up() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    wait_to_begin(&members[1]);
    drop(members[0].begin_exclusive().expect("a unit"));
    let waited = wait_to_begin(&members[1]);
    assert!(waited < Duration::from_millis(500), "{waited:?}");
}

#[test]
fn others_wait_for_a_dead_holder_of_a_turn_less_than_a_second() {
    let Some(pd) = pd() else { return };
    let config = config(&pd);
    let member = join(&config);
    let holder = Writer::start("turn", &config);
    holder.wait_acknowledged(0);
    std::thread::sleep(Duration::from_millis(900));
    let begun = Instant::now();
    holder.kill();
    drop(begin(&member).expect("a unit"));
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    assert!(waited > Duration::from_millis(100), "{waited:?}");
}

#[test]
fn an_exclusive_unit_conflicts_when_a_range_that_it_has_read_changes() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    put(&members[2], 1, b"value").expect("a write");
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(2), b"value");
    let count = |unit: &dyn Reader| {
        let mut rows = 0;
        let opened = unit.cursor(Table::Doc, KeyRange::ALL, CursorOpts::default());
        let each = &mut |_: &[u8], _: &[u8]| {
            rows += 1;
            true
        };
        let mut cursor = opened?;
        while cursor.visit(10, each)? {}
        Ok::<i32, StorageError>(rows)
    };
    let other = begin(&members[1]).expect("a unit");
    assert!(matches!(count(&other), Err(StorageError::Unsupported(_))));
    let exclusive = members[0].begin_exclusive().expect("a unit").expect("one");
    assert_eq!(count(&*exclusive).expect("a count"), 1);
    // It has begun before.
    other
        .commit(&batch, Durability::Buffered)
        .expect("a commit");
    let done = exclusive.commit(&batch, Durability::Buffered);
    assert!(matches!(done, Err(StorageError::Conflict)), "{done:?}");
    let exclusive = members[0].begin_exclusive().expect("a unit").expect("one");
    assert_eq!(count(&*exclusive).expect("a count"), 2);
    exclusive
        .commit(&batch, Durability::Buffered)
        .expect("a commit");
}

#[test]
fn exclusive_commits_take_their_turn_beside_writers() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    let ended = AtomicBool::new(false);
    let written = AtomicU32::new(0);
    std::thread::scope(|threads| {
        for (n, member) in (10..).zip(&members) {
            let (ended, written) = (&ended, &written);
            threads.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    increase(member, n);
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut longest = Duration::ZERO;
        for round in 0..20u8 {
            let member = &members[usize::from(round) % 3];
            let began = Instant::now();
            loop {
                let unit = member.begin_exclusive().expect("a unit");
                let mut batch = WriteBatch::new();
                batch.put(Table::Meta, b"catalog", &[round]);
                let unit = unit.expect("it detects conflicts");
                match unit.commit(&batch, Durability::Buffered) {
                    Err(StorageError::Conflict) => {}
                    done => {
                        done.expect("a commit");
                        break;
                    }
                }
            }
            longest = longest.max(began.elapsed());
        }
        ended.store(true, Ordering::Relaxed);
        assert!(longest < Duration::from_secs(5), "{longest:?}");
    });
    let moment = members[0].moment().expect("a moment").snapshot;
    let numbers: u32 = (10..13).map(|n| number(&*moment, n)).sum();
    assert_eq!(numbers, written.into_inner());
    assert!(numbers > 20, "{numbers}");
}

#[test]
fn units_of_the_same_member_wait_for_its_exclusive_commit() {
    let Some(pd) = pd() else { return };
    let member = join(&config(&pd));
    increase(&member, 1);
    let exclusive: &dyn Engine = &member;
    let exclusive = exclusive.begin_exclusive().expect("a unit").expect("one");
    std::thread::scope(|threads| {
        let other = threads.spawn(|| increase(&member, 1));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!other.is_finished(), "it does not wait");
        let mut batch = WriteBatch::new();
        batch.put(Table::Meta, b"catalog", b"1");
        let committed = exclusive.commit(&batch, Durability::Buffered);
        committed.expect("nothing conflicts");
    });
    let moment = member.moment().expect("a moment").snapshot;
    assert_eq!(number(&*moment, 1), 2);
}

#[test]
fn members_and_a_server_that_holds_the_whole_database_exclude_each_other() {
    let Some(pd) = pd() else { return };
    let config = config(&pd);
    let member = join(&config);
    let other = join(&config);
    for n in 0..5 {
        put(&member, n, b"value").expect("a write");
        put(&other, n + 5, b"value").expect("a write");
    }
    let refused = TikvEngine::open(&config).map(|_| ());
    assert!(
        matches!(refused, Err(StorageError::Locked { .. })),
        "{refused:?}"
    );
    drop((member, other));
    let holder = open(&config);
    // The parts of counters were added up.
    assert_eq!(count(&holder), [10, 0]);
    put(&holder, 10, b"value").expect("a write");
    let refused = TikvMember::join(&config).map(|_| ());
    assert!(
        matches!(refused, Err(StorageError::Locked { .. })),
        "{refused:?}"
    );
    drop(holder);
    let member = join(&config);
    put(&member, 11, b"value").expect("a write");
    assert_eq!(count(&member), [12, 0]);
    let found: BTreeMap<u32, bool> = (0..12).map(|n| (n, get(&member, n).is_some())).collect();
    assert!(found.values().all(|there| *there), "{found:?}");
}

/// The value at a new moment.
fn now(member: &TikvMember, n: u32) -> Option<Vec<u8>> {
    let moment = member.moment().expect("a moment").snapshot;
    let mut value = Vec::new();
    let found = moment.get(Table::Doc, &key(n), &mut value);
    found.expect("a read").then_some(value)
}

fn exclusive_change(member: &TikvMember, value: &[u8]) {
    let unit = member.begin_exclusive().expect("a unit").expect("one");
    let mut batch = WriteBatch::new();
    batch.put(Table::Meta, b"catalog", value);
    let done = unit.commit(&batch, Durability::Buffered);
    done.expect("nothing conflicts");
}

#[test]
fn a_unit_begins_at_its_moment_and_conflicts_with_changes_since() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    put(&members[0], 1, b"old").expect("a write");
    let told = members[1].moment().expect("a moment").announced;
    let moment = || {
        let begun = members[1].begin_moment(&told).expect("a moment");
        begun.expect("nothing was announced").pos()
    };
    let write = |at: CommitPos, n: u32| -> Result<CommitPos> {
        let keys = [(Table::Doc, &key(1)[..]), (Table::Doc, &key(2)[..])];
        let unit = members[1].begin_early(at, &keys)?.expect("one");
        let mut seen = Vec::new();
        assert!(unit.get(Table::Doc, &key(1), &mut seen)?);
        assert!(!unit.get(Table::Doc, &key(2), &mut Vec::new())?);
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(n), &seen);
        unit.commit(&batch, Durability::Buffered)
    };
    // Nothing has changed since.
    let first = moment();
    write(first, 3).expect("a commit");
    assert_eq!(now(&members[0], 3).as_deref(), Some(&b"old"[..]));
    // What the unit has read is changed by another member, after the moment and before the unit.
    let before = moment();
    put(&members[0], 1, b"new").expect("a write");
    let done = write(before, 4);
    assert!(matches!(done, Err(StorageError::Conflict)), "{done:?}");
    assert_eq!(now(&members[0], 4), None);
    // A moment is used once: the second unit begins now.
    for at in [before, first] {
        write(at, 5).expect("a commit");
        assert_eq!(now(&members[0], 5).as_deref(), Some(&b"new"[..]));
    }
    let before = moment();
    exclusive_change(&members[2], b"1");
    let done = write(before, 6);
    assert!(matches!(done, Err(StorageError::Conflict)), "{done:?}");
}

#[test]
fn a_moment_with_other_announcements_than_expected_shows_nothing() {
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    put(&members[0], 1, b"value").expect("a write");
    let told = members[1].moment().expect("a moment").announced;
    let expect = || members[1].begin_moment(&told).expect("a moment");
    let shown = expect().expect("nothing was announced");
    assert!(shown.get(Table::Doc, &key(1), &mut Vec::new()).unwrap());
    shown.check().expect("it was compared");
    exclusive_change(&members[0], b"1");
    // A moment before the change keeps its state.
    assert!(shown.get(Table::Doc, &key(1), &mut Vec::new()).unwrap());
    let shown = expect().expect("this member does not know yet");
    let read = shown.get(Table::Doc, &key(1), &mut Vec::new());
    assert!(matches!(read, Err(StorageError::Outdated)), "{read:?}");
    let all = &mut |_: usize, _: Option<&[u8]>| panic!("it is not shown");
    let read = shown.multi_get(Table::Doc, &[&key(1)], all);
    assert!(matches!(read, Err(StorageError::Outdated)), "{read:?}");
    assert!(matches!(shown.check(), Err(StorageError::Outdated)));
    assert!(expect().is_none(), "the member knows now");
}

/// Many units begin at the moments of their statements, while others change what all keep.
#[test]
fn units_at_moments_lose_nothing_beside_exclusive_commits() {
    const CHANGES: u32 = 40;
    let Some(pd) = pd() else { return };
    let members = three(&pd);
    let add = |member: &TikvMember| loop {
        let told = member.moment().expect("a moment").announced;
        let at = member.begin_moment(&told).expect("a moment");
        let at = at.map_or(CommitPos(0), |moment| moment.pos());
        let engine: &dyn Engine = member;
        let unit = engine.begin_at(at, &[(Table::Doc, &key(1))]);
        let unit = unit.expect("a unit");
        let next = number(&unit, 1) + 1;
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(1), &next.to_be_bytes());
        batch.add(Table::Meta, b"count", [1, 0]);
        match unit.commit(&batch, Durability::Buffered) {
            Ok(_) => return,
            Err(e) => assert!(matches!(e, StorageError::Conflict), "{e}"),
        }
    };
    std::thread::scope(|threads| {
        for member in &members {
            for _ in 0..2 {
                threads.spawn(|| (0..CHANGES).for_each(|_| add(member)));
            }
        }
        threads.spawn(|| {
            for round in 0..5u8 {
                let unit = members[0].begin_exclusive().expect("a unit").expect("one");
                let mut batch = WriteBatch::new();
                batch.put(Table::Meta, b"catalog", &[round]);
                // A conflict is as good here.
                let _ = unit.commit(&batch, Durability::Buffered);
            }
        });
    });
    let moment = members[2].moment().expect("a moment").snapshot;
    assert_eq!(number(&*moment, 1), 6 * CHANGES);
    assert_eq!(count(&*moment), [i64::from(6 * CHANGES), 0]);
}
