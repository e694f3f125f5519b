//! Whether the writes of users are blocked, set by `setUserWriteBlockMode`. It is kept in a setting
//! of the store, so that a restart does not lift the block.
//!
//! Promises: while nothing is blocked, a write costs one load. Must not know: which operations
//! write, who may write in spite of the block.

use super::pair::Pair;
use model::{DocBuf, MongoError, Result, Value, bail, code, doc};
use operation::WriteGate;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::Store;

const SETTING: &str = "userWriteBlock";
/// The reasons that a command may give; the first is the default.
const REASONS: &[&str] = &[
    "Unspecified",
    "ClusterToClusterMigrationInProgress",
    "DiskUseThresholdExceeded",
];

/// The block of user writes.
#[derive(Default)]
pub struct UserWrites {
    blocked: AtomicBool,
    /// The reason of the block; locked while the block changes.
    reason: Mutex<Option<&'static str>>,
    /// The pair of this server: a standby accepts no writes of users either.
    pub pair: Arc<Pair>,
}

/// The reason with this name.
///
/// # Errors
/// 2 BadValue for any other.
pub fn reason(name: &str) -> Result<&'static str> {
    match REASONS.iter().find(|known| **known == name) {
        Some(known) => Ok(known),
        None => bail!(
            code::BAD_VALUE,
            "Enumeration value '{name}' for field 'setUserWriteBlockMode.reason' is not a valid \
                value"
        ),
    }
}

impl WriteGate for UserWrites {
    fn check(&self) -> Result<()> {
        if self.pair.is_standby() {
            return Err(MongoError::new(code::NOT_WRITABLE_PRIMARY, "not primary"));
        }
        if !self.are_blocked() {
            return Ok(());
        }
        let reason = self.reason.lock().unwrap_or("Unspecified");
        Err(MongoError::new(
            code::USER_WRITES_BLOCKED,
            format!("User writes blocked, reason: {reason}"),
        ))
    }
}

impl UserWrites {
    /// Reads the block that an earlier run has stored.
    ///
    /// # Errors
    /// Engine failures; 2 BadValue for an unknown reason.
    pub fn load(&self, store: &Store) -> Result<()> {
        self.pair.load(store)?;
        if let Some(row) = store.setting(SETTING)?
            && let Value::String(name) = row.doc().field("reason")
        {
            *self.reason.lock() = Some(reason(name)?);
            self.blocked.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// True while only privileged writers may change data: the writes of users are blocked, or the
    /// server is a standby.
    pub fn are_held_back(&self) -> bool {
        self.pair.is_standby() || self.are_blocked()
    }

    /// True while the writes of users are blocked.
    pub fn are_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// Blocks the writes of users, or ends the block; both with the same reason.
    ///
    /// # Errors
    /// 20 IllegalOperation when they are blocked for another reason; engine failures, after which
    /// nothing has changed.
    pub fn set(&self, store: &Store, block: bool, given: &'static str) -> Result<()> {
        let mut reason = self.reason.lock();
        if let Some(now) = *reason
            && now != given
        {
            return Err(MongoError::new(
                code::ILLEGAL_OPERATION,
                format!("user writes are blocked for the reason {now}, not {given}"),
            ));
        }
        let wanted = block.then_some(given);
        if *reason != wanted {
            let row = wanted.map_or_else(DocBuf::new, |r| doc! { "reason": r });
            store.set_setting(SETTING, &row)?;
            *reason = wanted;
            self.blocked.store(wanted.is_some(), Ordering::Release);
        }
        Ok(())
    }
}
