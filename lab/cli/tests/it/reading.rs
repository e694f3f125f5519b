//! The commands that read results or observe processes: report, compare, claims, profile.

use std::path::Path;

use crate::lab;

/// A folder of runs made from a recorded one: one run for each rate, at the given number of
/// clients.
fn side(dir: &Path, name: &str, rates: &[f64], clients: u32) -> String {
    let text = include_str!("../../../kit/tests/data/point.json");
    for (number, rate) in rates.iter().enumerate() {
        let mut run: lab_kit::result::RunResult = serde_json::from_str(text).unwrap();
        run.run.id = format!("{name}-{number}");
        run.run.started_at = format!("2026-01-01T00:0{number}:00Z{name}");
        run.settings.clients = clients;
        run.steps
            .iter_mut()
            .filter(|step| step.measured)
            .for_each(|step| step.rate.average = *rate);
        let folder = dir.join(name).join(&run.run.id);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join("result.json"),
            serde_json::to_string(&run).unwrap(),
        )
        .unwrap();
    }
    dir.join(name).display().to_string()
}

fn complaint(words: &[&str]) -> String {
    let output = lab(words);
    // The request is impossible or invalid.
    assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("quarry-lab: "))
            .count(),
        1,
        "{text}"
    );
    text
}

#[test]
fn two_sides_are_compared_or_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let a = side(dir.path(), "a", &[100.0, 101.0, 99.0], 2);
    let b = side(dir.path(), "b", &[150.0, 151.0, 152.0], 2);
    let out = dir.path().join("out").display().to_string();
    let output = lab(&["compare", &a, &b, "--out", &out]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.lines()
            .any(|line| line.contains("throughput") && line.ends_with("better")),
        "{text}"
    );
    let json = std::fs::read_to_string(dir.path().join("out/comparison.json")).unwrap();
    assert!(
        json.contains("\"schema\": \"quarry-lab/comparison\""),
        "{json}"
    );
    assert!(dir.path().join("out/comparison.html").is_file());

    let other = side(dir.path(), "other", &[1.0, 1.0, 1.0], 4);
    assert!(
        complaint(&["compare", &a, &other])
            .contains("not comparable: clients is 2 in a-0 and 4 in other-0")
    );
    assert_eq!(
        lab(&["compare", &a, &other, "--allow", "clients"])
            .status
            .code(),
        Some(0)
    );
    assert!(complaint(&["compare", &a, "nowhere"]).contains("cannot read nowhere"));

    assert!(complaint(&["report", &a, &other]).contains("--out FILE"));
    let page = dir.path().join("runs.html").display().to_string();
    assert_eq!(
        lab(&["report", &a, &other, "--out", &page]).status.code(),
        Some(0)
    );
    assert!(
        std::fs::read_to_string(&page)
            .unwrap()
            .contains("Throughput by clients")
    );
}

#[test]
fn claims_are_listed_and_judged_from_folders() {
    let listed = String::from_utf8_lossy(&lab(&["claims"]).stdout).into_owned();
    assert_eq!(
        listed.lines().filter(|line| line.starts_with('C')).count(),
        60,
        "{listed}"
    );
    assert!(
        listed.contains("two targets that differ in change-log (whether a change log is written"),
        "{listed}"
    );
    let listed = String::from_utf8_lossy(
        &lab(&[
            "claims",
            "--list",
            "--only",
            "C08,C19",
            "--target",
            "redb:nowhere",
        ])
        .stdout,
    )
    .into_owned();
    assert!(
        listed.contains("missing: it needs a target of the kind append, lsm, too"),
        "{listed}"
    );
    assert!(
        listed.contains("--versus ADDRESS --differ change-log"),
        "{listed}"
    );

    let dir = tempfile::tempdir().unwrap();
    side(dir.path(), "one", &[100.0, 101.0, 99.0], 1);
    let many = side(dir.path(), "many", &[100.0, 101.0, 99.0], 40);
    let one = dir.path().join("one").display().to_string();
    let out = dir.path().join("out").display().to_string();
    let output = lab(&[
        "claims", "--only", "C30,c08", "--judge", &one, "--judge", &many, "--out", &out,
    ]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The number of context switches is the same at 1 and 40 clients, so it does not fall.
    assert!(text.contains("C30 refuted"), "{text}");
    assert!(
        text.contains("0 confirmed, 1 refuted, 0 inconclusive, 1 not run, 0 not runnable yet"),
        "{text}"
    );
    assert!(
        dir.path().join("out/claims.html").is_file()
            && dir.path().join("out/claims.json").is_file()
    );
    assert!(complaint(&["claims", "--only", "C99"]).contains("C99"));
    assert!(
        complaint(&[
            "claims",
            "--only",
            "C19",
            "--target",
            "redb:nowhere",
            "--out",
            &out
        ])
        .contains("nothing to measure")
    );
    assert_eq!(
        lab(&[
            "claims", "--target", "a", "--versus", "b", "--differ", "colour"
        ])
        .status
        .code(),
        Some(2)
    );
}

#[test]
fn claims_about_pairs_are_run_and_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (target, versus) = (
        format!("redb:{}?durability=lazy", path("lazy")),
        format!("redb:{}?durability=none", path("none")),
    );
    let out = path("out");
    let words = [
        "claims",
        "--only",
        "C45",
        "--target",
        &target,
        "--versus",
        &versus,
        "--differ",
        "durability",
        "--repeats",
        "3",
        "--out",
        &out,
    ];
    let output = lab(&[words.as_slice(), &["--", "--rows", "2000"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("C45 ") && text.contains("durability sync") && !text.contains("of 3 repeats"),
        "{text}"
    );
    let folders = || {
        std::fs::read_dir(dir.path().join("out/runs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    assert_eq!(folders().len(), 6);

    // One run is lost: only that run is made again, with its first options.
    let lost = folders().remove(0);
    std::fs::remove_file(lost.join("result.json")).unwrap();
    let output = lab(&["claims", "--resume", &out]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("runs to make: 1, preset smoke; 5 exist already"),
        "{said}"
    );
    let results: Vec<lab_kit::result::RunResult> = folders()
        .iter()
        .filter_map(|folder| lab_kit::folder::read_result(folder).ok())
        .collect();
    assert_eq!(results.len(), 6);
    assert!(
        results.iter().all(|run| run.settings.rows == 2_000),
        "the options after -- are kept"
    );
    let on = results
        .iter()
        .filter(|run| {
            run.run
                .labels
                .get("durability")
                .is_some_and(|side| side == "sync")
        })
        .count();
    assert_eq!(on, 3);
}

#[test]
fn a_process_that_is_not_there_and_a_missing_tool_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out").display().to_string();
    assert!(
        complaint(&["profile", "--pid", "4194999", "--out", &out])
            .contains("there is no process 4194999")
    );
    let own = std::process::id().to_string();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
        .args(["profile", "--pid", &own, "--out", &out])
        .env("PATH", dir.path())
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("perf is not installed"),
        "{output:?}"
    );
}
