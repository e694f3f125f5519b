//! The published metrics beside the new ones, in the studies' layouts.

use std::fmt::Write;

use super::axis::Quantity;
use super::bars::{BarSeries, Bars};
use super::html::escape;
use super::overlay::colour;
use crate::format;
use crate::metric::{self, Metric};
use crate::published::{Layout, Row, Table, of_workload};
use crate::result::{RunResult, StepResult};
use crate::workload::Operation;

/// Rows that a chart can tell apart beside the new one.
const ROWS_MAX: usize = 7;

/// The section; empty where the studies published nothing for this workload.
pub(super) fn section(result: &RunResult) -> String {
    let tables = of_workload(&result.run.workload);
    if tables.is_empty() {
        return String::new();
    }
    let mut out = "<h2>Published results</h2>\n".to_owned();
    out.push_str(
        "<p class=\"muted\">Other machines, other years, other settings: compare the shape of the \
            results, not their height. ",
    );
    if result.changed_from_paper.is_empty() {
        out.push_str("The settings are those of the paper preset.");
    } else {
        let _ = write!(
            out,
            "Settings that differ from the published runs: {}.",
            escape(&result.changed_from_paper.join("; "))
        );
    }
    out.push_str("</p>\n<div class=\"charts\">\n");
    for table in &tables {
        match table.layout {
            Layout::Clients => clients(&mut out, table, result),
            Layout::Steps => steps(&mut out, table, result),
            Layout::Rounds => rounds(&mut out, table, result),
            Layout::Measurements => measurements(&mut out, table, result),
        }
    }
    out.push_str("</div>\n");
    out
}

/// One row of a table here: heading, cells, whether it is the new one.
type Line = (String, Vec<Option<f64>>, bool);

fn published(row: &Row) -> Line {
    (
        row.name.clone(),
        (0..row.values.len()).map(|at| row.value(at)).collect(),
        false,
    )
}

fn write_table(
    out: &mut String,
    table: &Table,
    corner: &str,
    columns: &[String],
    lines: &[Line],
    new_column: Option<usize>,
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
        if new_column == Some(at) {
            " class=\"new\""
        } else {
            ""
        }
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

fn this_run(result: &RunResult) -> String {
    format!("this run: {}", result.target.name())
}

/// Configurations by clients; the new metric in the column of its clients.
fn clients(out: &mut String, table: &Table, result: &RunResult) {
    let Some(step) = table.step.as_deref().and_then(|name| find(result, name)) else {
        return;
    };
    let Some(value) = metric::named(&table.metric).and_then(|metric| metric.value(step)) else {
        return;
    };
    let mut columns: Vec<u32> = table
        .columns
        .iter()
        .filter_map(|column| column.parse().ok())
        .collect();
    if !columns.contains(&step.clients) {
        columns.push(step.clients);
        columns.sort_unstable();
    }
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
    let new: Vec<Option<f64>> = columns
        .iter()
        .map(|clients| (*clients == step.clients).then_some(value))
        .collect();
    let mut lines: Vec<Line> = table
        .rows
        .iter()
        .map(|row| (row.name.clone(), place(row), false))
        .collect();
    lines.push((this_run(result), new.clone(), true));
    let names: Vec<String> = columns
        .iter()
        .map(|clients| format!("{clients} cl."))
        .collect();
    let alike = rows_alike(table, result);
    if alike.len() <= ROWS_MAX {
        let mut series = vec![BarSeries {
            name: this_run(result),
            colour: 1,
            values: new,
            intervals: Vec::new(),
        }];
        series.extend(alike.iter().enumerate().map(|(at, row)| BarSeries {
            name: row.name.clone(),
            colour: colour(at + 1),
            values: place(row),
            intervals: Vec::new(),
        }));
        let bars = Bars {
            title: table.title.clone(),
            caption: format!("Published: {}.", table.source),
            x_title: "clients".to_owned(),
            groups: columns.iter().map(u32::to_string).collect(),
            y_title: table.unit.clone(),
            quantity: Quantity::Number,
            series,
            half: false,
        };
        out.push_str(&bars.render());
    }
    write_table(out, table, "configuration", &names, &lines, None);
}

/// The rows that a chart shows: all where they are few, else those with this run's hot rows or pad.
fn rows_alike<'a>(table: &'a Table, result: &RunResult) -> Vec<&'a Row> {
    if table.rows.len() <= ROWS_MAX {
        return table.rows.iter().collect();
    }
    let hot = format!(", {} table", result.settings.hot_rows);
    let pad = format!("{} B pad", result.settings.payload);
    let found: Vec<&Row> = table
        .rows
        .iter()
        .filter(|row| row.name.contains(&hot) || row.name.starts_with(&pad))
        .collect();
    if found.is_empty() {
        table.rows.iter().take(ROWS_MAX).collect()
    } else {
        found
    }
}

/// Steps by engines; the new metrics are a column.
fn steps(out: &mut String, table: &Table, result: &RunResult) {
    let Some(metric) = metric::named(&table.metric) else {
        return;
    };
    let new = |row: &Row| find(result, &row.name).and_then(|step| step_value(metric, step));
    if table.rows.iter().all(|row| new(row).is_none()) {
        return;
    }
    let mut columns = table.columns.clone();
    columns.push(this_run(result));
    let lines: Vec<Line> = table
        .rows
        .iter()
        .map(|row| {
            let (name, mut cells, _) = published(row);
            cells.push(new(row));
            (name, cells, false)
        })
        .collect();
    let at = columns.len() - 1;
    let series = columns.iter().enumerate().map(|(column, name)| BarSeries {
        name: name.clone(),
        colour: if column == at { 1 } else { colour(column + 1) },
        values: lines
            .iter()
            .map(|(_, cells, _)| cells.get(column).copied().flatten())
            .collect(),
        intervals: Vec::new(),
    });
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
    write_table(out, table, "step", &columns, &lines, Some(at));
}

/// Range steps were published as documents returned, so that is compared with them.
fn step_value(metric: &Metric, step: &StepResult) -> Option<f64> {
    if metric.id == "rate" && step.operation == Operation::Range && step.more.rows_returned > 0 {
        return Some(step.more.rows_per_second);
    }
    metric.value(step)
}

/// Rounds: size, bytes per document, write rate, written, seconds, rate.
fn rounds(out: &mut String, table: &Table, result: &RunResult) {
    let new = result
        .steps
        .iter()
        .filter(|step| step.measured && step.operation == Operation::Insert)
        .map(|step| {
            let written = step
                .device
                .as_ref()
                .and_then(|device| device.write_kb_per_op)
                .map(|kb| kb * 1024.0 * step.ops as f64);
            let documents = step.sizes.documents.map_or_else(String::new, |count| {
                format!(" at {}", format::axis(count as f64))
            });
            let size = step
                .sizes
                .directory_bytes
                .map(|bytes| bytes as f64 / 1_073_741_824.0);
            let cells = vec![
                size,
                step.sizes.bytes_per_document,
                written.map(|bytes| bytes / 1_048_576.0 / step.seconds.max(1e-9)),
                written.map(|bytes| bytes / 1_073_741_824.0),
                Some(step.seconds),
                Some(step.rate.sum_of_clients),
            ];
            (
                format!("{}, {}{documents}", this_run(result), step.name),
                cells,
                true,
            )
        });
    let lines: Vec<Line> = new.chain(table.rows.iter().map(published)).collect();
    write_table(out, table, "server", &table.columns, &lines, None);
}

/// Figures of one step by engines; the new ones are a column.
fn measurements(out: &mut String, table: &Table, result: &RunResult) {
    let Some(step) = table.step.as_deref().and_then(|name| find(result, name)) else {
        return;
    };
    let new = |name: &str| {
        let id = match name {
            "Ops/sec" => "rate",
            "micros/op" => "us_per_op",
            "99% Latency" => "latency_us_p99",
            "99.99% Latency" => "latency_us_p9999",
            "Max Latency" => "latency_us_max",
            "DB size (GB)" => "directory_gb",
            "Throughput (MB/s)" => {
                return (step.more.user_bytes > 0)
                    .then(|| step.more.user_bytes as f64 / 1_048_576.0 / step.seconds.max(1e-9));
            }
            _ => return None,
        };
        metric::named(id).and_then(|metric| metric.value(step))
    };
    let mut columns = table.columns.clone();
    columns.push(this_run(result));
    let lines: Vec<Line> = table
        .rows
        .iter()
        .map(|row| {
            let (name, mut cells, _) = published(row);
            cells.push(new(&name));
            let unit = if name.contains("Latency") {
                ", µs"
            } else {
                ""
            };
            (format!("{name}{unit}"), cells, false)
        })
        .collect();
    let at = columns.len() - 1;
    write_table(out, table, "measurement", &columns, &lines, Some(at));
}
