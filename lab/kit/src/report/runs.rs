//! The page of several runs of one workload: bars by clients, metrics absolute and relative to the
//! first, all over time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::axis::Quantity;
use super::bars::{BarSeries, Bars};
use super::by_clients::{self, Configuration};
use super::html::{capital, escape, foot, head};
use super::overlay::{COLOURS, LegendStep, colour, percentiles, throughput};
use super::{published_tables, repeats, settings_that_differ, steps_by_configuration};
use crate::format;
use crate::metric::{self, Metric};
use crate::result::{RunResult, StepResult};

/// Why runs cannot be on one page.
#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    /// None given.
    #[error("no runs to report on")]
    None,
    /// Different work.
    #[error(
        "a page can only show runs of one workload; {first} is of {first_workload}, {other} of \
         {other_workload}"
    )]
    Workloads {
        /// A run.
        first: String,
        /// Its workload.
        first_workload: String,
        /// Another run.
        other: String,
        /// Its workload.
        other_workload: String,
    },
}

/// Figures of the tables, as the studies print them: rate, cost of an operation, latency, size.
const METRICS: [&str; 9] = [
    "rate",
    "latency_us_p50",
    "latency_us_p99",
    "server_cpu_us_per_op",
    "server_switches_per_op",
    "device_reads_per_op",
    "server_write_kb_per_op",
    "bytes_per_document",
    "stalled_s",
];

/// The page.
///
/// # Errors
/// No runs, or runs of different workloads.
pub fn runs_page(runs: &[RunResult]) -> Result<String, RunsError> {
    let first = runs.first().ok_or(RunsError::None)?;
    if let Some(other) = runs
        .iter()
        .find(|run| run.run.workload != first.run.workload)
    {
        return Err(RunsError::Workloads {
            first: first.run.id.clone(),
            first_workload: first.run.workload.clone(),
            other: other.run.id.clone(),
            other_workload: other.run.workload.clone(),
        });
    }
    let usable = usable_runs(runs);
    let first = usable.first().unwrap_or(first);
    let groups = group(&usable);
    let mut out = head(&format!("{}: {} runs", first.run.title, runs.len()));
    let _ = writeln!(
        out,
        "<div class=\"eyebrow\"><span>quarry-lab</span><span>workload {}</span><span>{} \
            runs</span></div>\n<h1>{}</h1>\n<p class=\"muted\">{} {}</p>",
        escape(&first.run.workload),
        runs.len(),
        escape(&first.run.title),
        escape(&first.run.about),
        escape(&first.run.source)
    );
    let durability = durability_that_differs(&groups);
    super::notes::write_warnings_of_runs(&mut out, runs, durability);
    out.push_str(&super::replay::side_by_side(runs));
    let steps: Vec<&StepResult> = first.steps.iter().filter(|step| step.measured).collect();
    out.push_str(&steps_by_configuration::section(&steps, &groups));
    for step in steps {
        write_step(&mut out, step, &groups);
    }
    out.push_str(&published_tables::section_of_configurations(&groups));
    if groups.iter().any(|group| group.name != group.full_name) {
        out.push_str("<h2>Configurations</h2>\n<div class=\"card\"><table><tbody>\n");
        for group in &groups {
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                escape(&group.name),
                escape(&group.full_name)
            );
        }
        out.push_str("</tbody></table></div>\n");
    }
    out.push_str(&settings_that_differ::section(&groups));
    out.push_str("<h2>Runs</h2>\n<div class=\"card\"><table><tbody>\n");
    for run in runs {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td><code>{}</code></td></tr>",
            escape(&run.run.id),
            escape(&run.run.command_line)
        );
    }
    out.push_str("</tbody></table></div>\n");
    out.push_str(&foot(
        "Each run's folder holds its own page and all numbers.",
    ));
    Ok(out)
}

/// The runs whose numbers are on the page: complete and right ones, if there are any. The page says
/// what became of the others.
fn usable_runs(runs: &[RunResult]) -> Vec<RunResult> {
    let is_usable = |run: &&RunResult| {
        run.run.complete && run.checks.iter().all(|check| check.passed != Some(false))
    };
    let usable: Vec<RunResult> = runs.iter().filter(is_usable).cloned().collect();
    if usable.is_empty() {
        runs.to_vec()
    } else {
        usable
    }
}

/// A configuration and its number of runs.
fn row_head(out: &mut String, name: &str, runs: &[&RunResult]) {
    let _ = write!(
        out,
        "<tr><th scope=\"row\">{}</th><td>{}</td>",
        escape(name),
        runs.len()
    );
}

/// Says so when some targets flush a write before they acknowledge it and others do not.
fn durability_that_differs(groups: &[Configuration<'_>]) -> Option<String> {
    let of = |wanted: bool| {
        let first = |group: &&Configuration<'_>| {
            let run = group.runs.first();
            run.is_some_and(|run| run.target.is_flushed == Some(wanted))
        };
        let names = groups.iter().filter(first);
        let names: Vec<&str> = names.map(|group| group.name.as_str()).collect();
        (!names.is_empty()).then(|| names.join("; "))
    };
    let (flushed, later) = (of(true)?, of(false)?);
    Some(format!(
        "Durability differs: {flushed}: a write is on the device when it is acknowledged; {later}: \
            it is not. Rates and latencies of writes do not compare; --journal true, or \
            durability=sync of --own innodb and of engines, makes them equal."
    ))
}

/// Groups runs by target and by the settings, other than clients, in which they differ.
fn group(runs: &[RunResult]) -> Vec<Configuration<'_>> {
    let settings: Vec<serde_json::Map<String, serde_json::Value>> = runs
        .iter()
        .map(|run| {
            let settings = serde_json::to_value(&run.settings).ok();
            let mut out = settings
                .and_then(|value| value.as_object().cloned())
                .unwrap_or_default();
            let labels = run.run.labels.clone();
            let named = run.configuration().into_iter().chain(labels);
            out.extend(named.map(|(name, value)| (name, value.into())));
            out
        })
        .collect();
    let differs = |name: &str| {
        settings
            .iter()
            .any(|map| map.get(name) != settings.first().and_then(|first| first.get(name)))
    };
    // Where tables follow the clients they say nothing of their own.
    let names: BTreeSet<&String> = settings.iter().flat_map(|map| map.keys()).collect();
    let varied: Vec<String> = names
        .into_iter()
        .filter(|name| !["clients", "preset"].contains(&name.as_str()) && differs(name))
        .cloned()
        .collect();
    let mut out: Vec<Configuration<'_>> = Vec::new();
    for (run, map) in runs.iter().zip(&settings) {
        let mut name = run.target.name();
        if let Some(engine) = &run.target.storage_engine {
            let _ = write!(name, " ({engine})");
        }
        for key in &varied {
            let value = map.get(key).map_or_else(String::new, ToString::to_string);
            let _ = write!(
                name,
                ", {} {}",
                key.replace('_', " "),
                value.trim_matches('"')
            );
        }
        match out.iter_mut().find(|group| group.full_name == name) {
            Some(group) => group.runs.push(run),
            None => out.push(Configuration {
                name: name.clone(),
                full_name: name,
                colour: colour(out.len()),
                runs: vec![run],
            }),
        }
    }
    let full: Vec<String> = out.iter().map(|group| group.full_name.clone()).collect();
    for (group, short) in out.iter_mut().zip(steps_by_configuration::shorten(&full)) {
        group.name = short;
    }
    out
}

fn value(runs: &[&RunResult], step: &str, metric: &Metric) -> Option<f64> {
    by_clients::mean_of(runs.iter().copied(), step, metric)
}

/// The runs of each configuration at one number of clients.
type Cells<'a> = Vec<Vec<&'a RunResult>>;

fn write_step(out: &mut String, step: &StepResult, groups: &[Configuration<'_>]) {
    let by_clients = cells_by_clients(step, groups);
    let _ = writeln!(
        out,
        "<h2>Step {}</h2>\n<div class=\"charts\">",
        escape(&step.name)
    );
    write_bars(out, step, groups, &by_clients);
    write_lines(out, step, groups, &by_clients);
    out.push_str("</div>\n");
    by_clients::write(out, step, groups);
    for (clients, cells) in &by_clients {
        write_tables(out, step, *clients, cells, groups);
        repeats::write(out, step, *clients, cells, groups);
    }
}

fn cells_by_clients<'a>(
    step: &StepResult,
    groups: &[Configuration<'a>],
) -> BTreeMap<u32, Cells<'a>> {
    let mut out: BTreeMap<u32, Cells<'a>> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        for run in &group.runs {
            // Some steps set their own number of clients.
            let clients = run
                .steps
                .iter()
                .find(|other| other.name == step.name)
                .map_or(run.settings.clients, |step| step.clients);
            let columns = out
                .entry(clients)
                .or_insert_with(|| vec![Vec::new(); groups.len()]);
            if let Some(cell) = columns.get_mut(at) {
                cell.push(run);
            }
        }
    }
    out
}

fn write_bars(
    out: &mut String,
    step: &StepResult,
    groups: &[Configuration<'_>],
    by_clients: &BTreeMap<u32, Cells<'_>>,
) {
    for (id, quantity) in [
        ("rate", Quantity::Number),
        ("latency_us_p99", Quantity::LatencyUs),
        ("server_cpu_us_per_op", Quantity::LatencyUs),
    ] {
        let Some(metric) = metric::find(id) else {
            continue;
        };
        let series = groups.iter().enumerate().map(|(at, group)| BarSeries {
            name: group.name.clone(),
            colour: group.colour,
            values: by_clients
                .values()
                .map(|cells| value(cells.get(at)?, &step.name, metric))
                .collect(),
            intervals: by_clients
                .values()
                .map(|cells| {
                    by_clients::interval_of(cells.get(at)?.iter().copied(), &step.name, metric)
                })
                .collect(),
        });
        let bars = Bars {
            title: format!("{} by clients", capital(metric.name)),
            caption: by_clients::REPEATS.to_owned(),
            x_title: "clients".to_owned(),
            groups: by_clients.keys().map(u32::to_string).collect(),
            y_title: metric.unit_for(&step.unit),
            quantity,
            series: series.collect(),
            half: id != "rate",
        };
        out.push_str(&bars.render());
    }
}

/// Throughput over time and percentiles, of as many runs as there are colours.
fn write_lines(
    out: &mut String,
    step: &StepResult,
    groups: &[Configuration<'_>],
    by_clients: &BTreeMap<u32, Cells<'_>>,
) {
    // There are not enough colours for all runs: the runs with most clients represent their
    // configurations.
    let all: usize = by_clients.values().flatten().map(Vec::len).sum();
    let drawn: Vec<u32> = if all > COLOURS {
        by_clients.keys().next_back().copied().into_iter().collect()
    } else {
        by_clients.keys().copied().collect()
    };
    let mut named = Vec::new();
    let mut merged: Vec<(String, u8, Vec<&StepResult>)> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for (clients, cells) in by_clients
            .iter()
            .filter(|(clients, _)| drawn.contains(clients))
        {
            let runs: Vec<&StepResult> = cells
                .get(at)
                .into_iter()
                .flatten()
                .filter_map(|run| run.steps.iter().find(|other| other.name == step.name))
                .collect();
            let name = if by_clients.len() > 1 {
                let plural = if *clients == 1 { "client" } else { "clients" };
                format!("{}, {clients} {plural}", group.name)
            } else {
                group.name.clone()
            };
            for (number, run) in runs.iter().enumerate() {
                let repeat = if runs.len() > 1 {
                    format!(", run {}", number + 1)
                } else {
                    String::new()
                };
                named.push(LegendStep {
                    name: format!("{name}{repeat}"),
                    colour: colour(named.len()),
                    step: run,
                });
            }
            if !runs.is_empty() {
                merged.push((name, colour(merged.len()), runs));
            }
        }
    }
    named.truncate(COLOURS);
    merged.truncate(COLOURS);
    if named.len() < all {
        let of = drawn
            .first()
            .filter(|_| drawn.len() < by_clients.len())
            .map_or_else(String::new, |clients| {
                format!(", those with {clients} clients")
            });
        let _ = writeln!(
            out,
            "<p class=\"muted part\">Over time: {} of {all} runs{of}. The others have pages of \
                their own.</p>",
            named.len()
        );
    }
    if named.iter().any(|one| !one.step.series.is_empty()) {
        out.push_str(&throughput(&named, &step.unit));
        out.push_str(&percentiles(&merged).render());
    }
}

/// Configurations by metrics: absolute, then relative to the first.
fn write_tables(
    out: &mut String,
    step: &StepResult,
    clients: u32,
    cells: &[Vec<&RunResult>],
    groups: &[Configuration<'_>],
) {
    let metrics: Vec<&Metric> = METRICS.iter().filter_map(|id| metric::find(id)).collect();
    let rows: Vec<(&str, &Vec<&RunResult>)> = groups
        .iter()
        .zip(cells)
        .filter(|(_, runs)| !runs.is_empty())
        .map(|(group, runs)| (group.name.as_str(), runs))
        .collect();
    let head = |out: &mut String, title: &str| {
        let _ = write!(
            out,
            "<div class=\"card scroll\"><h3>{title}</h3><table class=\"right steps\">\
                <thead><tr><th \
                scope=\"col\">configuration</th><th scope=\"col\">n</th>"
        );
        for metric in &metrics {
            let unit = metric.unit_for(&step.unit);
            let unit = if unit.is_empty() {
                unit
            } else {
                format!(", {unit}")
            };
            let _ = write!(
                out,
                "<th scope=\"col\">{}{}</th>",
                escape(metric.name),
                escape(&unit)
            );
        }
        out.push_str("</tr></thead><tbody>\n");
    };
    let plural = if clients == 1 { "client" } else { "clients" };
    head(
        out,
        &format!("Step {}, {clients} {plural}", escape(&step.name)),
    );
    for (name, runs) in &rows {
        row_head(out, name, runs);
        for metric in &metrics {
            let value = value(runs, &step.name, metric);
            let _ = write!(
                out,
                "<td>{}</td>",
                value.map_or_else(|| "–".to_owned(), format::number)
            );
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    let Some((_, base)) = rows.first() else {
        return;
    };
    if rows.len() < 2 {
        return;
    }
    head(
        out,
        "Relative to the first; marked from 5 % on, where repeats give an interval without 1",
    );
    for (name, runs) in &rows {
        row_head(out, name, runs);
        for metric in &metrics {
            let of = |runs: &[&RunResult]| {
                by_clients::values_of(runs.iter().copied(), &step.name, metric)
            };
            out.push_str(&by_clients::ratio_cell(&of(runs), &of(base), metric));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}
