//! Claims judged from made-up runs with known answers.

use super::*;
use crate::result::RunResult;
use crate::workload::Workload;

fn hot(clients: u32, rate: f64) -> RunResult {
    let mut out: RunResult =
        serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
    out.run.workload = "hot".to_owned();
    let workload = Workload::load("hot").unwrap();
    out.settings = workload
        .settings(
            "smoke",
            crate::workload::Overrides {
                clients: Some(clients),
                ..Default::default()
            },
        )
        .unwrap();
    for step in out.steps.iter_mut().filter(|step| step.measured) {
        step.name = "hot".to_owned();
        step.rate.average = rate;
    }
    out
}

fn one(id: &str) -> Claim {
    only(&[id.to_owned()]).unwrap().remove(0)
}

#[test]
fn all_sixty_claims_are_there_and_name_things_that_exist() {
    let claims = all().unwrap();
    assert_eq!(
        claims
            .iter()
            .map(|claim| claim.id.clone())
            .collect::<Vec<_>>(),
        (1..=60)
            .map(|number| format!("C{number:02}"))
            .collect::<Vec<_>>()
    );
    for claim in &claims {
        assert_ne!(claim.is_runnable(), claim.needs.is_some(), "{}", claim.id);
        for test in &claim.tests {
            assert!(
                test.at_least
                    .or(test.at_most)
                    .or(test.at_least_by_cpus)
                    .or(test.excludes)
                    .is_some(),
                "{}",
                claim.id
            );
            assert!(
                test.relative_to.is_none() || test.under.is_some() && !test.difference,
                "{}",
                claim.id
            );
            for selection in test.selections() {
                check_selection(claim, selection);
            }
        }
    }
}

fn check_selection(claim: &Claim, selection: &Selection) {
    if selection.workload == crate::result::REPLAY_WORKLOAD {
        assert!(
            crate::metric::find(&selection.metric).is_some()
                && ["real", "stress"].contains(&selection.step.as_str()),
            "{}",
            claim.id
        );
        return;
    }
    let side = claim
        .differ
        .as_deref()
        .and_then(difference)
        .map(|difference| difference.sides);
    assert_eq!(
        claim.differ.is_some(),
        side.is_some(),
        "{}: {:?}",
        claim.id,
        claim.differ
    );
    assert_eq!(selection.side.is_some(), side.is_some(), "{}", claim.id);
    assert!(
        selection
            .side
            .as_deref()
            .is_none_or(|side_here| side.is_some_and(|sides| sides.contains(&side_here))),
        "{}",
        claim.id
    );
    let workload = Workload::load(&selection.workload).unwrap();
    let stem = selection
        .step
        .trim_end_matches(".first")
        .trim_end_matches(".last");
    assert!(
        workload
            .steps
            .iter()
            .any(|step| step.name == selection.step || step.name == stem),
        "{}: {}",
        claim.id,
        selection.step
    );
    assert!(
        selection.metric == "scan_r_squared" || crate::metric::find(&selection.metric).is_some(),
        "{}: {}",
        claim.id,
        selection.metric
    );
}

#[test]
fn a_claim_knows_its_runs() {
    let needed = one("C33").required_runs(2);
    let clients: Vec<&str> = needed
        .iter()
        .filter_map(|needed| needed.settings.first())
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(clients, ["1", "16", "2", "4", "64", "8"]);
    assert!(one("C07").required_runs(6).iter().any(|needed| {
        needed
            .settings
            .contains(&("clients".to_owned(), "6".to_owned()))
    }));
}

#[test]
fn three_repeats_decide_and_two_do_not() {
    let runs = |rates: &[(u32, f64)], repeats: usize| {
        let mut out = Vec::new();
        for repeat in 0..repeats {
            out.extend(
                rates
                    .iter()
                    .map(|(clients, rate)| hot(*clients, rate * (1.0 + repeat as f64 * 0.002))),
            );
        }
        out
    };
    let claim = one("C33");
    let outcome = |rates: &[(u32, f64)], repeats| judge(&claim, &runs(rates, repeats), 2).remove(0);
    let falling = [(1, 500.0), (4, 1_000.0), (64, 700.0)];
    let confirmed = outcome(&falling, 3);
    assert_eq!(confirmed.outcome, ClaimVerdict::Confirmed, "{confirmed:?}");
    let found = confirmed.findings[0].found.unwrap();
    assert!(
        (found.mean - 0.7).abs() < 1e-9 && found.low < 0.7 && found.high > 0.7 && found.high < 0.72,
        "{found:?}"
    );
    assert!(
        confirmed.findings[0].what.contains("clients 4"),
        "the peak is named: {}",
        confirmed.findings[0].what
    );
    assert_eq!(
        outcome(&[(1, 500.0), (64, 1_000.0)], 3).outcome,
        ClaimVerdict::Refuted
    );
    let few = outcome(&falling, 2);
    assert_eq!(
        (few.outcome, few.findings[0].because.as_str()),
        (ClaimVerdict::Inconclusive, "2 of 3 repeats")
    );
    let near = [
        hot(4, 1_000.0),
        hot(4, 1_000.0),
        hot(4, 1_000.0),
        hot(64, 800.0),
        hot(64, 900.0),
        hot(64, 1_000.0),
    ];
    assert_eq!(
        judge(&claim, &near, 2).remove(0).outcome,
        ClaimVerdict::Inconclusive
    );
}

#[test]
fn what_cannot_be_judged_says_why() {
    let nothing = judge(&one("C33"), &[], 2).remove(0);
    assert_eq!(nothing.outcome, ClaimVerdict::NotRun);
    let mut future = one("C33");
    (future.tests, future.needs) = (Vec::new(), Some("a crystal ball".to_owned()));
    let future = judge(&future, &[], 2).remove(0);
    assert_eq!(future.outcome, ClaimVerdict::NotRunnable);
    assert_eq!(future.remark, "needs a crystal ball");
    let mut wrong: Vec<RunResult> = (0..3)
        .flat_map(|_| [hot(1, 1_000.0), hot(64, 700.0)])
        .collect();
    for run in &mut wrong {
        run.run.complete = false;
    }
    assert_eq!(
        judge(&one("C33"), &wrong, 2).remove(0).outcome,
        ClaimVerdict::NotRun
    );
    assert!(
        only(&["C99".to_owned()])
            .unwrap_err()
            .to_string()
            .contains("C99")
    );
}

#[test]
fn cached_data_do_not_decide_about_uncached_ones() {
    let mut runs = Vec::new();
    for repeat in 0..3 {
        for clients in [8, 64] {
            let mut run = hot(clients, 1_000.0 + f64::from(repeat));
            let workload = Workload::load("update").unwrap();
            run.run.workload = "update".to_owned();
            run.settings = workload
                .settings(
                    "smoke",
                    crate::workload::Overrides {
                        clients: Some(clients),
                        ..Default::default()
                    },
                )
                .unwrap();
            run.steps.last_mut().unwrap().name = "update".to_owned();
            runs.push(run);
        }
    }
    let cached = judge(&one("C36"), &runs, 2).remove(0);
    assert_eq!(cached.outcome, ClaimVerdict::Inconclusive);
    assert!(cached.findings[0].because.contains("fit in memory"));
    for run in &mut runs {
        run.memory_limit = Some(crate::result::MemoryLimit {
            bytes: 1,
            ..Default::default()
        });
    }
    assert_eq!(
        judge(&one("C36"), &runs, 2).remove(0).outcome,
        ClaimVerdict::Confirmed
    );
}

#[test]
fn systems_are_identified_by_their_target() {
    let mut run = hot(1, 1.0);
    assert_eq!(systems(&run), ["lsm", "shared-keyspace", "server"]);
    (run.target.product, run.target.storage_engine) =
        ("MariaDB".to_owned(), Some("InnoDB".to_owned()));
    run.target.uri = "mysql://127.0.0.1".to_owned();
    assert_eq!(
        systems(&run),
        ["btree", "clustered", "file-per-table", "server"]
    );
    assert_eq!(systems_at("mongodb://127.0.0.1"), None);
    assert_eq!(
        systems_at("mysql://root@127.0.0.1/?engine=innodb&interface=handler"),
        Some(systems(&run))
    );
    assert_eq!(
        systems_at("lmdb:data?map=1G"),
        Some(vec!["btree", "mmap", "engine"])
    );
    run.target.uri = "wiredtiger:x".to_owned();
    (run.target.product, run.target.storage_engine) = (
        "WiredTiger 3.2.1, LSM with chunks of 4096 KiB".to_owned(),
        None,
    );
    assert_eq!(systems(&run), ["lsm", "wiredtiger-lsm", "engine"]);
    assert_eq!(
        systems_at("wiredtiger:x?style=lsm&cache=1M"),
        Some(systems(&run))
    );
    run.target.product = "WiredTiger 3.2.1, B-tree, no compression".to_owned();
    assert_eq!(systems(&run), ["btree", "wiredtiger-btree", "engine"]);
    assert_eq!(
        systems_at("wiredtiger:lsm?cache=1G&style=btree"),
        Some(systems(&run))
    );
    assert_eq!(
        systems_at("wiredtiger:x?style=lsm&cache=1G"),
        Some(vec!["lsm", "wiredtiger-lsm", "engine"])
    );
}
