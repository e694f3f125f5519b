//! The only place where the rights of a command are checked, according to the privilege in its
//! specification.

use access::{Access, Rights, User};
use auth::Target;
use context::connection::Connection;
use model::{Doc, MongoError, Result, Value, code};
use request::args::Args;
use request::asked::RightsRequest;
use request::spec::{CommandTable, Privilege, Spec, flag};

/// Checks that the user of a connection may run a command. Called only when access control is on.
///
/// # Cost
/// A few hash lookups for a user whose rights have not changed.
///
/// # Errors
/// 13 Unauthorized.
pub(super) fn authorize(
    access: &Access,
    commands: &CommandTable,
    conn: &mut Connection,
    call: &Call<'_, '_>,
) -> Result<()> {
    let command = call.command;
    let bootstrapping = || conn.identity.is_bootstrapping(access);
    let nobody = match conn.identity.user() {
        Some(_) => None,
        None if command.is(flag::NO_AUTH) && matches!(command.privilege, Privilege::Any) => {
            return Ok(());
        }
        None => Some(bootstrapping()),
    };
    if nobody == Some(false) {
        return Err(needs_login(command));
    }
    let had_user = nobody.is_none();
    let grants = conn.identity.grants(access)?;
    if had_user && grants.is_none() {
        // The user was dropped while logged in.
        return if command.is(flag::NO_AUTH) {
            Ok(())
        } else {
            Err(needs_login(command))
        };
    }
    if grants.is_some() && matches!(command.privilege, Privilege::Any) {
        return Ok(());
    }
    let user = conn.identity.user().map(|u| &**u);
    let rights = match user {
        Some(user) => Rights::Of(&user.resolved.grants),
        None => Rights::Nobody {
            bootstrapping: true,
        },
    };
    check(commands, call, Requester { rights, user })
}

fn needs_login(command: &Spec) -> MongoError {
    MongoError::new(
        code::UNAUTHORIZED,
        format!("Command {} requires authentication", command.name),
    )
}

/// The error for a user whose token has expired; drivers log in again on the same connection.
pub(super) fn needs_login_again(command: &Spec) -> MongoError {
    MongoError::new(
        code::REAUTHENTICATION_REQUIRED,
        format!(
            "Command {} requires reauthentication since the current authorization session has \
             expired. Please re-auth.",
            command.name
        ),
    )
}

/// A command with its request.
pub(super) struct Call<'s, 'a> {
    pub(super) command: &'s Spec,
    pub(super) db: &'s str,
    pub(super) body: Doc<'a>,
    pub(super) args: &'s Args<'a>,
}

/// The user who sent the request.
#[derive(Clone, Copy)]
struct Requester<'a> {
    rights: Rights<'a>,
    user: Option<&'a User>,
}

fn check(commands: &CommandTable, call: &Call<'_, '_>, who: Requester<'_>) -> Result<()> {
    let Call { command, db, .. } = *call;
    let inner = |body: Doc<'_>| {
        let (name, _) = body.first().unwrap_or_default();
        // The outer command refuses a name that it does not know.
        let Some(row) = commands.find(name) else {
            return Ok(());
        };
        let args = Args::of_inner(row.command.name, row.command.args, body)?;
        let call = Call {
            command: row.command,
            db,
            body,
            args: &args,
        };
        check(commands, &call, who)
    };
    let asked = RightsRequest {
        db,
        body: call.body,
        value: call.body.first().map_or(Value::Missing, |(_, v)| v),
        args: call.args,
        rights: who.rights,
        user: who.user,
        inner: &inner,
    };
    match command.privilege {
        Privilege::Any => asked.require(who.user.is_some() || command.is(flag::NO_AUTH)),
        Privilege::Collection(actions) => asked.needs_on(asked.collection()?, actions),
        Privilege::Database(actions) => asked.needs(Target::Database(db), actions),
        Privilege::Cluster(actions) => asked.needs(Target::Cluster, actions),
        Privilege::Asked(needs) => needs(&asked),
    }
}
