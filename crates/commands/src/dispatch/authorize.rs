//! The one place where the rights of a command are checked: by the privilege its row names.

use super::connection::Connection;
use super::request::Request;
use super::spec::{CommandTable, Privilege, Spec, flag};
use crate::access::needs::asked::Asked;
use crate::access::{Access, Rights};
use auth::Target;
use model::{Doc, MongoError, Result, code};

/// Checks that the user of a connection may run a command. Access is known to be checked.
///
/// # Cost
/// For a user whose rights have not changed, a few lookups by hash.
///
/// # Errors
/// 13 Unauthorized.
pub(super) fn authorize(
    (access, commands): (&Access, &CommandTable),
    conn: &mut Connection,
    request: &Request<'_>,
    command: &Spec,
    db: &str,
) -> Result<()> {
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
        // The user was dropped while it was logged in.
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
    check(
        commands,
        command,
        db,
        request.body,
        (request.sequences, rights, user),
    )
}

fn needs_login(command: &Spec) -> MongoError {
    MongoError::new(
        code::UNAUTHORIZED,
        format!("Command {} requires authentication", command.name),
    )
}

/// What a user is told whose token has expired; drivers log in anew on the same connection.
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

type Who<'a> = (
    &'a [super::request::Sequence<'a>],
    Rights<'a>,
    Option<&'a crate::access::User>,
);

fn check(
    commands: &CommandTable,
    command: &Spec,
    db: &str,
    body: Doc<'_>,
    (sequences, rights, user): Who<'_>,
) -> Result<()> {
    let inner = |name: &str, db: &str, body: Doc<'_>| match commands.find(name) {
        Some(row) => check(commands, row.command, db, body, (&[], rights, user)),
        // The command around it refuses a name that it does not know.
        None => Ok(()),
    };
    let asked = Asked {
        db,
        body,
        sequences,
        rights,
        user,
        inner: &inner,
    };
    match command.privilege {
        Privilege::Any => asked.unless(user.is_some() || command.is(flag::NO_AUTH)),
        Privilege::Collection(actions) => asked.needs_on(asked.own(), actions),
        Privilege::Database(actions) => asked.needs(Target::Database(db), actions),
        Privilege::Cluster(actions) => asked.needs(Target::Cluster, actions),
        Privilege::Asked(needs) => needs(&asked),
    }
}
