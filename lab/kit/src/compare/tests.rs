//! Comparisons with known verdicts, and groups that must be refused.

use super::*;
use crate::metric::find;
use crate::result::RunResult;

/// A run of the point workload with two clients whose rate is `rate`.
pub(crate) fn run(id: &str, rate: f64) -> RunResult {
    let mut out: RunResult =
        serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
    out.run.id = id.to_owned();
    out.run.started_at = format!("2026-01-01T00:00:{id}Z");
    for step in out.steps.iter_mut().filter(|step| step.measured) {
        step.rate.average = rate;
    }
    out
}

fn names() -> [String; 2] {
    ["old".to_owned(), "new".to_owned()]
}

fn verdict(metric: &str, pairs: &[(f64, f64)]) -> MetricComparison {
    compare_metric(find(metric).unwrap(), pairs, "queries")
}

#[test]
fn a_certain_change_is_better_or_worse_by_the_metric() {
    let pairs = [(100.0, 109.0), (100.0, 110.0), (100.0, 111.0)];
    let rate = verdict("rate", &pairs);
    assert_eq!(
        (rate.verdict, rate.unit.as_str()),
        (Verdict::Better, "queries/s")
    );
    assert_eq!(verdict("latency_us_p99", &pairs).verdict, Verdict::Worse);
    // Logarithms 0.0861777, 0.0953102, 0.1043600: mean 0.0952826, deviation 0.0090912, half 4.30265
    // · 0.0090912 / √3 = 0.0225838.
    let change = rate.change_percent.unwrap();
    assert!((change.mean - 9.997).abs() < 0.001, "{change:?}");
    assert!(
        (change.low - 7.541).abs() < 0.001 && (change.high - 12.509).abs() < 0.001,
        "{change:?}"
    );
}

#[test]
fn noise_single_pairs_and_small_differences_have_no_verdict() {
    assert_eq!(
        verdict("rate", &[(100.0, 130.0), (100.0, 90.0), (100.0, 112.0)]).verdict,
        Verdict::NoDifferenceSeen
    );
    assert_eq!(
        verdict("rate", &[(100.0, 200.0)]).verdict,
        Verdict::TooFewRepeats
    );
    assert_eq!(
        verdict("rate", &[(100.0, 100.5), (100.0, 100.5), (100.0, 100.5)]).verdict,
        Verdict::NoDifferenceSeen
    );
}

#[test]
fn zeros_are_compared_by_difference() {
    let found = verdict("stalled_s", &[(0.0, 4.0), (0.0, 5.0), (0.0, 6.0)]);
    assert_eq!(found.verdict, Verdict::Worse);
    assert_eq!(found.change_percent, None);
    assert!((found.difference.unwrap().low - (5.0 - 4.302_65 / 3.0_f64.sqrt())).abs() < 1e-4);
}

#[test]
fn a_comparison_names_its_pairs_and_its_doubts() {
    let a = [run("01", 100.0), run("03", 102.0), run("05", 98.0)];
    let b = [run("02", 150.0), run("04", 152.0), run("06", 149.0)];
    let found = compare(names(), &a, &b, &[]).unwrap();
    assert_eq!(found.pairs[1], ["03", "04"]);
    let step = found
        .steps
        .iter()
        .find(|step| step.step == "point")
        .unwrap();
    assert_eq!(step.metrics[0].id, "rate");
    assert_eq!(step.metrics[0].verdict, Verdict::Better);
    assert!(
        !found
            .remarks
            .iter()
            .any(|remark| remark.contains("in turn")),
        "{:?}",
        found.remarks
    );
    let printed = text(&found);
    assert!(
        printed.contains("throughput, queries/s") && printed.contains("better"),
        "{printed}"
    );
    let apart = compare(names(), &a[..2], &[run("07", 1.0), run("08", 1.0)], &[]).unwrap();
    assert!(
        apart
            .remarks
            .iter()
            .any(|remark| remark.contains("in turn"))
    );
}

#[test]
fn what_differs_is_refused_in_one_line() {
    let base = [run("01", 100.0)];
    type Change = fn(&mut RunResult);
    let changes: [(Change, &str); 7] = [
        (
            |run| run.settings.clients = 9,
            "clients is 1 in 01 and 9 in 02",
        ),
        (
            |run| run.run.workload = "hot".to_owned(),
            "workload is point in 01 and hot in 02",
        ),
        (|run| run.environment.cpus = 64, "cpu is "),
        (
            |run| run.environment.lab_profile = "other".to_owned(),
            "lab_build is ",
        ),
        (|run| run.run.complete = false, "02 ended early"),
        (
            |run| run.target.write_concern = "w: 0".to_owned(),
            "write_concern is ",
        ),
        (
            |run| drop(run.steps.pop()),
            "steps is load, point in 01 and load in 02",
        ),
    ];
    for (change, wanted) in changes {
        let mut other = run("02", 100.0);
        change(&mut other);
        let message = compare(names(), &base, &[other], &[])
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("not comparable: ")
                && message.contains(wanted)
                && !message.contains('\n'),
            "{message}"
        );
    }
    let mut other = run("02", 100.0);
    other.settings.clients = 9;
    assert!(compare(names(), &base, &[other], &["clients".to_owned()]).is_ok());
    let message = compare(names(), &base, &[run("02", 1.0), run("03", 1.0)], &[])
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "not comparable: A has 1 run and B 2 runs; repeats are compared in pairs"
    );
}

#[test]
fn a_side_is_a_run_or_a_folder_of_runs() {
    let dir = tempfile::tempdir().unwrap();
    let message = read_side(dir.path()).unwrap_err().to_string();
    assert!(message.contains("holds no run"), "{message}");
    for id in ["02", "01"] {
        let folder = dir.path().join(id);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(
            folder.join("result.json"),
            serde_json::to_string(&run(id, 1.0)).unwrap(),
        )
        .unwrap();
    }
    let ids: Vec<String> = read_side(dir.path())
        .unwrap()
        .into_iter()
        .map(|run| run.run.id)
        .collect();
    assert_eq!(ids, ["01", "02"]);
    assert_eq!(read_side(&dir.path().join("02")).unwrap().len(), 1);
}

#[test]
fn a_comparison_says_the_smallest_change_it_could_have_found() {
    let noisy = verdict("rate", &[(100.0, 104.0), (100.0, 96.0), (100.0, 101.0)]);
    let found = noisy.smallest_percent.unwrap();
    // Half the width of the interval of the ratio: smaller changes cannot be distinguished from
    // chance.
    let interval = noisy.change_percent.unwrap();
    assert!(
        noisy.verdict == Verdict::NoDifferenceSeen
            && (found - (interval.high - interval.low) / 2.0).abs() < 0.6,
        "{found} {interval:?}"
    );
    let calm = verdict("rate", &[(100.0, 100.0), (100.0, 100.0)]);
    assert_eq!(calm.smallest_percent, Some(SMALLEST_PERCENT));
    assert_eq!(verdict("rate", &[(100.0, 104.0)]).smallest_percent, None);
}
