//! Fixed states of the data that clients may read again by cluster time
//! (`readConcern.atClusterTime`). Promises: the time returned with a snapshot read identifies that
//! state until `minSnapshotHistoryWindowInSeconds` have passed, or newer states have displaced it;
//! any other time is refused instead of being answered from another state. Must not know: commands.
//!
//! A kept state keeps old versions of documents on disk, so only states whose time a client knows
//! are kept, and only a few of them.

use model::{MongoError, Result, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use store::ReadView;

/// Most states kept.
const SNAPSHOTS_MAX: usize = 64;
/// The state of that time is no longer kept.
const SNAPSHOT_TOO_OLD: i32 = 239;
/// There is no state of that time.
const SNAPSHOT_UNAVAILABLE: i32 = 246;

#[derive(Clone)]
struct Snapshot {
    view: ReadView,
    taken_us: u64,
}

/// The kept states by cluster time.
#[derive(Default)]
pub struct Snapshots {
    kept: Mutex<BTreeMap<u64, Snapshot>>,
}

impl Snapshots {
    /// Keeps a state under the time that was returned with it.
    pub fn keep(&self, at: Timestamp, view: ReadView, now_us: u64) {
        let mut kept = self.kept.lock();
        while kept.len() >= SNAPSHOTS_MAX {
            kept.pop_first();
        }
        kept.insert(
            at.as_u64(),
            Snapshot {
                view,
                taken_us: now_us,
            },
        );
    }

    /// The state of a time.
    ///
    /// # Errors
    /// 239 SnapshotTooOld for a time before the kept states, 246 SnapshotUnavailable for a time
    /// that no client was given.
    pub fn at(&self, at: Timestamp) -> Result<ReadView> {
        let kept = self.kept.lock();
        if let Some(k) = kept.get(&at.as_u64()) {
            return Ok(k.view.clone());
        }
        let known = |t: Option<(&u64, &Snapshot)>| {
            t.map_or_else(|| "none".to_owned(), |(t, _)| t.to_string())
        };
        if kept
            .first_key_value()
            .is_none_or(|(first, _)| at.as_u64() < *first)
        {
            return Err(MongoError::new(
                SNAPSHOT_TOO_OLD,
                format!(
                    "atClusterTime {at} is older than the oldest state kept: {}",
                    known(kept.first_key_value())
                ),
            ));
        }
        Err(MongoError::new(
            SNAPSHOT_UNAVAILABLE,
            format!(
                "no state is kept for atClusterTime {at}: give a time that a snapshot read has \
                    returned"
            ),
        ))
    }

    /// Drops states taken before this time of the monotonic clock.
    pub fn expire(&self, before_us: u64) {
        self.kept.lock().retain(|_, k| k.taken_us >= before_us);
    }

    /// The number of kept states.
    pub fn count(&self) -> usize {
        self.kept.lock().len()
    }
}
