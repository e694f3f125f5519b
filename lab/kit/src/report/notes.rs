//! Warnings and failed checks, shown before any chart.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::html::escape;
use crate::result::{RunResult, Warning};

/// Warnings grouped by kind, in the order of the first of each: a run of many short steps repeats
/// the same warning for each step.
pub fn group_by_code<'a>(
    warnings: impl IntoIterator<Item = &'a Warning>,
) -> Vec<(&'a Warning, Vec<&'a Warning>)> {
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
    let warnings: Vec<&Warning> = result.warnings.iter().collect();
    write_list(out, &failed, &[], &warnings);
}

/// Failures first, then other remarks, then warnings by kind.
fn write_list(out: &mut String, failed: &[String], known: &[String], warnings: &[&Warning]) {
    if failed.is_empty() && known.is_empty() && warnings.is_empty() {
        return;
    }
    out.push_str("<ul class=\"notes\" aria-label=\"Warnings\">\n");
    for text in failed {
        let _ = writeln!(out, "<li class=\"bad\">{}</li>", escape(text));
    }
    for text in known {
        let _ = writeln!(out, "<li>{}</li>", escape(text));
    }
    for (first, more) in group_by_code(warnings.iter().copied()) {
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

/// Writes the warnings of several runs: everything that the runs' own pages would show.
pub(super) fn write_warnings_of_runs(
    out: &mut String,
    runs: &[RunResult],
    durability: Option<String>,
) {
    let mut failed: Vec<String> = Vec::new();
    let mut warnings: Vec<Warning> = Vec::new();
    for run in runs {
        let id = &run.run.id;
        if let Some(reason) = &run.run.stopped_because {
            failed.push(format!(
                "{id} ended early: {reason}. Its numbers are left out."
            ));
        }
        let wrong = run
            .checks
            .iter()
            .filter(|check| check.passed == Some(false));
        failed.extend(wrong.map(|check| {
            format!(
                "{id}: check failed: {}. Expected {}, found {}. Its numbers are left out.",
                check.name, check.expected, check.found
            )
        }));
        warnings.extend(run.warnings.iter().map(|warning| Warning {
            code: warning.code.clone(),
            text: format!("{id}: {}", warning.text),
        }));
        let left_out = run.skipped.iter().map(|skipped| Warning {
            code: "left-out".to_owned(),
            text: format!(
                "{id}: step {} was left out: {}.",
                skipped.step, skipped.because
            ),
        });
        warnings.extend(left_out);
    }
    let mut known: Vec<String> = Vec::new();
    let machines: BTreeSet<&str> = runs
        .iter()
        .map(|run| run.environment.cpu_model.as_str())
        .collect();
    if machines.len() > 1 {
        known.push("The runs come from machines of different kinds.".to_owned());
    }
    known.extend(durability);
    write_list(out, &failed, &known, &warnings.iter().collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_several_runs_has_their_warnings_and_failures() {
        let run = |id: &str| -> RunResult {
            let mut run: RunResult =
                serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
            run.run.id = id.to_owned();
            run.warnings = vec![Warning {
                code: "errors".to_owned(),
                text: "Step point: 7 calls failed.".to_owned(),
            }];
            run.checks = vec![crate::result::Check {
                name: "documents counted".to_owned(),
                expected: "5".to_owned(),
                found: "4".to_owned(),
                passed: Some(false),
                remark: String::new(),
            }];
            run
        };
        let mut stopped = run("run-3");
        stopped.run.stopped_because = Some("interrupted".to_owned());
        let mut right = run("run-4");
        right.checks.clear();
        right.warnings.clear();
        for step in right.steps.iter_mut().filter(|step| step.measured) {
            step.rate.average = 432.0;
        }
        let all = [run("run-1"), run("run-2"), stopped, right];
        let page = crate::report::runs_page(&all).unwrap();
        assert!(page.contains("<td>1</td><td>432</td>"), "{page}");
        for wanted in [
            "run-1: check failed: documents counted. Expected 5, found 4.",
            "run-2: check failed",
            "run-3 ended early: interrupted. Its numbers are left out.",
            "<li>run-1: Step point: 7 calls failed.",
            "2 more like it",
            "run-3: Step point: 7 calls failed.",
        ] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
    }
}
