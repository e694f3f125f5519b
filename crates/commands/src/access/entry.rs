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
    /// It was set aside before, until its turn.
    pub(crate) waited: bool,
}

/// Lets a user in, with the roles that whoever vouches for it has named, or else those of its
/// document, and until the end of what it has logged in by. Otherwise says why not.
pub(super) fn let_in(
    access: &Access,
    identity: &mut Identity,
    name: &UserName,
    (roles, ends_ms): (Option<Vec<String>>, Option<i64>),
) -> Result<std::result::Result<(), &'static str>> {
    let generation = access.generation();
    let user = match roles {
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
    identity.log_in(user, generation, ends_ms)?;
    Ok(Ok(()))
}

fn may_come(user: &User, identity: &Identity) -> bool {
    let roles = user.resolved.restrictions.iter();
    std::iter::once(&user.restrictions)
        .chain(roles)
        .all(|r| r.allow(identity.client, identity.server))
}
