//! The published metrics beside the new ones, in the studies' layouts: of one run, or of several
//! configurations with their repeats.

use std::fmt::Write;

use super::axis::Quantity;
use super::bars::{BarSeries, Bars};
use super::by_clients::Configuration;
use super::html::escape;
use super::overlay::colour;
use crate::format;
use crate::metric::{self, Metric};
use crate::published::{Layout, Row, Table, of_workload};
use crate::result::{RunResult, StepResult};
use crate::statistics::mean;
use crate::workload::Operation;

/// Published rows that a chart can show in addition to the new ones.
const ROWS_MAX: usize = 7;
/// New rows that it can show.
const NEW_MAX: usize = 4;

/// New values to compare with the published ones, under one name: repeats of one configuration,
/// with one number of clients or several.
struct NewValues<'a> {
    name: String,
    runs: Vec<&'a RunResult>,
}

impl NewValues<'_> {
    fn steps<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s StepResult> {
        self.runs.iter().filter_map(move |run| find(run, name))
    }

    /// The mean over repeats.
    fn mean(&self, step: &str, of: impl Fn(&StepResult) -> Option<f64>) -> Option<f64> {
        mean(&self.steps(step).filter_map(of).collect::<Vec<_>>())
    }
}

/// Runs of this preset say that something works; they are too short for a place among measurements.
const NO_MEASUREMENT: &str = "smoke";

/// The section of a run; empty where the studies published nothing for its workload.
pub(super) fn section(result: &RunResult) -> String {
    let new = NewValues {
        name: format!("this run: {}", result.target.name()),
        runs: vec![result],
    };
    section_of(vec![new])
}

/// The section of several configurations.
pub(super) fn section_of_configurations(configurations: &[Configuration<'_>]) -> String {
    let new: Vec<NewValues<'_>> = configurations
        .iter()
        .map(|one| NewValues {
            name: format!("here: {}", one.name),
            runs: one.runs.clone(),
        })
        .collect();
    section_of(new)
}

fn section_of(mut new: Vec<NewValues<'_>>) -> String {
    let Some(first) = new.iter().find_map(|one| one.runs.first().copied()) else {
        return String::new();
    };
    let given = new.len();
    new.retain(|one| {
        let mut runs = one.runs.iter();
        runs.all(|run| run.settings.preset != NO_MEASUREMENT)
    });
    let new = new.as_slice();
    let tables = of_workload(&first.run.workload);
    if tables.is_empty() {
        return String::new();
    }
    let mut out = "<h2>Published results</h2>\n".to_owned();
    out.push_str(
        "<p class=\"muted\">Other machines, other years, other settings: compare the shape of the \
            results, not their height. ",
    );
    if first.changed_from_paper.is_empty() {
        out.push_str("The settings are those of the paper preset.");
    } else {
        let _ = write!(
            out,
            "Settings that differ from the published runs: {}.",
            escape(&first.changed_from_paper.join("; "))
        );
    }
    if new.len() < given {
        out.push_str(" Runs of the smoke preset are too short to stand in these tables.");
    }
    out.push_str("</p>\n<div class=\"charts\">\n");
    for table in &tables {
        match table.layout {
            Layout::Clients => clients(&mut out, table, new),
            Layout::Steps => steps(&mut out, table, new),
            Layout::Rounds => rounds(&mut out, table, new),
            Layout::Measurements => measurements(&mut out, table, new),
        }
    }
    out.push_str("</div>\n");
    out
}

/// One row of a table here: heading, cells, whether it is the new one.
type Line = (String, Vec<Option<f64>>, bool);

fn published_line(row: &Row) -> Line {
    (
        row.name.clone(),
        (0..row.values.len()).map(|at| row.value(at)).collect(),
        false,
    )
}

/// Writes a table; columns from `new_from` on have new values.
fn write_table(
    out: &mut String,
    table: &Table,
    corner: &str,
    columns: &[String],
    lines: &[Line],
    new_from: usize,
) {
    let remark = if table.remark.is_empty() {
        String::new()
    } else {
        format!(" Note: {}.", table.remark)
    };
    let _ = write!(
        out,
        "<details class=\"card wide\"{}><summary>{} ({})</summary><p class=\"muted\">{}.{}</p><div \
            class=\"scroll\"><table class=\"right\"><thead><tr><th scope=\"col\">{corner}</th>",
        if table.layout == Layout::Clients {
            ""
        } else {
            " open"
        },
        escape(&table.title),
        escape(&table.unit),
        escape(&table.source),
        escape(&remark)
    );
    let mark = |at: usize| {
        if at >= new_from { " class=\"new\"" } else { "" }
    };
    for (at, column) in columns.iter().enumerate() {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", mark(at), escape(column));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (name, cells, is_new) in lines {
        let class = if *is_new { " class=\"new\"" } else { "" };
        let _ = write!(out, "<tr{class}><th scope=\"row\">{}</th>", escape(name));
        for (at, cell) in cells.iter().enumerate() {
            let _ = write!(
                out,
                "<td{}>{}</td>",
                mark(at),
                cell.map_or_else(|| "–".to_owned(), format::number)
            );
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></details>\n");
}

fn find<'a>(result: &'a RunResult, name: &str) -> Option<&'a StepResult> {
    result.steps.iter().find(|step| step.name == name)
}

/// Configurations by clients; the new ones in the columns of their clients.
fn clients(out: &mut String, table: &Table, new: &[NewValues<'_>]) {
    let Some((name, metric)) = table.step.as_deref().zip(metric::find(&table.metric)) else {
        return;
    };
    let mut columns: Vec<u32> = table
        .columns
        .iter()
        .filter_map(|column| column.parse().ok())
        .collect();
    columns.extend(
        new.iter()
            .flat_map(|one| one.steps(name).map(|step| step.clients)),
    );
    columns.sort_unstable();
    columns.dedup();
    let place = |row: &Row| {
        let cell = |clients: &u32| {
            row.value(
                table
                    .columns
                    .iter()
                    .position(|column| *column == clients.to_string())?,
            )
        };
        columns.iter().map(cell).collect::<Vec<_>>()
    };
    let of_new = |one: &NewValues<'_>| -> Vec<Option<f64>> {
        let cell = |clients: &u32| {
            one.mean(name, |step| {
                metric.value(step).filter(|_| step.clients == *clients)
            })
        };
        columns.iter().map(cell).collect()
    };
    let found: Vec<Line> = new
        .iter()
        .map(|one| (one.name.clone(), of_new(one), true))
        .filter(|(_, values, _)| values.iter().any(Option::is_some))
        .collect();
    if found.is_empty() {
        return;
    }
    let mut lines: Vec<Line> = table
        .rows
        .iter()
        .map(|row| (row.name.clone(), place(row), false))
        .collect();
    lines.extend(found.iter().cloned());
    let names: Vec<String> = columns
        .iter()
        .map(|clients| format!("{clients} cl."))
        .collect();
    let alike = rows_alike(table, new);
    if alike.len() <= ROWS_MAX && found.len() <= NEW_MAX {
        let of_published = alike.iter().map(|row| (row.name.clone(), place(row)));
        let series = found
            .iter()
            .map(|(name, values, _)| (name.clone(), values.clone()))
            .chain(of_published)
            .enumerate()
            .map(|(at, (name, values))| BarSeries {
                name,
                colour: colour(at),
                values,
                intervals: Vec::new(),
            });
        let bars = Bars {
            title: table.title.clone(),
            caption: format!("Published: {}.", table.source),
            x_title: "clients".to_owned(),
            groups: columns.iter().map(u32::to_string).collect(),
            y_title: table.unit.clone(),
            quantity: Quantity::Number,
            series: series.collect(),
            half: false,
        };
        out.push_str(&bars.render());
    }
    write_table(out, table, "configuration", &names, &lines, usize::MAX);
}

/// The rows that a chart shows: all rows if there are few, or else those with these runs' hot rows
/// or pads.
fn rows_alike<'a>(table: &'a Table, new: &[NewValues<'_>]) -> Vec<&'a Row> {
    if table.rows.len() <= ROWS_MAX {
        return table.rows.iter().collect();
    }
    let is_alike = |row: &Row| {
        new.iter().flat_map(|one| &one.runs).any(|run| {
            let hot = format!(", {} table", run.settings.hot_rows);
            let pad = format!("{} B pad", run.settings.payload);
            row.name.contains(&hot) || row.name.starts_with(&pad)
        })
    };
    let found: Vec<&Row> = table.rows.iter().filter(|row| is_alike(row)).collect();
    if found.is_empty() {
        table.rows.iter().take(ROWS_MAX).collect()
    } else {
        found
    }
}

/// The published lines with a column for each new configuration; `None` if there are no new values.
fn with_columns(
    table: &Table,
    new: &[NewValues<'_>],
    of: impl Fn(&NewValues<'_>, &Row) -> Option<f64>,
) -> Option<(Vec<String>, Vec<Line>)> {
    let has_any = |one: &&NewValues<'_>| table.rows.iter().any(|row| of(one, row).is_some());
    let shown: Vec<&NewValues<'_>> = new.iter().filter(has_any).collect();
    if shown.is_empty() {
        return None;
    }
    let mut columns = table.columns.clone();
    columns.extend(shown.iter().map(|one| one.name.clone()));
    let lines = table.rows.iter().map(|row| {
        let (name, mut cells, _) = published_line(row);
        cells.extend(shown.iter().map(|one| of(one, row)));
        (name, cells, false)
    });
    Some((columns, lines.collect()))
}

/// Steps by engines; the new metrics are columns.
fn steps(out: &mut String, table: &Table, new: &[NewValues<'_>]) {
    let Some(metric) = metric::find(&table.metric) else {
        return;
    };
    let of = |one: &NewValues<'_>, row: &Row| one.mean(&row.name, |step| step_value(metric, step));
    let Some((columns, lines)) = with_columns(table, new, of) else {
        return;
    };
    let new_from = table.columns.len();
    // The new ones come first in colour, as on the rest of the page.
    let count = columns.len();
    let order = (new_from..count).chain(0..new_from);
    let series = order.enumerate().map(|(at, column)| BarSeries {
        name: columns.get(column).cloned().unwrap_or_default(),
        colour: colour(at),
        values: lines
            .iter()
            .map(|(_, cells, _)| cells.get(column).copied().flatten())
            .collect(),
        intervals: Vec::new(),
    });
    if count <= ROWS_MAX + 1 {
        let bars = Bars {
            title: table.title.clone(),
            caption: format!("Published: {}.", table.source),
            x_title: "step".to_owned(),
            groups: table.rows.iter().map(|row| row.name.clone()).collect(),
            y_title: table.unit.clone(),
            quantity: Quantity::Number,
            series: series.collect(),
            half: false,
        };
        out.push_str(&bars.render());
    }
    write_table(out, table, "step", &columns, &lines, new_from);
}

/// Range steps were published as documents returned, so that is compared with them.
fn step_value(metric: &Metric, step: &StepResult) -> Option<f64> {
    if metric.id == "rate" && step.operation == Operation::Range && step.more.rows_returned > 0 {
        return Some(step.more.rows_per_second);
    }
    metric.value(step)
}

/// Rounds: size, bytes per document, write rate, written, seconds, rate.
fn rounds(out: &mut String, table: &Table, new: &[NewValues<'_>]) {
    const MIB: f64 = 1_048_576.0;
    const GIB: f64 = 1_073_741_824.0;
    let written = |step: &StepResult| {
        let kb = step.device.as_ref()?.write_kb_per_op?;
        Some(kb * 1_024.0 * step.ops as f64)
    };
    let mut lines: Vec<Line> = Vec::new();
    for one in new {
        let of_first = one.runs.first().into_iter().flat_map(|run| &run.steps);
        for step in of_first.filter(|step| step.measured && step.operation == Operation::Insert) {
            let documents = step.sizes.documents.map_or_else(String::new, |count| {
                format!(" at {}", format::axis(count as f64))
            });
            let name = step.name.as_str();
            let size = |step: &StepResult| Some(step.sizes.directory_bytes? as f64 / GIB);
            let cells = vec![
                one.mean(name, size),
                one.mean(name, |step| step.sizes.bytes_per_document),
                one.mean(name, |step| {
                    Some(written(step)? / MIB / step.seconds.max(1e-9))
                }),
                one.mean(name, |step| Some(written(step)? / GIB)),
                one.mean(name, |step| Some(step.seconds)),
                one.mean(name, |step| Some(step.rate.sum_of_clients)),
            ];
            lines.push((format!("{}, {name}{documents}", one.name), cells, true));
        }
    }
    lines.extend(table.rows.iter().map(published_line));
    write_table(out, table, "server", &table.columns, &lines, usize::MAX);
}

/// The metric that a published row shows.
fn measurement(name: &str) -> Option<&'static Metric> {
    metric::find(match name {
        "Ops/sec" | "Updates/s" => "rate",
        "micros/op" => "us_per_op",
        "99% Latency" => "latency_us_p99",
        "99.99% Latency" => "latency_us_p9999",
        "Max Latency" => "latency_us_max",
        "DB size (GB)" => "directory_gb",
        "Throughput (MB/s)" => "user_mb_per_second",
        "Written, KB/s" => "device_write_kb_per_second",
        "Written per update, KB" => "device_write_kb_per_op",
        _ => return None,
    })
}

/// Figures of one step by engines; the new ones are columns.
fn measurements(out: &mut String, table: &Table, new: &[NewValues<'_>]) {
    let Some(step) = table.step.as_deref() else {
        return;
    };
    let of = |one: &NewValues<'_>, row: &Row| {
        let metric = measurement(&row.name)?;
        one.mean(step, |step| metric.value(step))
    };
    let Some((columns, mut lines)) = with_columns(table, new, of) else {
        return;
    };
    for (name, _, _) in &mut lines {
        if name.contains("Latency") {
            name.push_str(", µs");
        }
    }
    let new_from = table.columns.len();
    write_table(out, table, "measurement", &columns, &lines, new_from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_measurement_has_a_metric() {
        for workload in ["db-bench", "forestdb"] {
            let tables = of_workload(workload);
            let rows = tables
                .iter()
                .filter(|table| table.layout == Layout::Measurements)
                .flat_map(|table| &table.rows);
            for row in rows {
                assert!(measurement(&row.name).is_some(), "{}", row.name);
            }
        }
    }

    #[test]
    fn configurations_stand_beside_the_published_rows_with_the_mean_of_their_repeats() {
        let run = |clients: u32, rate: f64| {
            let mut run: RunResult =
                serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
            for step in run.steps.iter_mut().filter(|step| step.measured) {
                (step.clients, step.rate.average) = (clients, rate);
            }
            run
        };
        let runs = [run(1, 100.0), run(1, 300.0), run(8, 900.0)];
        let html = section_of_configurations(&[Configuration {
            name: "db".to_owned(),
            full_name: "db".to_owned(),
            colour: 1,
            runs: runs.iter().collect(),
        }]);
        let row = html
            .lines()
            .find(|line| line.contains("<tr class=\"new\"><th scope=\"row\">here: db</th>"))
            .unwrap();
        assert!(
            row.contains("<td>200</td><td>–</td><td>–</td><td>900</td>"),
            "{row}"
        );
        assert!(html.contains("mongo26"), "{html}");
    }
}
