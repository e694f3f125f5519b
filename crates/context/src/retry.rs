//! Retryable writes: a write with a transaction number is recorded by statement, and a retry runs
//! only the statements that were not executed yet.

use model::{DocWriter, MongoError, Result, Value, bail, code};
use request::args::{Args, to_i64};
use smallvec::SmallVec;
use store::{Effect, NumberOrder, RetryImage, SessionRecord, StatementLog, Store};

/// Numbers of the statements of one command.
pub type StatementIds = SmallVec<[i32; 8]>;

/// The record of a session while one of its commands runs. It is locked, so that a retry that
/// overtakes the first attempt waits for it.
#[derive(Debug)]
pub struct Retry<'r> {
    record: &'r mut SessionRecord,
    /// No statement with this transaction number was executed before the command.
    fresh: bool,
    retried: Vec<i32>,
    /// How many of `retried` come from earlier runs of the command.
    kept: usize,
}

impl<'r> Retry<'r> {
    /// Begins or repeats a write.
    ///
    /// # Errors
    /// 225 TransactionTooOld; engine failures.
    pub fn begin(store: &Store, record: &'r mut SessionRecord, number: i64) -> Result<Retry<'r>> {
        match store.begin_retryable(record, number)? {
            NumberOrder::Old(last) => bail!(
                code::TRANSACTION_TOO_OLD,
                "Retryable write with txnNumber {number} is prohibited on this session because a \
                    newer retryable write with txnNumber {last} has already started"
            ),
            begun => Ok(Retry {
                record,
                fresh: begun == NumberOrder::New,
                retried: Vec::new(),
                kept: 0,
            }),
        }
    }

    /// Adds the statements that earlier runs of the command found to be done.
    pub fn go_on(&mut self, retried: &[i32]) {
        self.retried.extend_from_slice(retried);
        self.kept = self.retried.len();
    }

    /// Statements that were found to be done so far and not run again.
    pub fn retried_statements(&self) -> &[i32] {
        &self.retried
    }

    /// The effect of the statement if it was executed in an earlier attempt.
    pub fn find_effect(&mut self, statement: i32) -> Option<Effect> {
        if self.fresh {
            return None;
        }
        let effect = self.record.find(statement).cloned()?;
        let kept = self.retried.get(..self.kept).unwrap_or_default();
        if !kept.contains(&statement) {
            self.retried.push(statement);
        }
        Some(effect)
    }

    /// The log in which the effects of these statements are recorded.
    pub fn log<'n>(&'n mut self, ids: &'n [i32], keep: RetryImage) -> StatementLog<'n> {
        StatementLog {
            record: self.record,
            ids,
            keep,
        }
    }

    /// Whether the only statement of a command was found to be done and not run again.
    pub fn is_retried(&self, ids: &[i32]) -> bool {
        ids.first().is_some_and(|id| self.retried.contains(id))
    }

    /// Writes the statements that were not run again as `retriedStmtIds`.
    pub fn report(&self, reply: &mut DocWriter<'_>) {
        if self.retried.is_empty() {
            return;
        }
        let mut list = reply.array("retriedStmtIds");
        for id in &self.retried {
            list.push(*id);
        }
    }

    /// The numbers of a command's statements. When the list contains a number twice, every
    /// statement has to be looked up in the record.
    ///
    /// # Errors
    /// 72 InvalidOptions for both `stmtId` and `stmtIds`, or another count than there are
    /// statements; 14 TypeMismatch.
    pub fn ids(&mut self, args: &Args<'_>, count: usize) -> Result<StatementIds> {
        let number = |v: &Value<'_>| -> Result<i32> {
            let n = to_i64(v).and_then(|n| i32::try_from(n).ok());
            n.ok_or_else(|| {
                MongoError::new(
                    code::TYPE_MISMATCH,
                    format!("a statement id must be a 32-bit integer, given {v}"),
                )
            })
        };
        if let Some(list) = args.array("stmtIds") {
            if args.has("stmtId") {
                bail!(
                    code::INVALID_OPTIONS,
                    "May not specify both stmtId and stmtIds in write command"
                );
            }
            let ids = list
                .iter()
                .map(|v| number(&v))
                .collect::<Result<StatementIds>>()?;
            if ids.len() != count {
                bail!(
                    code::INVALID_OPTIONS,
                    "Number of statement ids must match the number of batch entries. Got {} \
                        statement ids but {count} batch entries",
                    ids.len()
                );
            }
            self.fresh &= ids.is_sorted_by(|a, b| a < b);
            return Ok(ids);
        }
        let first = if args.has("stmtId") {
            number(&args.value("stmtId"))?
        } else {
            0
        };
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        Ok((0..count).map(|i| first.saturating_add(i)).collect())
    }
}

/// Refuses writes of many documents that carry a transaction number.
///
/// # Errors
/// 72 InvalidOptions.
pub fn single(retry: &Option<Retry<'_>>, multi: bool, what: &str) -> Result<()> {
    if multi && retry.is_some() {
        bail!(
            code::INVALID_OPTIONS,
            "Cannot use (or request) retryable writes with {what}"
        );
    }
    Ok(())
}
