//! The last step of every login: a user who has proved its identity is admitted or refused. Must
//! not know: how the identity was proved.

use super::identity::Identity;
use super::service::Access;
use super::user::User;
use auth::{RoleName, UserName};
use identity_oidc::CurrentTime;
use model::Result;

/// The database of users that a directory, an identity provider or a certificate authenticates.
pub(super) const EXTERNAL: &str = "$external";

/// The result of a login step.
pub enum Login {
    /// Send this; more steps follow.
    More(Vec<u8>),
    /// Send this; the user is logged in.
    Done(Vec<u8>),
    /// Try again at this monotonic microsecond.
    Wait(u64),
    /// The login has failed; send the answer at this monotonic microsecond.
    Failed(u64),
}

/// The time of a login step, and whether it has waited for its turn.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Wall clock and monotonic clock.
    pub now: CurrentTime,
    /// The step has waited for its turn.
    pub waited: bool,
}

/// What a directory or an identity provider grants to a user.
#[derive(Default)]
pub(super) struct Grant {
    /// The user's roles; `None` for the roles of its document.
    pub(super) roles: Option<Vec<String>>,
    /// When the user has to log in again, milliseconds since the epoch.
    pub(super) ends_ms: Option<i64>,
}

/// Logs a user in. The inner error is the reason why the user is refused.
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
            Some(access.grant_roles(name, roles)?)
        }
        None => access.user(name)?,
    };
    let Some(user) = user else {
        return Ok(Err("the user has no document"));
    };
    if !is_allowed(&user, identity) {
        return Ok(Err("the user may not come from this address"));
    }
    identity.log_in(user, generation, grant.ends_ms)?;
    Ok(Ok(()))
}

impl Access {
    /// Adopts a user that another server has logged in. Returns false when the user has no document
    /// here or may not log in from its address.
    ///
    /// # Errors
    /// Engine failures; 5626701 when another user is logged in.
    pub fn adopt(&self, identity: &mut Identity, name: &str, db: &str) -> Result<bool> {
        // The directory or provider that authenticates such a user may also grant its roles, which
        // are not known here.
        if db == EXTERNAL {
            return Ok(false);
        }
        let name = UserName::new(name, db);
        Ok(admit_user(self, identity, &name, Grant::default())?.is_ok())
    }
}

fn is_allowed(user: &User, identity: &Identity) -> bool {
    let roles = user.resolved.restrictions.iter();
    std::iter::once(&user.restrictions)
        .chain(roles)
        .all(|r| r.allow(identity.client, identity.server))
}
