//! `startSession`, `endSessions`, `refreshSessions`, `killSessions`, `killAllSessions`,
//! `killAllSessionsByPattern`.

use access::user::digest;
use auth::{Action, Target, UserName};
use context::command::Command;
use context::ctx::Ctx;
use model::{Array, Binary, Result, Tag, Value, bail, code};
use request::Outcome;
use request::args::{Arg, Args, Kind, arg, check_doc, wrong_type};
use request::asked::RightsRequest;
use request::generic;
use request::spec::{Privilege, flag};
use state::release::SESSION_TIMEOUT_MINUTES;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "startSession",
        "makes a session",
        Privilege::Any,
        flag::LENIENT,
        &[],
        start,
    ),
    Command::new(
        "endSessions",
        "ends sessions",
        Privilege::Any,
        flag::API_V1 | flag::NO_AUTH | flag::LENIENT | flag::WRITE_CONCERN | flag::ENDS_SESSIONS,
        &[],
        end,
    )
    .value(Kind::Array),
    Command::new(
        "refreshSessions",
        "keeps sessions alive",
        Privilege::Any,
        flag::API_V1 | flag::LENIENT,
        &[],
        refresh,
    )
    .value(Kind::Array),
    Command::new(
        "refreshLogicalSessionCacheNow",
        "stores what is known of sessions; they are always listed as they are",
        Privilege::Any,
        flag::LENIENT,
        &[],
        |_| Ok(Outcome::Reply),
    ),
    Command::new(
        "killSessions",
        "ends sessions and what runs on them",
        Privilege::Asked(needs_of_kill),
        flag::LENIENT | flag::ENDS_SESSIONS,
        &[],
        kill,
    )
    .value(Kind::Array),
    Command::new(
        "killAllSessions",
        "ends all sessions of users",
        Privilege::Asked(needs_of_kill_all),
        flag::LENIENT | flag::ENDS_SESSIONS,
        &[],
        kill_all,
    )
    .value(Kind::Array),
    Command::new(
        "killAllSessionsByPattern",
        "ends sessions by pattern",
        Privilege::Asked(needs_of_kill_by_pattern),
        flag::ENDS_SESSIONS,
        &[],
        kill_by_pattern,
    )
    .value(Kind::Array),
];

fn start(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut id: [u8; 16] = rand::random();
    // UUID version 4, variant 1.
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    let owner = cx.owner();
    let now = cx.service.clock.read();
    cx.service.state.sessions.touch(id, owner, now)?;
    cx.reply.doc("id").put(
        "id",
        Binary {
            subtype: 4,
            bytes: &id,
        },
    );
    cx.reply.put("timeoutMinutes", SESSION_TIMEOUT_MINUTES);
    Ok(Outcome::Reply)
}

/// A session in a list of a command.
struct ListedSession<'a> {
    id: [u8; 16],
    /// The digest of its owner, if given.
    uid: Option<&'a [u8]>,
}

/// The sessions in an array; null elements are skipped.
///
/// # Errors
/// 14 TypeMismatch, 207 InvalidUUID for an element that is not a session.
fn parse_sessions<'a>(name: &str, value: Value<'a>) -> Result<Vec<ListedSession<'a>>> {
    static TABLE: &[Arg] = &[
        arg("id", Kind::OneOf(&[Tag::BINARY])).required(),
        arg("uid", Kind::OneOf(&[Tag::BINARY])),
    ];
    let mut out = Vec::new();
    for (i, v) in value.as_array().unwrap_or(Array::EMPTY).iter().enumerate() {
        let path = format!("{name}.{i}");
        match v {
            Value::Null | Value::Undefined => {}
            Value::Document(d) => {
                let args = check_doc(&path, TABLE, d)?;
                out.push(ListedSession {
                    id: generic::uuid(&args.value("id"))?,
                    uid: bytes(&args, "uid"),
                });
            }
            v => return Err(wrong_type(&path, &v, &[Tag::DOCUMENT])),
        }
    }
    Ok(out)
}

/// A binary argument.
fn bytes<'a>(args: &Args<'a>, name: &str) -> Option<&'a [u8]> {
    match args.value(name) {
        Value::Binary(b) => Some(b.bytes),
        _ => None,
    }
}

/// Whether sessions of `uid` are the user's own.
fn is_own(asked: &RightsRequest<'_, '_>, uid: &[u8]) -> bool {
    asked.user.is_some_and(|u| u.digest[..] == *uid)
}

/// A user needs no right for its own sessions, but one for those of others.
fn unless_own(asked: &RightsRequest<'_, '_>, own: bool) -> Result<()> {
    asked.require(own || asked.may(Target::Cluster, &[Action::KillAnySession]))
}

/// The sessions in an array, which have to belong to this connection's user.
///
/// # Errors
/// Those of [`listed_spec`]; 13 Unauthorized for the `uid` of another user.
fn parse_own_sessions<'a>(cx: &Ctx<'a, '_>) -> Result<Vec<ListedSession<'a>>> {
    let all = parse_sessions(cx.command.name, cx.value())?;
    let owner = cx.owner();
    let foreign = |s: &ListedSession<'_>| s.uid.is_some_and(|uid| *uid != owner[..]);
    if cx.service.access.is_enabled() && all.iter().any(foreign) {
        bail!(
            code::UNAUTHORIZED,
            "{} takes no uid of another user in a session",
            cx.command.name
        );
    }
    Ok(all)
}

fn end(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    for session in parse_own_sessions(cx)? {
        if is_meant(cx, &session) {
            cx.service.end_session(&session.id);
        }
    }
    Ok(Outcome::Reply)
}

/// Whether a session belongs to the named user, or without one to this connection's user.
fn is_meant(cx: &Ctx<'_, '_>, session: &ListedSession<'_>) -> bool {
    let owner = cx.service.state.sessions.owner(&session.id);
    let wanted = session
        .uid
        .map(<[u8]>::to_vec)
        .unwrap_or_else(|| cx.owner().to_vec());
    !cx.service.access.is_enabled() || owner.is_some_and(|o| o[..] == wanted[..])
}

fn refresh(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let (owner, now) = (cx.owner(), cx.service.clock.read());
    for session in parse_own_sessions(cx)? {
        cx.service.state.sessions.touch(session.id, owner, now)?;
    }
    Ok(Outcome::Reply)
}

/// Checks the right to kill the listed sessions; without a list these are the user's own.
fn needs_of_kill(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let all = parse_sessions("killSessions", asked.value)?;
    let own = all
        .iter()
        .all(|s| s.uid.is_none_or(|uid| is_own(asked, uid)));
    unless_own(asked, own)
}

fn kill(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let all = parse_sessions("killSessions", cx.value())?;
    if all.is_empty() {
        let owner = cx.service.access.is_enabled().then(|| cx.owner());
        kill_every(cx, owner);
    }
    for session in all.iter().filter(|s| is_meant(cx, s)) {
        cx.service.kill_session(&session.id);
    }
    Ok(Outcome::Reply)
}

/// Ends all sessions, or all of one user.
fn kill_every(cx: &Ctx<'_, '_>, owner: Option<[u8; 32]>) {
    for (id, session) in cx.service.state.sessions.list() {
        if owner.is_none_or(|o| o == session.owner) {
            cx.service.kill_session(&id);
        }
    }
}

/// The owners of the sessions that `killAllSessions` ends.
enum SessionOwners {
    /// All users.
    All,
    /// These users.
    Users(Vec<UserName>),
}

/// # Errors
/// 14 TypeMismatch, 40414 IDLMissingField for an element that is not a user.
fn parse_owners(value: Value<'_>) -> Result<SessionOwners> {
    static TABLE: &[Arg] = &[
        arg("user", Kind::Str).required(),
        arg("db", Kind::Str).required(),
    ];
    let users = value.as_array().unwrap_or(Array::EMPTY);
    if users.is_empty() {
        return Ok(SessionOwners::All);
    }
    let mut names = Vec::new();
    for (i, v) in users.iter().enumerate() {
        let path = format!("killAllSessions.killAllSessions.{i}");
        match v {
            Value::Null | Value::Undefined => {}
            Value::Document(d) => {
                let args = check_doc(&path, TABLE, d)?;
                let (user, db) = (args.str("user"), args.str("db"));
                names.push(UserName::new(user.unwrap_or(""), db.unwrap_or("")));
            }
            v => return Err(wrong_type(&path, &v, &[Tag::DOCUMENT])),
        }
    }
    Ok(SessionOwners::Users(names))
}

fn needs_of_kill_all(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let own = match parse_owners(asked.value)? {
        SessionOwners::All => false,
        SessionOwners::Users(names) => names
            .iter()
            .all(|name| asked.user.is_some_and(|u| u.name == *name)),
    };
    unless_own(asked, own)
}

/// Without access control no session has an owner: a list of users matches no session, an empty
/// list matches all.
fn kill_all(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    match parse_owners(cx.value())? {
        SessionOwners::All => kill_every(cx, None),
        SessionOwners::Users(names) => names
            .iter()
            .for_each(|name| kill_every(cx, Some(digest(name)))),
    }
    Ok(Outcome::Reply)
}

/// The conditions for sessions that a pattern ends; a session has to meet all of them.
#[derive(Default)]
struct Pattern<'a> {
    id: Option<[u8; 16]>,
    /// The owner, from `lsid` and from `uid`.
    owners: Vec<&'a [u8]>,
    /// The pattern has users or roles, which sessions do not store, so no session matches.
    fits_none: bool,
}

impl Pattern<'_> {
    fn fits(&self, id: &[u8; 16], owner: &[u8; 32]) -> bool {
        !self.fits_none
            && self.id.is_none_or(|wanted| wanted == *id)
            && self.owners.iter().all(|wanted| **wanted == owner[..])
    }
}

/// The patterns of `killAllSessionsByPattern`; without any, one that matches all sessions.
///
/// # Errors
/// 14 TypeMismatch, 40415 IDLFailedToParse, 207 InvalidUUID for an element that is not a pattern.
fn patterns<'a>(value: Value<'a>) -> Result<Vec<Pattern<'a>>> {
    static TABLE: &[Arg] = &[
        arg("lsid", Kind::Object),
        arg("uid", Kind::OneOf(&[Tag::BINARY])),
        arg("users", Kind::Array),
        arg("roles", Kind::Array),
    ];
    static LSID: &[Arg] = &[
        arg("id", Kind::OneOf(&[Tag::BINARY])).required(),
        arg("uid", Kind::OneOf(&[Tag::BINARY])),
    ];
    let given = value.as_array().unwrap_or(Array::EMPTY);
    if given.is_empty() {
        return Ok(vec![Pattern::default()]);
    }
    let mut all = Vec::new();
    for (i, v) in given.iter().enumerate() {
        let path = format!("killAllSessionsByPattern.{i}");
        let d = v
            .as_doc()
            .ok_or_else(|| wrong_type(&path, &v, &[Tag::DOCUMENT]))?;
        let args = check_doc(&path, TABLE, d)?;
        let mut pattern = Pattern {
            fits_none: args.has("users") || args.has("roles"),
            ..Pattern::default()
        };
        if let Some(lsid) = args.doc("lsid") {
            let lsid = check_doc("lsid", LSID, lsid)?;
            pattern.id = Some(generic::uuid(&lsid.value("id"))?);
            pattern.owners.extend(bytes(&lsid, "uid"));
        }
        pattern.owners.extend(bytes(&args, "uid"));
        all.push(pattern);
    }
    Ok(all)
}

fn needs_of_kill_by_pattern(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let own = patterns(asked.value)?
        .iter()
        .all(|p| !p.fits_none && p.owners.iter().any(|uid| is_own(asked, uid)));
    unless_own(asked, own)
}

fn kill_by_pattern(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let patterns = patterns(cx.value())?;
    for (id, session) in cx.service.state.sessions.list() {
        if patterns.iter().any(|p| p.fits(&id, &session.owner)) {
            cx.service.kill_session(&id);
        }
    }
    Ok(Outcome::Reply)
}
