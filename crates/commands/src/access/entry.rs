//! The end of every way to log in: a user that has proved who it is is let in, or not. Must not
//! know: how it has proved that.

use super::identity::Identity;
use super::service::Access;
use super::user::User;
use auth::{RoleName, UserName};
use identity_oidc::Now;
use model::Result;

/// The database of users that somebody else vouches for.
pub(super) const EXTERNAL: &str = "$external";

/// What a step of logging in comes to.
pub(crate) enum Login {
    /// Send this; more is to come.
    More(Vec<u8>),
    /// Send this; the user is logged in.
    Done(Vec<u8>),
    /// Not before this monotonic microsecond.
    Wait(u64),
    /// The login has failed; the answer leaves at this monotonic microsecond.
    Failed(u64),
}

/// When a step of logging in comes, and whether its turn was waited for.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    /// Wall clock and monotonic clock.
    pub(crate) now: Now,
    /// It has waited before, until its turn.
    pub(crate) waited: bool,
}

/// What a directory or an identity provider says of a user.
#[derive(Default)]
pub(super) struct Grant {
    /// Its roles; `None` for those of its document.
    pub(super) roles: Option<Vec<String>>,
    /// When it has to log in again.
    pub(super) ends_ms: Option<i64>,
}

/// Logs a user in. The inner error says why the user may not enter.
pub(super) fn admit_user(
    access: &Access,
    identity: &mut Identity,
    name: &UserName,
    grant: Grant,
) -> Result<std::result::Result<(), &'static str>> {
    let generation = access.generation();
    let user = match grant.roles {
        Some(roles) => {
            let roles = roles.iter().map(|r| RoleName::new(r, "admin")).collect();
            Some(access.granted(name, roles)?)
        }
        None => access.user(name)?,
    };
    let Some(user) = user else {
        return Ok(Err("the user has no document"));
    };
    if !may_come(&user, identity) {
        return Ok(Err("the user may not come from this address"));
    }
    identity.log_in(user, generation, grant.ends_ms)?;
    Ok(Ok(()))
}

impl Access {
    /// Notes a user that somebody else has seen log in. False for one that has no document here or
    /// may not come from where it does.
    ///
    /// # Errors
    /// Engine failures; 5626701 when another user is logged in.
    pub(crate) fn adopt(&self, identity: &mut Identity, name: &str, db: &str) -> Result<bool> {
        // Whoever vouches for such users also names their roles.
        if db == EXTERNAL {
            return Ok(false);
        }
        let name = UserName::new(name, db);
        Ok(admit_user(self, identity, &name, Grant::default())?.is_ok())
    }
}

fn may_come(user: &User, identity: &Identity) -> bool {
    let roles = user.resolved.restrictions.iter();
    std::iter::once(&user.restrictions)
        .chain(roles)
        .all(|r| r.allow(identity.client, identity.server))
}
