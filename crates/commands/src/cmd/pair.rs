//! `quarryPair`: the role of this server in a pair, set by `quarry follow --standby` and `quarry
//! follow promote` (docs/adr/0084-standby.md).

use context::command::Command;
use context::ctx::Ctx;
use model::{Result, bail, code};
use request::Outcome;
use request::args::{Kind, arg};
use request::spec::{Privilege, flag};
use state::pair::{self, Part, Role};
use state::replica_set;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "quarryPair",
    "makes this server one of a pair, the primary or its standby, or tells what it is",
    Privilege::Cluster(&[auth::Action::ReplSetConfigure]),
    flag::ADMIN | flag::LONG,
    &[
        arg("role", Kind::Str),
        arg("me", Kind::Str),
        arg("peer", Kind::Str),
        arg("term", Kind::AtLeast(1, 51024)),
    ],
    run,
)];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let service = cx.service;
    let state = &service.state.user_writes.pair;
    if let Some(role) = cx.args.str("role") {
        let part = part(cx, role)?;
        let before = state.part();
        let is_standby = part.as_ref().is_some_and(|p| p.role == Role::Standby);
        let steps_down = is_standby && !state.is_standby();
        state.set(&service.store, part.clone())?;
        if steps_down && let Err(e) = pair::end_writers(&service.connections, cx.conn.info.id) {
            state.set(&service.store, before)?;
            return Err(e);
        }
        if before != part {
            service.count_topology_change();
            state.wake_all();
            replica_set::show(service)?;
        }
    }
    let me = cx.conn.advertised_address(&service.config);
    match state.part() {
        Some(part) => {
            cx.reply
                .put("role", part.role.name())
                .put("me", part.me.as_str());
            cx.reply
                .put("peer", part.peer.as_str())
                .put("term", part.term);
        }
        None => {
            cx.reply.put("role", "alone").put("me", me);
            cx.reply.put("term", 1i64);
        }
    }
    Ok(Outcome::Reply)
}

fn part(cx: &Ctx<'_, '_>, role: &str) -> Result<Option<Part>> {
    let service = cx.service;
    let role = match role {
        "alone" => return Ok(None),
        "primary" => Role::Primary,
        "standby" => Role::Standby,
        other => bail!(
            code::BAD_VALUE,
            "role is primary, standby or alone, given {other}"
        ),
    };
    if service.config.replica_set.is_none() || service.config.is_one_of_equals {
        bail!(
            code::ILLEGAL_OPERATION,
            "a pair is made of two servers that each present a replica set of their own"
        );
    }
    let text = |name: &str| match cx.args.str(name) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => bail!(code::BAD_VALUE, "{name} is HOST:PORT, given none"),
    };
    let (me, peer) = (text("me")?, text("peer")?);
    if me == peer {
        bail!(code::BAD_VALUE, "me and peer are both {me}");
    }
    let Some(term) = cx.args.int("term") else {
        bail!(code::BAD_VALUE, "term is missing");
    };
    Ok(Some(Part {
        role,
        me,
        peer,
        term,
    }))
}
