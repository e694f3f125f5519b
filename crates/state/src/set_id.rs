//! The identifier of the replica set that this server presents. Must not know: the set's
//! configuration, replies.

use model::{ObjectId, Result, Value, doc};
use std::sync::OnceLock;
use store::Store;

/// The setting of the store that keeps the identifier.
const SETTING: &str = "replicaSetId";

/// The identity of this set: generated when it is first asked for, and stored with the data.
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
