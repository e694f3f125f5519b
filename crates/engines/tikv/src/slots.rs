//! The slots of a member. A unit has a slot, and its commit writes the slot's row. No other commit
//! writes this row meanwhile, so commits of a member can run at the same time. If no answer to a
//! commit arrives, the row tells whether it was committed.
//!
//! Promises: a commit is applied completely or not at all, and its outcome is known or the
//! membership is lost; a commit that failed is never applied later. Must not know: batches, tables.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use storage::{Result, StatSink, StorageError};
use tikv_client::{TimestampExt, Transaction};

use crate::cluster::{Change, Cluster, RETRY_FOR};
use crate::error::{is_conflict, is_given_up};
use crate::layout::{Layout, SlotId};
use crate::membership::Membership;
use crate::written::find_commit;

const PAUSE: Duration = Duration::from_millis(50);

/// A slot.
pub(crate) struct Slot {
    pub(crate) id: SlotId,
    /// Number of its last commit.
    pub(crate) number: u64,
    /// A time up to which its row was written or locked; a transaction that has begun earlier would
    /// conflict.
    pub(crate) written: u64,
    /// The parts of counters in this slot, as of its last commit.
    pub(crate) counters: FxHashMap<Vec<u8>, [i64; 2]>,
    /// The announcement up to which no other server has removed one of them.
    pub(crate) announced: Vec<u8>,
}

/// The free slots.
pub(crate) struct SlotPool {
    free: Mutex<Vec<Slot>>,
    returned: Condvar,
}

/// A slot that belongs to one unit.
pub(crate) struct SlotGuard<'p> {
    pool: &'p SlotPool,
    slot: Option<Slot>,
}

impl SlotPool {
    /// The slots, whose rows were written at this time.
    pub(crate) fn new(ids: impl Iterator<Item = SlotId>, written: u64) -> SlotPool {
        let slot = |id| Slot {
            id,
            number: 0,
            written,
            counters: FxHashMap::default(),
            announced: Vec::new(),
        };
        SlotPool {
            free: Mutex::new(ids.map(slot).collect()),
            returned: Condvar::new(),
        }
    }

    /// Takes a slot; waits while none is free. The one that was returned last, because it
    /// remembers most.
    pub(crate) fn take(&self) -> SlotGuard<'_> {
        let mut free = self.free.lock();
        loop {
            match free.pop() {
                Some(slot) => return self.guard(slot),
                None => self.returned.wait(&mut free),
            }
        }
    }

    /// A slot for a transaction that has begun at this time; `None` when none is free. The one that
    /// was returned last of them.
    pub(crate) fn take_for(&self, ts: u64) -> Option<SlotGuard<'_>> {
        let mut free = self.free.lock();
        let at = free.iter().rposition(|slot| slot.written < ts)?;
        Some(self.guard(free.remove(at)))
    }

    fn guard(&self, slot: Slot) -> SlotGuard<'_> {
        SlotGuard {
            pool: self,
            slot: Some(slot),
        }
    }
}

impl Deref for SlotGuard<'_> {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        self.slot.as_ref().expect("present until the drop")
    }
}

impl DerefMut for SlotGuard<'_> {
    fn deref_mut(&mut self) -> &mut Slot {
        self.slot.as_mut().expect("present until the drop")
    }
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        self.pool.free.lock().extend(self.slot.take());
        self.pool.returned.notify_one();
    }
}

impl CommitOutcomes {
    pub(crate) fn report(&self, sink: &mut StatSink<'_>) {
        let number = |n: &AtomicU64| i64::try_from(n.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        sink("commits.given_up", number(&self.given_up));
        sink("commits.looked_up", number(&self.looked_up));
    }
}

/// Commits in slots.
pub(crate) struct SlotCommits {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) layout: Layout,
    pub(crate) membership: Arc<Membership>,
    pub(crate) outcomes: CommitOutcomes,
}

/// How often commits have not simply ended with an answer.
#[derive(Default)]
pub(crate) struct CommitOutcomes {
    /// Others kept their locks, or the oracle did not answer.
    pub(crate) given_up: AtomicU64,
    /// No answer arrived; the outcome was looked up.
    pub(crate) looked_up: AtomicU64,
}

impl SlotCommits {
    /// Commits a transaction that began before the reads on which it rests. The caller has
    /// increased the number of the slot.
    ///
    /// # Input
    /// `read`: further keys; if one has changed since the beginning, that is a conflict, too.
    ///
    /// # Output
    /// The time of the commit.
    ///
    /// # Errors
    /// [`StorageError::Conflict`] when nothing was applied and nothing will be;
    /// [`StorageError::ReadOnly`] when the membership is lost and nothing was applied;
    /// [`StorageError::Undetermined`]
    pub(crate) fn commit(
        &self,
        slot: &mut Slot,
        mut txn: Transaction,
        changes: Vec<Change>,
        read: Vec<Vec<u8>>,
    ) -> Result<u64> {
        let mut all = vec![self.membership.slot_change(slot.id, slot.number)];
        all.extend(changes);
        // Also when it is rolled back, which the row remembers.
        let began = txn.start_timestamp().version();
        slot.written = slot.written.max(began);
        match self.cluster.commit_checked(&mut txn, &all, read) {
            Ok(at) => {
                slot.written = at;
                return Ok(at);
            }
            Err(e) if is_conflict(&e) => {
                // No commit was requested for the locks.
                let _ = self.cluster.roll_back(&mut txn);
            }
            // Its locks are removed, and the stores remember that, so nothing is applied later.
            Err(e) if is_given_up(&e) && self.cluster.roll_back(&mut txn).is_ok() => {
                self.outcomes.given_up.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                self.outcomes.looked_up.fetch_add(1, Ordering::Relaxed);
                // From here on it does not keep its own locks alive, which `resolve` meets.
                drop(txn);
                return self.resolve(slot, began);
            }
        }
        // What could not be removed must not be kept alive: the row of the slot is read next.
        drop(txn);
        // Perhaps it was the slot that another member has taken.
        let (_, ts) = self.cluster.begin(false)?;
        let row = self.cluster.get(ts, &self.layout.slot(slot.id))?;
        match self.membership.read_slot(row.as_deref())? {
            Some(_) => Err(StorageError::Conflict),
            None => Err(self.refuse_lost()),
        }
    }

    fn refuse_lost(&self) -> StorageError {
        let context = "another server has taken this member's number".to_owned();
        self.membership.lose(&context);
        StorageError::ReadOnly { context }
    }

    /// The outcome of a commit whose answer was lost. If it is not committed yet, it is made to
    /// conflict: the row of the slot is written again.
    fn resolve(&self, slot: &mut Slot, began: u64) -> Result<u64> {
        let number = slot.number;
        let until = Instant::now() + RETRY_FOR;
        while Instant::now() < until {
            std::thread::sleep(PAUSE);
            let Ok((mut txn, ts)) = self.cluster.begin_beside_others() else {
                continue;
            };
            let Ok(row) = self.cluster.get_in(&mut txn, &self.layout.slot(slot.id)) else {
                continue;
            };
            match self.membership.read_slot(row.as_deref())? {
                Some(newest) if newest == number => {
                    let row = self.layout.slot(slot.id);
                    match find_commit(&self.cluster, &row, began, ts) {
                        Ok(Some(at)) => {
                            slot.written = ts;
                            return Ok(at);
                        }
                        // It is looked up again.
                        _ => continue,
                    }
                }
                Some(newest) if newest > number => return Err(StorageError::Conflict),
                Some(_) => {}
                None => {
                    self.refuse_lost();
                    return Err(StorageError::Undetermined);
                }
            }
            slot.number += 1;
            let change = [self.membership.slot_change(slot.id, slot.number)];
            match self.cluster.commit(&mut txn, &change) {
                Ok(at) => {
                    slot.written = at;
                    return Err(StorageError::Conflict);
                }
                Err(_) => _ = self.cluster.roll_back(&mut txn),
            }
        }
        self.membership.lose("the outcome of a commit is unknown");
        Err(StorageError::Undetermined)
    }
}
