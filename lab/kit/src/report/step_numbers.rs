//! The numbers of one step: percentiles, response times, variation, cost.

use std::fmt::Write;

use super::html::{escape, row, write_card};
use super::resources;
use crate::format;
use crate::result::{BUCKET_BOUNDS_US, LatencySummary, StepResult};

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
        &format!("Cost per {}", step.operation.unit_one()),
        "right",
        &costs(step),
    );
    write_more(out, step);
    resources::write(out, step);
    out.push_str("</div>\n");
}

/// Background work, latency from sending, and the operations of a mix.
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
            "Latency from sending, without waiting for calls before",
            "right",
            &latency(service),
        );
    }
    if let Some(lateness) = &step.more.lateness {
        let mut rows = latency(lateness);
        let unsent = format::count(step.more.unsent_calls);
        rows.push(row("calls due and never sent", unsent));
        let by_lab = format::count(step.more.unsent_by_lab);
        rows.push(row("of them because the lab was late", by_lab));
        write_card(out, "Calls sent late by the lab itself", "right", &rows);
    }
    // A replay has a separate table for them.
    for (operation, of_operation) in step
        .more
        .by_operation
        .iter()
        .filter(|_| step.more.replay.is_none())
    {
        write_card(
            out,
            &format!("Latency of {operation}"),
            "right",
            &latency(of_operation),
        );
    }
    for role in &step.more.background {
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
            &format!("Background: {} by {} clients", role.operation, role.clients),
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
    ];
    // One interval has no deviation.
    if rate.intervals >= 2 {
        rows.push(row("standard deviation", per_second(rate.stddev)));
        rows.push(row("variance", format::number(rate.variance)));
    }
    if let Some(share) = rate
        .coefficient_of_variation
        .filter(|_| rate.intervals >= 2)
    {
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
        push("which may be off by", server.cpu_us_per_op_error, "µs");
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
