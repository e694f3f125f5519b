//! Results of many days: a planted slowdown is found by the program, on the page and in its files.

use lab_kit::result::RunResult;

/// Makes thirty results like that of one real run, with a rate that drops from run `at` on.
fn plant(folder: &std::path::Path, at: usize, slowdown: f64) {
    let text = include_str!("../../../kit/tests/data/point.json");
    for number in 0..30_usize {
        let mut run: RunResult = serde_json::from_str(text).unwrap();
        run.run.complete = true;
        run.checks.clear();
        run.run.id = format!("run-{number:02}");
        let build = if number >= at { "b" } else { "a" };
        run.target.build = Some(format!("revision {}, program 1", build.repeat(40)));
        run.run.started_at = format!("2026-11-{:02}T10:00:00Z", number + 1);
        let level = if number >= at { 1.0 - slowdown } else { 1.0 };
        // An uneven but fixed noise of up to 2 %.
        let noise = ((number * 7_919) % 41) as f64 / 1_000.0 - 0.02;
        for step in run.steps.iter_mut().filter(|step| step.measured) {
            step.rate.average = 10_000.0 * level * (1.0 + noise);
        }
        let at = folder
            .join(format!("day-{}", number / 10))
            .join(&run.run.id);
        std::fs::create_dir_all(&at).unwrap();
        let text = serde_json::to_string(&run).unwrap();
        std::fs::write(at.join("result.json"), text).unwrap();
    }
}

#[test]
fn a_slowdown_of_five_percent_is_found_and_none_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), 25, 0.05);
    let folder = dir.path().to_str().unwrap();
    let output = crate::lab(&["history", folder]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("WORSE")).collect();
    assert_eq!(lines.len(), 1, "{told}");
    assert!(
        lines[0].contains("throughput") && lines[0].contains("run-25"),
        "{told}"
    );
    let page = std::fs::read_to_string(dir.path().join("history.html")).unwrap();
    assert!(page.contains("1 change for the worse") && page.contains("mean between changes"));
    let csv = std::fs::read_to_string(dir.path().join("history.csv")).unwrap();
    assert!(csv.lines().count() > 30 && csv.starts_with("series,"));
    let metrics = std::fs::read_to_string(dir.path().join("history.prom")).unwrap();
    assert!(
        metrics.contains("# TYPE quarry_lab_rate gauge"),
        "{metrics}"
    );
    // Values from a file are read together with new runs, and each run counts once.
    let kept = dir.path().join("kept.csv");
    let words = ["history", folder, "--values", kept.to_str().unwrap()];
    assert_eq!(crate::lab(&words).status.code(), Some(0));
    std::fs::remove_dir_all(dir.path().join("day-0")).unwrap();
    let again = crate::lab(&words);
    let told = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(told.matches("WORSE").count(), 1, "{told}");
    let page = std::fs::read_to_string(dir.path().join("history.html")).unwrap();
    assert!(
        page.contains("<span>30 runs</span>"),
        "ten of them from the file"
    );
    let page = page.split("Rate and CPU by build").nth(1).unwrap();
    assert!(
        page.contains("<td>aaaaaaaa</td>") && page.contains("class=\"worse\">0.95"),
        "{page}"
    );
    std::fs::write(&kept, "no values\n").unwrap();
    let output = crate::lab(&words);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("line 1: allowed is series,"), "{told}");
    // For programs: the change is five runs old.
    let fails = |runs: &str| {
        let words = ["history", folder, "--fail-on-worse", runs];
        crate::lab(&words).status.code()
    };
    assert_eq!((fails("5"), fails("4")), (Some(4), Some(0)));

    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), 30, 0.0);
    let output = crate::lab(&["history", dir.path().to_str().unwrap()]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        !told.contains("WORSE") && !told.contains("better:"),
        "{told}"
    );
    let empty = tempfile::tempdir().unwrap();
    let output = crate::lab(&["history", empty.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
}
