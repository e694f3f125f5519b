//! Runs as a table for spreadsheets: a line for each measured step of each run.

use crate::metric;
use crate::result::RunResult;

/// Metrics that have a column, by their names in `metric::ALL`.
const METRICS: [&str; 9] = [
    "rate",
    "latency_us_p50",
    "latency_us_p99",
    "latency_us_p999",
    "server_cpu_us_per_op",
    "device_reads_per_op",
    "device_write_kb_per_op",
    "bytes_per_document",
    "stalled_s",
];

/// The table, with a line of names above it. Values that are not known are empty; `state` is
/// `right`, `wrong` or `incomplete`.
pub fn summary_csv(runs: &[RunResult]) -> String {
    let mut names = vec![
        "run",
        "started_at",
        "workload",
        "preset",
        "target",
        "labels",
        "build",
        "clients",
        "step",
        "operation",
        "state",
        "warnings",
        "ops",
        "seconds",
    ];
    names.extend(METRICS);
    let mut out = names.join(",");
    out.push('\n');
    for run in runs {
        let is_wrong = run.checks.iter().any(|check| check.passed == Some(false));
        let state = match (run.run.complete, is_wrong) {
            (false, _) => "incomplete",
            (true, true) => "wrong",
            (true, false) => "right",
        };
        let labels = run.run.labels.iter();
        let labels: Vec<String> = labels
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        for step in run.steps.iter().filter(|step| step.measured) {
            let mut cells = vec![
                run.run.id.clone(),
                run.run.started_at.clone(),
                run.run.workload.clone(),
                run.settings.preset.clone(),
                run.target.name(),
                labels.join(" "),
                run.target.build.clone().unwrap_or_default(),
                step.clients.to_string(),
                step.name.clone(),
                step.unit.clone(),
                state.to_owned(),
                run.warnings.len().to_string(),
                step.ops.to_string(),
                step.seconds.to_string(),
            ];
            cells.extend(METRICS.map(|id| {
                let value = metric::find(id).and_then(|metric| metric.value(step));
                value.map_or_else(String::new, |value| value.to_string())
            }));
            let cells: Vec<String> = cells.iter().map(|cell| quote_cell(cell)).collect();
            out.push_str(&cells.join(","));
            out.push('\n');
        }
    }
    out
}

/// A cell, in quotation marks where it needs them.
fn quote_cell(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measured_step_has_a_line_with_as_many_cells_as_names() {
        let mut run: RunResult =
            serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
        run.target.product = "A, \"quoted\"".to_owned();
        let measured = run.steps.iter().filter(|step| step.measured).count();
        let mut stopped = run.clone();
        stopped.run.complete = false;
        let text = summary_csv(&[run, stopped]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * measured);
        let plain = lines[1].replace("\"A, \"\"quoted\"\"", "A");
        assert_eq!(
            plain.split(',').count(),
            lines[0].split(',').count(),
            "{plain}"
        );
        assert!(lines[1].contains(",right,") && lines[measured + 1].contains(",incomplete,"));
        let rate = lines[0].split(',').position(|name| name == "rate").unwrap();
        let rate: f64 = plain.split(',').nth(rate).unwrap().parse().unwrap();
        assert!(rate > 0.0);
    }
}
