//! A comparison for the terminal.

use std::fmt::Write;

use super::comparison::{Comparison, MetricComparison};
use crate::format;

/// The comparison as a table of text.
pub fn text(comparison: &Comparison) -> String {
    let mut out = format!("A: {}\nB: {}\n", comparison.names[0], comparison.names[1]);
    let _ = writeln!(
        out,
        "workload {}, {} pairs",
        comparison.workload,
        comparison.pairs.len()
    );
    for step in &comparison.steps {
        let _ = writeln!(out, "\nstep {} ({})", step.step, step.unit);
        let _ = writeln!(
            out,
            "  {:<40} {:>14} {:>14}  {:<32} {:<12} verdict",
            "figure", "A", "B", "change, 95 % interval", "found from"
        );
        for metric in &step.metrics {
            let name = if metric.unit.is_empty() {
                metric.name.clone()
            } else {
                format!("{}, {}", metric.name, metric.unit)
            };
            let _ = writeln!(
                out,
                "  {name:<40} {:>14} {:>14}  {:<32} {:<12} {}",
                format::number(metric.a),
                format::number(metric.b),
                change(metric),
                smallest(metric),
                metric.verdict.name()
            );
        }
    }
    for remark in &comparison.remarks {
        let _ = writeln!(out, "\n{remark}");
    }
    out
}

/// The smallest change that could have been detected.
pub(crate) fn smallest(metric: &MetricComparison) -> String {
    let found = metric.smallest_percent;
    found.map_or_else(
        || "–".to_owned(),
        |percent| format!("{} %", format::number(percent)),
    )
}

/// The change with its interval in words.
pub(crate) fn change(metric: &MetricComparison) -> String {
    let signed = |value: f64| {
        let text = match value.abs() {
            // Beyond that only one thing can be learnt: too uncertain.
            size if size >= 1_000.0 => {
                return if value > 0.0 {
                    "> +999".to_owned()
                } else {
                    "< −999".to_owned()
                };
            }
            size if size >= 100.0 => format!("{value:+.0}"),
            size if size >= 1.0 || metric.difference.is_none() => format!("{value:+.1}"),
            _ => format!("{value:+.3}"),
        };
        text.replace('-', "−")
    };
    match (metric.change_percent, metric.difference) {
        (Some(found), _) => format!(
            "{} % ({} to {})",
            signed(found.mean),
            signed(found.low),
            signed(found.high)
        ),
        (None, Some(found)) => {
            let unit = if metric.unit.is_empty() {
                String::new()
            } else {
                format!(" {}", metric.unit)
            };
            format!(
                "{}{unit} ({} to {})",
                signed(found.mean),
                signed(found.low),
                signed(found.high)
            )
        }
        (None, None) if metric.a > 0.0 => {
            format!("{} %", signed((metric.b / metric.a - 1.0) * 100.0))
        }
        (None, None) => "–".to_owned(),
    }
}
