//! Several runs of a workload of several measured steps at a glance: steps by configurations, as
//! charts and as the studies' tables.

use std::fmt::Write;

use super::axis::Quantity;
use super::bars::{BarSeries, Bars};
use super::by_clients::{Configuration, REPEATS, interval_of, mean_of, ratio_cell, values_of};
use super::html::{capital, escape};
use super::overlay::colour;
use crate::format;
use crate::metric::{self, Metric};
use crate::result::StepResult;

/// The charts, each of steps by configurations.
const CHARTS: [(&str, Quantity); 4] = [
    ("rate", Quantity::Number),
    ("latency_us_p99", Quantity::LatencyUs),
    ("server_cpu_us_per_op", Quantity::LatencyUs),
    ("directory_bytes", Quantity::Bytes),
];

/// The section; empty for workloads of one measured step.
pub(super) fn section(steps: &[&StepResult], configurations: &[Configuration<'_>]) -> String {
    if steps.len() < 2 {
        return String::new();
    }
    let mut out = "<h2>All measured steps</h2>\n<div class=\"charts\">\n".to_owned();
    for (id, quantity) in CHARTS {
        let Some(metric) = metric::find(id) else {
            continue;
        };
        let series = configurations
            .iter()
            .enumerate()
            .map(|(at, one)| BarSeries {
                name: one.name.clone(),
                colour: colour(at),
                values: steps
                    .iter()
                    .map(|step| value(one, &step.name, metric))
                    .collect(),
                intervals: steps
                    .iter()
                    .map(|step| interval_of(one.runs.iter().copied(), &step.name, metric))
                    .collect(),
            });
        let bars = Bars {
            title: format!("{} of each step", capital(metric.name)),
            caption: format!("{REPEATS} The logarithmic scale shows the slow steps."),
            x_title: "step".to_owned(),
            groups: steps.iter().map(|step| step.name.clone()).collect(),
            y_title: if id == "rate" {
                "operations per second".to_owned()
            } else {
                metric.unit.to_owned()
            },
            quantity,
            series: series.collect(),
            half: false,
        };
        out.push_str(&bars.render());
    }
    out.push_str("</div>\n");
    for (id, title) in [
        ("rate", "Operations per second by step"),
        ("latency_us_p99", "Latency by step, p99, µs"),
        ("server_cpu_us_per_op", "CPU per operation by step, µs"),
        (
            "device_write_kb_per_op",
            "Device writes per operation by step, KB",
        ),
        ("device_reads_per_op", "Device reads per operation by step"),
        ("directory_gb", "Data directory after each step, GB"),
    ] {
        if let Some(metric) = metric::find(id) {
            table(&mut out, title, metric, steps, configurations);
        }
    }
    out
}

fn value(configuration: &Configuration<'_>, step: &str, metric: &Metric) -> Option<f64> {
    mean_of(configuration.runs.iter().copied(), step, metric)
}

/// Steps by configurations; each further configuration has its ratio to the first.
fn table(
    out: &mut String,
    title: &str,
    metric: &Metric,
    steps: &[&StepResult],
    configurations: &[Configuration<'_>],
) {
    let rows: Vec<(&str, Vec<Option<f64>>)> = steps
        .iter()
        .map(|step| {
            (
                step.name.as_str(),
                configurations
                    .iter()
                    .map(|one| value(one, &step.name, metric))
                    .collect(),
            )
        })
        .collect();
    if rows
        .iter()
        .all(|(_, values)| values.iter().all(Option::is_none))
    {
        return;
    }
    let _ = write!(
        out,
        "<div class=\"card scroll\"><h3>{}</h3><table class=\"right\"><thead><tr><th \
            scope=\"col\">step</th>",
        escape(title)
    );
    for (at, one) in configurations.iter().enumerate() {
        let _ = write!(
            out,
            "<th scope=\"col\">{}, n = {}</th>{}",
            escape(&one.name),
            one.runs.len(),
            if at > 0 {
                "<th scope=\"col\">by the first</th>"
            } else {
                ""
            }
        );
    }
    out.push_str("</tr></thead><tbody>\n");
    for (name, values) in &rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
        let of = |at: usize| {
            let runs = configurations
                .get(at)
                .into_iter()
                .flat_map(|one| one.runs.iter());
            values_of(runs.copied(), name, metric)
        };
        for (at, value) in values.iter().enumerate() {
            let _ = write!(
                out,
                "<td>{}</td>",
                value.map_or_else(|| "–".to_owned(), format::number)
            );
            if at == 0 {
                continue;
            }
            out.push_str(&ratio_cell(&of(at), &of(0), metric));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Names cut after the fewest parts that still distinguish them; a comma within parentheses is no
/// separator.
pub(super) fn shorten(names: &[String]) -> Vec<String> {
    let operations: Vec<Vec<&str>> = names.iter().map(|name| split(name)).collect();
    let longest = operations.iter().map(Vec::len).max().unwrap_or(1);
    for count in 1..longest {
        let short: Vec<String> = operations
            .iter()
            .map(|operations| {
                operations
                    .iter()
                    .take(count)
                    .copied()
                    .collect::<Vec<_>>()
                    .join(", ")
            })
            .collect();
        if short
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len()
            == names.len()
        {
            return short;
        }
    }
    names.to_vec()
}

fn split(name: &str) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, letter) in name.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(name.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(name.get(start..).unwrap_or_default().trim());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::RunResult;

    #[test]
    fn names_are_cut_where_they_still_differ() {
        let names = |all: &[&str]| {
            all.iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shorten(&names(&["RocksDB, leveled, lz4", "LMDB 0.9, page cache"])),
            ["RocksDB", "LMDB 0.9"]
        );
        assert_eq!(
            shorten(&names(&[
                "RocksDB, leveled, lz4",
                "RocksDB, universal, lz4"
            ])),
            ["RocksDB, leveled", "RocksDB, universal"]
        );
        assert_eq!(
            shorten(&names(&[
                "MariaDB (innodb, select)",
                "MariaDB (rocksdb, select)"
            ])),
            ["MariaDB (innodb, select)", "MariaDB (rocksdb, select)"]
        );
        assert_eq!(shorten(&names(&["a, b", "a, b"])), ["a, b", "a, b"]);
    }

    #[test]
    fn steps_stand_in_rows_with_their_ratio_to_the_first() {
        let run = |load: f64, read: f64| {
            let mut run: RunResult =
                serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
            let mut like = run.steps.remove(0);
            run.steps = Vec::new();
            for (name, rate) in [("load", load), ("pq.1", read)] {
                (like.name, like.rate.average) = (name.to_owned(), rate);
                run.steps.push(like.clone());
            }
            run
        };
        let (one, other) = (run(100.0, 20.0), run(50.0, 21.0));
        let steps: Vec<&StepResult> = one.steps.iter().collect();
        let configurations = [("a", &one), ("b", &other)].map(|(name, run)| Configuration {
            name: name.to_owned(),
            full_name: name.to_owned(),
            colour: 1,
            runs: vec![run],
        });
        let html = section(&steps, &configurations);
        assert!(
            html.contains("<th scope=\"row\">load</th><td>100</td><td>50.0</td><td>0.50</td>"),
            "one run each has no interval, and nothing is marked: {html}"
        );
        // Three repeats each that hardly differ among themselves.
        let (ones, others) = (
            [run(100.0, 20.0), run(101.0, 20.1), run(99.0, 19.9)],
            [run(50.0, 21.0), run(51.0, 20.0), run(49.0, 21.0)],
        );
        let repeated = [("a", &ones), ("b", &others)].map(|(name, runs)| Configuration {
            name: name.to_owned(),
            full_name: name.to_owned(),
            colour: 1,
            runs: runs.iter().collect(),
        });
        let marked = section(&steps, &repeated);
        assert!(
            marked.contains("<td>50.0</td><td class=\"down\">0.50</td>")
                && marked.contains("b, n = 3</th>"),
            "{marked}"
        );
        assert!(
            html.contains("<th scope=\"row\">pq.1</th><td>20.0</td><td>21.0</td><td>1.05</td>"),
            "{html}"
        );
        assert_eq!(section(&steps[..1], &configurations), "");
    }
}
