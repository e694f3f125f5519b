//! The tiles on top of a run's page: the numbers that decide.

use std::fmt::Write;

use super::html::escape;
use crate::format;
use crate::result::{RunResult, StepResult};

struct Tile {
    label: String,
    value: String,
    unit: String,
    sub: String,
    class: &'static str,
}

/// The numbers that decide.
pub(super) fn write_tiles(out: &mut String, result: &RunResult, step: &StepResult) {
    for tile in tiles(result, step) {
        write_tile(out, &tile);
    }
}

fn write_tile(out: &mut String, tile: &Tile) {
    let _ = writeln!(
        out,
        "<div class=\"tile {}\"><div class=\"label\">{}</div><div class=\"value\">{} \
            <small>{}</small></div><div class=\"sub\">{}</div></div>",
        tile.class,
        escape(&tile.label),
        escape(&tile.value),
        escape(&tile.unit),
        escape(&tile.sub)
    );
}

/// A row for each of several measured steps, since no single step represents the run, and the
/// check.
pub(super) fn write_steps(out: &mut String, result: &RunResult, steps: &[&StepResult]) {
    let is_inside = result.is_inside();
    let (server, lab) = if is_inside {
        ("CPU, engine and lab, µs/op", None)
    } else {
        ("server CPU, µs/op", Some("lab CPU, µs/op"))
    };
    out.push_str("<div class=\"card scroll\"><table class=\"right steps\"><thead><tr>");
    let heads = [
        "step",
        "per second",
        "of what",
        "p50",
        "p99",
        "longest",
        "stalled",
    ];
    for head in heads.into_iter().chain([server]).chain(lab) {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for step in steps {
        let at = |wanted: f64| {
            let found = step.latency.percentile(wanted);
            found.map_or_else(|| "–".to_owned(), format::latency_us)
        };
        let cost = step.server.as_ref();
        let cpu = cost.and_then(|cost| cost.cpu_us_per_op);
        let mut cells = vec![
            format::number(step.rate.average),
            step.unit.clone(),
            at(50.0),
            at(99.0),
            format::latency_us(step.latency.max_us),
            format::seconds(step.stalls.seconds_below_10_percent),
            format::with_error(cpu, cost.and_then(|cost| cost.cpu_us_per_op_error)),
        ];
        if !is_inside {
            let client = &step.client;
            let own = format::with_error(client.cpu_us_per_op, client.cpu_us_per_op_error);
            cells.push(own);
        }
        let cells: String = cells
            .iter()
            .map(|cell| format!("<td>{}</td>", escape(cell)))
            .collect();
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th>{cells}</tr>",
            escape(&step.name)
        );
    }
    out.push_str("</tbody></table></div>\n<div class=\"tiles\">\n");
    write_tile(out, &check_tile(result));
    out.push_str("</div>\n");
}

fn tiles(result: &RunResult, step: &StepResult) -> Vec<Tile> {
    let mut out = vec![throughput_tile(step), latency_tile(step)];
    out.extend(server_tiles(result, step));
    if !result.is_inside() {
        out.push(lab_tile(step));
    }
    out.push(stall_tile(step));
    out.extend(storage_tile(step));
    out.push(check_tile(result));
    out
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), format::number)
}

fn throughput_tile(step: &StepResult) -> Tile {
    Tile {
        label: "Average throughput".to_owned(),
        value: format::number(step.rate.average),
        unit: format!("{}/s", step.unit),
        sub: format!(
            "median {}, lowest {}",
            format::number(step.rate.median),
            format::number(step.rate.min)
        ),
        class: "",
    }
}

fn latency_tile(step: &StepResult) -> Tile {
    let latency = |wanted: f64| {
        let found = step
            .latency
            .percentiles_us
            .iter()
            .find(|(percentile, _)| *percentile == wanted);
        found.map_or_else(|| "–".to_owned(), |(_, us)| format::latency_us(*us))
    };
    let p99 = latency(99.0);
    let (value, unit) = p99.split_once(' ').unwrap_or((&p99, ""));
    Tile {
        label: "Latency of a call, p99".to_owned(),
        value: value.to_owned(),
        unit: unit.to_owned(),
        sub: format!(
            "median {}, longest {}",
            latency(50.0),
            format::latency_us(step.latency.max_us)
        ),
        class: "",
    }
}

fn server_tiles(result: &RunResult, step: &StepResult) -> Vec<Tile> {
    let one = step.operation.unit_one();
    let is_inside = result.is_inside();
    let Some(server) = &step.server else {
        let reason = result.target.not_watched_because.clone();
        return vec![Tile {
            label: format!("Server CPU per {one}"),
            value: "–".to_owned(),
            unit: String::new(),
            sub: reason.unwrap_or_else(|| "not seen".to_owned()),
            class: "",
        }];
    };
    vec![
        Tile {
            label: if is_inside {
                format!("CPU per {one}, engine and lab together")
            } else {
                format!("Server CPU per {one}")
            },
            value: format::with_error(server.cpu_us_per_op, server.cpu_us_per_op_error),
            unit: "µs".to_owned(),
            sub: match step.more.lab_cpu_us_per_op.filter(|_| is_inside) {
                Some(own) => format!(
                    "{} CPUs busy; about {} µs of it are the lab's own",
                    format::number(server.cpu_cores),
                    format::number(own)
                ),
                None => format!(
                    "{} CPUs busy, {} switches per {one}",
                    format::number(server.cpu_cores),
                    optional(server.switches_per_op)
                ),
            },
            class: "",
        },
        Tile {
            label: if is_inside {
                format!("Writes per {one}")
            } else {
                format!("Server writes per {one}")
            },
            value: optional(server.write_kb_per_op),
            unit: "KB".to_owned(),
            sub: format!("{} KB read", optional(server.read_kb_per_op)),
            class: "",
        },
    ]
}

fn lab_tile(step: &StepResult) -> Tile {
    Tile {
        label: format!("Lab CPU per {}", step.operation.unit_one()),
        value: format::with_error(step.client.cpu_us_per_op, step.client.cpu_us_per_op_error),
        unit: "µs".to_owned(),
        sub: format!(
            "{} CPUs busy on the lab's side",
            format::number(step.client.cpu_cores)
        ),
        class: "",
    }
}

fn stall_tile(step: &StepResult) -> Tile {
    let stalled = step.stalls.seconds_below_10_percent;
    Tile {
        label: "Stalled".to_owned(),
        value: format::number(stalled),
        unit: "s".to_owned(),
        sub: format!(
            "below 10 % of the median; below half: {}",
            format::seconds(step.stalls.seconds_below_50_percent)
        ),
        class: if stalled > 0.0 { "bad" } else { "" },
    }
}

fn storage_tile(step: &StepResult) -> Option<Tile> {
    let documents = step.sizes.documents.map_or_else(String::new, |count| {
        format!("{} documents", format::count(count))
    });
    step.sizes.bytes_per_document.map(|bytes| Tile {
        label: "Stored per document".to_owned(),
        value: format::number(bytes),
        unit: "bytes".to_owned(),
        sub: documents,
        class: "",
    })
}

fn check_tile(result: &RunResult) -> Tile {
    let wrong = result
        .checks
        .iter()
        .find(|check| check.passed == Some(false));
    let asked = result
        .checks
        .iter()
        .filter(|check| check.passed.is_some())
        .count();
    let (value, sub, class) = match (wrong, asked) {
        (Some(check), _) => (
            "wrong".to_owned(),
            format!("expected {}, found {}", check.expected, check.found),
            "bad",
        ),
        (None, 0) => (
            "not checked".to_owned(),
            "see the checks below".to_owned(),
            "",
        ),
        (None, 1) => (
            "right".to_owned(),
            "counted what was acknowledged".to_owned(),
            "good",
        ),
        (None, count) => ("right".to_owned(), format!("{count} checks passed"), "good"),
    };
    Tile {
        label: "Work done".to_owned(),
        value,
        unit: String::new(),
        sub,
        class,
    }
}
