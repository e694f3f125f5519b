//! Logical sessions: which exist, and when each was last used. A session ends after thirty idle
//! minutes.

use super::transactions::SessionWrites;
use model::{MongoError, Result, code};
use operation::ClockReading;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::SessionId;

/// Idle milliseconds after which a session ends.
pub const IDLE_MS_MAX: i64 = 30 * 60 * 1000;
const IDLE_US_MAX: u64 = IDLE_MS_MAX.unsigned_abs() * 1000;
/// Most sessions that exist at a time.
const SESSIONS_MAX: usize = 1_000_000;
const SHARDS: usize = 16;

/// One session.
#[derive(Clone)]
pub struct Session {
    /// Last use.
    pub last_use: ClockReading,
    /// The digest of the user who owns it.
    pub owner: [u8; 32],
    /// Its retryable writes and its transaction. Locked while one of their commands runs, so that a
    /// retry that overtakes the first attempt waits for it.
    pub writes: Arc<Mutex<SessionWrites>>,
}

/// The table of sessions. Sixteen shards reduce contention between connections.
#[derive(Default)]
pub struct Sessions {
    shards: [Mutex<FxHashMap<SessionId, Session>>; SHARDS],
    /// When the records of ended sessions were last removed, by the monotonic clock in
    /// microseconds; 0 before the first time.
    swept_us: AtomicU64,
}

impl Sessions {
    fn shard(&self, id: &[u8; 16]) -> &Mutex<FxHashMap<[u8; 16], Session>> {
        &self.shards[usize::from(id[15]) % SHARDS]
    }
    /// Creates the session of a user, or notes its use.
    ///
    /// # Errors
    /// 261 TooManyLogicalSessions, 13 Unauthorized for the session of another user.
    pub fn touch(&self, id: [u8; 16], owner: [u8; 32], now: ClockReading) -> Result<()> {
        let mut shard = self.shard(&id).lock();
        if let Some(s) = shard.get_mut(&id) {
            if s.owner != owner {
                return Err(MongoError::new(
                    code::UNAUTHORIZED,
                    "the session belongs to another user",
                ));
            }
            s.last_use = now;
            return Ok(());
        }
        if shard.len() >= SESSIONS_MAX / SHARDS {
            return Err(MongoError::new(
                code::TOO_MANY_LOGICAL_SESSIONS,
                "cannot add session into the cache: too many sessions",
            ));
        }
        shard.insert(
            id,
            Session {
                last_use: now,
                owner,
                writes: Arc::new(Mutex::new(SessionWrites::new(id))),
            },
        );
        Ok(())
    }
    /// The writes of a session.
    pub fn writes(&self, id: &SessionId) -> Option<Arc<Mutex<SessionWrites>>> {
        self.shard(id).lock().get(id).map(|s| s.writes.clone())
    }
    /// The owner of a session.
    pub fn owner(&self, id: &SessionId) -> Option<[u8; 32]> {
        self.shard(id).lock().get(id).map(|s| s.owner)
    }
    /// Whether a session exists.
    pub fn contains(&self, id: &SessionId) -> bool {
        self.shard(id).lock().contains_key(id)
    }
    /// Ends a session and returns it if it existed.
    pub fn end(&self, id: &SessionId) -> Option<Session> {
        self.shard(id).lock().remove(id)
    }
    /// Ids of the sessions that have been idle too long, to be ended by the caller.
    pub fn idle(&self, now_us: u64) -> Vec<SessionId> {
        let old = |s: &Session| s.last_use.age_ms(now_us) >= IDLE_MS_MAX;
        let of = |m: &FxHashMap<SessionId, Session>| {
            m.iter()
                .filter(|(_, s)| old(s))
                .map(|(id, _)| *id)
                .collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(|s| of(&s.lock())).collect()
    }
    /// True once per idle time limit, for the first time that long after the start: sessions of an
    /// earlier run that were not used since then have ended.
    pub fn sweep_is_due(&self, started_us: u64, now_us: u64) -> bool {
        let last = self.swept_us.load(Ordering::Relaxed).max(started_us);
        let due = now_us.saturating_sub(last) >= IDLE_US_MAX;
        if due {
            self.swept_us.store(now_us, Ordering::Relaxed);
        }
        due
    }
    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }
    /// True when there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// All sessions.
    pub fn list(&self) -> Vec<([u8; 16], Session)> {
        self.shards
            .iter()
            .flat_map(|s| {
                s.lock()
                    .iter()
                    .map(|(id, s)| (*id, s.clone()))
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_expire_after_their_last_use() {
        let t = Sessions::default();
        let begin = ClockReading::default();
        t.touch([1; 16], [0; 32], begin).unwrap();
        t.touch([2; 16], [0; 32], begin).unwrap();
        t.touch([2; 16], [0; 32], begin.after_s(IDLE_MS_MAX / 1000))
            .unwrap();
        assert_eq!(t.touch([2; 16], [1; 32], begin).unwrap_err().code(), 13);
        assert_eq!(t.idle(IDLE_US_MAX), vec![[1; 16]]);
        assert!(t.len() == 2 && t.end(&[2; 16]).is_some() && t.end(&[2; 16]).is_none());
        assert!(
            !t.sweep_is_due(5, IDLE_US_MAX)
                && t.sweep_is_due(5, IDLE_US_MAX + 5)
                && !t.sweep_is_due(5, IDLE_US_MAX + 6)
        );
    }
}
