//! Warnings and failed checks, shown before any chart.

use std::fmt::Write;

use super::html::escape;
use crate::result::RunResult;

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
