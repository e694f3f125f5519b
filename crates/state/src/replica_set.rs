//! The replica set that this server presents: this server and, in a pair, the other one. Must not
//! know: replies, commands.

use super::service::Service;
use crate::config::Config;
use model::{DocBuf, Namespace, ObjectId, Result, Value};
use store::Change;

/// The configuration of a set with one member at the address `host`, as `replSetGetConfig` and
/// `local.system.replset` show it.
pub(crate) fn config(config: &Config, host: &str, id: ObjectId) -> DocBuf {
    of_members(config, &[member(0, host)], id)
}

/// The configuration that the service presents; it includes the other server of a pair.
pub fn presented_config(service: &Service, host: &str, id: ObjectId) -> DocBuf {
    match service.state.user_writes.pair.part() {
        Some(part) => {
            let members = [member(0, &part.me), member(1, &part.peer)];
            of_members(&service.config, &members, id)
        }
        None => config(&service.config, host, id),
    }
}

fn member(id: i32, host: &str) -> DocBuf {
    model::doc! {
        "_id": id,
        "host": host,
        "arbiterOnly": false,
        "buildIndexes": true,
        "hidden": false,
        "priority": 1.0,
        "tags": {},
        "secondaryDelaySecs": 0i64,
        "votes": 1i32
    }
}

fn of_members(config: &Config, members: &[DocBuf], id: ObjectId) -> DocBuf {
    let set = config.replica_set.as_deref().unwrap_or_default();
    let list = DocBuf::build(|w| {
        let mut list = w.array("members");
        for member in members {
            list.push(member.doc());
        }
    });
    model::doc! {
        "_id": set,
        "version": 1i32,
        "term": 1i32,
        "members": list.doc().field("members"),
        "protocolVersion": 1i64,
        "writeConcernMajorityJournalDefault": true,
        "settings": {
            "chainingAllowed": true,
            "heartbeatIntervalMillis": 2000i32,
            "heartbeatTimeoutSecs": 10i32,
            "electionTimeoutMillis": 10000i32,
            "catchUpTimeoutMillis": -1i32,
            "catchUpTakeoverDelayMillis": 30000i32,
            "getLastErrorModes": {},
            "getLastErrorDefaults": { "w": 1i32, "wtimeout": 0i32 },
            "replicaSetId": id
        }
    }
}

/// Writes the configuration to `local.system.replset`, where tools look for it; not where several
/// servers write, as a mongos has none.
///
/// # Errors
/// Engine failures.
pub fn show(service: &Service) -> Result<()> {
    let is_member = service.config.replica_set.is_some() && service.store.peer().is_none();
    if !is_member || service.store.log().is_none() {
        return Ok(());
    }
    let ns = Namespace::new("local", "system.replset")?;
    let operation = service.own_operation();
    let coll = match service.store.collection(&ns)? {
        Some(c) => c,
        None => {
            let id = access::uuid::new_uuid();
            let catalog = service.store.writer(&operation);
            catalog.create_collection(&ns, DocBuf::new(), id)?
        }
    };
    let id = service.replica_set_id()?;
    let new = presented_config(service, &service.config.host, id);
    let id: Value<'_> = new.doc().field("_id");
    let writer = coll.writer(&operation);
    if !writer.insert(&[new.doc()], true)?.errors.is_empty() {
        let mut key = Vec::new();
        coll.record_key(&id, &mut key);
        writer.modify(&key, &mut |_| Ok(Change::Replace(new.as_bytes().to_vec())))?;
    }
    Ok(())
}
