//! Decides whether a command may run now: a lock against writes, a block of user writes, a fail
//! point. Must not know: what commands do.

use super::standby;
use auth::{Action, Target};
use context::connection::Connection;
use model::{Doc, Result, Value, bail};
use query::stages::TABLE;
use request::generic::Generic;
use request::spec::{Spec, flag};
use request::{Outcome, Request, WaitFor};
use state::failpoints::Failure;
use state::service::Service;
use std::sync::atomic::Ordering;

/// Interval in microseconds at which a write blocked by `fsync` tries again.
const UNLOCK_POLL_US: u64 = 20_000;

/// Whether a command may run now.
pub(super) enum Admission {
    /// The command runs; a fail point may change its reply.
    Run(Option<Failure>),
    /// The command does not run; this is the outcome.
    End(Outcome),
}

/// Whether the request may write while user writes are blocked: by its `mayBypassWriteBlocking`,
/// which only internal users may send, or by the rights of its user.
fn passes_block(service: &Service, conn: &Connection, generic: &Generic<'_>) -> Result<bool> {
    let access = &service.access;
    let may = |action| {
        let rights = conn.identity.rights(access);
        rights.allows(Target::Cluster, &[action])
    };
    match generic.may_bypass_block {
        Some(_) if !may(Action::Internal) => bail!(
            6_317_500,
            "Client is not properly authorized to propagate mayBypassWriteBlocking"
        ),
        Some(yes) => Ok(yes),
        None => Ok(access.is_enabled() && may(Action::BypassWriteBlockingMode)),
    }
}

/// Notes that the operation may write although user writes are blocked, if it may.
///
/// # Errors
/// 6317500 for a client that may not ask for that.
pub(super) fn let_pass(service: &Service, conn: &Connection, generic: &Generic<'_>) -> Result<()> {
    if service.state.user_writes.are_blocked() && passes_block(service, conn, generic)? {
        conn.operation.pass_block();
    }
    Ok(())
}

/// Whether a reading command stores its results: by a stage, or as `mapReduce`.
fn stores(body: Doc<'_>) -> bool {
    let pipeline = body.field("pipeline").as_array();
    let out = match body.field("out") {
        Value::String(_) => true,
        Value::Document(out) => !out.contains("inline"),
        _ => false,
    };
    out || pipeline.is_some_and(|p| TABLE.stores(p))
}

/// Whether the command may run now: there is no lock against writes and no fail point that fails
/// it.
pub(super) fn hold_back(
    service: &Service,
    conn: &mut Connection,
    request: &Request<'_>,
    command: &Spec,
    generic: &Generic<'_>,
) -> Result<Admission> {
    let now_us = || service.clock.monotonic_us();
    if service.state.user_writes.pair.is_standby() {
        match standby::is_follower(service, conn) {
            true => conn.operation.pass_block(),
            false => standby::refuse(command, stores(request.body), generic)?,
        }
    } else {
        let_pass(service, conn, generic)?;
    }
    let locked = service.state.fsync_locks.load(Ordering::Acquire) > 0;
    if locked && (command.is(flag::WRITE) || stores(request.body)) {
        // The wait can end like every other: by its time limit, by `killOp`.
        conn.operation.check()?;
        let left_us = conn.operation.remaining_us().unwrap_or(UNLOCK_POLL_US);
        let until_us = now_us().saturating_add(left_us.min(UNLOCK_POLL_US));
        return Ok(Admission::End(Outcome::Wait {
            until_us,
            on: WaitFor::Unlock,
        }));
    }
    // An operation that continues after a wait was checked when it began.
    let failure = if conn.awaits.is_some() {
        None
    } else {
        failure(service, conn, request, command, generic)?
    };
    let Some(f) = &failure else {
        return Ok(Admission::Run(None));
    };
    if f.block_ms > 0 {
        let until_us =
            now_us().saturating_add(u64::try_from(f.block_ms).unwrap_or(0).saturating_mul(1000));
        conn.failing = Some(Failure {
            block_ms: 0,
            ..f.clone()
        });
        return Ok(Admission::End(Outcome::Wait {
            until_us,
            on: WaitFor::Time,
        }));
    }
    if f.close {
        return Ok(Admission::End(Outcome::Close));
    }
    match f.error(generic, command.is(flag::ENDS_TRANSACTION)) {
        Some(e) => Err(e),
        None => Ok(Admission::Run(failure)),
    }
}

/// The failure that a fail point requests, if any.
fn failure(
    service: &Service,
    conn: &mut Connection,
    request: &Request<'_>,
    command: &Spec,
    generic: &Generic<'_>,
) -> Result<Option<Failure>> {
    if let Some(f) = conn.failing.take() {
        return Ok(Some(f));
    }
    if !service.state.failpoints.is_armed() {
        return Ok(None);
    }
    service
        .state
        .failpoints
        .at(&conn.info, command, generic, request.body)
}
