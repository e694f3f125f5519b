//! A turn in the cluster, which its holder extends while it needs it. Promises: others wait for a
//! holder that has died for [`HOLD`] at most; after a turn other units can begin for as long as it
//! has lasted. Stored data does not rest on it: exclusive commits conflict with all others. Must
//! not know: what the turn is for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::Result;

use crate::cluster::{Change, Cluster};
use crate::config::start;
use crate::lease_row::millis_of;
use crate::turn_row::{REST_MAX, TurnRow};
use crate::versions::StopSignal;

/// How long others wait without a sign of the holder.
pub(crate) const HOLD: Duration = Duration::from_millis(500);
const RENEW_EVERY: Duration = Duration::from_millis(150);

/// A turn that this process has; it ends when this is dropped.
pub(crate) struct TurnRenewal {
    held: Arc<HeldTurn>,
}

struct HeldTurn {
    cluster: Arc<Cluster>,
    key: Vec<u8>,
    taken_ms: u64,
    taken: Instant,
    row: Mutex<RenewedRow>,
    ending: StopSignal,
}

struct RenewedRow {
    row: TurnRow,
    /// Written instead, perhaps: no answer arrived.
    unsure: Option<TurnRow>,
    was_renewed: bool,
    /// The exclusive commit writes the row, and nobody else.
    is_claimed: bool,
}

impl TurnRenewal {
    /// Begins to extend a turn that was taken at this time of the oracle.
    ///
    /// # Errors
    /// [`storage::StorageError::Io`] when the system has no thread for it.
    pub(crate) fn start(
        cluster: &Arc<Cluster>,
        key: Vec<u8>,
        row: TurnRow,
        taken_ms: u64,
    ) -> Result<TurnRenewal> {
        let held = Arc::new(HeldTurn {
            cluster: Arc::clone(cluster),
            key,
            taken_ms,
            taken: Instant::now(),
            row: Mutex::new(RenewedRow {
                row,
                unsure: None,
                was_renewed: false,
                is_claimed: false,
            }),
            ending: StopSignal::default(),
        });
        let renewed = Arc::clone(&held);
        // Nobody waits for it: what it does not write expires.
        start("quarry-turn", move || renewed.run())?;
        Ok(TurnRenewal { held })
    }

    /// The change with which the exclusive commit ends the turn; `None` when the row was written
    /// since the commit's unit has begun, so that it would conflict. The turn then ends later.
    pub(crate) fn claim_end(&self) -> Option<Change> {
        let mut row = self.held.row.try_lock()?;
        if row.was_renewed {
            return None;
        }
        row.is_claimed = true;
        Some((self.held.key.clone(), Some(self.held.ended(&row).encode())))
    }
}

impl Drop for TurnRenewal {
    fn drop(&mut self) {
        self.held.ending.end();
    }
}

impl HeldTurn {
    fn ended(&self, row: &RenewedRow) -> TurnRow {
        let lasted = self.taken.elapsed();
        let next = lasted + lasted.min(REST_MAX);
        TurnRow {
            next_ms: self.taken_ms.saturating_add(millis_of(next)),
            until_ms: 0,
            ..row.row
        }
    }

    fn run(&self) {
        while !self.ending.wait(RENEW_EVERY) {
            let mut row = self.row.lock();
            if row.is_claimed {
                return;
            }
            // A commit that writes the row, too, must not begin meanwhile.
            row.was_renewed = true;
            let until = self.taken.elapsed() + HOLD;
            let renewed = TurnRow {
                until_ms: self.taken_ms.saturating_add(millis_of(until)),
                ..row.row
            };
            if !self.replace(&mut row, renewed) {
                return;
            }
        }
        let mut row = self.row.lock();
        if !row.is_claimed {
            let ended = self.ended(&row);
            self.replace(&mut row, ended);
        }
    }

    /// Writes the row, unless another turn has begun; then false. What fails for another reason is
    /// left to the next call, or the turn expires.
    fn replace(&self, row: &mut RenewedRow, new: TurnRow) -> bool {
        let Ok((mut txn, _)) = self.cluster.begin_beside_others() else {
            return true;
        };
        let stored = match self.cluster.get_in(&mut txn, &self.key) {
            Ok(stored) => stored.as_deref().and_then(TurnRow::decode),
            Err(_) => return true,
        };
        if stored.is_none() || (stored != Some(row.row) && stored != row.unsure) {
            return false;
        }
        row.row = stored.unwrap_or(row.row);
        row.unsure = Some(new);
        let change = [(self.key.clone(), Some(new.encode()))];
        match self.cluster.commit(&mut txn, &change) {
            Ok(_) => row.row = new,
            Err(_) => _ = self.cluster.roll_back(&mut txn),
        }
        true
    }
}
