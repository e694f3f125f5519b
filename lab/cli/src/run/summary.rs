//! The terminal lines of a step's results, and the command line that the result contains.

use lab_kit::format;
use lab_kit::result::StepResult;

use crate::credentials::hide_password;

pub(crate) fn summary_line(step: &StepResult) -> String {
    let one = step.operation.unit_one();
    let per = |value: Option<f64>, unit: &str| {
        value.map_or_else(String::new, |value| {
            format!(", {} {unit} per {one}", format::number(value))
        })
    };
    let server = step.server.as_ref();
    let percentile = |wanted: f64| {
        let found = step
            .latency
            .percentiles_us
            .iter()
            .find(|(percentile, _)| *percentile == wanted);
        found.map_or_else(|| "–".to_owned(), |(_, us)| format::latency_us(*us))
    };
    format!(
        "{}: {} {}/s over {}, variation {} %, p50 {}, p99 {}, max {}{}{}",
        step.name,
        format::number(step.rate.average),
        step.unit,
        format::seconds(step.seconds),
        format::number(step.rate.coefficient_of_variation.unwrap_or(0.0) * 100.0),
        percentile(50.0),
        percentile(99.0),
        format::latency_us(step.latency.max_us),
        per(
            server.and_then(|server| server.cpu_us_per_op),
            "µs server CPU"
        ),
        per(step.client.cpu_us_per_op, "µs lab CPU"),
    ) + &notes(step)
}

/// Remarks of a line about a step, in addition to its rate.
fn notes(step: &StepResult) -> String {
    let more = &step.more;
    let mut out = String::new();
    if let Some(own) = more.lab_cpu_us_per_op {
        out += &format!(" ({} µs without driver and target)", format::number(own));
    }
    if more.rows_returned > step.ops {
        out += &format!(
            ", {} documents/s returned",
            format::number(more.rows_per_second)
        );
    }
    if let Some(times) = more.write_amplification.filter(|times| *times > 0.0) {
        out += &format!(", write amplification {}", format::number(times));
    }
    for role in &more.background {
        let met = match role.sla_met {
            Some(true) => ", reached",
            Some(false) => ", MISSED",
            None => "",
        };
        let target = role.target_rate.map_or_else(String::new, |rate| {
            format!(" of {}{met}", format::number(rate))
        });
        out += &format!(
            "; beside: {} {} {}/s{target}",
            role.operation,
            format::number(role.rate.average),
            role.unit
        );
    }
    if !more.remark.is_empty() {
        out += &format!("; {}", more.remark);
    }
    out
}

/// The command line as given, without passwords.
pub(crate) fn command_line() -> String {
    let quoted = |word: String| {
        if word.contains([' ', '&', '?', '$', '*']) {
            format!("'{word}'")
        } else {
            word
        }
    };
    let words = std::env::args()
        .skip(1)
        .map(|word| quoted(hide_password(&word)));
    std::iter::once("quarry-lab".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}
