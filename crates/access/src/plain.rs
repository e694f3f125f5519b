//! Logging in by a password that a directory checks: PLAIN (RFC 4616). Promises: a password is only
//! accepted over a connection that no third party can read, unless the administrator allows
//! otherwise; it is passed to the directory and never stored. Must not know: how a directory is
//! queried.

use super::entry::{EXTERNAL, Grant, Login, Moment, admit_user};
use super::identity::{Identity, authentication_error};
use super::service::Access;
use auth::{Pace, ThrottleDecision, UserName};
use identity_ldap::LoginError;
use model::{MongoError, Result, bail, code};

/// The name of the mechanism.
pub(super) const PLAIN: &str = "PLAIN";
/// How soon a login tries again when the directory is busy, in microseconds.
const AGAIN_US: u64 = 50_000;
/// How long it tries in total, in microseconds.
const PATIENCE_US: u64 = 10_000_000;

/// The name and password of a payload. Acting for another user is not supported.
fn parse(payload: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(payload).ok()?;
    let mut parts = text.split('\0');
    let (acts_as, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let fits = parts.next().is_none() && (acts_as.is_empty() || acts_as == user);
    fits.then_some((user, password))
}

/// Logs in, in one step. Blocks while the directory is queried.
///
/// # Errors
/// 17 ProtocolError for another database, 18 AuthenticationFailed.
pub fn plain_start(
    access: &Access,
    identity: &mut Identity,
    db: &str,
    payload: &[u8],
    moment: Moment,
) -> Result<Login> {
    identity.pending = None;
    identity.acknowledges = false;
    if db != EXTERNAL {
        bail!(
            code::PROTOCOL_ERROR,
            "{PLAIN} authentication must always use the {EXTERNAL} database, given {db}"
        );
    }
    let (Some((user, password)), Some(directory)) = (parse(payload), &access.ldap) else {
        return Err(authentication_error());
    };
    let name = UserName::new(user, EXTERNAL);
    let whole = name.to_string();
    identity.tries(&name, PLAIN);
    if !identity.is_private() && !access.plain_without_tls {
        return Err(MongoError::new(
            code::AUTHENTICATION_FAILED,
            "PLAIN sends the password as it is: it is taken over TLS only",
        ));
    }
    let now_us = moment.now.monotonic_us;
    if !moment.waited {
        identity.waits_since_us = None;
        match access
            .throttle
            .lock()
            .turn(Pace::QUESTIONS, &whole, identity.client, now_us)
        {
            ThrottleDecision::Now => {}
            ThrottleDecision::At(at) => return Ok(Login::Wait(at)),
            ThrottleDecision::Refused => return Err(authentication_error()),
        }
    }
    let entered = match directory.log_in(user, password) {
        Ok(known) => {
            let grant = Grant {
                roles: known.groups,
                ends_ms: None,
            };
            admit_user(access, identity, &name, grant)?
                .map_err(|why| LoginError::Refused(why.to_owned()))
        }
        Err(LoginError::Busy) => {
            let since = *identity.waits_since_us.get_or_insert(now_us);
            if now_us.saturating_sub(since) < PATIENCE_US {
                return Ok(Login::Wait(now_us.saturating_add(AGAIN_US)));
            }
            Err(LoginError::Busy)
        }
        Err(why) => Err(why),
    };
    let (reason, trouble) = match entered {
        Ok(()) => return Ok(Login::Done(Vec::new())),
        Err(LoginError::Refused(why)) => {
            let mut throttle = access.throttle.lock();
            let at = throttle.record_failure(
                Pace::QUESTIONS,
                &whole,
                identity.client,
                now_us,
                moment.waited,
            );
            identity.notes(Some(why), None);
            return Ok(Login::Failed(at));
        }
        // This does not count as a wrong password.
        Err(LoginError::Trouble(what)) => ("the directory cannot be asked".to_owned(), Some(what)),
        Err(LoginError::Busy) => ("the directory has too much to do".to_owned(), None),
    };
    identity.notes(Some(reason), trouble);
    Err(authentication_error())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_payload_has_three_parts_and_names_one_user() {
        assert_eq!(parse(b"\0ann\0pw"), Some(("ann", "pw")));
        assert_eq!(parse(b"ann\0ann\0pw"), Some(("ann", "pw")));
        assert_eq!(parse(b"\0ann\0"), Some(("ann", "")));
        for wrong in [
            &b"root\0ann\0pw"[..],
            b"\0ann",
            b"",
            b"\0a\0b\0c",
            b"\0\xff\0pw",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
