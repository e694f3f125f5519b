//! Running one command: its outcome, what its reply has to wait for, and whether it is run again.
//! Must not know: which commands there are, how requests come in.

use super::command::Run;
use super::connection::SetAside;
use super::ctx::Ctx;
use super::interrupt::Running;
use super::request::{Outcome, WaitFor};
use super::spec::flag;
use super::transaction::Numbered;
use super::{durability, reply};
use model::{ErrorKind, MongoError};
use store::CommitPos;

/// An operation that was set aside looks this often whether it was woken without a wake-up.
const SET_ASIDE_US: u64 = 5_000_000;

/// A command that ended in an error.
pub(super) struct Refused {
    pub(super) error: MongoError,
    /// The error tells of data that is durable only from here on.
    pub(super) due: Option<CommitPos>,
    /// Nothing was done because the collection was replaced meanwhile: the command may run again.
    pub(super) again: bool,
}

pub(super) type Answer = Result<Outcome, Refused>;

impl From<MongoError> for Refused {
    fn from(error: MongoError) -> Refused {
        Refused {
            error,
            due: None,
            again: false,
        }
    }
}

/// Runs the command; where it was set aside, it waits without a thread.
pub(super) fn perform(cx: &mut Ctx<'_, '_>, run: Run, numbered: Numbered) -> Answer {
    // Only writers wait for something below the command, and what takes long may end in a write.
    // A statement of a transaction does not wait.
    let runs_again = cx.command.is(flag::SET_ASIDE) && numbered != Numbered::Transaction;
    let kept = cx.progress.kept.take();
    let running = (cx.command.is(flag::WRITE) || cx.command.is(flag::LONG))
        .then(|| Running::new(&cx.interrupt, runs_again, kept));
    let outcome = finish(cx, run);
    let (registered, kept) = running.map_or((None, None), Running::end);
    if !matches!(&outcome, Err(refused) if refused.error.is(ErrorKind::SetAside)) {
        return outcome;
    }
    cx.progress.begun = true;
    cx.progress.kept = kept;
    cx.progress.reported = cx.reported;
    cx.progress.retried = cx
        .retry
        .as_ref()
        .map_or_else(Vec::new, |r| r.not_run_again().to_vec());
    cx.conn.progress = std::mem::take(&mut cx.progress);
    let queued = &cx.service.state.queued_writers;
    let now_us = cx.service.clock.monotonic_us();
    cx.conn.set_aside = Some(SetAside::new(registered, queued, now_us));
    let left_us = cx.interrupt.left_us().unwrap_or(SET_ASIDE_US);
    Ok(Outcome::Wait {
        until_us: now_us.saturating_add(left_us.min(SET_ASIDE_US)),
        on: WaitFor::Release,
    })
}

/// Runs the command, ends its reply, and finds what the reply has to wait for.
fn finish(cx: &mut Ctx<'_, '_>, run: Run) -> Answer {
    let outcome = match run(cx) {
        Ok(outcome) => outcome,
        Err(error) => {
            let again = error.is_collection_gone()
                && cx.command.is(flag::RUNS_AGAIN)
                && !cx.reported.has_written();
            let due = durability::due(cx, true);
            return Err(Refused { error, due, again });
        }
    };
    let outcome = match outcome {
        Outcome::Reply | Outcome::Exhaust => match durability::due(cx, false) {
            // A stream of replies cannot wait in its middle; without it the client asks for each.
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
    // What a read tells of was there at the time it began, perhaps more; a write has its own time.
    let time = match wrote {
        true => cx.service.operation_time(),
        false => cx.began_at,
    };
    reply::finish(cx.service, cx.ok_int, time, &mut cx.reply);
    Ok(outcome)
}

/// Whether a fail point closes the connection after the write.
pub(super) fn closes(ctx: &Ctx<'_, '_>, numbered: Numbered, outcome: &Answer) -> bool {
    let ended = !matches!(outcome, Ok(Outcome::Wait { .. }));
    let wrote = numbered == Numbered::Retryable && ctx.reported.has_written();
    ended && wrote && ctx.service.state.failpoints.after_write()
}
