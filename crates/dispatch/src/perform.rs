//! Runs one command: its outcome, what its reply has to wait for, and whether it is run again. Must
//! not know: which commands exist, where requests come from.

use super::transaction::StatementKind;
use super::{durability, reply};
use context::command::Run;
use context::connection::SuspendedWait;
use context::ctx::Ctx;
use context::progress::Progress;
use model::{ErrorKind, MongoError, Timestamp};
use request::spec::{Spec, flag};
use request::{Outcome, Request, WaitFor};
use state::service::Service;
use state::transactions::{RETRYABLE, RETRYABLE_WRITE};
use store::CommitPos;

/// How often an operation that was set aside checks whether it may run, in case a wake-up was lost,
/// in microseconds.
const SET_ASIDE_US: u64 = 5_000_000;
/// How long the first statement of a transaction waits for locks before it fails with a conflict,
/// in microseconds.
const FIRST_STATEMENT_US: u64 = 50_000;

/// A command that ended in an error.
pub(super) struct CommandFailure {
    pub(super) error: MongoError,
    /// The error reports data that is durable only from this position on.
    pub(super) due: Option<CommitPos>,
    /// Nothing was changed because the collection was replaced in the meantime: the command may run
    /// again.
    pub(super) again: bool,
}

impl CommandFailure {
    /// Labels the error of a write that a driver may send again on its own.
    pub(super) fn label_retryable(self, numbered: StatementKind, command: &Spec) -> CommandFailure {
        let e = &self.error;
        let is_labelled = e.labels().contains(&RETRYABLE_WRITE);
        if is_labelled || !RETRYABLE.contains(&e.code()) || !numbered.may_be_sent_again(command) {
            return self;
        }
        CommandFailure {
            error: self.error.label(RETRYABLE_WRITE),
            ..self
        }
    }
}

pub(super) type CommandResult = Result<Outcome, CommandFailure>;

impl From<MongoError> for CommandFailure {
    fn from(error: MongoError) -> CommandFailure {
        CommandFailure {
            error,
            due: None,
            again: false,
        }
    }
}

/// Whether the command may be set aside. In a transaction, only the first statement may: no client
/// has seen the transaction's state yet, so the statement may run again in a transaction that
/// begins later.
fn may_set_aside(cx: &Ctx<'_, '_>, numbered: StatementKind) -> bool {
    let in_time = |until_us| cx.service.clock.monotonic_us() < until_us;
    let fixed = cx.generic.read_concern.as_ref().and_then(|c| c.at);
    cx.command.is(flag::RESUMABLE)
        && (numbered != StatementKind::Transaction
            || cx.generic.start_transaction
                && fixed.is_none()
                && cx.progress.waits_until_us.is_none_or(in_time))
}

/// Runs the command. If it is set aside, the outcome is a wait without a thread.
pub(super) fn perform(cx: &mut Ctx<'_, '_>, run: Run, numbered: StatementKind) -> CommandResult {
    // Held until this run ends, because a transaction may then hold the lock that it was woken for.
    let _woken_by = cx.conn.woken_by.take();
    // Only writers wait for locks, and commands that take long may end in a write.
    let runs_again = may_set_aside(cx, numbered);
    let kept = cx.progress.kept.take();
    let waits = cx.command.is(flag::WRITE) || cx.command.is(flag::LONG);
    cx.operation.writes().begin_run(waits && runs_again, kept);
    let outcome = finish(cx, run);
    let end = cx.operation.writes().end_run();
    if !matches!(&outcome, Err(refused) if refused.error.is(ErrorKind::SetAside)) {
        return outcome;
    }
    let now_us = cx.service.clock.monotonic_us();
    let mut left_us = cx.operation.remaining_us().unwrap_or(SET_ASIDE_US);
    if numbered == StatementKind::Transaction {
        // The progress is dropped together with the transaction.
        let until_us = cx.progress.waits_until_us;
        let until_us = until_us.unwrap_or(now_us.saturating_add(FIRST_STATEMENT_US));
        left_us = left_us.min(until_us.saturating_sub(now_us));
        cx.progress = Progress::default();
        cx.progress.waits_until_us = Some(until_us);
    } else {
        cx.progress.kept = end.kept;
        cx.progress.reported = cx.reported;
        cx.progress.retried = cx
            .retry
            .as_ref()
            .map_or_else(Vec::new, |r| r.retried_statements().to_vec());
    }
    cx.progress.begun = true;
    cx.conn.progress = std::mem::take(&mut cx.progress);
    let queued = &cx.service.state.queued_writers;
    cx.conn.set_aside = Some(SuspendedWait::new(end.registered, queued, now_us));
    Ok(Outcome::Wait {
        until_us: now_us.saturating_add(left_us.min(SET_ASIDE_US)),
        on: WaitFor::Release,
    })
}

/// Runs the command, finishes its reply, and computes what the reply has to wait for.
fn finish(cx: &mut Ctx<'_, '_>, run: Run) -> CommandResult {
    let outcome = match run(cx) {
        Ok(outcome) => outcome,
        Err(error) => {
            let again = error.is_collection_gone()
                && cx.command.is(flag::RUNS_AGAIN)
                && !cx.reported.has_written();
            let due = durability::required_position(cx, true);
            return Err(CommandFailure { error, due, again });
        }
    };
    let outcome = match outcome {
        Outcome::Reply | Outcome::Exhaust => match durability::required_position(cx, false) {
            // A reply in the middle of a stream cannot wait. Without the stream the client asks for
            // each reply.
            Some(pos) if outcome == Outcome::Reply || !durability::is_durable(cx, pos) => {
                Outcome::Durable(pos.0)
            }
            _ => outcome,
        },
        other => return Ok(other),
    };
    let wrote = cx.command.is(flag::WRITE) || cx.reported.has_written();
    if let (true, Some(e)) = (wrote, durability::concern_error(cx)) {
        cx.reply.put("writeConcernError", &e);
    }
    if let Some(peer) = cx.transaction.as_ref().and(cx.service.store.peer()) {
        // Drivers send it with a commit that goes to another server.
        let mut token = cx.reply.doc("recoveryToken");
        token.put("recoveryShardId", peer.name().as_str());
    }
    // A read returns the state at its beginning or a later one.
    let time = match wrote {
        true => time_of_write(cx),
        false => cx.began_at,
    };
    reply::finish(cx.service, cx.ok_int, time, &mut cx.reply);
    Ok(outcome)
}

/// The time of a write, which may be later than the readable log while an earlier commit is in
/// progress. A command that changed nothing, such as a retry, may report any change, so it gets the
/// latest time.
fn time_of_write(cx: &Ctx<'_, '_>) -> Timestamp {
    let own = match (cx.operation.writes().time(), cx.service.store.log()) {
        (0, Some(log)) => log.latest(),
        // Beside other servers the state of the service has all of the commit's times.
        (own, Some(log)) if log.is_shared() => return Timestamp::from_u64(own),
        (own, _) => Timestamp::from_u64(own),
    };
    cx.service.operation_time().max(own)
}

/// Whether the reply has to wait for the journal, and a client waits for the reply.
pub(super) fn is_awaited(service: &Service, request: &Request<'_>, answer: &CommandResult) -> bool {
    let due = match answer {
        Ok(Outcome::Durable(pos)) => Some(CommitPos(*pos)),
        Ok(_) => None,
        Err(refused) => refused.due,
    };
    let durable = || service.store.engine().durable_pos();
    !request.more_to_come && due.is_some_and(|pos| durable() < pos)
}

/// Whether a fail point closes the connection after the write.
pub(super) fn closes(ctx: &Ctx<'_, '_>, numbered: StatementKind, outcome: &CommandResult) -> bool {
    let ended = !matches!(outcome, Ok(Outcome::Wait { .. }));
    let wrote = numbered == StatementKind::Retryable && ctx.reported.has_written();
    ended && wrote && ctx.service.state.failpoints.after_write()
}
