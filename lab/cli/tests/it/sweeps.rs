//! Lists of values: one run for each, one page for all, data loaded once where runs only read.

use lab_kit::folder::read_result;
use lab_kit::result::RunResult;

use crate::fake::{Fake, Faults};
use crate::run;

fn results(folder: &std::path::Path) -> Vec<RunResult> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let mut out: Vec<RunResult> = entries
        .filter(|path| path.is_dir())
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
    let fake = Fake::start(Faults::default());
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
    let fake = Fake::start(Faults::default());
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
    let fake = Fake::start(Faults::default());
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
            Some(1),
            "quarry-lab: --clients 1,many is not a list of numbers"
        )
    );
}
