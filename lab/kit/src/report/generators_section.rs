//! The machines that made the load, on the page of a run.

use std::fmt::Write;

use super::html::escape;
use crate::format;
use crate::result::{GeneratorResult, RunResult};

const HEAD: [&str; 13] = [
    "Step",
    "Generator",
    "Clients",
    "Operations/s",
    "Failed calls",
    "p50",
    "p99",
    "Max",
    "Late p99",
    "CPU of the lab",
    "Machine busy",
    "Clock ahead",
    "Began late",
];

/// A table of the generators of all steps that had such.
pub(super) fn write(out: &mut String, result: &RunResult) {
    let steps = || {
        let with = |step: &&crate::result::StepResult| !step.more.generators.is_empty();
        result.steps.iter().filter(with)
    };
    if steps().next().is_none() {
        return;
    }
    out.push_str(
        "<h2>Load generators</h2>\n<div class=\"card scroll\"><table \
            class=\"right steps\"><thead><tr>",
    );
    for name in HEAD {
        let _ = write!(out, "<th scope=\"col\">{name}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for step in steps() {
        for generator in &step.more.generators {
            write_row(out, &step.name, generator);
        }
    }
    out.push_str("</tbody></table>\n<p>Interval by interval in generators.csv.</p></div>\n");
}

fn write_row(out: &mut String, step: &str, generator: &GeneratorResult) {
    let latency = &generator.latency;
    let us = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), format::latency_us);
    let late = generator.lateness.as_ref();
    let lost = if generator.lost.is_some() {
        " (lost)"
    } else {
        ""
    };
    let _ = write!(
        out,
        "<tr><th scope=\"row\">{}</th><td>{}{lost}</td>",
        escape(step),
        escape(&generator.address)
    );
    for value in [
        generator.clients.to_string(),
        format::number(generator.rate),
        format::count(generator.errors),
        us(latency.percentile(50.0)),
        us(latency.percentile(99.0)),
        us((latency.calls > 0).then_some(latency.max_us)),
        us(late.and_then(|late| late.percentile(99.0))),
        format!(
            "{} of {} CPUs",
            format::number(generator.cpu_cores),
            generator.cpus
        ),
        format!("{} %", format::number(generator.host_busy_percent)),
        format!("{:.1} ms", generator.clock_ahead_ms),
        format!(
            "{} ± {}",
            format::latency_us(generator.start_late_us),
            format::latency_us(generator.start_error_us)
        ),
    ] {
        let _ = write!(out, "<td>{}</td>", escape(&value));
    }
    out.push_str("</tr>\n");
}
