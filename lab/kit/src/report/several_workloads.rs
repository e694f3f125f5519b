//! The page of several workloads, such as YCSB A to F: the step that each is about, side by side.

use std::collections::BTreeMap;

use super::runs::{RunsError, runs_page};
use crate::result::RunResult;

/// The page; for a single workload it is that workload's page.
///
/// # Errors
/// No runs.
pub fn workloads_page(runs: &[RunResult]) -> Result<String, RunsError> {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&run.run.workload.as_str()) {
            names.push(&run.run.workload);
        }
    }
    if names.len() < 2 {
        return runs_page(runs);
    }
    runs_page(&combine_runs(runs, &names))
}

/// For each configuration and repeat one run, whose steps are the main steps of all workloads.
fn combine_runs(runs: &[RunResult], names: &[&str]) -> Vec<RunResult> {
    let mut groups: BTreeMap<String, Vec<&RunResult>> = BTreeMap::new();
    for run in runs {
        let key = format!(
            "{} {:?} {:?} {:?} {}",
            run.target.name(),
            run.target.storage_engine,
            run.configuration(),
            run.run.labels,
            run.settings.clients
        );
        groups.entry(key).or_default().push(run);
    }
    let mut out = Vec::new();
    for runs in groups.values() {
        let of = |name: &str| -> Vec<&RunResult> {
            let own = runs.iter().filter(|run| run.run.workload == name);
            own.copied().collect()
        };
        let repeats = names.iter().map(|name| of(name).len()).max().unwrap_or(0);
        for repeat in 0..repeats {
            let together: Vec<&RunResult> = names
                .iter()
                .filter_map(|name| of(name).get(repeat).copied())
                .collect();
            out.extend(one(&together, names));
        }
    }
    // In order of time, as repeats are compared.
    out.sort_by(|one, other| one.run.started_at.cmp(&other.run.started_at));
    out
}

fn one(together: &[&RunResult], names: &[&str]) -> Option<RunResult> {
    let mut out = (*together.first()?).clone();
    out.run.workload = names.join(", ");
    out.run.title = format!("Workloads {}", names.join(", "));
    out.run.about = "The step that each workload is about.".to_owned();
    out.run.source = String::new();
    let lines: Vec<&str> = together
        .iter()
        .map(|run| run.run.command_line.as_str())
        .collect();
    out.run.command_line = lines.join("\n");
    out.warnings = together
        .iter()
        .flat_map(|run| run.warnings.clone())
        .collect();
    out.skipped = together
        .iter()
        .flat_map(|run| run.skipped.clone())
        .collect();
    let stopped = together
        .iter()
        .find_map(|run| run.run.stopped_because.clone());
    (out.run.complete, out.run.stopped_because) = (stopped.is_none(), stopped);
    out.checks = together.iter().flat_map(|run| run.checks.clone()).collect();
    out.steps = together
        .iter()
        .filter_map(|run| {
            let mut step = run.main_step()?.clone();
            step.name = run.run.workload.clone();
            step.measured = true;
            Some(step)
        })
        .collect();
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_steps_of_workloads_stand_side_by_side_repeat_by_repeat() {
        let run = |workload: &str, at: u32, rate: f64| {
            let mut run: RunResult =
                serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
            run.run.workload = workload.to_owned();
            run.run.started_at = format!("2026-11-{at:02}");
            for step in run.steps.iter_mut().filter(|step| step.measured) {
                step.rate.average = rate;
            }
            run
        };
        let runs = [
            run("a", 1, 100.0),
            run("b", 2, 10.0),
            run("a", 3, 300.0),
            run("b", 4, 30.0),
        ];
        let all = combine_runs(&runs, &["a", "b"]);
        assert_eq!(all.len(), 2);
        let rates: Vec<f64> = all[1].steps.iter().map(|step| step.rate.average).collect();
        assert_eq!(rates, [300.0, 30.0]);
        let page = workloads_page(&runs).unwrap();
        assert!(
            page.contains("<th scope=\"row\">a</th><td>200</td>"),
            "{page}"
        );
        assert!(
            page.contains("<th scope=\"row\">b</th><td>20.0</td>"),
            "{page}"
        );
    }
}
