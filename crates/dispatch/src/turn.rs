//! The admission of an operation: it runs, waits without a thread, or is refused because the server
//! is overloaded. Must not know: how tickets are counted.

use super::transaction::StatementKind;
use context::connection::Connection;
use model::Result;
use operation::Operation;
use request::spec::{LatencyKind, Spec, flag};
use request::{Outcome, WaitFor};
use state::admission::{READS, Ticket, TicketAnswer, WRITES};
use state::failpoints::Failure;
use state::service::Service;

/// The result of asking for admission.
pub(super) enum AdmissionResult<'s> {
    /// The operation runs. There is no ticket if it needs none.
    Run(Option<Ticket<'s>>),
    /// The operation waits, and asks again at this monotonic microsecond at the latest.
    Wait(u64),
}

/// Has an operation wait for its turn; a failure that a fail point requests is kept until then.
pub(super) fn wait(conn: &mut Connection, failure: Option<Failure>, until_us: u64) -> Outcome {
    conn.failing = failure;
    let on = WaitFor::Turn;
    Outcome::Wait { until_us, on }
}

/// Takes a ticket for an operation that reads or writes. A statement of a transaction needs none,
/// because others may wait for its locks. An operation that was set aside does not wait for a
/// ticket: it may have written, so it must not be refused.
///
/// # Errors
/// Why the operation was interrupted while it waited; 462 IngressRequestRateLimitExceeded when the
/// server is overloaded.
pub(super) fn take<'s>(
    service: &'s Service,
    conn: &mut Connection,
    operation: &Operation,
    command: &Spec,
    numbered: StatementKind,
) -> Result<AdmissionResult<'s>> {
    if numbered != StatementKind::Transaction {
        // The operation holds no lock after it has ended, so the next waiter may be woken now.
        conn.woken_by = None;
    }
    let gate = match command.kind {
        LatencyKind::Read => READS,
        LatencyKind::Write => WRITES,
        LatencyKind::Command => return Ok(AdmissionResult::Run(None)),
    };
    if numbered == StatementKind::Transaction || command.is(flag::QUIET) {
        return Ok(AdmissionResult::Run(None));
    }
    let place = conn.place.take();
    if place.is_some() {
        operation.check()?;
    }
    let admission = &service.state.admission;
    if place.is_none() {
        let ticket = admission.try_ticket(gate);
        if conn.progress.begun || ticket.is_some() {
            return Ok(AdmissionResult::Run(ticket));
        }
    }
    let now_us = service.clock.monotonic_us();
    let since_us = place.as_ref().map_or(now_us, |p| p.since_us);
    let patience_ms = service.state.parameters.int("admissionQueueTimeMaxMS");
    let patience_us = u64::try_from(patience_ms).unwrap_or(0).saturating_mul(1000);
    let asked = admission.ask(gate, place, operation.link(), now_us, patience_us)?;
    Ok(match asked {
        TicketAnswer::Run(ticket) => {
            conn.queued_us = Some(now_us.saturating_sub(since_us));
            AdmissionResult::Run(Some(ticket))
        }
        TicketAnswer::Wait(place, until_us) => {
            conn.place = Some(place);
            let left_us = operation.remaining_us().unwrap_or(u64::MAX);
            AdmissionResult::Wait(until_us.min(now_us.saturating_add(left_us)))
        }
    })
}
