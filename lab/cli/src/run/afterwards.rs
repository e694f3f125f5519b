//! Checks after the clients of a step have ended: whether two pipelines return the same results,
//! and the recall of searches.
//!
//! Promises: a user's program that follows the target runs until its copy has been queried; results
//! that stay different are a failed check, never only a note. Must not know: drivers.

use std::time::{Duration, Instant};

use lab_kit::nearest::{Recall, Similarity};
use lab_kit::result::{AgreementResult, Check, ProgramRuns, StepResult};
use lab_kit::target::{Call, Target};
use lab_kit::template::{Command, DatabaseAction, Tree};
use lab_kit::work::ClientAction;
use lab_kit::workload::{Agreement, Step};

use super::context::Run;
use super::program::{Program, Task};
use super::role_plan::RolePlan;
use crate::clients::Control;

/// The interval between two queries.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// The number of searches whose results are compared with the exact neighbours.
const SEARCHES: usize = 50;
/// The least recall of an exact search, in percent; the difference to 100 allows for rounding.
const EXACT_PERCENT_MIN: f64 = 99.5;
/// The most characters of a result that are shown.
const SHOWN_MAX: usize = 200;

/// The results of these checks.
#[derive(Default)]
pub(super) struct FinalChecks {
    recall: Option<Recall>,
    agreed: Vec<AgreementResult>,
    program: Option<ProgramRuns>,
    checks: Vec<Check>,
}

impl<T: Target> Run<'_, T> {
    /// Starts the user's program, if the step runs it.
    pub(super) fn begin_program(&self, step: &Step, folder: &std::path::Path) -> Option<Program> {
        let command = self.arguments.program.as_ref().filter(|_| step.program)?;
        Some(Program::begin(Task {
            command: command.clone(),
            target: self.arguments.target.clone(),
            folder: folder.to_owned(),
        }))
    }

    /// Runs the queries, then ends the program.
    pub(super) async fn ask_afterwards(
        &self,
        step: &Step,
        plan: &RolePlan<'_>,
        control: &Control,
        program: Option<Program>,
    ) -> FinalChecks {
        let mut out = FinalChecks::default();
        let is_whole = control.reason().is_none();
        if is_whole {
            let ended = Instant::now();
            for agreement in &step.agree {
                self.ask(agreement, ended, &mut out).await;
            }
        }
        if let Some(program) = program {
            let (runs, check) = program.end().await;
            out.program = Some(runs);
            out.checks.push(check);
        }
        if let Some(similarity) = step.recall.filter(|_| is_whole) {
            self.compare_neighbours(step, plan, similarity, &mut out)
                .await;
        }
        out
    }

    async fn ask(&self, agreement: &Agreement, ended: Instant, out: &mut FinalChecks) {
        let mut check = Check {
            name: agreement.name.clone(),
            ..Check::default()
        };
        let limit = self.arguments.settle_time();
        loop {
            let one = self.target.evaluate(None, agreement.pipeline()).await;
            let other = match agreement.copy {
                true => self.target.evaluate_copy(agreement.other_stages()).await,
                false => self.target.evaluate(None, agreement.other_stages()).await,
            };
            let is_same = matches!((&one, &other), (Ok(one), Ok(other)) if one == other);
            if is_same || ended.elapsed() > limit {
                check.passed = Some(is_same);
                (check.expected, check.found) = (shorten_answer(one), shorten_answer(other));
                break;
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        let after_s = ended.elapsed().as_secs_f64();
        let is_same = check.passed == Some(true);
        check.remark = match is_same {
            true => format!("after {}", lab_kit::format::seconds(after_s)),
            false => format!("still so after {}", lab_kit::format::seconds(after_s)),
        };
        out.agreed.push(AgreementResult {
            name: check.name.clone(),
            after_s: is_same.then_some(after_s),
        });
        out.checks.push(check);
    }

    async fn compare_neighbours(
        &self,
        step: &Step,
        plan: &RolePlan<'_>,
        similarity: Similarity,
        out: &mut FinalChecks,
    ) {
        let mut work = self.copy_work(step, plan, "recall");
        let mut searches: Vec<Vec<Tree>> = Vec::new();
        while searches.len() < SEARCHES {
            let ClientAction::Call(_, Call::Statement(call)) = work.draw() else {
                break;
            };
            let Command::One(_, DatabaseAction::Aggregate(stages)) = call.command else {
                break;
            };
            searches.push(stages);
        }
        let mut check = Check {
            name: "a search that looks at every vector finds the nearest".to_owned(),
            expected: format!("{EXACT_PERCENT_MIN} % or more"),
            ..Check::default()
        };
        match self.target.recall(similarity, searches).await {
            Ok(recall) => {
                check.found = format!("{:.1} %", recall.percent);
                check.passed = Some(recall.percent >= EXACT_PERCENT_MIN);
                if recall.is_exact {
                    out.checks.push(check);
                }
                out.recall = Some(recall);
            }
            Err(reason) => {
                check.name = "neighbours compared with the exact ones".to_owned();
                check.found = "unknown".to_owned();
                (check.remark, check.passed) = (reason, Some(false));
                out.checks.push(check);
            }
        }
    }
}

fn shorten_answer(answer: Result<String, String>) -> String {
    let text = match answer {
        Ok(text) if text.is_empty() => "nothing".to_owned(),
        Ok(text) => text,
        Err(reason) => format!("no answer: {reason}"),
    };
    if text.chars().count() > SHOWN_MAX {
        let begin: String = text.chars().take(SHOWN_MAX).collect();
        return format!("{begin} … ({} bytes)", text.len());
    }
    text
}

impl FinalChecks {
    /// Adds the findings to the step's result, and returns their checks.
    pub(super) fn add_to(self, result: &mut StepResult) -> Vec<Check> {
        result.more.recall = self.recall;
        result.more.agreed = self.agreed;
        result.more.program = self.program;
        self.checks
    }
}
