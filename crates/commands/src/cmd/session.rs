//! `startSession`, `endSessions`, `refreshSessions`, `killSessions`, `killAllSessions`,
//! `killAllSessionsByPattern`.

use crate::access::user::digest;
use crate::dispatch::args::{Arg, Kind, arg, check_doc, wrong_type};
use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::generic;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use crate::release::SESSION_TIMEOUT_MINUTES;
use auth::UserName;
use model::{Array, Binary, Result, Tag, Value};

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
        flag::API_V1 | flag::NO_AUTH | flag::LENIENT | flag::WRITE_CONCERN,
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
        Privilege::Asked(crate::access::needs::kill_sessions),
        flag::LENIENT,
        &[],
        kill,
    )
    .value(Kind::Array),
    Command::new(
        "killAllSessions",
        "ends all sessions of users",
        Privilege::Asked(crate::access::needs::kill_all_sessions),
        flag::LENIENT,
        &[],
        kill_all,
    )
    .value(Kind::Array),
    Command::new(
        "killAllSessionsByPattern",
        "ends sessions by pattern",
        Privilege::Asked(crate::access::needs::kill_sessions_by_pattern),
        0,
        &[],
        kill_by_pattern,
    )
    .value(Kind::Array),
];

fn start(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut id: [u8; 16] = rand::random();
    // Version 4, variant 1.
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    let owner = cx.owner();
    let now = cx.now_ms();
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

/// A session as a list names it: its id, and whose it is where that is said.
type Named<'a> = ([u8; 16], Option<&'a [u8]>);

/// Sessions of an array; null elements are skipped.
fn ids<'a>(name: &str, list: Array<'a>) -> Result<Vec<Named<'a>>> {
    static TABLE: &[Arg] = &[
        arg("id", Kind::OneOf(&[Tag::BINARY])).required(),
        arg("uid", Kind::OneOf(&[Tag::BINARY])),
    ];
    let mut out = Vec::new();
    for (i, v) in list.iter().enumerate() {
        let path = format!("{name}.{i}");
        match v {
            Value::Null | Value::Undefined => {}
            Value::Document(d) => {
                let args = check_doc(&path, TABLE, d)?;
                let uid = match args.value("uid") {
                    Value::Binary(b) => Some(b.bytes),
                    _ => None,
                };
                out.push((generic::uuid(&args.value("id"))?, uid));
            }
            v => return Err(wrong_type(&path, &v, &[Tag::DOCUMENT])),
        }
    }
    Ok(out)
}

fn own_ids<'a>(cx: &Ctx<'a, '_>) -> Result<Vec<Named<'a>>> {
    ids(
        cx.command.name,
        cx.value().as_array().unwrap_or(Array::EMPTY),
    )
}

fn end(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    for (id, uid) in own_ids(cx)? {
        end_of(cx, &id, uid);
    }
    Ok(Outcome::Reply)
}

/// Ends a session, if it is the one of the user named or else of this connection's.
fn end_of(cx: &Ctx<'_, '_>, id: &[u8; 16], uid: Option<&[u8]>) {
    let owner = cx.service.state.sessions.owner(id);
    let wanted = uid
        .map(<[u8]>::to_vec)
        .unwrap_or_else(|| cx.owner().to_vec());
    if !cx.service.access.enabled() || owner.is_some_and(|o| o[..] == wanted[..]) {
        cx.service.end_session(id);
    }
}

fn refresh(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let (owner, now) = (cx.owner(), cx.now_ms());
    for (id, _) in own_ids(cx)? {
        cx.service.state.sessions.touch(id, owner, now)?;
    }
    Ok(Outcome::Reply)
}

fn kill(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ids = own_ids(cx)?;
    if ids.is_empty() {
        let owner = cx.service.access.enabled().then(|| cx.owner());
        kill_every(cx, owner);
    }
    for (id, uid) in ids {
        end_of(cx, &id, uid);
    }
    Ok(Outcome::Reply)
}

/// Ends the sessions of a user, or all.
fn kill_every(cx: &Ctx<'_, '_>, owner: Option<[u8; 32]>) {
    for (id, session) in cx.service.state.sessions.list() {
        if owner.is_none_or(|o| o == session.owner) {
            cx.service.end_session(&id);
        }
    }
}

/// Without access control every session belongs to nobody: a list of users matches none, an empty
/// list all.
fn kill_all(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    static TABLE: &[Arg] = &[
        arg("user", Kind::Str).required(),
        arg("db", Kind::Str).required(),
    ];
    let users = cx.value().as_array().unwrap_or(Array::EMPTY);
    let mut owners = Vec::new();
    for (i, v) in users.iter().enumerate() {
        let path = format!("killAllSessions.killAllSessions.{i}");
        match v {
            Value::Null | Value::Undefined => {}
            Value::Document(d) => {
                let args = check_doc(&path, TABLE, d)?;
                owners.push(digest(&UserName::new(
                    args.str("user").unwrap_or(""),
                    args.str("db").unwrap_or(""),
                )));
            }
            v => return Err(wrong_type(&path, &v, &[Tag::DOCUMENT])),
        }
    }
    if users.is_empty() {
        kill_every(cx, None);
    }
    for owner in owners {
        kill_every(cx, Some(owner));
    }
    Ok(Outcome::Reply)
}

fn kill_by_pattern(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
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
    let patterns = cx.value().as_array().unwrap_or(Array::EMPTY);
    let mut every = patterns.is_empty();
    let mut chosen = Vec::new();
    for (i, v) in patterns.iter().enumerate() {
        let path = format!("killAllSessionsByPattern.{i}");
        let d = v
            .as_doc()
            .ok_or_else(|| wrong_type(&path, &v, &[Tag::DOCUMENT]))?;
        let args = check_doc(&path, TABLE, d)?;
        if let Some(lsid) = args.doc("lsid") {
            chosen.push(generic::uuid(&check_doc("lsid", LSID, lsid)?.value("id"))?);
        }
        if let Value::Binary(b) = args.value("uid")
            && let Ok(owner) = <[u8; 32]>::try_from(b.bytes)
        {
            kill_every(cx, Some(owner));
        }
        every |= d.is_empty();
    }
    if every {
        kill_every(cx, None);
    }
    for id in chosen {
        cx.service.end_session(&id);
    }
    Ok(Outcome::Reply)
}
