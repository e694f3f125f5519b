//! Checks that the calls of a run were answered, and answered correctly.

use std::collections::BTreeMap;

use super::run::Check;
use super::step::{CallCounts, StepResult};
use crate::answers::WRONG_ANSWERS;
use crate::format;

/// The largest share of failed calls of one operation, in percent; above it the run counts as
/// wrong.
pub const ERRORS_PERCENT_MAX: f64 = 1.0;

/// The calls of one role.
struct Role<'a> {
    step: &'a str,
    errors: &'a BTreeMap<String, u64>,
    outcomes: &'a BTreeMap<String, CallCounts>,
}

fn roles(steps: &[StepResult]) -> impl Iterator<Item = Role<'_>> {
    steps.iter().flat_map(|step| {
        let own = Role {
            step: &step.name,
            errors: &step.errors,
            outcomes: &step.more.outcomes,
        };
        let beside = step.more.background.iter().map(|role| Role {
            step: &step.name,
            errors: &role.errors,
            outcomes: &role.outcomes,
        });
        std::iter::once(own).chain(beside)
    })
}

/// Judges the calls of all steps: no answer may be wrong, and only few may be errors.
pub fn judge_calls(steps: &[StepResult]) -> Check {
    let mut check = Check {
        name: "calls were answered, and rightly".to_owned(),
        expected: format!("no wrong answer, at most {ERRORS_PERCENT_MAX} % errors"),
        ..Check::default()
    };
    let mut calls = 0;
    let mut wrong: Vec<String> = Vec::new();
    for role in roles(steps) {
        for (kind, count) in role.errors {
            if WRONG_ANSWERS.contains(&kind.as_str()) {
                let count = format::count(*count);
                wrong.push(format!("step {}: {count} calls: {kind}", role.step));
            }
        }
        for (operation, counts) in role.outcomes {
            let all = counts.answered.saturating_add(counts.failed);
            calls += all;
            let percent = counts.failed as f64 * 100.0 / all.max(1) as f64;
            if percent > ERRORS_PERCENT_MAX {
                wrong.push(format!(
                    "step {}: {} % of {} calls of {operation} failed",
                    role.step,
                    format::number(percent),
                    format::count(all)
                ));
            }
        }
    }
    check.passed = Some(wrong.is_empty());
    check.found = if wrong.is_empty() {
        format!("{} calls", format::count(calls))
    } else {
        wrong.join("; ")
    };
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(errors: &[(&str, u64)], outcomes: &[(&str, u64, u64)]) -> StepResult {
        let run: crate::result::RunResult =
            serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
        let mut step = run.main_step().unwrap().clone();
        step.errors = errors
            .iter()
            .map(|(kind, count)| ((*kind).to_owned(), *count))
            .collect();
        let counts = |(name, answered, failed): &(&str, u64, u64)| {
            let counts = CallCounts {
                answered: *answered,
                failed: *failed,
            };
            ((*name).to_owned(), counts)
        };
        step.more.outcomes = outcomes.iter().map(counts).collect();
        step
    }

    #[test]
    fn one_wrong_answer_fails_a_run_and_few_errors_do_not() {
        let judged = |step: StepResult| judge_calls(&[step]);
        let right = judged(step(&[("112 WriteConflict", 10)], &[("point", 990, 10)]));
        assert_eq!(right.passed, Some(true), "{right:?}");
        let wrong = judged(step(
            &[("document not found", 1)],
            &[("point", 1_000_000, 1)],
        ));
        assert!(
            wrong.passed == Some(false) && wrong.found.contains("document not found"),
            "{wrong:?}"
        );
        // An operation that always fails would go unnoticed in a mix that hardly ever fails.
        let part = judged(step(
            &[("121 DocumentValidationFailure", 50)],
            &[("point", 100_000, 0), ("rename", 0, 50)],
        ));
        assert!(
            part.passed == Some(false) && part.found.contains("100 % of 50 calls of rename"),
            "{part:?}"
        );
        let mut beside = step(&[], &[("point", 10, 0)]);
        beside.more.background = vec![crate::result::RoleResult {
            errors: BTreeMap::from([("wrong contents".to_owned(), 2)]),
            ..Default::default()
        }];
        assert_eq!(judge_calls(&[beside]).passed, Some(false));
    }
}
