//! Successful runs: every operation is counted once, in every place where it is recorded.

use std::collections::BTreeSet;

use crate::fake::{FakeServer, Faults};
use crate::{lab, run};

#[test]
fn an_insert_run_accounts_for_every_document() {
    let fake = FakeServer::start(Faults::default());
    // Neither clients nor batch divide the rows: no remainder may be dropped.
    let more = [
        "--rows",
        "1003",
        "--clients",
        "3",
        "--batch",
        "7",
        "--indexes",
        "2",
        "--seed",
        "5",
    ];
    let ended = run("insert", &fake.uri(), &more);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let step = result.main_step().unwrap();
    assert_eq!(
        (step.ops, step.errors.len(), result.run.seed),
        (1_003, 0, 5)
    );
    assert_eq!(
        step.calls,
        3 * 48,
        "each client sends 47 full batches and a short one"
    );
    assert_eq!(fake.documents("purchases").len(), 1_003);
    assert_eq!(fake.indexes(), ["pc", "cpc"]);
    assert_eq!(
        result
            .checks
            .iter()
            .map(|check| check.passed)
            .collect::<Vec<_>>(),
        [Some(true), Some(true)]
    );
    assert_eq!(
        (step.sizes.documents, step.sizes.bytes_per_document),
        (Some(1_003), Some(80.0))
    );
    assert_eq!(
        result.target.pid,
        Some(std::process::id()),
        "the fake lives in this process"
    );
    assert!(step.server.is_some() && result.run.complete);

    let rows = std::fs::read_to_string(ended.folder().join("intervals.csv")).unwrap();
    let ops: u64 = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(4).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(ops, 1_003);
    assert_eq!(
        step.series.iter().map(|point| point.ops).sum::<u64>(),
        1_003
    );
}

#[test]
fn one_seed_draws_the_same_documents_and_another_does_not() {
    let documents = |seed: &str| {
        let fake = FakeServer::start(Faults::default());
        let ended = run(
            "insert",
            &fake.uri(),
            &[
                "--rows",
                "200",
                "--clients",
                "2",
                "--batch",
                "10",
                "--seed",
                seed,
            ],
        );
        assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
        fake.documents("purchases")
            .iter()
            .map(ToString::to_string)
            .collect::<BTreeSet<_>>()
    };
    let first = documents("11");
    assert_eq!(first.len(), 200, "clients must not share a stream");
    assert_eq!(first, documents("11"));
    assert!(first.is_disjoint(&documents("12")));
}

#[test]
fn each_client_may_have_its_own_collection() {
    let fake = FakeServer::start(Faults::default());
    let ended = run(
        "insert",
        &fake.uri(),
        &[
            "--rows",
            "101",
            "--clients",
            "2",
            "--placement",
            "per-client",
        ],
    );
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    assert_eq!(
        (
            fake.documents("purchases1").len(),
            fake.documents("purchases2").len()
        ),
        (50, 51)
    );
}

#[test]
fn closed_loop_workloads_load_warm_up_measure_and_check() {
    for workload in ["point", "update-inc", "hot"] {
        let fake = FakeServer::start(Faults::default());
        let ended = run(
            workload,
            &fake.uri(),
            &[
                "--rows",
                "50",
                "--clients",
                "2",
                "--warmup-seconds",
                "1",
                "--seconds",
                "2",
            ],
        );
        assert_eq!(ended.status(), Some(0), "{workload}: {}", ended.complaint());
        let result = ended.result();
        let step = result.main_step().unwrap();
        assert_eq!((step.name.as_str(), step.errors.len()), (workload, 0));
        assert!(
            step.ops > 10 && step.warmup_ops > 5,
            "{workload}: {} {}",
            step.ops,
            step.warmup_ops
        );
        assert!(
            (1.9..2.5).contains(&step.seconds),
            "{workload}: {}",
            step.seconds
        );
        assert!(
            result.checks.iter().all(|check| check.passed == Some(true)),
            "{:?}",
            result.checks
        );
        assert_eq!(result.checks.len(), if workload == "point" { 2 } else { 3 });
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let fake = FakeServer::start(Faults::default());
    let ended = run(
        "hot",
        &fake.uri(),
        &[
            "--rows",
            "10",
            "--clients",
            "2",
            "--warmup-seconds",
            "0",
            "--seconds",
            "3",
            "--rate",
            "40",
        ],
    );
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let step = result.main_step().unwrap();
    assert_eq!(step.pacing, "open");
    assert!((110..=121).contains(&step.ops), "{}", step.ops);
}

#[test]
fn the_page_needs_nothing_else_and_can_be_drawn_again() {
    let fake = FakeServer::start(Faults::default());
    let uri = format!("mongodb://127.0.0.1:{}/?appName=%3Cb%3E", fake.port);
    let ended = run("insert", &uri, &["--rows", "300"]);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let page = ended.folder().join("report.html");
    let first = std::fs::read_to_string(&page).unwrap();
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!first.contains(outside), "{outside}");
    }
    assert!(first.contains("<svg ") && first.contains("Quarry 0.0.1"));
    std::fs::remove_file(&page).unwrap();
    assert!(
        lab(&["report", ended.folder().to_str().unwrap()])
            .status
            .success()
    );
    assert_eq!(std::fs::read_to_string(&page).unwrap(), first);
}

#[test]
fn the_list_names_every_workload_and_preset() {
    let text = String::from_utf8(lab(&["list"]).stdout).unwrap();
    for name in [
        "insert: ",
        "point: ",
        "update-inc: ",
        "hot: ",
        "smoke ",
        "laptop ",
        "server ",
        "paper ",
    ] {
        assert!(text.contains(name), "{name}");
    }
}

#[test]
fn refusals_as_overloaded_are_no_errors_and_make_clients_wait() {
    let tried = |overload_every| {
        let fake = FakeServer::start(Faults {
            overload_every,
            ..Faults::default()
        });
        let more = [
            "--rows",
            "50",
            "--clients",
            "2",
            "--warmup-seconds",
            "0",
            "--seconds",
            "2",
        ];
        let ended = run("update-inc", &fake.uri(), &more);
        assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
        let result = ended.result();
        assert!(result.checks.iter().all(|check| check.passed == Some(true)));
        result.main_step().unwrap().clone()
    };
    let calm = tried(None);
    assert_eq!((calm.more.refused_calls, calm.more.given_up), (0, 0));
    let some = tried(Some(5));
    assert!(some.errors.is_empty(), "{:?}", some.errors);
    assert!(some.more.refused_calls > 10, "{}", some.more.refused_calls);
    assert_eq!(some.ops, some.calls, "a refused call has no latency");
    // Half of 0.1 s for each refusal, two clients: no more than about 90 refusals fit.
    assert!(some.more.refused_calls < 150, "{}", some.more.refused_calls);
    let all = tried(Some(1));
    assert_eq!(all.ops, 0);
    // Two waits for each abandoned operation.
    let (refused, given_up) = (all.more.refused_calls, all.more.given_up);
    assert!(
        given_up > 3 && refused / given_up == 3,
        "{refused} {given_up}"
    );
}

#[test]
fn a_reader_that_goes_is_no_trouble() {
    use std::io::Read;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
        .args(["list", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Reads a few bytes and closes the pipe, as `head` does. The list is longer than a pipe's
    // buffer.
    let mut first = [0; 16];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
}

#[test]
fn the_list_can_be_read_by_programs() {
    let output = lab(&["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let workloads = listed.as_array().unwrap();
    let named = |name: &str| workloads.iter().find(|one| one["name"] == name);
    let own = named("oltp-update-index").unwrap();
    assert_eq!(own["steps"][2], "oltp_update_index", "{own}");
    let smallest = &own["presets"][0];
    assert_eq!(
        (&smallest["preset"], &smallest["indexes"]),
        (&"smoke".into(), &1.into())
    );
    assert!(workloads.len() > 30 && named("insert").is_some());
}
