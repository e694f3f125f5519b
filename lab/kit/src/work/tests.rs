//! All clients together do the work exactly once, and account for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::row::Key;
use crate::seed::stream;
use crate::share::Share;
use crate::target::{Call, CallOutcome};
use crate::workload::{DocumentKind, Ids, Operation, Overrides, Role, Workload};

fn dataset(workload: &str, given: Overrides) -> (Workload, Arc<Dataset>) {
    let workload = Workload::load(workload).unwrap();
    let settings = workload.settings("smoke", given).unwrap();
    let dataset = Dataset::new(workload.data.documents, workload.data.ids, settings);
    (workload, Arc::new(dataset))
}

fn role(operation: Operation) -> Role {
    toml::from_str(&format!(
        "operation = {}",
        serde_json::to_string(&operation).unwrap()
    ))
    .unwrap()
}

fn work(dataset: &Arc<Dataset>, role: Role, quota: Quota, client: Share) -> ClientWork {
    ClientWork::new(
        role,
        quota,
        dataset.clone(),
        stream(1, "step", "test", client.number),
        client,
        false,
    )
}

#[test]
fn clients_share_the_rows_of_all_tables_without_gap_or_overlap() {
    let given = Overrides {
        rows: Some(1_003),
        tables: Some(3),
        clients: Some(4),
        batch: Some(7),
        ..Overrides::default()
    };
    let (_, dataset) = dataset("update", given);
    let mut seen = BTreeSet::new();
    for round in 0..2 {
        for client in 0..4 {
            let mut work = work(
                &dataset,
                role(Operation::Insert),
                Quota::Rows(1_003),
                Share::new(client, 4),
            );
            while let ClientAction::Call(_, Call::Insert { table, rows }) = work.draw() {
                for row in &rows {
                    assert!(
                        seen.insert((table, row.id.clone().unwrap())),
                        "{round} {table} {row:?}"
                    );
                }
                let (_, effect) =
                    work.account(CallOutcome::success(rows.len() as u64, rows.len() as u64));
                assert_eq!(effect.inserted, rows.len() as u64);
            }
        }
        dataset.record_stored(1_003);
    }
    assert_eq!(seen.len(), 2_006);
    let visible: Vec<u64> = dataset.tables.iter().map(TableState::visible).collect();
    assert_eq!(visible, [668, 668, 670]);
    let numbers: Vec<i64> = seen
        .iter()
        .filter(|(table, _)| *table == 2)
        .filter_map(|(_, id)| number_of(id))
        .collect();
    assert_eq!(numbers, (1..=670).collect::<Vec<i64>>());
}

#[test]
fn own_rows_of_clients_never_meet_and_cover_all() {
    let (_, dataset) = dataset(
        "kinds-of-write",
        Overrides {
            rows: Some(31),
            ..Overrides::default()
        },
    );
    dataset.record_stored(31);
    let mut all = BTreeSet::new();
    for client in 0..4 {
        let mut work = work(
            &dataset,
            role(Operation::ReadModifyWrite),
            Quota::Endless,
            Share::new(client, 4),
        );
        let mut own = BTreeSet::new();
        for _ in 0..500 {
            let ClientAction::Call(_, Call::ReadModifyWrite { id, .. }) = work.draw() else {
                panic!()
            };
            own.insert(id);
        }
        own.into_iter().for_each(|id| assert!(all.insert(id)));
    }
    assert_eq!(all.len(), 31);
}

#[test]
fn a_read_that_finds_nothing_fails_unless_rows_may_be_missing() {
    let (_, dataset) = dataset("point", Overrides::default());
    dataset.record_stored(100);
    for (misses, is_failure) in [(false, true), (true, false)] {
        let mut work = ClientWork::new(
            role(Operation::Point),
            Quota::Endless,
            dataset.clone(),
            stream(1, "a", "b", 0),
            Share::ALL,
            misses,
        );
        assert!(matches!(work.draw(), ClientAction::Call(..)));
        let (outcome, _) = work.account(CallOutcome::success(1, 0));
        assert_eq!(matches!(outcome, CallOutcome::Failed { .. }), is_failure);
    }
}

#[test]
fn deletes_follow_inserts_and_inserts_wait_for_them() {
    let (_, dataset) = dataset(
        "insert-modern",
        Overrides {
            rows: Some(1_000),
            ..Overrides::default()
        },
    );
    dataset.record_stored(1_000);
    dataset.begin_step(true);
    let mut insert = work(
        &dataset,
        Role {
            batch: Some(10),
            ..role(Operation::Insert)
        },
        Quota::Rows(500),
        Share::ALL,
    );
    let mut delete = work(
        &dataset,
        Role {
            batch: Some(10),
            ..role(Operation::DeleteOldest)
        },
        Quota::Endless,
        Share::ALL,
    );
    assert!(
        matches!(delete.draw(), ClientAction::Wait),
        "nothing was inserted yet"
    );
    let mut inserted = 0;
    while let ClientAction::Call(..) = insert.draw() {
        insert.account(CallOutcome::success(10, 10));
        inserted += 10;
    }
    assert_eq!(
        inserted, 90,
        "eight batches ahead and the one that went over"
    );
    let ClientAction::Call(_, Call::Delete { ids, .. }) = delete.draw() else {
        panic!()
    };
    assert_eq!((ids.first(), ids.len()), (Some(&Key::Number(1)), 10));
    let (_, effect) = delete.account(CallOutcome::success(10, 10));
    assert_eq!(effect.deleted, 10);
    assert!(matches!(insert.draw(), ClientAction::Call(..)));
}

#[test]
fn a_deleted_row_is_put_back_by_who_deleted_it() {
    let (_, dataset) = dataset(
        "sysbench-transaction",
        Overrides {
            rows: Some(50),
            tables: Some(1),
            ..Overrides::default()
        },
    );
    dataset.record_stored(50);
    let mut work = work(
        &dataset,
        role(Operation::DeleteInsert),
        Quota::Endless,
        Share::ALL,
    );
    let ClientAction::Call(_, Call::Delete { ids, .. }) = work.draw() else {
        panic!()
    };
    let (_, effect) = work.account(CallOutcome::success(1, 1));
    assert!((effect.deleted, effect.inserted) == (1, 0) && work.must_reinsert());
    let ClientAction::Call(_, Call::Insert { rows, .. }) = work.draw() else {
        panic!()
    };
    assert_eq!(rows[0].id.as_ref(), ids.first());
    let (_, effect) = work.account(CallOutcome::success(1, 1));
    assert!((effect.deleted, effect.inserted) == (0, 1) && !work.must_reinsert());
}

#[test]
fn rows_stored_at_random_leave_a_share_of_one_by_e_missing() {
    let (_, dataset) = dataset(
        "db-bench",
        Overrides {
            rows: Some(10_000),
            payload: Some(8),
            ..Overrides::default()
        },
    );
    let mut work = work(
        &dataset,
        role(Operation::FillRandom),
        Quota::Calls(10_000),
        Share::ALL,
    );
    let mut distinct = 0;
    while let ClientAction::Call(..) = work.draw() {
        distinct += work.account(CallOutcome::success(1, 1)).1.inserted;
    }
    assert!((6_250..6_400).contains(&distinct), "{distinct}");
}

#[test]
fn mixes_keep_their_weights_and_latest_prefers_the_newest() {
    let (workload, dataset) = dataset(
        "ycsb-d",
        Overrides {
            rows: Some(1_000),
            ..Overrides::default()
        },
    );
    dataset.record_stored(1_000);
    let run = workload
        .steps
        .iter()
        .find(|step| step.name == "run")
        .unwrap();
    let mut work = work(&dataset, run.work.clone(), Quota::Endless, Share::ALL);
    let (mut inserts, mut newest) = (0, 0);
    for _ in 0..20_000 {
        match work.draw() {
            ClientAction::Call(Operation::Insert, Call::Insert { rows, .. }) => {
                inserts += rows.len();
                work.account(CallOutcome::success(1, 1));
            }
            ClientAction::Call(_, Call::Get { id, .. }) => {
                newest += usize::from(id == DocumentKind::Ycsb.key(dataset.tables[0].visible()));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((850..1_150).contains(&inserts), "{inserts}");
    assert_eq!(dataset.tables[0].visible(), 1_000 + inserts as u64);
    assert!(newest > 1_500, "{newest}");
}

#[test]
fn batches_of_neighbours_go_on_where_the_read_before_was() {
    let (_, dataset) = dataset(
        "forestdb",
        Overrides {
            rows: Some(1_000),
            ..Overrides::default()
        },
    );
    dataset.record_stored(1_000);
    let mut reader = work(
        &dataset,
        Role {
            read_batch: Some(4),
            ..role(Operation::Point)
        },
        Quota::Endless,
        Share::ALL,
    );
    let numbers: Vec<u64> = (0..400)
        .map(|_| match reader.draw() {
            ClientAction::Call(Operation::Point, Call::Get { id, .. }) => (1..=1_000)
                .find(|number| dataset.key(*number) == id)
                .unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    let steps = numbers
        .windows(2)
        .filter(|pair| pair[1] == pair[0] + 1)
        .count();
    assert!(
        (290..=310).contains(&steps),
        "three of four follow the one before: {steps}"
    );
}

#[test]
fn an_update_may_be_preceded_by_a_read_of_its_row() {
    let (_, dataset) = dataset(
        "update",
        Overrides {
            rows: Some(1_000),
            tables: Some(1),
            ..Overrides::default()
        },
    );
    dataset.record_stored(1_000);
    let mut updater = work(
        &dataset,
        Role {
            prefetch: true,
            ..role(Operation::UpdateInc)
        },
        Quota::Endless,
        Share::ALL,
    );
    let ClientAction::Pair(
        Operation::UpdateInc,
        Call::Get { id: read, .. },
        Call::Update { id: updated, .. },
    ) = updater.draw()
    else {
        panic!("no pair")
    };
    assert_eq!(read, updated);
    let (_, effect) = updater.account(CallOutcome::success(1, 1));
    assert_eq!(effect.added, 1);
}

#[test]
fn ids_without_order_are_unlike_and_scattered() {
    let workload = Workload::load("insert-grow").unwrap();
    let settings = workload.settings("smoke", Overrides::default()).unwrap();
    let dataset = Dataset::new(workload.data.documents, Ids::Random, settings);
    let keys: Vec<Key> = (1..=10_000).map(|number| dataset.key(number)).collect();
    let sorted: BTreeSet<&Key> = keys.iter().collect();
    assert_eq!(sorted.len(), keys.len());
    let rising = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((4_500..5_500).contains(&rising), "{rising}");
}
