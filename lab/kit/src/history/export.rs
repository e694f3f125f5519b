//! Series for other programs: CSV, and Prometheus' text format with the last values.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::series::Series;

/// The columns of a file of values.
pub(super) const COLUMNS: [&str; 13] = [
    "series",
    "workload",
    "target",
    "step",
    "metric",
    "unit",
    "run",
    "started_at",
    "version",
    "build",
    "conditions",
    "value",
    "segment",
];

/// Writes a row for each value, with a header.
pub fn csv(all: &[Series]) -> String {
    let mut out = format!("{}\n", COLUMNS.join(","));
    for one in all {
        for (at, entry) in one.entries.iter().enumerate() {
            let segment = one.changes.iter().filter(|change| change.at <= at).count();
            let cells = [
                &one.name,
                &one.workload,
                &one.target,
                &one.step,
                one.metric.id,
                &one.unit,
                &entry.run,
                &entry.at,
                &entry.version,
                &entry.build,
                &one.conditions,
            ];
            let cells: Vec<String> = cells.iter().map(|cell| quote_cell(cell)).collect();
            let _ = writeln!(out, "{},{},{segment}", cells.join(","), entry.value);
        }
    }
    out
}

fn quote_cell(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Writes the last value of each series and its number of changes for the worse.
pub fn prometheus(all: &[Series]) -> String {
    let mut metrics: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut worse = Vec::new();
    for one in all {
        let Some(last) = one.entries.last() else {
            continue;
        };
        let label = |text: &str| {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            text.replace('\n', "\\n")
        };
        let labels = format!(
            "series=\"{}\",workload=\"{}\",target=\"{}\",step=\"{}\"",
            label(&one.name),
            label(&one.workload),
            label(&one.target),
            label(&one.step)
        );
        let line = format!(
            "quarry_lab_{}{{{labels},version=\"{}\"}} {}",
            one.metric.id,
            label(&last.version),
            last.value
        );
        metrics.entry(one.metric.id).or_default().push(line);
        let count = one
            .changes
            .iter()
            .filter(|change| !change.is_better)
            .count();
        worse.push(format!(
            "quarry_lab_changes_worse{{{labels},metric=\"{}\"}} {count}",
            one.metric.id
        ));
    }
    let mut out = String::new();
    for (id, lines) in metrics {
        let name = crate::metric::find(id).map_or(id, |metric| metric.name);
        let _ = writeln!(out, "# HELP quarry_lab_{id} {name}, last run");
        let _ = writeln!(out, "# TYPE quarry_lab_{id} gauge");
        let _ = writeln!(out, "{}", lines.join("\n"));
    }
    if !worse.is_empty() {
        out.push_str("# HELP quarry_lab_changes_worse changes for the worse in the history\n");
        let _ = writeln!(out, "# TYPE quarry_lab_changes_worse gauge");
        let _ = writeln!(out, "{}", worse.join("\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::series::{Change, Entry};
    use super::*;

    #[test]
    fn both_forms_have_every_series() {
        let entry = |value: f64| Entry {
            build: "abc".to_owned(),
            run: "r".to_owned(),
            at: "2026".to_owned(),
            version: "Db 1, \"x\"".to_owned(),
            value,
        };
        let one = Series {
            conditions: "1".to_owned(),
            name: "point on Db".to_owned(),
            workload: "point".to_owned(),
            target: "Db".to_owned(),
            step: "point".to_owned(),
            unit: "queries".to_owned(),
            metric: crate::metric::find("rate").unwrap(),
            entries: vec![entry(10.0), entry(5.5)],
            changes: vec![Change {
                at: 1,
                ratio: None,
                is_better: false,
            }],
        };
        let all = [one];
        let text = csv(&all);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].ends_with("\"Db 1, \"\"x\"\"\",abc,1,10,0"),
            "{}",
            lines[1]
        );
        assert!(lines[2].ends_with(",5.5,1"), "{}", lines[2]);
        let text = prometheus(&all);
        assert!(text.contains("# TYPE quarry_lab_rate gauge\n"), "{text}");
        assert!(
            text.contains("version=\"Db 1, \\\"x\\\"\"} 5.5\n"),
            "{text}"
        );
        assert!(text.contains("metric=\"rate\"} 1\n"), "{text}");
    }
}
