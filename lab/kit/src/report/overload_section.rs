//! The figures of an overload, on the page of a run.

use std::fmt::Write;

use super::html::escape;
use crate::format;
use crate::result::{Overload, RunResult};

/// A table for each step with an overload in it.
pub(super) fn write(out: &mut String, result: &RunResult) {
    let steps = result.steps.iter();
    for (step, overload) in steps.filter_map(|step| Some((step, step.more.overload.as_ref()?))) {
        let _ = writeln!(
            out,
            "<h2>Step {}: {} clients, where {} saturate, from {} to {}</h2>\n<div class=\"card \
                scroll\"><table><tbody>",
            escape(&step.name),
            overload.clients,
            overload.saturating_clients,
            format::seconds(overload.from_s),
            format::seconds(overload.until_s),
        );
        for (name, value) in rows(overload, result.settings.memory_mb) {
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>",
                escape(&value)
            );
        }
        out.push_str("</tbody></table></div>\n");
    }
}

fn rows(overload: &Overload, limit_mb: Option<u64>) -> Vec<(&'static str, String)> {
    let memory = overload.memory_bytes_max.map_or_else(
        || "not seen".to_owned(),
        |bytes| {
            let limit = limit_mb.map_or_else(String::new, |mb| format!(" of {mb} MiB"));
            format!("{}{limit}", format::bytes(bytes as f64))
        },
    );
    let recovery = overload
        .recovery_seconds
        .map_or_else(|| "not to the end of the step".to_owned(), format::seconds);
    vec![
        (
            "goodput, operations a second",
            format!(
                "{} of {} at the peak: {} %",
                format::number(overload.goodput),
                format::number(overload.peak_rate),
                format::number(overload.goodput_percent)
            ),
        ),
        (
            "p99 of what was admitted",
            format!(
                "{}, {} before",
                format::latency_us(overload.p99_admitted_us),
                format::latency_us(overload.p99_before_us)
            ),
        ),
        (
            "refused, to come back later",
            format!(
                "{} calls; {} operations given up",
                format::count(overload.refused_calls),
                format::count(overload.given_up)
            ),
        ),
        ("most memory of the target", memory),
        ("until 90 % of the rate before was back", recovery),
    ]
}

/// The same in a line.
pub fn overload_line(overload: &Overload, limit_mb: Option<u64>) -> String {
    let rows = rows(overload, limit_mb).into_iter();
    let words: Vec<String> = rows
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    words.join("; ")
}
