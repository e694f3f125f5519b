//! `replSetGetStatus`, `replSetGetConfig`, `replSetInitiate`, `replSetReconfig`, `replSetGetRBID`:
//! answered for a set with one member, always the primary, or refused on a standalone server.

use context::command::Command;
use context::ctx::Ctx;
use model::compare::compare;
use model::{DocWriter, MongoError, Result, Timestamp, Value, code, doc_fields};
use request::Outcome;
use request::spec::{Privilege, flag};
use state::pair::Role;
use state::replica_set;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "replSetGetStatus",
        "state of the replica set",
        Privilege::Cluster(&[auth::Action::ReplSetGetStatus]),
        flag::ADMIN | flag::LENIENT,
        &[],
        status,
    ),
    Command::new(
        "replSetGetConfig",
        "configuration of the replica set",
        Privilege::Cluster(&[auth::Action::ReplSetGetConfig]),
        flag::ADMIN | flag::LENIENT,
        &[],
        config,
    ),
    Command::new(
        "replSetInitiate",
        "starts a replica set",
        Privilege::Cluster(&[auth::Action::ReplSetConfigure]),
        flag::ADMIN | flag::LENIENT,
        &[],
        initiate,
    ),
    Command::new(
        "replSetReconfig",
        "takes the configuration that the set has",
        Privilege::Cluster(&[auth::Action::ReplSetConfigure]),
        flag::ADMIN | flag::LENIENT,
        &[],
        reconfigure,
    ),
    Command::new(
        "replSetGetRBID",
        "rollback number",
        Privilege::Cluster(&[auth::Action::ReplSetGetStatus]),
        flag::ADMIN | flag::LENIENT,
        &[],
        rbid,
    ),
];

fn set_name<'a>(cx: &Ctx<'a, '_>) -> Result<&'a str> {
    let service = cx.service;
    service
        .config
        .replica_set
        .as_deref()
        .ok_or_else(|| MongoError::new(code::NO_REPLICATION_ENABLED, "not running with --replSet"))
}

fn op_time(w: &mut DocWriter<'_>, name: &str, ts: Timestamp) {
    w.doc(name).put("ts", ts).put("t", 1i64);
}

fn status(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let set = set_name(cx)?;
    let service = cx.service;
    let (now, ts) = (cx.now_ms(), service.operation_time());
    let wall = Value::Date(i64::from(ts.time) * 1000);
    let uptime = i32::try_from(service.uptime_ms() / 1000).unwrap_or(i32::MAX);
    let elected = Timestamp {
        time: u32::try_from(service.started_ms / 1000).unwrap_or(0),
        increment: 1,
    };
    let part = service.state.user_writes.pair.part();
    let is_standby = part.as_ref().is_some_and(|p| p.role == Role::Standby);
    let (state, name) = match is_standby {
        true => (2i32, "SECONDARY"),
        false => (1i32, "PRIMARY"),
    };
    let host = match &part {
        Some(part) => part.me.as_str(),
        None => cx.conn.advertised_address(&service.config),
    };
    let w = &mut cx.reply;
    doc_fields!(w;
        "set": set,
        "date": Value::Date(now),
        "myState": state,
        "term": 1i64,
        "syncSourceHost": "",
        "syncSourceId": -1i32,
        "heartbeatIntervalMillis": 2000i64,
        "majorityVoteCount": 1i32,
        "writeMajorityCount": 1i32,
        "votingMembersCount": 1i32,
        "writableVotingMembersCount": 1i32
    );
    let mut times = w.doc("optimes");
    for name in [
        "lastCommittedOpTime",
        "readConcernMajorityOpTime",
        "appliedOpTime",
        "durableOpTime",
        "writtenOpTime",
    ] {
        op_time(&mut times, name, ts);
    }
    for name in [
        "lastCommittedWallTime",
        "lastAppliedWallTime",
        "lastDurableWallTime",
        "lastWrittenWallTime",
    ] {
        times.put(name, wall);
    }
    drop(times);
    w.put("lastStableRecoveryTimestamp", ts);
    let mut members = w.array("members");
    let mut me = members.doc();
    me.put("_id", 0i32)
        .put("name", host)
        .put("health", 1.0)
        .put("state", state)
        .put("stateStr", name);
    me.put("uptime", uptime);
    op_time(&mut me, "optime", ts);
    me.put("optimeDate", wall)
        .put("lastAppliedWallTime", wall)
        .put("lastDurableWallTime", wall);
    me.put("syncSourceHost", "")
        .put("syncSourceId", -1i32)
        .put("infoMessage", "");
    me.put("electionTime", elected)
        .put("electionDate", Value::Date(service.started_ms));
    me.put("configVersion", 1i32)
        .put("configTerm", 1i32)
        .put("self", true)
        .put("lastHeartbeatMessage", "");
    Ok(Outcome::Reply)
}

fn config(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    set_name(cx)?;
    let host = cx.conn.advertised_address(&cx.service.config);
    let id = cx.service.replica_set_id()?;
    let config = replica_set::presented_config(cx.service, host, id);
    cx.reply.put("config", &config);
    Ok(Outcome::Reply)
}

/// The set exists from the first start; a script that calls `rs.initiate()` should still succeed.
fn initiate(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    set_name(cx)?;
    Err(MongoError::new(
        code::ALREADY_INITIALIZED,
        "already initialized",
    ))
}

/// The version fields of a configuration, which are not settings.
const VERSIONS: [&str; 2] = ["version", "term"];

/// The set has one member and one configuration. Sending the same configuration is no error; tools
/// do it to finish an interrupted run.
fn reconfigure(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    set_name(cx)?;
    let wanted = cx.value().as_doc().filter(|wanted| wanted.contains("_id"));
    let Some(wanted) = wanted else {
        let message = "a configuration is a document with the _id and the members of the set";
        return Err(MongoError::new(code::INVALID_REPLICA_SET_CONFIG, message));
    };
    let host = cx.conn.advertised_address(&cx.service.config);
    let id = cx.service.replica_set_id()?;
    let ours = replica_set::presented_config(cx.service, host, id);
    for (name, value) in wanted.iter().filter(|(name, _)| !VERSIONS.contains(name)) {
        let own = ours.doc().field(name);
        if compare(&value, &own).is_ne() {
            return Err(MongoError::new(
                code::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE,
                format!(
                    "this server is the only member of its set, whose configuration stays as it \
                     is: '{name}' is {}, given {}",
                    own, value
                ),
            ));
        }
    }
    Ok(Outcome::Reply)
}

fn rbid(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    set_name(cx)?;
    cx.reply.put("rbid", 1i32);
    Ok(Outcome::Reply)
}
