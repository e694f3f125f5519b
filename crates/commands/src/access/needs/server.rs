//! Needs of commands about the server, its operations and sessions.

use super::asked::{Asked, fields};
use auth::Action::*;
use auth::Target;
use model::{Binary, Result, Value};

/// `currentOp`: own operations are for everybody.
pub(crate) fn current_op(asked: &Asked<'_>) -> Result<()> {
    asked.unless(asked.is("$ownOps") || asked.may(Target::Cluster, &[Inprog]))
}

/// Whether a session's `uid` is the user's own.
fn is_own(asked: &Asked<'_>, uid: &Value<'_>) -> bool {
    let own = asked.user.map(|u| u.digest);
    matches!(uid, Value::Binary(Binary { bytes, .. }) if own.is_some_and(|o| *bytes == o))
}

/// `killAllSessions`.
pub(crate) fn kill_all_sessions(asked: &Asked<'_>) -> Result<()> {
    let users = asked.value().as_array();
    let own = |v: Value<'_>| {
        let (Some(d), Some(user)) = (v.as_doc(), asked.user) else {
            return false;
        };
        let is = |field: &str, own: &str| fields(d, field).all(|v| v.as_str() == Some(own));
        is("user", &user.name.name) && is("db", &user.name.db)
    };
    let only_own = users.is_some_and(|u| !u.is_empty() && u.iter().all(own));
    asked.unless(only_own || asked.may(Target::Cluster, &[KillAnySession]))
}

/// `killAllSessionsByPattern`.
pub(crate) fn kill_sessions_by_pattern(asked: &Asked<'_>) -> Result<()> {
    let patterns = asked.value().as_array();
    let own = |v: Value<'_>| {
        let Some(d) = v.as_doc() else { return false };
        let mut uids = fields(d, "uid").peekable();
        let lsids = fields(d, "lsid").filter_map(|v| v.as_doc());
        let mut inner = lsids.flat_map(|l| fields(l, "uid")).peekable();
        (uids.peek().is_some() || inner.peek().is_some())
            && uids.all(|u| is_own(asked, &u))
            && inner.all(|u| is_own(asked, &u))
            && !d.contains("users")
            && !d.contains("roles")
    };
    let only_own = patterns.is_some_and(|p| !p.is_empty() && p.iter().all(own));
    asked.unless(only_own || asked.may(Target::Cluster, &[KillAnySession]))
}

/// `killSessions`: sessions of others need a right; without a list it is the user's own.
pub(crate) fn kill_sessions(asked: &Asked<'_>) -> Result<()> {
    let sessions = asked.value().as_array().into_iter().flat_map(|a| a.iter());
    let others = sessions
        .filter_map(|v| v.as_doc())
        .flat_map(|d| fields(d, "uid"))
        .any(|uid| !is_own(asked, &uid));
    asked.unless(!others || asked.may(Target::Cluster, &[KillAnySession]))
}

/// `validateDBMetadata`: of one database, or of all.
pub(crate) fn validate_metadata(asked: &Asked<'_>) -> Result<()> {
    let dbs: Vec<&str> = asked.all("db").filter_map(|v| v.as_str()).collect();
    if dbs.is_empty() {
        return asked.needs(Target::AnyNormal, &[Validate]);
    }
    dbs.iter()
        .try_for_each(|db| asked.needs(Target::Database(db), &[Validate]))
}
