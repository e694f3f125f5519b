//! The numbers of the page: tiles on top, tables below.

use std::fmt::Write;

use super::escape;
use crate::format;
use crate::result::{BUCKET_BOUNDS_US, LatencySummary, RunResult, StepResult};

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
}

fn tiles(result: &RunResult, step: &StepResult) -> Vec<Tile> {
    let one = step.part.unit_one();
    let percentile = |wanted: f64| {
        step.latency
            .percentiles_us
            .iter()
            .find(|(percentile, _)| *percentile == wanted)
            .map(|(_, us)| *us)
    };
    let latency =
        |wanted: f64| percentile(wanted).map_or_else(|| "–".to_owned(), format::latency_us);
    let optional = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), format::number);
    let p99 = latency(99.0);
    let (p99, p99_unit) = p99.split_once(' ').unwrap_or((&p99, ""));
    let mut out = vec![
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
        },
        Tile {
            label: "Latency of a call, p99".to_owned(),
            value: p99.to_owned(),
            unit: p99_unit.to_owned(),
            sub: format!(
                "median {}, longest {}",
                latency(50.0),
                format::latency_us(step.latency.max_us)
            ),
            class: "",
        },
    ];
    match &step.server {
        Some(server) => {
            let cpu = format!(
                "{} CPUs busy, {} switches per {one}",
                format::number(server.cpu_cores),
                optional(server.switches_per_op)
            );
            out.push(Tile {
                label: format!("Server CPU per {one}"),
                value: optional(server.cpu_us_per_op),
                unit: "µs".to_owned(),
                sub: cpu,
                class: "",
            });
            let read = format!("{} KB read", optional(server.read_kb_per_op));
            out.push(Tile {
                label: format!("Server writes per {one}"),
                value: optional(server.write_kb_per_op),
                unit: "KB".to_owned(),
                sub: read,
                class: "",
            });
        }
        None => {
            let reason = result
                .target
                .not_watched_because
                .clone()
                .unwrap_or_else(|| "not seen".to_owned());
            out.push(Tile {
                label: format!("Server CPU per {one}"),
                value: "–".to_owned(),
                unit: String::new(),
                sub: reason,
                class: "",
            });
        }
    }
    let lab = format!(
        "{} CPUs busy on the lab's side",
        format::number(step.client.cpu_cores)
    );
    out.push(Tile {
        label: format!("Lab CPU per {one}"),
        value: optional(step.client.cpu_us_per_op),
        unit: "µs".to_owned(),
        sub: lab,
        class: "",
    });
    let stalled = step.stalls.seconds_below_10_percent;
    out.push(Tile {
        label: "Stalled".to_owned(),
        value: format::number(stalled),
        unit: "s".to_owned(),
        sub: format!(
            "below 10 % of the median; below half: {}",
            format::seconds(step.stalls.seconds_below_50_percent)
        ),
        class: if stalled > 0.0 { "bad" } else { "" },
    });
    if let Some(bytes) = step.sizes.bytes_per_document {
        let documents = step.sizes.documents.map_or_else(String::new, |count| {
            format!("{} documents", format::count(count))
        });
        out.push(Tile {
            label: "Stored per document".to_owned(),
            value: format::number(bytes),
            unit: "bytes".to_owned(),
            sub: documents,
            class: "",
        });
    }
    out.push(check_tile(result));
    out
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

/// Warnings and failed checks, before anyone reads a chart.
pub(super) fn write_warnings(out: &mut String, result: &RunResult) {
    let failed = result
        .checks
        .iter()
        .filter(|check| check.passed == Some(false));
    let failed: Vec<String> = failed
        .map(|check| {
            format!(
                "Check failed: {}. Expected {}, found {}.",
                check.name, check.expected, check.found
            )
        })
        .collect();
    if failed.is_empty() && result.warnings.is_empty() {
        return;
    }
    out.push_str("<ul class=\"notes\" aria-label=\"Warnings\">\n");
    for text in failed {
        let _ = writeln!(out, "<li class=\"bad\">{}</li>", escape(&text));
    }
    for warning in &result.warnings {
        let _ = writeln!(out, "<li>{}</li>", escape(&warning.text));
    }
    out.push_str("</ul>\n");
}

/// A card with rows of name and value.
pub(super) fn write_card(out: &mut String, title: &str, class: &str, rows: &[(String, String)]) {
    let _ = writeln!(
        out,
        "<div class=\"card\"><h3>{}</h3><table class=\"{class}\"><tbody>",
        escape(title)
    );
    for (name, value) in rows {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

pub(super) fn row(name: impl Into<String>, value: impl Into<String>) -> (String, String) {
    (name.into(), value.into())
}

/// Percentiles, buckets, evenness and cost of one step.
pub(super) fn write_step(out: &mut String, step: &StepResult) {
    let _ = writeln!(
        out,
        "<h2>Step {} in numbers</h2>\n<div class=\"columns\">",
        escape(&step.name)
    );
    let latency = &step.latency;
    let mut rows = vec![row("mean", format::latency_us(latency.mean_us))];
    if let Some(cut) = latency.mean_cut_to_ms_us.filter(|_| latency.calls > 0) {
        rows.push(row("mean of whole milliseconds", format::latency_us(cut)));
    }
    rows.extend(
        latency
            .percentiles_us
            .iter()
            .map(|(percentile, us)| row(format!("{percentile} %"), format::latency_us(*us))),
    );
    rows.push(row("longest", format::latency_us(latency.max_us)));
    write_card(out, "Latency of a call", "right", &rows);
    write_buckets(out, step);
    write_card(out, "Evenness", "right", &evenness(step));
    write_card(
        out,
        &format!("Cost per {}", step.part.unit_one()),
        "right",
        &costs(step),
    );
    write_more(out, step);
    super::resources::write(out, step);
    out.push_str("</div>\n");
}

/// Work beside the measured one, latency from sending, and the parts of a mix.
fn write_more(out: &mut String, step: &StepResult) {
    let latency = |latency: &LatencySummary| {
        let percentiles = latency
            .percentiles_us
            .iter()
            .filter(|(percentile, _)| [50.0, 95.0, 99.0].contains(percentile));
        let mut rows: Vec<(String, String)> = percentiles
            .map(|(percentile, us)| row(format!("{percentile} %"), format::latency_us(*us)))
            .collect();
        rows.push(row("longest", format::latency_us(latency.max_us)));
        rows
    };
    if let Some(service) = &step.more.service {
        write_card(
            out,
            "Latency from sending, not from the intended start",
            "right",
            &latency(service),
        );
    }
    // A replay has a table of its own for them.
    for (part, of_part) in step
        .more
        .by_part
        .iter()
        .filter(|_| step.more.replay.is_none())
    {
        write_card(
            out,
            &format!("Latency of {part}"),
            "right",
            &latency(of_part),
        );
    }
    for role in &step.more.beside {
        let mut rows = vec![row(
            "rate",
            format!("{} {}/s", format::number(role.rate.average), role.unit),
        )];
        rows.extend(
            role.target_rate
                .map(|rate| row("asked for", format!("{}/s", format::number(rate)))),
        );
        rows.extend(role.seconds_at_target_percent.map(|percent| {
            row(
                "seconds at 95 % of that",
                format!("{} %", format::number(percent)),
            )
        }));
        rows.extend(
            role.sla_met
                .map(|met| row("95 % reached on average", if met { "yes" } else { "no" })),
        );
        rows.extend(latency(&role.latency));
        write_card(
            out,
            &format!("Beside it: {} by {} clients", role.part, role.clients),
            "right",
            &rows,
        );
    }
    if step.more.rows_returned > 0 {
        let returned = format!(
            "{} in all, {} per second",
            format::count(step.more.rows_returned),
            format::number(step.more.rows_per_second)
        );
        write_card(out, "Documents returned", "", &[row("by reads", returned)]);
    }
}

fn write_buckets(out: &mut String, step: &StepResult) {
    out.push_str(
        "<div class=\"card\"><h3>Response times</h3><table><thead><tr><th>up to</th><th \
        colspan=\"2\">share of calls</th></tr></thead><tbody>\n",
    );
    let names = BUCKET_BOUNDS_US.iter().map(|us| {
        format::latency_us(*us as f64)
            .replace(".00 ", " ")
            .replace(".0 ", " ")
    });
    for (name, percent) in names
        .chain(["more".to_owned()])
        .zip(&step.latency.bucket_percent)
    {
        let text = if *percent > 0.0 && *percent < 0.01 {
            "< 0.01 %".to_owned()
        } else {
            format!("{percent:.2} %")
        };
        let bar = if *percent > 0.0 {
            format!("<div class=\"bar\" style=\"width:{percent:.2}%\"></div>")
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{text}</td><td class=\"wide\">{bar}</td></tr>",
            escape(&name)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn evenness(step: &StepResult) -> Vec<(String, String)> {
    let (rate, stalls) = (&step.rate, &step.stalls);
    let per_second = |value: f64| format!("{}/s", format::number(value));
    let mut rows = vec![
        row("average", per_second(rate.average)),
        row("sum of client rates", per_second(rate.sum_of_clients)),
        row("median second", per_second(rate.median)),
        row(
            "reached in 95 % of seconds",
            per_second(rate.met_in_95_percent),
        ),
        row(
            "reached in 99 % of seconds",
            per_second(rate.met_in_99_percent),
        ),
        row(
            "slowest, fastest second",
            format!("{}, {}", per_second(rate.min), per_second(rate.max)),
        ),
        row("standard deviation", per_second(rate.stddev)),
        row("variance", format::number(rate.variance)),
    ];
    if let Some(share) = rate.coefficient_of_variation {
        rows.push(row(
            "coefficient of variation",
            format!("{} %", format::number(share * 100.0)),
        ));
    }
    if let Some(share) = rate.quartiles_by_median {
        rows.push(row(
            "quartiles apart, by median",
            format!("{} %", format::number(share * 100.0)),
        ));
    }
    if let Some(slope) = rate.slope_percent_per_doubling {
        rows.push(row(
            "change per doubling",
            format!("{} %", format::number(slope)),
        ));
    }
    rows.push(row(
        "seconds without any",
        format::seconds(stalls.seconds_without_ops),
    ));
    rows.push(row(
        "seconds below half the median",
        format::seconds(stalls.seconds_below_50_percent),
    ));
    rows.push(row(
        "stalls, longest",
        format!(
            "{}, {}",
            stalls.count,
            format::seconds(stalls.longest_seconds)
        ),
    ));
    rows.push(row(
        "clients finished within",
        format::seconds(step.finish.skew_seconds),
    ));
    rows
}

fn costs(step: &StepResult) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut push = |name: &str, value: Option<f64>, unit: &str| {
        if let Some(value) = value {
            rows.push(row(
                name,
                format!("{} {unit}", format::number(value))
                    .trim()
                    .to_owned(),
            ));
        }
    };
    if let Some(server) = &step.server {
        push("server CPU", server.cpu_us_per_op, "µs");
        push("of that in the kernel", server.cpu_system_percent, "%");
        push("server context switches", server.switches_per_op, "");
        push("of these waiting", server.switches_voluntary_per_op, "");
        push("server read from storage", server.read_kb_per_op, "KB");
        push("server wrote to storage", server.write_kb_per_op, "KB");
        push("server write calls", server.write_calls_per_op, "");
    }
    push("lab CPU", step.client.cpu_us_per_op, "µs");
    push(
        "of that without driver and target",
        step.more.lab_cpu_us_per_op,
        "µs",
    );
    if let Some(device) = &step.device {
        push("device reads", device.reads_per_op, "");
        push("device read", device.read_kb_per_op, "KB");
        push("device wrote", device.write_kb_per_op, "KB");
    }
    push(
        "machine CPU, old form",
        step.host.busy_percent_per_op_millionths,
        "%·10⁻⁶",
    );
    rows.push(row(
        "machine busy, stolen, waiting",
        format!(
            "{}, {}, {} %",
            format::number(step.host.busy_percent),
            format::number(step.host.steal_percent),
            format::number(step.host.io_wait_percent)
        ),
    ));
    rows
}

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
            settings.rate.map_or_else(
                || "closed loop".to_owned(),
                |rate| format!("open loop, {rate}/s"),
            ),
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
