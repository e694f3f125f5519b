//! Begins the operation of a command, and sets what `currentOp` shows of it.

use context::connection::Connection;
use model::Doc;
use operation::Operation;
use request::Request;
use request::generic::Generic;
use request::spec::{Spec, flag};
use state::connections::CurrentOp;
use state::service::Service;
use std::sync::Arc;

/// Command documents above this size are not kept for `currentOp`.
const OP_BODY_BYTES_MAX: usize = 1024;

/// Begins an operation after the cluster time that it has to wait for, or continues the one that
/// waited.
pub(super) fn begin(
    service: &Service,
    conn: &mut Connection,
    request: &Request<'_>,
    command: &'static Spec,
    generic: &Generic<'_>,
) -> Arc<Operation> {
    if request.waited
        && let Some(op) = conn.info.op.lock().as_mut()
    {
        op.waits_for_lock = false;
        return Arc::clone(&op.operation);
    }
    catch_up(service, generic);
    let operation = Operation::renew(&mut conn.operation);
    if generic.max_time_ms > 0 && !command.is(flag::WAITS_FOR_DATA) {
        operation.allow_us(
            u64::try_from(generic.max_time_ms)
                .unwrap_or(0)
                .saturating_mul(1000),
        );
    }
    operation.ends_with_client(command.is(flag::ENDS_WITH_CLIENT));
    if !command.is(flag::QUIET) {
        note(service, conn, request.body, command, generic, &operation);
    }
    operation
}

fn note(
    service: &Service,
    conn: &Connection,
    body: Doc<'_>,
    command: &'static Spec,
    generic: &Generic<'_>,
    operation: &Arc<Operation>,
) {
    let (mut db, mut kept) = std::mem::take(&mut *conn.info.spare.lock());
    db.clear();
    db.push_str(generic.db);
    kept.clear();
    if body.len_bytes() <= OP_BODY_BYTES_MAX && !conn.is_secret {
        kept.extend_from_slice(body.as_bytes());
    }
    let op = CurrentOp {
        opid: service.next_operation(),
        start_us: service.clock.monotonic_us(),
        start_ms: service.clock.now_ms(),
        command,
        db,
        body: kept,
        lsid: generic.lsid.map(|l| l.id),
        operation: Arc::clone(operation),
        cursor: None,
        comment: None,
        waits_for_lock: false,
    };
    *conn.info.op.lock() = Some(op);
}

/// Waits until the commits in progress of a time that the client wants to read after are visible.
fn catch_up(service: &Service, generic: &Generic<'_>) {
    let after = generic.read_concern.and_then(|c| c.after);
    if let (Some(after), Some(log)) = (after, service.store.log()) {
        log.catch_up(after);
    }
}
