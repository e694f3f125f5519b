//! Lists of values: one run for each, one page for all; data are loaded once if runs only read.

use lab_kit::folder::read_result;
use lab_kit::result::RunResult;

use crate::fake::{FakeServer, Faults};
use crate::run;

fn results(folder: &std::path::Path) -> Vec<RunResult> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let mut out: Vec<RunResult> = entries
        .filter(|path| path.join("result.json").exists())
        .map(|path| read_result(&path).unwrap())
        .collect();
    out.sort_by_key(|run| run.settings.clients);
    out
}

const SHORT: [&str; 8] = [
    "--rows",
    "50",
    "--warmup-seconds",
    "0",
    "--seconds",
    "1",
    "--clients",
    "1,2",
];

#[test]
fn runs_that_only_read_share_what_the_first_loaded() {
    let fake = FakeServer::start(Faults::default());
    let ended = run("point", &fake.uri(), &SHORT);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let folder = ended.folder();
    let runs = results(&folder);
    assert_eq!(
        runs.iter()
            .map(|run| run.settings.clients)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert!(
        runs.iter().all(
            |run| run.run.complete && run.checks.iter().all(|check| check.passed == Some(true))
        )
    );
    let remark = &runs[1].steps[0].more.remark;
    assert!(remark.contains(&runs[0].run.id), "{remark}");
    assert!(runs[0].steps[0].more.remark.is_empty());
    assert!(
        runs[0].run.command_line.contains("--clients 1 "),
        "{}",
        runs[0].run.command_line
    );
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("2 runs") && page.contains("  clients\n"));
    assert!(!folder.join("checkpoint.json").exists() && folder.join("sweep.json").exists());
}

#[test]
fn a_run_that_finds_other_data_loads_its_own() {
    let fake = FakeServer::start(Faults::default());
    let mut words = SHORT.to_vec();
    // The first run deletes its data at its end.
    words.push("--clean");
    let ended = run("point", &fake.uri(), &words);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let runs = results(&ended.folder());
    assert_eq!(runs.len(), 2);
    assert!(
        runs.iter()
            .all(|run| run.run.complete && run.steps[0].more.remark.is_empty())
    );
}

#[test]
fn a_sweep_that_is_stopped_goes_on_where_it_was() {
    let fake = FakeServer::start(Faults::default());
    let ended = run(
        "hot",
        &fake.uri(),
        &[
            "--rows",
            "50",
            "--warmup-seconds",
            "0",
            "--seconds",
            "1",
            "--clients",
            "1,2",
            "--hot-rows=1,2",
        ],
    );
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let folder = ended.folder();
    let lost = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .unwrap();
    std::fs::remove_dir_all(lost).unwrap();
    let again = crate::lab(&["resume", folder.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(0), "{told}");
    assert_eq!(
        told.matches(" of 4: ").count(),
        1,
        "only what is missing is run again: {told}"
    );
    assert_eq!(results(&folder).len(), 4);
}

#[test]
fn a_list_of_something_else_is_one_clear_line() {
    let ended = run("point", "mongodb://127.0.0.1:1", &["--clients", "1,many"]);
    assert_eq!(
        (ended.status(), ended.complaint().as_str()),
        (
            Some(2),
            "quarry-lab: --clients 1,many is not a list of numbers"
        )
    );
}

/// The runs of a sweep in the order in which they were made.
fn read_runs(folder: &std::path::Path) -> Vec<RunResult> {
    let mut out = results(folder);
    out.sort_by(|one, other| {
        (&one.run.started_at, &one.run.id).cmp(&(&other.run.started_at, &other.run.id))
    });
    out
}

#[test]
fn several_targets_take_turns_and_stand_on_one_page_with_intervals_and_published_rows() {
    let dir = tempfile::tempdir().unwrap();
    let target = |name: &str| format!("{name}:{}", dir.path().join(name).display());
    let (one, other) = (target("redb"), target("fjall"));
    let ended = run(
        "point",
        &one,
        &[
            "--target",
            &other,
            // Smoke runs are not shown among published ones.
            "--preset",
            "laptop",
            "--repeats",
            "3",
            "--rows",
            "100",
            "--tables",
            "1",
            "--clients",
            "2",
            "--warmup-seconds",
            "0",
            "--seconds",
            "1",
        ],
    );
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let folder = ended.folder();
    let runs = read_runs(&folder);
    let order: Vec<&str> = runs
        .iter()
        .map(|run| run.target.uri.split(':').next().unwrap())
        .collect();
    assert_eq!(order, ["redb", "fjall", "redb", "fjall", "redb", "fjall"]);
    // Each repeat loads its own data.
    assert!(runs.iter().all(|run| run.steps[0].more.remark.is_empty()));
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    for wanted in [
        "by the first",
        "3 runs",
        "class=\"interval\"",
        "here: redb",
        "here: fjall",
        "mongo26",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn an_own_server_is_started_for_its_run_and_stopped_with_it() {
    let is_there = [
        "/usr/sbin/mariadbd",
        "/usr/bin/mariadbd",
        "/usr/local/bin/mariadbd",
    ];
    if !is_there
        .iter()
        .any(|path| std::path::Path::new(path).exists())
    {
        println!("skipped: MariaDB is not installed");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    // Longer than the path of a socket may be.
    let out = scratch.path().join("d".repeat(90));
    let output = crate::lab(&[
        "run",
        "point",
        "--own",
        "innodb",
        "--own-memory-mb",
        "32",
        "--out",
        out.to_str().unwrap(),
        "--rows",
        "100",
        "--tables",
        "1",
        "--clients",
        "1,2",
        "--warmup-seconds",
        "0",
        "--seconds",
        "1",
    ]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let folder = std::fs::read_dir(&out).unwrap().flatten().next();
    let folder = folder.unwrap().path();
    let runs = results(&folder);
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!(run.place(), "innodb with a cache of 32 MiB");
        let pid = run.target.pid.unwrap();
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
    // The second run read the data that the first had loaded, from another process.
    assert_ne!(runs[0].target.pid, runs[1].target.pid);
    let remark = &runs[1].steps[0].more.remark;
    assert!(remark.contains(&runs[0].run.id), "{remark}");
    assert!(folder.join("own-innodb/my.cnf").exists());
    assert!(!folder.join("own-innodb/data").exists());
}

#[test]
fn a_rate_is_searched_for_and_the_page_has_the_latency_curve() {
    // Every tenth update takes 300 ms and delays all others, so at most about 33 updates a second
    // are possible.
    let fake = FakeServer::start(Faults {
        stall_updates_every: Some(10),
        ..Faults::default()
    });
    let ended = run(
        "hot",
        &fake.uri(),
        &[
            "--rows",
            "10",
            "--clients",
            "4",
            "--warmup-seconds",
            "0",
            "--seconds",
            "2",
            "--find-rate",
            "mean<150ms",
            "--repeats",
            "1",
        ],
    );
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let folder = ended.folder();
    let text = std::fs::read_to_string(folder.join("find-rate.json")).unwrap();
    let search: lab_kit::rate_search::RateSearch = serde_json::from_str(&text).unwrap();
    let (kept, lost) = (
        search.highest_passing().unwrap(),
        search.lowest_failing().unwrap(),
    );
    // The limit is one call in thirty milliseconds; at half of that rate no call waits long.
    assert!(kept > 8.0 && lost < 60.0, "{kept} {lost}: {text}");
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("Latency by rate") && page.contains("class=\"reference\""));
    let wrong = run("hot", &fake.uri(), &["--find-rate", "p98<1ms"]);
    assert_eq!(wrong.status(), Some(2));
    assert!(
        wrong.complaint().contains("such as p99<10ms"),
        "{}",
        wrong.complaint()
    );
}

#[test]
fn ycsb_stands_on_one_page() {
    let dir = tempfile::tempdir().unwrap();
    let target = format!("redb:{}", dir.path().join("db").display());
    let more = ["--rows", "200", "--seconds", "1", "--warmup-seconds", "0"];
    let ended = run("ycsb", &target, &more);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let page = std::fs::read_to_string(ended.folder().join("report.html")).unwrap();
    for letter in 'a'..='f' {
        let row = format!("<th scope=\"row\">ycsb-{letter}</th>");
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn repeats_end_when_the_wished_change_could_be_found() {
    let fake = FakeServer::start(Faults::default());
    let common = ["--rows", "20", "--clients", "1", "--warmup-seconds", "0"];
    let sweep = |more: &[&str]| run("hot", &fake.uri(), &[&common[..], more].concat());
    // At a rate that the target sustains, repeats hardly differ.
    let calm = [
        "--seconds",
        "1",
        "--rate",
        "50",
        "--repeats",
        "6",
        "--find-change",
        "40",
    ];
    let ended = sweep(&calm);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let told = String::from_utf8_lossy(&ended.output.stderr).into_owned();
    assert!(
        told.contains("enough repeats: they detect a change of"),
        "{told}"
    );
    assert_eq!(results(&ended.folder()).len(), 3);
    let summary = std::fs::read_to_string(ended.folder().join("summary.csv")).unwrap();
    assert_eq!(summary.lines().count(), 1 + 3, "{summary}");
    for (more, reason) in [
        (
            ["--repeats", "3", "--find-change", "5"],
            "--repeats 4 or more",
        ),
        (
            ["--repeats", "9", "--find-change", "0.1"],
            "allowed is 1 to 100",
        ),
    ] {
        let refused = sweep(&more);
        assert_eq!(refused.status(), Some(2));
        assert!(
            refused.complaint().contains(reason),
            "{}",
            refused.complaint()
        );
    }
}
