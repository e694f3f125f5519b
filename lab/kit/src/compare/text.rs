//! A comparison for the terminal.

use std::fmt::Write;

use super::{Comparison, FigureComparison};
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
            "  {:<40} {:>14} {:>14}  {:<32} verdict",
            "figure", "A", "B", "change, 95 % interval"
        );
        for figure in &step.figures {
            let name = if figure.unit.is_empty() {
                figure.name.clone()
            } else {
                format!("{}, {}", figure.name, figure.unit)
            };
            let _ = writeln!(
                out,
                "  {name:<40} {:>14} {:>14}  {:<32} {}",
                format::number(figure.a),
                format::number(figure.b),
                change(figure),
                figure.verdict.name()
            );
        }
    }
    for remark in &comparison.remarks {
        let _ = writeln!(out, "\n{remark}");
    }
    out
}

/// The change with its interval in words.
pub(crate) fn change(figure: &FigureComparison) -> String {
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
            size if size >= 1.0 || figure.difference.is_none() => format!("{value:+.1}"),
            _ => format!("{value:+.3}"),
        };
        text.replace('-', "−")
    };
    match (figure.change_percent, figure.difference) {
        (Some(found), _) => format!(
            "{} % ({} to {})",
            signed(found.mean),
            signed(found.low),
            signed(found.high)
        ),
        (None, Some(found)) => {
            let unit = if figure.unit.is_empty() {
                String::new()
            } else {
                format!(" {}", figure.unit)
            };
            format!(
                "{}{unit} ({} to {})",
                signed(found.mean),
                signed(found.low),
                signed(found.high)
            )
        }
        (None, None) if figure.a > 0.0 => {
            format!("{} %", signed((figure.b / figure.a - 1.0) * 100.0))
        }
        (None, None) => "–".to_owned(),
    }
}
