//! Figures of several runs in the layouts of the studies: configurations by clients, the same as
//! plain text, hot rows.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::html::{capital, escape};
use crate::compare::{Verdict, compare_metric};
use crate::format;
use crate::metric::{self, Metric};
use crate::result::{RunResult, StepResult};
use crate::statistics::{Estimate, estimate, mean};

/// Metrics that the studies tabulate by clients: throughput, device reads in total and by
/// operation, CPU in both forms, switches, writes, latency.
const METRICS: [&str; 8] = [
    "rate",
    "device_reads_per_second",
    "device_reads_per_op",
    "server_cpu_us_per_op",
    "host_cpu_percent_per_op",
    "server_switches_per_op",
    "device_write_kb_per_op",
    "latency_us_p99",
];

/// Runs that differ in nothing but the number of clients and the repeat.
pub(super) struct Configuration<'a> {
    /// The shortest name that distinguishes the configurations of the page.
    pub(super) name: String,
    /// Target and settings in full, clients left out.
    pub(super) full_name: String,
    /// Colour 1 to 8.
    pub(super) colour: u8,
    /// Its runs.
    pub(super) runs: Vec<&'a RunResult>,
}

/// One row of a table: its name, and a value for each number of clients.
type Row = (String, Vec<Option<f64>>);

/// The tables of a step; nothing where all runs had the same number of clients and rows.
pub(super) fn write(out: &mut String, step: &StepResult, configurations: &[Configuration<'_>]) {
    let mut clients: Vec<u32> = configurations
        .iter()
        .flat_map(|one| one.runs.iter().map(|run| run.settings.clients))
        .collect();
    clients.sort_unstable();
    clients.dedup();
    let has_hot_rows = step.operation == crate::workload::Operation::Hot;
    if clients.len() < 2 && !has_hot_rows {
        return;
    }
    for metric in METRICS.iter().filter_map(|id| metric::find(id)) {
        let rows: Vec<Row> = configurations
            .iter()
            .map(|one| {
                (
                    one.name.clone(),
                    clients
                        .iter()
                        .map(|clients| value(&one.runs, *clients, &step.name, metric))
                        .collect(),
                )
            })
            .collect();
        if rows
            .iter()
            .all(|(_, values)| values.iter().all(Option::is_none))
        {
            continue;
        }
        let unit = metric.unit_for(&step.unit);
        let title = format!(
            "{}{}{unit} by clients",
            capital(metric.name),
            if unit.is_empty() { "" } else { ", " }
        );
        write_table(out, &title, &clients, &rows);
        if metric.id == "rate" {
            write_text(out, &title, &clients, &rows);
        }
    }
    if has_hot_rows {
        write_hot(out, step, &clients, configurations);
    }
}

fn value(runs: &[&RunResult], clients: u32, step: &str, metric: &Metric) -> Option<f64> {
    mean_of(
        runs.iter()
            .copied()
            .filter(|run| run.settings.clients == clients),
        step,
        metric,
    )
}

/// The mean of a metric of a step over runs; `None` if no run has it.
pub(super) fn mean_of<'a>(
    runs: impl IntoIterator<Item = &'a RunResult>,
    step: &str,
    metric: &Metric,
) -> Option<f64> {
    let steps = runs
        .into_iter()
        .filter_map(|run| run.steps.iter().find(|other| other.name == step));
    mean(
        &steps
            .filter_map(|step| metric.value(step))
            .collect::<Vec<f64>>(),
    )
}

/// The caption of bars of repeats.
pub(super) const REPEATS: &str =
    "The mean of repeats, where there are several, with its interval of 95 %.";

/// The interval of a metric of a step over repeats; `None` for fewer than two.
pub(super) fn interval_of<'a>(
    runs: impl IntoIterator<Item = &'a RunResult>,
    step: &str,
    metric: &Metric,
) -> Option<Estimate> {
    let steps = runs
        .into_iter()
        .filter_map(|run| run.steps.iter().find(|other| other.name == step));
    estimate(
        &steps
            .filter_map(|step| metric.value(step))
            .collect::<Vec<f64>>(),
    )
}

/// The values of a metric of a step, run by run.
pub(super) fn values_of<'a>(
    runs: impl IntoIterator<Item = &'a RunResult>,
    step: &str,
    metric: &Metric,
) -> Vec<Option<f64>> {
    let value = |run: &RunResult| {
        let found = run.steps.iter().find(|other| other.name == step)?;
        metric.value(found)
    };
    runs.into_iter().map(value).collect()
}

/// A cell with the ratio of a configuration's mean to the first one's. It is marked as better or
/// worse only where pairs of repeats give an interval without 1, and from 5 % on.
pub(super) fn ratio_cell(values: &[Option<f64>], base: &[Option<f64>], metric: &Metric) -> String {
    let known = |all: &[Option<f64>]| mean(&all.iter().flatten().copied().collect::<Vec<f64>>());
    let ratio = known(values)
        .zip(known(base))
        .filter(|(_, base)| *base > 0.0)
        .map(|(value, base)| value / base);
    let pairs: Vec<(f64, f64)> = base
        .iter()
        .zip(values)
        .filter_map(|(a, b)| a.zip(*b))
        .collect();
    let is_large = ratio.is_some_and(|ratio| !(0.95..=1.05).contains(&ratio));
    let class = match compare_metric(metric, &pairs, "").verdict {
        Verdict::Better if is_large => " class=\"up\"",
        Verdict::Worse if is_large => " class=\"down\"",
        _ => "",
    };
    format!(
        "<td{class}>{}</td>",
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
    )
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), format::number)
}

fn write_table(out: &mut String, title: &str, clients: &[u32], rows: &[Row]) {
    let _ = write!(
        out,
        "<div class=\"card scroll\"><h3>{}</h3><table class=\"right\"><thead><tr><th \
            scope=\"col\">configuration</th>",
        escape(title)
    );
    for clients in clients {
        let _ = write!(out, "<th scope=\"col\">{clients}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for (name, values) in rows {
        let cells: String = values
            .iter()
            .map(|value| format!("<td>{}</td>", number(*value)))
            .collect();
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th>{cells}</tr>",
            escape(name)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// Clients as a header above, the configuration at the end of its line: to be pasted into a mail.
fn write_text(out: &mut String, title: &str, clients: &[u32], rows: &[Row]) {
    let _ = write!(
        out,
        "<div class=\"card scroll\"><h3>{} as text</h3><pre class=\"table\">",
        escape(title)
    );
    for clients in clients {
        let _ = write!(out, "{clients:>10}");
    }
    out.push_str("  clients\n");
    for (name, values) in rows {
        for value in values {
            let text = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
            let _ = write!(out, "{text:>10}");
        }
        let _ = writeln!(out, "  {}", escape(name));
    }
    out.push_str("</pre></div>\n");
}

/// Rates by hot rows and clients, by configuration and again by rows; X if there are fewer clients
/// than rows.
fn write_hot(
    out: &mut String,
    step: &StepResult,
    clients: &[u32],
    configurations: &[Configuration<'_>],
) {
    let Some(metric) = metric::find("rate") else {
        return;
    };
    let mut rows: BTreeMap<(usize, u32), String> = BTreeMap::new();
    for (at, one) in configurations.iter().enumerate() {
        for hot in one.runs.iter().map(|run| run.settings.hot_rows) {
            rows.entry((at, hot)).or_insert_with(|| {
                let of: Vec<&RunResult> = one
                    .runs
                    .iter()
                    .copied()
                    .filter(|run| run.settings.hot_rows == hot)
                    .collect();
                let cells: String = clients
                    .iter()
                    .map(|clients| {
                        let text = if *clients < hot {
                            "X".to_owned()
                        } else {
                            number(value(&of, *clients, &step.name, metric))
                        };
                        format!("<td>{text}</td>")
                    })
                    .collect();
                format!(
                    "<tr><th scope=\"row\">{}</th><td>{hot}</td>{cells}</tr>",
                    escape(&plain(&one.name))
                )
            });
        }
    }
    let by_rows: BTreeMap<(u32, usize), &String> = rows
        .iter()
        .map(|((at, hot), text)| ((*hot, *at), text))
        .collect();
    let mut table = |title: &str, lines: &mut dyn Iterator<Item = &String>| {
        let _ = write!(
            out,
            "<div class=\"card scroll\"><h3>{}/s by clients, {title}</h3><table \
                class=\"right\"><thead><tr><th scope=\"col\">configuration</th><th \
                scope=\"col\">hot rows</th>",
            escape(&capital(&step.unit))
        );
        for clients in clients {
            let _ = write!(out, "<th scope=\"col\">{clients}</th>");
        }
        out.push_str("</tr></thead><tbody>\n");
        for line in lines {
            out.push_str(line);
            out.push('\n');
        }
        out.push_str("</tbody></table></div>\n");
    };
    table("by configuration", &mut rows.values());
    table("by hot rows", &mut by_rows.values().copied());
}

/// The name without the hot rows, which have a separate column.
fn plain(name: &str) -> String {
    name.split(", ")
        .filter(|operation| !operation.starts_with("hot rows "))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(clients: u32, hot_rows: u32, rate: f64) -> RunResult {
        let mut out: RunResult =
            serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
        (out.settings.clients, out.settings.hot_rows) = (clients, hot_rows);
        for step in out.steps.iter_mut().filter(|step| step.measured) {
            step.rate.average = rate;
            step.operation = crate::workload::Operation::Hot;
        }
        out
    }

    #[test]
    fn the_layouts_of_the_studies() {
        let runs = [
            run(1, 1, 100.0),
            run(8, 1, 800.0),
            run(1, 4, 1.0),
            run(8, 4, 900.0),
        ];
        let step = runs[0].main_step().unwrap().clone();
        let of = |hot: u32| Configuration {
            name: format!("db 1, hot rows {hot}"),
            full_name: String::new(),
            colour: 1,
            runs: runs
                .iter()
                .filter(|run| run.settings.hot_rows == hot)
                .collect(),
        };
        let mut page = String::new();
        write(&mut page, &step, &[of(1), of(4)]);
        // Configurations by clients.
        assert!(
            page.contains(
                "<tr><th scope=\"row\">db 1, hot rows 1</th><td>100</td><td>800</td></tr>"
            ),
            "{page}"
        );
        // Clients above, the configuration at the end.
        assert!(
            page.contains(
                "         1         8  clients\n       100       800  db 1, hot rows \
            1\n         1       900  db 1, hot rows 4\n"
            ),
            "{page}"
        );
        // Fewer clients than rows is no measurement; twice, in both orders.
        assert_eq!(
            page.matches("<tr><th scope=\"row\">db 1</th><td>4</td><td>X</td><td>900</td></tr>")
                .count(),
            2,
            "{page}"
        );
    }

    #[test]
    fn one_number_of_clients_needs_no_such_table() {
        let mut runs = [run(8, 1, 1.0)];
        for step in &mut runs[0].steps {
            step.operation = crate::workload::Operation::Point;
        }
        let mut page = String::new();
        let step = runs[0].main_step().unwrap().clone();
        write(
            &mut page,
            &step,
            &[Configuration {
                name: "db".to_owned(),
                full_name: String::new(),
                colour: 1,
                runs: runs.iter().collect(),
            }],
        );
        assert!(page.is_empty());
    }
}
