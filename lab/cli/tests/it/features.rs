//! Settings that change a workload: each has a visible effect on the stored or measured data.

use lab_kit::engine::EngineOptions;
use lab_kit::kv::{KvTarget, OwnDirectory};
use lab_kit::row::{DocumentKind, Key, Row, Value};
use lab_kit::target::{Call, CallOutcome, Session, Table, Target};
use lab_kit::workload::Index;

use crate::fake::{FakeServer, Faults};
use crate::{lab, run};

fn redb(dir: &std::path::Path, ids_in_no_order: bool) -> KvTarget {
    let own = OwnDirectory::take(&dir.join("target"), &["data"], false).unwrap();
    let path = own.make("data").unwrap();
    let options = EngineOptions::parse(&path.display().to_string()).unwrap();
    let table = Table {
        name: "t".to_owned(),
        kind: DocumentKind::Small,
        target_makes_ids: false,
        ids_in_no_order,
        payload: 0,
        capped_bytes: None,
    };
    KvTarget::new(
        lab_redb::open(options).unwrap(),
        vec![table],
        own,
        "redb:data".to_owned(),
        "lazy".to_owned(),
    )
}

fn row(id: i64, n: i64) -> Row {
    let fields = vec![
        ("n", Value::Long(n)),
        ("k", Value::Int(0)),
        ("pad", Value::Text(String::new())),
    ];
    Row {
        id: Some(Key::Number(id)),
        fields,
    }
}

#[tokio::test]
async fn unique_indexes_and_ids_without_order_refuse_duplicates() {
    let dir = tempfile::tempdir().unwrap();
    let target = redb(dir.path(), true);
    let index = Index {
        name: "n".to_owned(),
        keys: vec!["n".to_owned()],
        unique: true,
        ..Index::default()
    };
    target.create_indexes(&[index]).await.unwrap();
    let mut session = target.session(false).await.unwrap();
    let mut insert = async |rows: Vec<Row>| {
        let ready = session.encode(Call::Insert { table: 0, rows });
        session.run(ready).await
    };
    let kind = |outcome: CallOutcome| match outcome {
        CallOutcome::Failed { done: 0, kind, .. } => kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        insert(vec![row(5, 50), row(-7, 70)]).await,
        CallOutcome::success(2, 2)
    );
    assert_eq!(
        kind(insert(vec![row(1, 10), row(-7, 71)]).await),
        "duplicate id"
    );
    assert_eq!(
        kind(insert(vec![row(1, 10), row(2, 70)]).await),
        "duplicate value"
    );
    assert_eq!(
        kind(insert(vec![row(1, 10), row(2, 10)]).await),
        "duplicate value"
    );
    assert_eq!(
        kind(insert(vec![row(1, 10), row(1, 11)]).await),
        "duplicate id"
    );
    assert_eq!(insert(vec![row(1, 10)]).await, CallOutcome::success(1, 1));
    // Nothing of a refused batch was stored.
    assert_eq!(target.count().await, Ok(3));
}

#[test]
fn settings_of_the_load_change_it() {
    let dir = tempfile::tempdir().unwrap();
    let target = format!("redb:{}", dir.path().join("data").display());
    let grow = run(
        "insert-grow",
        &target,
        &[
            "--rows",
            "3000",
            "--unique-indexes",
            "1",
            "--ids",
            "random",
            "--sync-every",
            "2",
            "--label",
            "try=one",
        ],
    );
    assert_eq!(grow.status(), Some(0), "{}", grow.complaint());
    let result = grow.result();
    assert_eq!(
        result.run.labels.get("try").map(String::as_str),
        Some("one")
    );
    assert_eq!(
        (result.settings.unique_indexes, result.settings.sync_every),
        (1, Some(2))
    );
    let step = result
        .steps
        .iter()
        .find(|step| step.name == "grow")
        .unwrap();
    assert!(
        step.errors.is_empty() && step.ops == 3_000,
        "{:?}",
        step.errors
    );
}

#[test]
fn settings_of_the_clients_change_what_they_do() {
    let dir = tempfile::tempdir().unwrap();
    let target = format!("redb:{}", dir.path().join("data").display());
    let pattern = run(
        "neighbours",
        &target,
        &["--rows", "3000", "--seconds", "1", "--read-batch", "5"],
    );
    assert_eq!(pattern.status(), Some(0), "{}", pattern.complaint());
    let repeated = run(
        "point-repeated",
        &target,
        &[
            "--rows",
            "3000",
            "--seconds",
            "1",
            "--seed-mode",
            "legacy-constant",
        ],
    );
    assert_eq!(repeated.status(), Some(0), "{}", repeated.complaint());
    let seeds: Vec<Vec<u64>> = repeated
        .result()
        .steps
        .into_iter()
        .filter(|step| step.measured)
        .map(|step| step.more.seeds)
        .collect();
    assert_eq!(seeds[0], seeds[1], "both steps repeat the same streams");
    assert_ne!(seeds[0][0], seeds[0][1]);
    let shared = run(
        "point",
        &target,
        &[
            "--rows",
            "3000",
            "--seconds",
            "1",
            "--warmup-seconds",
            "0",
            "--seed-mode",
            "shared-across-threads",
            "--settle-after",
            "load",
        ],
    );
    let result = shared.result();
    assert_eq!(
        result
            .steps
            .iter()
            .map(|step| step.name.as_str())
            .collect::<Vec<_>>(),
        ["load", "rest-after-load", "point"]
    );
    let seeds = &result.steps[2].more.seeds;
    assert_eq!(seeds[0], seeds[1]);
    let update = run(
        "update-inc",
        &target,
        &["--rows", "3000", "--seconds", "1", "--prefetch", "true"],
    );
    assert_eq!(update.status(), Some(0), "{}", update.complaint());

    let output = lab(&[
        "run", "point", "--target", &target, "--out", "unused", "--label", "nothing",
    ]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn collections_lie_in_as_many_databases_as_asked_for() {
    let fake = FakeServer::start(Faults::default());
    let small = ["--rows", "100", "--rounds", "2", "--clients", "4"];
    let out = tempfile::tempdir().unwrap();
    let words = [&small[..], &["--databases", "1,2"]].concat();
    let output = crate::run_into(out.path(), "insert-rounds", &fake.uri(), &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // Of four collections the second and the fourth are in the second database.
    let names = fake.collections();
    let beside = names
        .iter()
        .filter(|name| name.starts_with("quarry_lab_2."));
    assert_eq!(beside.count(), 2, "{names:?}");
    let folder = std::fs::read_dir(out.path())
        .unwrap()
        .flatten()
        .next()
        .unwrap();
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(
        page.contains("databases 2"),
        "the page does not tell the runs apart"
    );
    let refused = run("insert-rounds", "redb:x", &["--databases", "2"]);
    assert!(
        refused.complaint().contains("a second database"),
        "{}",
        refused.complaint()
    );
    let refused = run("insert", &fake.uri(), &["--databases", "2"]);
    assert!(
        refused.complaint().contains("--databases"),
        "{}",
        refused.complaint()
    );
}
