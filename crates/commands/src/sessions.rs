//! Logical sessions: which exist and when each was last used. They end after thirty idle minutes.

use crate::request::Outcome;
use model::{DocBuf, MongoError, Result, code};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Idle milliseconds after which a session ends.
pub const IDLE_MS_MAX: i64 = 30 * 60 * 1000;
/// Most sessions kept.
const SESSIONS_MAX: usize = 1_000_000;
const SHARDS: usize = 16;

/// What a session remembers of its last retryable write. Held while the write runs, so that a retry that overtakes it
/// waits. In memory only: a retry across a restart of the server runs the write again.
#[derive(Debug, Default)]
pub struct Retry {
    /// Number of the write, when there was one.
    pub txn_number: Option<i64>,
    /// Fields of its reply and when it may be sent, once it succeeded.
    pub reply: Option<(DocBuf, Outcome)>,
}

/// One session.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Last use, milliseconds since the epoch.
    pub last_use_ms: i64,
    /// Its last retryable write.
    pub retry: Arc<Mutex<Retry>>,
}

/// The table. Sixteen shards, so that connections do not meet at one lock.
#[derive(Default)]
pub struct Sessions {
    shards: [Mutex<FxHashMap<[u8; 16], Session>>; SHARDS],
}

impl Sessions {
    fn shard(&self, id: &[u8; 16]) -> &Mutex<FxHashMap<[u8; 16], Session>> {
        &self.shards[usize::from(id[15]) % SHARDS]
    }
    /// Creates the session or marks its use.
    ///
    /// # Errors
    /// 261 TooManyLogicalSessions.
    pub fn touch(&self, id: [u8; 16], now_ms: i64) -> Result<()> {
        let mut shard = self.shard(&id).lock();
        if let Some(s) = shard.get_mut(&id) {
            s.last_use_ms = now_ms;
            return Ok(());
        }
        if shard.len() >= SESSIONS_MAX / SHARDS {
            return Err(MongoError::new(code::TOO_MANY_LOGICAL_SESSIONS, "cannot add session into the cache: too many sessions"));
        }
        shard.insert(id, Session { last_use_ms: now_ms, ..Session::default() });
        Ok(())
    }
    /// The last retryable write of a session.
    pub fn retry(&self, id: &[u8; 16]) -> Option<Arc<Mutex<Retry>>> {
        self.shard(id).lock().get(id).map(|s| s.retry.clone())
    }
    /// Ends one session; true when it was there.
    pub fn end(&self, id: &[u8; 16]) -> bool {
        self.shard(id).lock().remove(id).is_some()
    }
    /// Ends all and returns their ids.
    pub fn end_all(&self) -> Vec<[u8; 16]> {
        self.shards.iter().flat_map(|s| s.lock().drain().map(|(id, _)| id).collect::<Vec<_>>()).collect()
    }
    /// Ends sessions idle too long and returns their ids, for the caller to end their cursors and transactions.
    pub fn expire(&self, now_ms: i64) -> Vec<[u8; 16]> {
        let mut ended = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|id, s| {
                let alive = now_ms - s.last_use_ms < IDLE_MS_MAX;
                if !alive {
                    ended.push(*id);
                }
                alive
            });
        }
        ended
    }
    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }
    /// True without sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// All sessions.
    pub fn list(&self) -> Vec<([u8; 16], Session)> {
        self.shards.iter().flat_map(|s| s.lock().iter().map(|(id, s)| (*id, s.clone())).collect::<Vec<_>>()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_expire_after_their_last_use() {
        let t = Sessions::default();
        t.touch([1; 16], 0).unwrap();
        t.touch([2; 16], 0).unwrap();
        t.touch([2; 16], IDLE_MS_MAX).unwrap();
        assert_eq!(t.expire(IDLE_MS_MAX), vec![[1; 16]]);
        assert!(t.len() == 1 && t.end(&[2; 16]) && !t.end(&[2; 16]));
    }
}
