//! Warnings and failed checks, shown before any chart.

use std::fmt::Write;

use super::html::escape;
use crate::result::{RunResult, Warning};

/// Warnings of one kind together, in the order of the first of each: a run of many short steps says
/// the same of each of them.
pub fn by_code(warnings: &[Warning]) -> Vec<(&Warning, Vec<&Warning>)> {
    let mut out: Vec<(&Warning, Vec<&Warning>)> = Vec::new();
    for warning in warnings {
        match out.iter_mut().find(|(first, _)| first.code == warning.code) {
            Some((_, more)) => more.push(warning),
            None => out.push((warning, Vec::new())),
        }
    }
    out
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
    for (first, more) in by_code(&result.warnings) {
        let _ = writeln!(out, "<li>{}", escape(&first.text));
        if !more.is_empty() {
            let _ = write!(
                out,
                "<details><summary>{} more like it</summary><ul>",
                more.len()
            );
            for warning in more {
                let _ = writeln!(out, "<li>{}</li>", escape(&warning.text));
            }
            out.push_str("</ul></details>");
        }
        out.push_str("</li>\n");
    }
    out.push_str("</ul>\n");
}
