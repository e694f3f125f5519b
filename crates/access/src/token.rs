//! Logging in by a token of an identity provider: MONGODB-OIDC of the drivers' specification.
//! Promises: the client only learns that its token was refused; the log has the reason, but never
//! the token. Must not know: how tokens are verified.

use super::entry::{EXTERNAL, Grant, Login, Moment, admit_user};
use super::identity::{Identity, PendingLogin, authentication_error};
use super::service::Access;
use auth::{Pace, ThrottleDecision, UserName};
use model::{Doc, DocBuf, Result, Value, bail, code};

/// The name of the mechanism.
pub(super) const OIDC: &str = "MONGODB-OIDC";

/// Reads the document in the payload of a client.
fn read_payload(payload: &[u8]) -> Result<Doc<'_>> {
    match model::validate(payload) {
        Ok(doc) => Ok(doc),
        Err(_) => bail!(
            code::BAD_VALUE,
            "the payload of {OIDC} must be a document in BSON"
        ),
    }
}

/// The first step: logs in a client with a token, and tells a client without one where to get it.
///
/// # Errors
/// 2 BadValue for an invalid payload, 18 AuthenticationFailed.
pub fn token_start(
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
            "{OIDC} authentication must always use the {EXTERNAL} database, given {db}"
        );
    }
    let content = read_payload(payload)?;
    if content.contains("jwt") {
        return log_in_by_token(access, identity, content, moment);
    }
    let name = match content.field("n") {
        Value::String(name) => Some(name),
        Value::Missing => None,
        other => bail!(
            code::TYPE_MISMATCH,
            "'n' in the payload of {OIDC} must be a string, given {}",
            other.type_name()
        ),
    };
    identity.tries(&UserName::new(name.unwrap_or_default(), EXTERNAL), OIDC);
    let providers = access.oidc.as_ref();
    let Some(provider) = providers.and_then(|all| all.of_person(name)) else {
        let reason = "no identity provider with supportsHumanFlows is for this user";
        identity.notes(Some(reason.to_owned()), None);
        return Err(authentication_error());
    };
    identity.pending = Some(PendingLogin::Token);
    let told = DocBuf::build(|w| {
        w.put("issuer", provider.issuer())
            .put("clientId", provider.client_id());
        if !provider.request_scopes().is_empty() {
            let mut scopes = w.array("requestScopes");
            for scope in provider.request_scopes() {
                scopes.push(scope.as_str());
            }
        }
    });
    Ok(Login::More(told.into_bytes()))
}

/// Whether the connection is expected to send a token.
pub fn expects_token(identity: &Identity) -> bool {
    matches!(identity.pending, Some(PendingLogin::Token))
}

/// The second step: logs in by the token.
///
/// # Errors
/// As [`token_start`].
pub fn token_continue(
    access: &Access,
    identity: &mut Identity,
    payload: &[u8],
    moment: Moment,
) -> Result<Login> {
    let login = read_payload(payload)
        .and_then(|content| log_in_by_token(access, identity, content, moment));
    if !matches!(login, Ok(Login::Wait(_))) {
        identity.pending = None;
    }
    login
}

fn log_in_by_token(
    access: &Access,
    identity: &mut Identity,
    content: Doc<'_>,
    moment: Moment,
) -> Result<Login> {
    let (Some(token), Some(providers)) = (content.field("jwt").as_str(), &access.oidc) else {
        bail!(
            code::BAD_VALUE,
            "the payload of {OIDC} must have the string 'jwt', given {}",
            content.field("jwt").type_name()
        );
    };
    let claimed = UserName::new(&providers.claimed_user(token), EXTERNAL);
    let whole = claimed.to_string();
    identity.tries(&claimed, OIDC);
    let now_us = moment.now.monotonic_us;
    if !moment.waited {
        match access
            .throttle
            .lock()
            .turn(Pace::PROOFS, &whole, identity.client, now_us)
        {
            ThrottleDecision::Now => {}
            ThrottleDecision::At(at) => return Ok(Login::Wait(at)),
            ThrottleDecision::Refused => return Err(authentication_error()),
        }
    }
    let (verified, trouble) = providers.verify(token, moment.now);
    let entered = match verified {
        Ok(verified) => {
            let name = UserName::new(&verified.user, EXTERNAL);
            let grant = Grant {
                roles: verified.roles,
                ends_ms: Some(verified.ends_ms),
            };
            admit_user(access, identity, &name, grant)?.map_err(str::to_owned)
        }
        Err(refused) => Err(refused.0),
    };
    match entered {
        Ok(()) => {
            identity.notes(None, trouble);
            Ok(Login::Done(Vec::new()))
        }
        Err(reason) => {
            let mut throttle = access.throttle.lock();
            let at = throttle.record_failure(
                Pace::PROOFS,
                &whole,
                identity.client,
                now_us,
                moment.waited,
            );
            identity.notes(Some(reason), trouble);
            Ok(Login::Failed(at))
        }
    }
}
