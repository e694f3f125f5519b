//! Logging in. Promises: a client that fails to authenticate learns only that it failed, neither
//! whether the user exists nor what was wrong; attempts that follow failures are delayed.

use super::entry::{EXTERNAL, Grant, Login, admit_user};
use super::identity::{Identity, PendingLogin, Scram, authentication_error};
use super::likeness::IterationCounts;
use super::service::Access;
use auth::scram::{ClientFirst, Conversation, Credentials, Mechanism};
use auth::{Pace, ThrottleDecision, UserName};
use model::{DocBuf, MongoError, Result, bail, code};

/// The login method of a `saslStart`.
pub enum LoginMethod {
    /// A password that never leaves the client.
    Scram(Mechanism),
    /// A token of an identity provider.
    Token,
    /// A password that a directory checks. This blocks the thread.
    Directory,
}

impl LoginMethod {
    /// The method of a mechanism's name, if the mechanism is enabled.
    ///
    /// # Errors
    /// 334 MechanismUnavailable.
    pub fn of(on: &[String], name: &str) -> Result<LoginMethod> {
        let found = match name {
            super::token::OIDC => Some(LoginMethod::Token),
            super::plain::PLAIN => Some(LoginMethod::Directory),
            _ => Mechanism::parse(name).map(LoginMethod::Scram),
        };
        let found = found.filter(|_| on.iter().any(|m| m == name));
        found.ok_or_else(|| no_mechanism(name))
    }
}

/// 334 MechanismUnavailable.
pub fn no_mechanism(name: &str) -> MongoError {
    MongoError::new(
        code::MECHANISM_UNAVAILABLE,
        format!("Received authentication for mechanism {name} which is unknown or not enabled"),
    )
}

/// Iteration counts for new users from the parameters, SCRAM-SHA-1 first.
pub fn rounds(parameter: impl Fn(&str) -> i64) -> [u32; 2] {
    ["scramIterationCount", "scramSHA256IterationCount"].map(|name| {
        let rounds = u32::try_from(parameter(name)).unwrap_or(Mechanism::ITERATIONS_MIN);
        rounds.max(Mechanism::ITERATIONS_MIN)
    })
}

/// Decodes base64.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    auth::scram::from_base64(text)
}

/// The iteration count of invented credentials, which is that of new users.
fn iterations(mechanism: Mechanism, rounds: [u32; 2]) -> u32 {
    match mechanism {
        Mechanism::Sha1 => rounds[0],
        Mechanism::Sha256 => rounds[1],
    }
}

/// The credentials of a user. They are invented when the user does not exist or has none of this
/// mechanism.
fn credentials(
    access: &Access,
    mechanism: Mechanism,
    name: &UserName,
    rounds: [u32; 2],
) -> Result<Credentials> {
    // Both are always computed, so that the time reveals nothing.
    let secret = access.secret()?;
    let whole = name.to_string();
    let likeness = access.likeness(name)?;
    let doc = access.user_doc(name)?;
    let likeness = match &doc {
        Some(doc) => Some(IterationCounts::of(doc.doc())),
        None => likeness,
    };
    let rounds = likeness
        .and_then(|l| l.rounds(mechanism))
        .unwrap_or_else(|| iterations(mechanism, rounds));
    let invented = Credentials::invent(mechanism, &whole, rounds, &secret);
    let doc = doc.unwrap_or_else(DocBuf::new);
    let kept = doc
        .doc()
        .field("credentials")
        .as_doc()
        .and_then(|c| c.field(mechanism.name()).as_doc());
    let kept = kept.and_then(|c| Credentials::of_doc(mechanism, c));
    Ok(kept.unwrap_or(invented))
}

/// Begins SCRAM: answers the client's first message. `rounds` are the iteration counts of new
/// users.
///
/// # Errors
/// 18 AuthenticationFailed.
pub fn sasl_start(
    access: &Access,
    identity: &mut Identity,
    mechanism: Mechanism,
    db: &str,
    payload: &[u8],
    skips_empty: bool,
    rounds: [u32; 2],
) -> Result<Vec<u8>> {
    identity.pending = None;
    identity.acknowledges = false;
    let first = ClientFirst::parse(payload).map_err(|_| authentication_error())?;
    let name = UserName::new(&first.user, db);
    identity.tries(&name, mechanism.name());
    let kept = credentials(access, mechanism, &name, rounds)?;
    let (conversation, reply) = Conversation::begin(mechanism, first, kept, &rand::random());
    identity.pending = Some(PendingLogin::Scram(Box::new(Scram {
        conversation,
        name,
        skips_empty,
    })));
    Ok(reply)
}

/// Continues SCRAM. `waited` says that the step has waited for its turn.
///
/// # Errors
/// 17 ProtocolError without a first message, 18 AuthenticationFailed.
pub fn sasl_continue(
    access: &Access,
    identity: &mut Identity,
    payload: &[u8],
    now_us: u64,
    waited: bool,
) -> Result<Login> {
    if identity.acknowledges && payload.is_empty() {
        identity.acknowledges = false;
        return Ok(Login::Done(Vec::new()));
    }
    let whole = match &identity.pending {
        Some(PendingLogin::Scram(pending)) => pending.name.to_string(),
        _ => bail!(code::PROTOCOL_ERROR, "No SASL session state found"),
    };
    if !waited {
        match access
            .throttle
            .lock()
            .turn(Pace::PROOFS, &whole, identity.client, now_us)
        {
            ThrottleDecision::Now => {}
            ThrottleDecision::At(at) => return Ok(Login::Wait(at)),
            ThrottleDecision::Refused => {
                identity.pending = None;
                return Err(authentication_error());
            }
        }
    }
    let Some(PendingLogin::Scram(pending)) = identity.pending.take() else {
        return Err(authentication_error());
    };
    let pending = *pending;
    let proved = pending.conversation.finish(payload).ok();
    let entered = match proved {
        Some(reply) => enter(access, identity, &pending.name)?.then_some(reply),
        None => None,
    };
    let Some(reply) = entered else {
        let mut throttle = access.throttle.lock();
        let at = throttle.record_failure(Pace::PROOFS, &whole, identity.client, now_us, waited);
        return Ok(Login::Failed(at));
    };
    if pending.skips_empty {
        return Ok(Login::Done(reply));
    }
    identity.acknowledges = true;
    Ok(Login::More(reply))
}

/// Admits a user who has proved its identity. Returns false when its address is not allowed.
fn enter(access: &Access, identity: &mut Identity, name: &UserName) -> Result<bool> {
    Ok(admit_user(access, identity, name, Grant::default())?.is_ok())
}

/// Logs in by the client's certificate: the user is its subject on `$external`. `claimed` is the
/// user that the client names, if it names one.
///
/// # Errors
/// 18 AuthenticationFailed.
pub fn x509(access: &Access, identity: &mut Identity, claimed: Option<&str>) -> Result<String> {
    let Some(subject) = identity.subject.clone() else {
        return Err(MongoError::new(
            code::AUTHENTICATION_FAILED,
            "No verified subject name available from client",
        ));
    };
    if claimed.is_some_and(|c| c != subject) {
        return Err(MongoError::new(
            code::AUTHENTICATION_FAILED,
            "There is no x.509 client certificate matching the user.",
        ));
    }
    let name = UserName::new(&subject, EXTERNAL);
    identity.tries(&name, "MONGODB-X509");
    if !enter(access, identity, &name)? {
        return Err(authentication_error());
    }
    Ok(subject)
}

/// The mechanisms that `saslSupportedMechs` returns for a user; for a user that does not exist,
/// those of the user whose appearance it takes. Users of `$external` have no credentials here.
///
/// # Errors
/// Those of the store.
pub fn mechanisms_of(access: &Access, name: &UserName, on: &[String]) -> Result<Vec<&'static str>> {
    let likeness = access.likeness(name)?;
    let doc = access.user_doc(name)?;
    let likeness = match &doc {
        Some(doc) => Some(IterationCounts::of(doc.doc())),
        None if name.db == EXTERNAL => Some(IterationCounts::default()),
        None => likeness,
    };
    let has = |m: &Mechanism| {
        on.iter().any(|o| o == m.name()) && likeness.is_none_or(|l| l.rounds(*m).is_some())
    };
    let names = Mechanism::ALL.iter().filter(|m| has(m)).map(|m| m.name());
    Ok(names.collect())
}
