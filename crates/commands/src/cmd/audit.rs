//! `getAuditConfig`, `setAuditConfig`, `logApplicationMessage`, and the events of commands that
//! change users and roles.

use access::unauthorized_error;
use auth::role_list;
use context::command::Command;
use context::ctx::Ctx;
use logs::{Entry, component, id};
use model::{DocWriter, MongoError, Result, Value, bail, code};
use operation::split_set_aside;
use request::Outcome;
use request::args::{Kind, arg, missing_field};
use request::spec::{Privilege, flag};

const CONFIGURE: Privilege = Privilege::Cluster(&[auth::Action::AuditConfigure]);

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "getAuditConfig",
        "which events the audit wants",
        CONFIGURE,
        0,
        &[],
        get,
    ),
    Command::new(
        "setAuditConfig",
        "sets which events the audit wants",
        CONFIGURE,
        0,
        &[
            arg("filter", Kind::Object),
            arg("auditAuthorizationSuccess", Kind::Bool),
        ],
        set,
    ),
    Command::new(
        "logApplicationMessage",
        "puts a message into the log and the audit",
        Privilege::Cluster(&[auth::Action::ApplicationMessage]),
        flag::ADMIN,
        &[],
        message,
    )
    .value(Kind::Str),
];

/// What an event shows of a command.
pub(super) struct EventFields {
    /// The event's name for the value of the command's first field, which names a user or a role.
    pub(super) name: &'static str,
    /// Arguments that are shown if they are given.
    pub(super) fields: &'static [&'static str],
}

/// Runs a command and writes an event for it, whether or not it succeeds.
///
/// # Errors
/// Those of the command.
pub(super) fn run_audited(
    cx: &mut Ctx<'_, '_>,
    shown: &EventFields,
    run: impl FnOnce(&mut Ctx<'_, '_>) -> Result<Outcome>,
) -> Result<Outcome> {
    let service = cx.service;
    // When several clients use the localhost exception at the same time, only one may proceed.
    let by_exception = service.access.is_enabled() && cx.conn.identity.user().is_none();
    let first = by_exception.then(|| service.access.hold_first());
    let outcome = match first {
        Some(None) => Err(unauthorized_error(cx.db, cx.request.body)),
        _ => run(cx),
    };
    drop(first);
    let outcome = split_set_aside(outcome)?;
    let result = outcome.as_ref().map_or_else(MongoError::code, |_| 0);
    if cx.service.state.audit.is_on() {
        let by = cx.operation.connection();
        cx.service
            .audit(by, cx.command.name, result, |w| write(cx, shown, w));
    }
    outcome
}

fn write(cx: &Ctx<'_, '_>, shown: &EventFields, w: &mut DocWriter<'_>) {
    if let Some(name) = cx.value().as_str() {
        w.put(shown.name, name);
    }
    w.put("db", cx.db);
    if cx.command.name == "updateUser" {
        w.put("passwordChanged", cx.args.has("pwd"));
    }
    for field in shown.fields {
        match (*field, cx.args.value(field)) {
            (_, Value::Missing) => {}
            ("roles", Value::Array(roles)) => {
                let mut list = w.array("roles");
                // The command itself refuses invalid names.
                for role in role_list(roles, cx.db).unwrap_or_default() {
                    role.write(&mut list.doc());
                }
            }
            (field, value) => {
                let detail = model::doc! { field: value };
                let detail = match field {
                    "customData" => cx.service.detail(detail.doc()),
                    _ => detail,
                };
                w.put_all(detail.doc());
            }
        }
    }
}

/// Without an audit these commands are unknown, as in MongoDB, even when their arguments are
/// invalid.
fn check_known(cx: &Ctx<'_, '_>) -> Result<()> {
    let name = cx.command.name;
    if !cx.service.state.audit.is_on() {
        bail!(
            code::COMMAND_NOT_FOUND,
            "no such command: '{name}', because no audit was configured"
        );
    }
    if cx.db != "admin" {
        bail!(
            code::UNAUTHORIZED,
            "{name} may only be run against the admin database"
        );
    }
    Ok(())
}

fn get(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    check_known(cx)?;
    let Some((filter, success, changed)) = cx.service.state.audit.config() else {
        return Ok(Outcome::Reply);
    };
    cx.reply
        .put("filter", &filter)
        .put("auditAuthorizationSuccess", success)
        .put("clusterParameterTime", Value::Timestamp(changed));
    Ok(Outcome::Reply)
}

fn set(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    check_known(cx)?;
    for name in ["filter", "auditAuthorizationSuccess"] {
        if !cx.args.has(name) {
            return Err(missing_field(&format!("setAuditConfig.{name}")));
        }
    }
    if !cx.service.state.audit.is_changed_by_clients() {
        bail!(
            code::ILLEGAL_OPERATION,
            "the audit is configured at the start: auditLog.runtimeConfiguration lets clients \
                change it"
        );
    }
    let filter = cx.args.doc("filter").unwrap_or(model::Doc::EMPTY);
    let success = cx.args.bool("auditAuthorizationSuccess", false);
    cx.service
        .set_audit_config(cx.operation.connection(), filter, success)?;
    Ok(Outcome::Reply)
}

fn message(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let text = cx.value().as_str().unwrap_or("");
    let shown = "Application message";
    let context = cx.conn.info.name();
    let entry = Entry::info(id::APPLICATION_MESSAGE, component::CONTROL, &context, shown);
    let service = cx.service;
    service.write_log(&entry.attr(|w| {
        w.put("msg", service.redact(text));
    }));
    service.audit(cx.operation.connection(), "applicationMessage", 0, |w| {
        let detail = service.detail(model::doc! { "msg": text }.doc());
        w.put_all(detail.doc());
    });
    Ok(Outcome::Reply)
}
