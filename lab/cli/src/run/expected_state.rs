//! The state that the target must have according to its acknowledgements, and the checks of it.

use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lab_kit::program::{ProgramCall, ProgramState};
use lab_kit::result::Check;
use lab_kit::target::{Call, CallOutcome, Session, Target};
use lab_kit::work::Effect;
use lab_kit::workload::{Operation, Step};
use serde::{Deserialize, Serialize};

use super::context::Run;
use super::shared::hosts;
use crate::clients::GRACE;
use crate::counters::lock;
use crate::interrupt::wait_interrupt;

const COUNT: &str = "documents counted equal documents acknowledged";
const SUM: &str = "sum of k grew by one for each acknowledged $inc";

/// The state that the target must have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ExpectedState {
    rows: i128,
    rows_unknown: [u64; 2],
    /// The expected sum of `k`; `None` after documents with unknown `k` were replaced or deleted.
    sum: Option<i128>,
    sum_unknown: u64,
    /// Whether there were additions that a check of the sum would verify.
    adds: bool,
    started: bool,
    /// Whether the number of documents is unknown because of a statement.
    #[serde(default)]
    is_uncounted: bool,
    /// The results of each invariant before the first measured step.
    #[serde(default)]
    invariants: Option<Vec<Result<String, String>>>,
    checks: Vec<Check>,
}

impl ExpectedState {
    /// Prepares for a step. If the sum is unknown but needed, the target is asked for it; if the
    /// step will make it unknown, it is checked first.
    pub(crate) async fn begin<T: Target>(&mut self, run: &Run<'_, T>, step: &Step) {
        if !self.started {
            (self.started, self.sum) = (true, Some(0));
        }
        if step.measured && self.invariants.is_none() {
            self.invariants = Some(evaluate(run).await);
        }
        self.is_uncounted |= !run.workload.counts(step);
        if step.work.operation == Operation::Empty {
            let counted = ask(None, run.target.count()).await;
            self.compare_count(counted);
        }
        if self.adds && self.sum.is_some() && changes_sum(step) {
            let found = ask(None, run.target.sum_of_k()).await;
            self.compare_sum(found);
            self.adds = false;
        }
        if adds(step) && self.sum.is_none() && !changes_sum(step) {
            self.sum = ask(None, run.target.sum_of_k()).await.ok();
            self.sum_unknown = 0;
        }
    }

    /// Applies the effect of a step.
    pub(crate) fn take(&mut self, step: &Step, effect: &Effect) {
        if step.work.operation == Operation::Empty {
            (self.rows, self.rows_unknown, self.sum, self.adds) = (0, [0, 0], Some(0), false);
            return;
        }
        self.rows += i128::from(effect.inserted) - i128::from(effect.deleted);
        self.rows_unknown[0] += effect.inserts_unknown;
        self.rows_unknown[1] += effect.deletes_unknown;
        self.adds |= effect.added > 0 || effect.adds_unknown > 0;
        self.sum_unknown += effect.adds_unknown;
        self.sum = match self.sum {
            Some(sum) if !changes_sum(step) => {
                Some(sum + i128::from(effect.sum_of_k) + i128::from(effect.added))
            }
            _ => None,
        };
    }

    /// Checks that a load without a time limit stored all its rows.
    pub(crate) fn check_load(&mut self, step: &Step, rows: u64, effect: &Effect) {
        let stored = effect.inserted + effect.inserts_unknown;
        if stored < rows {
            self.checks.push(Check {
                name: format!("step {} stored its rows", step.name),
                expected: rows.to_string(),
                found: effect.inserted.to_string(),
                passed: Some(false),
                remark: "calls failed, and their rows were not stored".to_owned(),
            });
        }
    }

    /// Adds the checks of a step's watchers.
    pub(crate) fn add_checks(&mut self, checks: Vec<Check>) {
        self.checks.extend(checks);
    }

    /// Runs the checks at the end of the run. A target that stopped answering gets only a short
    /// time; otherwise a count has no time limit.
    pub(crate) async fn check<T: Target>(mut self, run: &Run<'_, T>, stopped: bool) -> Vec<Check> {
        let timeout = stopped.then_some(GRACE);
        if let Some(bytes) = run.workload.data.capped_bytes {
            let row_bytes = run.workload.row_bytes(run.settings.payload);
            let found = ask(timeout, run.target.count()).await;
            self.check_capped(found, bytes, row_bytes);
            return self.checks;
        }
        if let Some(state) = &run.dataset.program {
            note_line!("checking: what the transactions left behind");
            self.checks.extend(of_program(run, state, timeout).await);
            return self.checks;
        }
        if run.workload.data.servers.is_some() && lock(&run.fleet).is_none() {
            let named = hosts(&run.arguments.target).count();
            self.checks
                .push(check_servers(named, run.target.servers_reached()));
        }
        note_line!("checking: counting documents");
        let counted = ask(timeout, run.target.count()).await;
        self.compare_count(counted);
        self.compare_invariants(run, stopped).await;
        if !stopped {
            self.checks.extend(check_versions(run).await);
        }
        if self.adds && self.sum.is_some() {
            let found = ask(timeout, run.target.sum_of_k()).await;
            self.compare_sum(found);
        }
        self.checks
    }

    /// After an interruption the expected sum starts from the sum in the target.
    pub(crate) fn forget_sum(&mut self) {
        (self.sum, self.adds) = (None, false);
    }

    /// The number of rows that must exist.
    pub(crate) fn rows(&self) -> i128 {
        self.rows
    }

    /// Compares the invariants at the end, unless the target stopped answering.
    async fn compare_invariants<T: Target>(&mut self, run: &Run<'_, T>, stopped: bool) {
        let Some(before) = self.invariants.take() else {
            return;
        };
        let after = if stopped {
            let reason = "the run ended early".to_owned();
            before.iter().map(|_| Err(reason.clone())).collect()
        } else {
            evaluate(run).await
        };
        let all = run.workload.invariants.iter().zip(before).zip(after);
        for ((invariant, before), after) in all {
            let mut check = Check {
                name: invariant.name.clone(),
                ..Check::default()
            };
            match (before, after) {
                (Ok(before), Ok(after)) => {
                    check.passed = Some(before == after);
                    (check.expected, check.found) = (before, after);
                }
                (Err(reason), _) | (_, Err(reason)) => {
                    check.found = "unknown".to_owned();
                    check.remark = format!("could not be asked: {reason}");
                }
            }
            self.checks.push(check);
        }
    }

    fn compare_count(&mut self, found: CountResult) {
        if self.is_uncounted {
            self.checks.push(Check {
                name: COUNT.to_owned(),
                expected: "unknown".to_owned(),
                found: found.map_or_else(|reason| reason, |count| count.to_string()),
                passed: None,
                remark: "statements with upsert, $out, $merge, a command, or a delete in a \
                    transaction leave the number open"
                    .to_owned(),
            });
            return;
        }
        let [inserts, deletes] = self.rows_unknown.map(i128::from);
        self.checks.push(compare(
            COUNT,
            self.rows - deletes..=self.rows + inserts,
            found,
        ));
    }

    fn compare_sum(&mut self, found: CountResult) {
        let Some(sum) = self.sum else {
            return;
        };
        self.checks.push(compare(
            SUM,
            sum..=sum + i128::from(self.sum_unknown),
            found,
        ));
    }

    /// Checks that a capped collection deleted its oldest documents only after it was full.
    fn check_capped(&mut self, found: CountResult, bytes: u64, row_bytes: u64) {
        let mut check = compare(
            "a capped collection keeps the last documents, as many as fit",
            capped_rows(self.rows, self.rows_unknown[0], bytes, row_bytes),
            found,
        );
        check.remark = format!(
            "{} were inserted, each of {row_bytes} bytes and what the target adds; {bytes} bytes \
             are kept",
            self.rows
        );
        self.checks.push(check);
    }
}

/// The range of the number of documents that a capped collection of `bytes` may contain at the end.
fn capped_rows(rows: i128, rows_unknown: u64, bytes: u64, row_bytes: u64) -> RangeInclusive<i128> {
    /// The most bytes that field names and the like add to a document.
    const ADDED_BYTES: i128 = 256;
    let (bytes, row_bytes) = (i128::from(bytes), i128::from(row_bytes));
    let most = (rows + i128::from(rows_unknown)).min((bytes / row_bytes).max(1));
    let all_fit = most * (row_bytes + ADDED_BYTES) <= bytes;
    (if all_fit { rows } else { rows.min(1) })..=most
}

/// The checks of a program at the end.
async fn of_program<T: Target>(
    run: &Run<'_, T>,
    state: &Arc<ProgramState>,
    timeout: Option<Duration>,
) -> Vec<Check> {
    let (call, findings) = ProgramCall::check(state);
    let asked = async {
        let session = run.target.session(false).await;
        let mut session = session.map_err(|error| error.to_string())?;
        let ready = session.encode(Call::Program(Box::new(call)));
        match session.run(ready).await {
            CallOutcome::Done { .. } => Ok(0),
            CallOutcome::Failed { message, .. } | CallOutcome::Lost { message, .. } => Err(message),
        }
    };
    if let Err(reason) = ask::<i64>(timeout, asked).await {
        return vec![Check {
            name: "what the transactions left behind".to_owned(),
            found: "unknown".to_owned(),
            remark: format!("could not be asked: {reason}"),
            ..Check::default()
        }];
    }
    let findings = findings.lock().unwrap_or_else(PoisonError::into_inner);
    let checks = findings.iter().map(|finding| {
        let (low, high) = finding.expected.clone().into_inner();
        let expected = low.into()..=high.into();
        let mut check = compare(&finding.name, expected, Ok(finding.found.into()));
        if !finding.remark.is_empty() {
            check.remark = finding.remark.clone();
        }
        check
    });
    checks.collect()
}

/// Checks that acknowledged updates are stored; `None` if there is nothing to check.
async fn check_versions<T: Target>(run: &Run<'_, T>) -> Option<Check> {
    let expected = run.dataset.versions.expected_rows();
    let rows = expected.len();
    if rows == 0 {
        return None;
    }
    note_line!("checking: {rows} documents that were updated");
    let mut wrong = Vec::new();
    let looked = async {
        let session = run.target.session(false).await;
        let mut session = session.map_err(|error| error.to_string())?;
        for (table, number, fields) in expected {
            let id = run.dataset.key(number);
            let what = format!("document {id}");
            let ready = session.encode(Call::Verify { table, id, fields });
            match session.run(ready).await {
                CallOutcome::Done { rows: 1.., .. } => {}
                CallOutcome::Done { .. } => wrong.push(format!("{what} is missing")),
                CallOutcome::Failed { message, .. } => wrong.push(format!("{what}: {message}")),
                CallOutcome::Lost { message, .. } => return Err(message),
            }
        }
        Ok(0)
    };
    let asked = ask::<i64>(None, looked).await;
    let mut check = Check {
        name: "updates that were acknowledged are there".to_owned(),
        expected: format!("{rows} documents as they were written last"),
        ..Check::default()
    };
    match asked {
        Ok(_) => {
            check.found = format!("{} of {rows}", rows - wrong.len());
            check.passed = Some(wrong.is_empty());
            check.remark = wrong.into_iter().next().unwrap_or_default();
        }
        Err(reason) => {
            check.found = "unknown".to_owned();
            check.remark = format!("could not be asked: {reason}");
        }
    }
    Some(check)
}

/// The results of the invariants now.
async fn evaluate<T: Target>(run: &Run<'_, T>) -> Vec<Result<String, String>> {
    let mut out = Vec::new();
    for invariant in &run.workload.invariants {
        let asked = run
            .target
            .evaluate(invariant.collection.clone(), invariant.pipeline());
        out.push(asked.await);
    }
    out
}

fn operations(step: &Step) -> impl Iterator<Item = Operation> {
    let roles = step.background.iter().chain([&step.work]);
    roles.flat_map(|role| {
        role.mix
            .iter()
            .map(|(operation, _)| *operation)
            .chain([role.operation])
    })
}

fn adds(step: &Step) -> bool {
    operations(step).any(Operation::adds_to_k)
}

/// Whether a step replaces or deletes documents and thereby their `k`.
fn changes_sum(step: &Step) -> bool {
    operations(step).any(|operation| {
        matches!(
            operation,
            Operation::Blind
                | Operation::FillRandom
                | Operation::DeleteOldest
                | Operation::DeleteInsert
        )
    })
}

/// The target's answer, or why there is none.
type CountResult = Result<i128, String>;

/// Asks the target for a value, until the timeout or an interrupt by the user.
async fn ask<N: Into<i128>>(
    timeout: Option<Duration>,
    question: impl Future<Output = Result<N, String>>,
) -> CountResult {
    let timeout = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        answer = question => answer.map(Into::into),
        () = wait_interrupt() => Err("interrupted".to_owned()),
        () = timeout => Err("no answer".to_owned()),
    }
}

/// Checks that all servers were measured: a driver may leave out a server, for example one that
/// does not answer.
fn check_servers(named: usize, reached: usize) -> Check {
    Check {
        name: "calls went to each server that was named".to_owned(),
        expected: named.to_string(),
        found: reached.to_string(),
        passed: Some(reached >= named),
        ..Check::default()
    }
}

/// Checks that a number lies within a range.
pub(super) fn compare(name: &str, expected: RangeInclusive<i128>, found: CountResult) -> Check {
    let (low, high) = expected.into_inner();
    let mut out = Check {
        name: name.to_owned(),
        expected: low.to_string(),
        ..Check::default()
    };
    if high > low {
        out.expected = format!("{low} to {high}");
        out.remark = format!("{} operations were under way without an answer", high - low);
    }
    match found {
        Ok(found) => {
            out.found = found.to_string();
            out.passed = Some((low..=high).contains(&found));
        }
        Err(reason) => {
            out.found = "unknown".to_owned();
            out.remark = format!("could not be asked: {reason}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capped_collection_that_is_not_full_holds_all_and_a_full_one_what_fits() {
        let bytes = 1 << 20;
        assert_eq!(capped_rows(1_200, 0, bytes, 424), 1_200..=1_200);
        assert_eq!(capped_rows(1_200, 10, bytes, 424), 1_200..=1_210);
        assert_eq!(capped_rows(2_000, 0, bytes, 424), 1..=2_000);
        assert_eq!(capped_rows(20_000, 10, bytes, 424), 1..=2_473);
        assert_eq!(capped_rows(0, 0, bytes, 424), 0..=0);
    }
}
