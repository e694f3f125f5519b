//! Logging in. Promises: a client that is not who it claims to be learns nothing but that: neither
//! whether the user exists nor what was wrong; attempts that follow failures wait their turn.

use super::entry::{EXTERNAL, Grant, Login, admit_user};
use super::identity::{Identity, Pending, Scram, failed};
use super::likeness::Likeness;
use super::service::Access;
use auth::scram::{ClientFirst, Conversation, Credentials, Mechanism};
use auth::{Pace, Turn, UserName};
use model::{DocBuf, MongoError, Result, bail, code};

/// How `saslStart` logs in.
pub(crate) enum LoginMethod {
    /// By a password that never leaves the client.
    Scram(Mechanism),
    /// By a token of an identity provider.
    Token,
    /// By a password that a directory checks. It blocks the thread.
    Directory,
}

impl LoginMethod {
    /// The way of a mechanism's name, where it is among those that are on.
    ///
    /// # Errors
    /// 334 MechanismUnavailable.
    pub(crate) fn of(on: &[String], name: &str) -> Result<LoginMethod> {
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
pub(crate) fn no_mechanism(name: &str) -> MongoError {
    MongoError::new(
        code::MECHANISM_UNAVAILABLE,
        format!("Received authentication for mechanism {name} which is unknown or not enabled"),
    )
}

/// Rounds of new users, SCRAM-SHA-1 first, by the parameters.
pub(crate) fn rounds(parameter: impl Fn(&str) -> i64) -> [u32; 2] {
    ["scramIterationCount", "scramSHA256IterationCount"].map(|name| {
        let rounds = u32::try_from(parameter(name)).unwrap_or(Mechanism::ITERATIONS_MIN);
        rounds.max(Mechanism::ITERATIONS_MIN)
    })
}

/// Bytes from base64.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    auth::scram::from_base64(text)
}

/// Rounds that invented credentials show: what new users get.
fn iterations(mechanism: Mechanism, rounds: [u32; 2]) -> u32 {
    match mechanism {
        Mechanism::Sha1 => rounds[0],
        Mechanism::Sha256 => rounds[1],
    }
}

/// The credentials of a user; invented ones when there is no such user or it has none of this kind.
fn credentials(
    access: &Access,
    mechanism: Mechanism,
    name: &UserName,
    rounds: [u32; 2],
) -> Result<Credentials> {
    // Both are made whatever comes of it, so that the time tells nothing.
    let secret = access.secret()?;
    let whole = name.to_string();
    let likeness = access.likeness(name)?;
    let doc = access.user_doc(name)?;
    let likeness = match &doc {
        Some(doc) => Some(Likeness::of(doc.doc())),
        None => likeness,
    };
    let rounds = likeness
        .and_then(|l| l.rounds(mechanism))
        .unwrap_or_else(|| iterations(mechanism, rounds));
    let invented = Credentials::invented(mechanism, &whole, rounds, &secret);
    let doc = doc.unwrap_or_else(DocBuf::new);
    let kept = doc
        .doc()
        .field("credentials")
        .as_doc()
        .and_then(|c| c.field(mechanism.name()).as_doc());
    let kept = kept.and_then(|c| Credentials::of_doc(mechanism, c));
    Ok(kept.unwrap_or(invented))
}

/// Begins SCRAM: answers the client's first message. `rounds` are those of new users.
///
/// # Errors
/// 18 AuthenticationFailed.
pub(crate) fn sasl_start(
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
    let first = ClientFirst::parse(payload).map_err(|_| failed())?;
    let name = UserName::new(&first.user, db);
    identity.tries(&name, mechanism.name());
    let kept = credentials(access, mechanism, &name, rounds)?;
    let (conversation, reply) = Conversation::begin(mechanism, first, kept, &rand::random());
    identity.pending = Some(Pending::Scram(Box::new(Scram {
        conversation,
        name,
        skips_empty,
    })));
    Ok(reply)
}

/// Goes on with SCRAM. `waited` says that the turn was waited for.
///
/// # Errors
/// 17 ProtocolError without a beginning, 18 AuthenticationFailed.
pub(crate) fn sasl_continue(
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
        Some(Pending::Scram(pending)) => pending.name.to_string(),
        _ => bail!(code::PROTOCOL_ERROR, "No SASL session state found"),
    };
    if !waited {
        match access
            .throttle
            .lock()
            .turn(Pace::PROOFS, &whole, identity.client, now_us)
        {
            Turn::Now => {}
            Turn::At(at) => return Ok(Login::Wait(at)),
            Turn::Refused => {
                identity.pending = None;
                return Err(failed());
            }
        }
    }
    let Some(Pending::Scram(pending)) = identity.pending.take() else {
        return Err(failed());
    };
    let pending = *pending;
    let proved = pending.conversation.finish(payload).ok();
    let entered = match proved {
        Some(reply) => enter(access, identity, &pending.name)?.then_some(reply),
        None => None,
    };
    let Some(reply) = entered else {
        let mut throttle = access.throttle.lock();
        let at = throttle.failed(Pace::PROOFS, &whole, identity.client, now_us, waited);
        return Ok(Login::Failed(at));
    };
    if pending.skips_empty {
        return Ok(Login::Done(reply));
    }
    identity.acknowledges = true;
    Ok(Login::More(reply))
}

/// Lets a user in that has proved who it is. False when it may not come from where it does.
fn enter(access: &Access, identity: &mut Identity, name: &UserName) -> Result<bool> {
    Ok(admit_user(access, identity, name, Grant::default())?.is_ok())
}

/// Logs in by the certificate that the client has shown: the user of its subject on `$external`.
/// `claimed` is the user it says it is, if it says so.
///
/// # Errors
/// 18 AuthenticationFailed.
pub(crate) fn x509(
    access: &Access,
    identity: &mut Identity,
    claimed: Option<&str>,
) -> Result<String> {
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
        return Err(failed());
    }
    Ok(subject)
}

/// The mechanisms that `saslSupportedMechs` tells of a user; of one that does not exist those of a
/// user that it takes after. Users of `$external` have no credentials here.
///
/// # Errors
/// Those of the store.
pub(crate) fn mechanisms_of(
    access: &Access,
    name: &UserName,
    on: &[String],
) -> Result<Vec<&'static str>> {
    let likeness = access.likeness(name)?;
    let doc = access.user_doc(name)?;
    let likeness = match &doc {
        Some(doc) => Some(Likeness::of(doc.doc())),
        None if name.db == EXTERNAL => Some(Likeness::default()),
        None => likeness,
    };
    let has = |m: &Mechanism| {
        on.iter().any(|o| o == m.name()) && likeness.is_none_or(|l| l.rounds(*m).is_some())
    };
    let names = Mechanism::ALL.iter().filter(|m| has(m)).map(|m| m.name());
    Ok(names.collect())
}
