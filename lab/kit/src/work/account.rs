//! The meaning of an outcome: a read that found too little is a failure, and acknowledged changes
//! are recorded.

use std::sync::atomic::Ordering;

use super::client::{ClientWork, PendingCall};
use super::effect::Effect;
use super::versions::SampledWrite;
use crate::target::CallOutcome;
use crate::workload::Operation;

impl ClientWork {
    /// The effect of the call just drawn, should its reply never come.
    pub fn pending_effect(&self) -> Effect {
        let unknown = Effect::default();
        let Some(operation) = self.pending.operation else {
            return unknown;
        };
        let ops = self.pending.ops;
        match operation {
            _ if self.is_delete(operation, &self.pending) => Effect {
                deletes_unknown: ops,
                ..unknown
            },
            Operation::Insert | Operation::DeleteInsert => Effect {
                inserts_unknown: ops,
                ..unknown
            },
            Operation::Statement(_) => Effect {
                inserts_unknown: self.pending.statement.0,
                deletes_unknown: u64::from(self.pending.statement.1) * u64::from(u32::MAX),
                ..unknown
            },
            Operation::FillRandom => Effect {
                inserts_unknown: u64::from(self.pending.is_new),
                ..unknown
            },
            operation if operation.adds_to_k() => Effect {
                adds_unknown: ops,
                ..unknown
            },
            _ => unknown,
        }
    }

    /// After its delete the row of a delete-and-insert waits to be put back.
    fn is_delete(&self, operation: Operation, pending: &PendingCall) -> bool {
        operation == Operation::DeleteOldest
            || (operation == Operation::DeleteInsert && !pending.is_reinsert)
    }

    /// Judges an outcome: a read that found too little is a failure, unless rows may be missing.
    /// Accounts for what was done.
    pub fn account(&mut self, outcome: CallOutcome) -> (CallOutcome, Effect) {
        let pending = std::mem::take(&mut self.pending);
        let Some(operation) = pending.operation else {
            return (outcome, Effect::default());
        };
        let misses = self.misses_allowed || self.dataset.sparse.load(Ordering::Relaxed);
        let outcome = match outcome {
            CallOutcome::Done { rows, .. }
                if rows < pending.expected && !misses && !is_write_of_rows(operation) =>
            {
                let message = format!(
                    "{operation:?} found {rows} documents, expected {}",
                    pending.expected
                );
                CallOutcome::failure("document not found", message)
            }
            CallOutcome::Done { rows, .. } if pending.rows_max.is_some_and(|most| rows > most) => {
                let most = pending.rows_max.unwrap_or(0);
                let message =
                    format!("{operation:?} returned {rows} documents, at most {most} fit");
                CallOutcome::failure("too many documents", message)
            }
            other => other,
        };
        self.follow(pending.written.as_ref(), &outcome);
        let effect = self.effect(operation, &pending, &outcome);
        (outcome, effect)
    }

    /// Records the outcome for a row of the sample.
    fn follow(&self, written: Option<&SampledWrite>, outcome: &CallOutcome) {
        let is_done = match outcome {
            CallOutcome::Done { rows: 0, .. } => return,
            CallOutcome::Done { .. } => true,
            // It may have been done all the same.
            CallOutcome::Failed { .. } | CallOutcome::Lost { .. } => false,
        };
        if let Some(written) = written {
            self.dataset.versions.take(written, is_done);
        }
    }

    fn effect(
        &mut self,
        operation: Operation,
        pending: &PendingCall,
        outcome: &CallOutcome,
    ) -> Effect {
        let (done, rows, unknown) = match outcome {
            CallOutcome::Done { ops, rows } => (*ops, *rows, 0),
            CallOutcome::Failed { done, .. } => (*done, 0, 0),
            CallOutcome::Lost { unknown, .. } => (0, 0, *unknown),
        };
        let mut out = Effect {
            bytes: if done > 0 { pending.bytes } else { 0 },
            ..Effect::default()
        };
        match operation {
            _ if self.is_delete(operation, pending) => {
                (out.deleted, out.deletes_unknown) = (done, unknown)
            }
            Operation::Insert | Operation::DeleteInsert => {
                (out.inserted, out.inserts_unknown) = (done, unknown);
                let stored = pending
                    .ks
                    .iter()
                    .take(usize::try_from(done).unwrap_or(usize::MAX));
                out.sum_of_k = stored.map(|k| i64::from(*k)).sum();
                if let (Some((table, first, count)), true) = (pending.given, done == pending.ops)
                    && let Some(state) = self.dataset.tables.get(table)
                {
                    state.acknowledge(first, count);
                }
            }
            Operation::FillRandom => {
                (out.inserted, out.inserts_unknown) = (
                    u64::from(pending.is_new) * done,
                    u64::from(pending.is_new) * unknown,
                );
            }
            Operation::Statement(_) => {
                let (inserts, deletes) = pending.statement;
                // A transaction that its guard turned away changed nothing.
                let is_done = u64::from(done > 0);
                out.inserted = inserts * is_done;
                out.inserts_unknown = inserts * unknown.min(1);
                if deletes {
                    out.deleted = rows;
                    out.deletes_unknown = u64::from(u32::MAX) * unknown.min(1);
                } else {
                    out.rows = rows;
                }
            }
            operation if operation.adds_to_k() => {
                (out.added, out.adds_unknown) = (done.min(rows), unknown)
            }
            _ => out.rows = rows,
        }
        let change =
            i64::try_from(out.inserted).unwrap_or(0) - i64::try_from(out.deleted).unwrap_or(0);
        if self.dataset.paired.load(Ordering::Relaxed) {
            self.dataset.ahead.fetch_add(change, Ordering::Relaxed);
        }
        out
    }
}

/// Writes whose reply counts rows in another way than reads do.
fn is_write_of_rows(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Insert | Operation::DeleteOldest | Operation::DeleteInsert
    )
}
