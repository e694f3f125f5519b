//! `startSession`, `endSessions`, `refreshSessions`, `killSessions`, `killAllSessions`,
//! `killAllSessionsByPattern`.

use crate::dispatch::args::{Arg, Kind, arg, check_doc, wrong_type};
use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::generic;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use crate::release::SESSION_TIMEOUT_MINUTES;
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
        "killSessions",
        "ends sessions and what runs on them",
        Privilege::Any,
        flag::LENIENT,
        &[],
        kill,
    )
    .value(Kind::Array),
    Command::new(
        "killAllSessions",
        "ends all sessions of users",
        Privilege::Administer,
        flag::LENIENT,
        &[],
        kill_all,
    )
    .value(Kind::Array),
    Command::new(
        "killAllSessionsByPattern",
        "ends sessions by pattern",
        Privilege::Administer,
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
    cx.service.state.sessions.touch(id, cx.now_ms())?;
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

/// Session ids of an array; null elements are skipped.
fn ids(name: &str, list: Array<'_>) -> Result<Vec<[u8; 16]>> {
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
                out.push(generic::uuid(&check_doc(&path, TABLE, d)?.value("id"))?)
            }
            v => return Err(wrong_type(&path, &v, &[Tag::DOCUMENT])),
        }
    }
    Ok(out)
}

fn own_ids(cx: &Ctx<'_, '_>) -> Result<Vec<[u8; 16]>> {
    ids(
        cx.command.name,
        cx.value().as_array().unwrap_or(Array::EMPTY),
    )
}

fn end(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    for id in own_ids(cx)? {
        cx.service.end_session(&id);
    }
    Ok(Outcome::Reply)
}

fn refresh(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    for id in own_ids(cx)? {
        cx.service.state.sessions.touch(id, cx.now_ms())?;
    }
    Ok(Outcome::Reply)
}

fn kill(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ids = own_ids(cx)?;
    if ids.is_empty() {
        kill_every(cx);
    }
    for id in ids {
        cx.service.end_session(&id);
    }
    Ok(Outcome::Reply)
}

fn kill_every(cx: &Ctx<'_, '_>) {
    for (id, _) in cx.service.state.sessions.list() {
        cx.service.end_session(&id);
    }
}

/// Without authentication every session belongs to nobody: a list of users matches none, an empty
/// list all.
fn kill_all(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    static TABLE: &[Arg] = &[
        arg("user", Kind::Str).required(),
        arg("db", Kind::Str).required(),
    ];
    let users = cx.value().as_array().unwrap_or(Array::EMPTY);
    for (i, v) in users.iter().enumerate() {
        let path = format!("killAllSessions.killAllSessions.{i}");
        match v {
            Value::Null | Value::Undefined => {}
            Value::Document(d) => check_doc(&path, TABLE, d).map(|_| ())?,
            v => return Err(wrong_type(&path, &v, &[Tag::DOCUMENT])),
        }
    }
    if users.is_empty() {
        kill_every(cx);
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
        every |= d.is_empty();
    }
    if every {
        kill_every(cx);
    }
    for id in chosen {
        cx.service.end_session(&id);
    }
    Ok(Outcome::Reply)
}
