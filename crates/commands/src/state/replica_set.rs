//! The set this server presents: itself alone. Must not know: replies, commands.

use super::service::Service;
use crate::config::Config;
use model::{DocBuf, Namespace, ObjectId, Result, Value, doc};
use std::sync::OnceLock;
use store::{Change, Store};

/// Where the identifier is kept.
const SETTING: &str = "replicaSetId";

/// What tells this set from every other: drawn when it is first asked for, and kept with the data.
#[derive(Debug, Default)]
pub struct SetId(OnceLock<ObjectId>);

impl SetId {
    /// The identifier.
    ///
    /// # Errors
    /// Engine failures.
    pub fn get(&self, store: &Store, now_ms: i64) -> Result<ObjectId> {
        if let Some(id) = self.0.get() {
            return Ok(*id);
        }
        let kept = store.setting(SETTING)?;
        let id = match kept.as_ref().map(|d| d.doc().field("id")) {
            Some(Value::ObjectId(id)) => id,
            _ => {
                let mut id: [u8; 12] = rand::random();
                let seconds = u32::try_from(now_ms / 1000).unwrap_or(0);
                id[..4].copy_from_slice(&seconds.to_be_bytes());
                store.set_setting(SETTING, &doc! { "id": ObjectId(id) })?;
                ObjectId(id)
            }
        };
        Ok(*self.0.get_or_init(|| id))
    }
}

/// Its configuration, as `replSetGetConfig` and `local.system.replset` show it.
/// `host` is the address of its member.
pub(crate) fn config(config: &Config, host: &str, id: ObjectId) -> DocBuf {
    let set = config.replica_set.as_deref().unwrap_or_default();
    model::doc! {
        "_id": set,
        "version": 1i32,
        "term": 1i32,
        "members": [{
            "_id": 0i32,
            "host": host,
            "arbiterOnly": false,
            "buildIndexes": true,
            "hidden": false,
            "priority": 1.0,
            "tags": {},
            "secondaryDelaySecs": 0i64,
            "votes": 1i32
        }],
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

/// Writes the configuration to `local.system.replset`, where tools look for it.
///
/// # Errors
/// Engine failures.
pub(crate) fn show(service: &Service) -> Result<()> {
    if service.config.replica_set.is_none() || service.store.log().is_none() {
        return Ok(());
    }
    let ns = Namespace::new("local", "system.replset")?;
    let coll = match service.store.collection(&ns)? {
        Some(c) => c,
        None => {
            let id = crate::ddl::names::new_uuid();
            service.store.create_collection(&ns, DocBuf::new(), id)?
        }
    };
    let id = service.replica_set_id()?;
    let new = config(&service.config, &service.config.host, id);
    let id: Value<'_> = new.doc().field("_id");
    if !coll.insert(&[new.doc()], true)?.errors.is_empty() {
        let mut key = Vec::new();
        coll.record_key(&id, &mut key);
        coll.modify(&key, &mut |_| Ok(Change::Replace(new.as_bytes().to_vec())))?;
    }
    Ok(())
}
