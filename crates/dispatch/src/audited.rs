//! The audit events of the dispatcher: authorization checks, and direct writes into the collections
//! of users and roles.

use super::body::{database, names_system};
use access::hide_secrets;
use context::connection::Connection;
use model::{Doc, DocBuf};
use operation::Operation;
use request::Request;
use request::spec::{Spec, flag};
use state::service::Service;

/// Writes the event of an authorization check.
#[cold]
pub(super) fn check(
    service: &Service,
    conn: &Connection,
    request: &Request<'_>,
    command: &Spec,
    db: &str,
    result: i32,
) {
    service.audit_client(&conn.info, "authCheck", result, |w| {
        w.put("command", command.name);
        if let Some(coll) = request.body.first().and_then(|(_, v)| v.as_str()) {
            w.put("ns", format!("{db}.{coll}").as_str());
        } else {
            w.put("ns", db);
        }
        w.put(
            "args",
            &service.detail(arguments(request, conn.is_secret).doc()),
        );
    });
}

/// A request as one document; document sequences become arrays.
fn arguments(request: &Request<'_>, is_secret: bool) -> DocBuf {
    if is_secret {
        return hide_secrets(request.body);
    }
    let length: usize = request.sequences.iter().map(|s| s.documents.len()).sum();
    if length > ARGUMENTS_BYTES_MAX || request.body.len_bytes() > ARGUMENTS_BYTES_MAX {
        return model::doc! { "$truncated": true };
    }
    let mut whole = request.body.to_buf();
    whole.append(|w| {
        for sequence in request.sequences {
            let mut items = w.array(sequence.name);
            sequence.iter().for_each(|d: Doc<'_>| {
                items.push(d);
            });
        }
    });
    whole
}

/// Most bytes of arguments that are put together in one document.
const ARGUMENTS_BYTES_MAX: usize = 64 * 1024;

/// Invalidates the resolved users and roles after a command that may have changed them: a write
/// that names their collections, or a read that has written. `done`: the command succeeded.
pub(super) fn renew_users(
    service: &Service,
    conn: &Connection,
    request: &Request<'_>,
    command: &Spec,
    wrote: bool,
    done: bool,
) {
    // The command runs on `admin`, but a transaction cannot write to that database.
    if command.is(flag::ENDS_TRANSACTION) {
        return;
    }
    let writes = command.is(flag::WRITE);
    let names_users = writes && database(request).is_ok_and(|db| names_system(request, db));
    // `$out` and `$merge` may have written to any collection.
    if (names_users || (!writes && wrote))
        && let Err(e) = service.access.note_change()
    {
        let message = format!("other servers were not told of users: {}", e.message());
        service.log('W', "ACCESS", &message);
    }
    if names_users && done && service.state.audit.is_on() {
        tell_direct_change(service, &conn.operation, request, command);
    }
}

/// Writes the event for a command that names the system collections of `admin`: it may have changed
/// users or roles without the commands for them.
fn tell_direct_change(
    service: &Service,
    operation: &Operation,
    request: &Request<'_>,
    command: &Spec,
) {
    let Ok(db) = database(request) else {
        return;
    };
    let coll = request.body.first().and_then(|(_, v)| v.as_str());
    let several =
        request.body.contains("nsInfo") || request.sequences.iter().any(|s| s.name == "nsInfo");
    // Commands for users and roles name users and roles in their first field, not the collections.
    if !several && !coll.is_some_and(|c| c.starts_with("system.")) {
        return;
    }
    service.audit(operation.connection(), "directAuthMutation", 0, |w| {
        // Documents contain credentials and are not shown.
        w.put("ns", format!("{db}.{}", coll.unwrap_or("*")).as_str())
            .put("operation", command.name);
    });
}
