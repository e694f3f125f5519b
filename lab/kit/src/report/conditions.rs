//! The conditions of a run: all steps, settings, server, machine, checks, command line.

use std::fmt::Write;

use super::html::{escape, row, write_card};
use crate::format;
use crate::result::RunResult;

/// Everything else: steps, checks, settings, machine, server, command.
pub(super) fn write_run(out: &mut String, result: &RunResult) {
    write_steps(out, result);
    out.push_str("<h2>Conditions</h2>\n<div class=\"columns\">\n");
    let settings = &result.settings;
    let mut rows = vec![
        row("rows", format::count(settings.rows)),
        row("clients", settings.clients.to_string()),
        row("batch", settings.batch.to_string()),
        row(
            "seconds",
            settings.seconds.map_or_else(
                || "until all rows are stored".to_owned(),
                |seconds| seconds.to_string(),
            ),
        ),
        row("warm-up seconds", settings.warmup_seconds.to_string()),
        row("secondary indexes", settings.indexes.to_string()),
        row(
            "pacing",
            match (settings.rate, result.main_step()) {
                (Some(rate), _) => format!("open loop, {rate}/s"),
                (None, Some(step)) if step.pacing == "open" => {
                    "open loop, at the rate of the workload".to_owned()
                }
                (None, _) => "closed loop".to_owned(),
            },
        ),
        row("write concern", result.target.write_concern.clone()),
        row("seed", result.run.seed.to_string()),
    ];
    if let Some(own) = super::replay::settings(result) {
        rows = own;
    }
    if let Some(limit) = &result.memory_limit {
        let mut text = format!(
            "{} by {}: {}",
            format::bytes(limit.bytes as f64),
            limit.how,
            limit.remark
        );
        if let Some(most) = limit.bytes_max {
            let _ = write!(text, "; most held {}", format::bytes(most as f64));
        }
        if let Some(cache) = limit.cache_bytes {
            let _ = write!(
                text,
                ", page cache of that at the end {}",
                format::bytes(cache as f64)
            );
        }
        rows.push(row("memory for the target", text));
    }
    let changed = &result.changed_from_paper;
    rows.push(row(
        "not as in the paper preset",
        if changed.is_empty() {
            "nothing".to_owned()
        } else {
            changed.join("; ")
        },
    ));
    write_card(out, "Settings", "", &rows);
    write_card(out, "Server", "", &server_rows(result));
    write_card(out, "Machine", "", &machine_rows(result));
    let checks: Vec<(String, String)> = result.checks.iter().map(check_row).collect();
    write_card(out, "Checks", "", &checks);
    out.push_str("</div>\n");
    let _ = writeln!(
        out,
        "<h2>Command</h2>\n<div class=\"card\"><pre>{}</pre></div>",
        escape(&result.run.command_line)
    );
}

fn check_row(check: &crate::result::Check) -> (String, String) {
    let verdict = match check.passed {
        Some(true) => "right",
        Some(false) => "WRONG",
        None => "not checked",
    };
    let mut text = format!(
        "{verdict}: expected {}, found {}",
        check.expected, check.found
    );
    if !check.remark.is_empty() {
        let _ = write!(text, " ({})", check.remark);
    }
    row(check.name.clone(), text)
}

fn write_steps(out: &mut String, result: &RunResult) {
    out.push_str(
        "<h2>All steps</h2>\n<div class=\"card\"><table \
            class=\"right\"><thead><tr><th>step</th><th>operations</th><th>seconds</th>\
         <th>per second</th><th>p50</th><th>p99</th><th>longest</th><th>server CPU</th><th>lab \
         CPU</th><th>data</th><th>errors</th></tr></thead><tbody>\n",
    );
    for step in &result.steps {
        let at = |wanted: f64| {
            let found = step
                .latency
                .percentiles_us
                .iter()
                .find(|(percentile, _)| *percentile == wanted);
            found.map_or_else(|| "–".to_owned(), |(_, us)| format::latency_us(*us))
        };
        let us = |value: Option<f64>| {
            value.map_or_else(
                || "–".to_owned(),
                |value| format!("{} µs", format::number(value)),
            )
        };
        let stored = step
            .sizes
            .storage_bytes
            .map(|bytes| bytes + step.sizes.index_bytes.unwrap_or(0));
        let cells = [
            format!("{} {}", format::count(step.ops), step.unit),
            format::number(step.seconds),
            format::number(step.rate.average),
            at(50.0),
            at(99.0),
            format::latency_us(step.latency.max_us),
            us(step.server.as_ref().and_then(|server| server.cpu_us_per_op)),
            us(step.client.cpu_us_per_op),
            stored.map_or_else(|| "–".to_owned(), |bytes| format::bytes(bytes as f64)),
            step.errors.values().sum::<u64>().to_string(),
        ];
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
    out.push_str("</tbody></table>\n");
    for step in &result.steps {
        for (kind, count) in &step.errors {
            let _ = writeln!(
                out,
                "<p class=\"muted\">Step {}: {} × {}</p>",
                escape(&step.name),
                format::count(*count),
                escape(kind)
            );
        }
    }
    out.push_str("</div>\n");
}

fn server_rows(result: &RunResult) -> Vec<(String, String)> {
    let target = &result.target;
    let mut rows = vec![
        row("target", target.uri.clone()),
        row("product", target.product.clone()),
        row("version", target.version.clone()),
    ];
    let mut optional =
        |name: &str, value: Option<String>| rows.extend(value.map(|value| row(name, value)));
    optional("storage engine", target.storage_engine.clone());
    optional("process", target.pid.map(|pid| pid.to_string()));
    optional("process not watched", target.not_watched_because.clone());
    optional("watched", target.watched.clone());
    optional("data directory", target.data_directory.clone());
    optional("device", target.device.clone());
    if let Some(step) = result.steps.last() {
        optional("documents", step.sizes.documents.map(format::count));
        optional(
            "BSON size",
            step.sizes
                .data_bytes
                .map(|bytes| format::bytes(bytes as f64)),
        );
        optional(
            "records on storage",
            step.sizes
                .storage_bytes
                .map(|bytes| format::bytes(bytes as f64)),
        );
        optional(
            "indexes on storage",
            step.sizes
                .index_bytes
                .map(|bytes| format::bytes(bytes as f64)),
        );
        optional(
            "data directory size",
            step.sizes
                .directory_bytes
                .map(|bytes| format::bytes(bytes as f64)),
        );
    }
    rows
}

fn machine_rows(result: &RunResult) -> Vec<(String, String)> {
    let machine = &result.environment;
    let load: Vec<String> = machine
        .load_average
        .iter()
        .map(|load| format!("{load:.2}"))
        .collect();
    let mut rows = vec![
        row("CPU", machine.cpu_model.clone()),
        row("CPUs", machine.cpus.to_string()),
        row(
            "memory",
            format!(
                "{}, {} available",
                format::bytes(machine.memory_bytes as f64),
                format::bytes(machine.memory_available_bytes as f64)
            ),
        ),
        row("swap in use", format::bytes(machine.swap_used_bytes as f64)),
        row("load before", load.join(", ")),
        row("kernel", machine.kernel.clone()),
        row("file system", machine.filesystem.clone()),
        row(
            "lab",
            format!(
                "{} build, version {}",
                machine.lab_profile, machine.lab_version
            ),
        ),
        row("driver", machine.driver.clone()),
    ];
    let mut optional =
        |name: &str, value: Option<String>| rows.extend(value.map(|value| row(name, value)));
    optional(
        "memory limit",
        machine
            .memory_limit_bytes
            .map(|bytes| format::bytes(bytes as f64)),
    );
    optional("frequency governor", machine.cpu_governor.clone());
    optional("huge pages", machine.huge_pages.clone());
    optional(
        "read-ahead",
        machine.read_ahead_kb.map(|kb| format!("{kb} KB")),
    );
    rows
}
