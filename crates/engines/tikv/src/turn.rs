//! One thread at a time, whose guard another thread may drop. Must not know: what for.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::turn_row::TurnRow;

/// How long a commit that has begun takes, usually; the change begins afterwards. Four times as
/// long after each conflict, up to [`DRAIN_QUADRUPLINGS`] times.
const DRAIN: Duration = Duration::from_millis(2);
const DRAIN_QUADRUPLINGS: u32 = 4;

/// How long after a turn other members may begin theirs before this one begins another: longer
/// than the time in which no turn begins at all.
const HEAD_START: Duration = Duration::from_millis(250);
/// How long ago another member was seen that wanted a turn.
const WANTED: Duration = Duration::from_secs(2);

/// How long the unit that has its turn waits for others to end.
pub(crate) fn drain_time(conflicts: u32) -> Duration {
    DRAIN * 4u32.pow(conflicts.min(DRAIN_QUADRUPLINGS))
}

/// One exclusive unit at a time.
#[derive(Default)]
pub(crate) struct Turn {
    is_taken: Mutex<bool>,
    released: Condvar,
    /// Conflicts since the last commit without one.
    conflicts: AtomicU32,
    seen: Mutex<SeenTurns>,
}

/// When turns were seen last.
#[derive(Default)]
struct SeenTurns {
    own_end: Option<Instant>,
    other: Option<Instant>,
    /// What units wait for that have no turn, and what the unit waits for that has one.
    awaited: [Option<AwaitedTurn>; 2],
}

/// A turn that a unit waits for.
struct AwaitedTurn {
    row: TurnRow,
    since: Instant,
    wait: Duration,
}

/// Gives the turn back when it is dropped. Any thread may drop it.
pub(crate) struct TurnGuard<'t>(&'t Turn);

impl Turn {
    /// Takes the turn; waits while another thread has it.
    pub(crate) fn take(&self) -> TurnGuard<'_> {
        let mut is_taken = self.is_taken.lock();
        while *is_taken {
            self.released.wait(&mut is_taken);
        }
        *is_taken = true;
        TurnGuard(self)
    }

    /// Another member wants turns, too.
    pub(crate) fn note_other(&self) {
        self.seen.lock().other = Some(Instant::now());
    }

    /// Whether a unit has to wait for a turn, which by the time of the oracle takes so long. Not
    /// longer than it seemed when the row was seen first: the time stands still after it was moved
    /// ahead.
    pub(crate) fn has_to_wait(&self, row: TurnRow, in_turn: bool, wait_ms: u64) -> bool {
        if wait_ms == 0 {
            return false;
        }
        let awaited = &mut self.seen.lock().awaited[usize::from(in_turn)];
        match awaited {
            Some(awaited) if awaited.row == row => awaited.since.elapsed() < awaited.wait,
            _ => {
                *awaited = Some(AwaitedTurn {
                    row,
                    since: Instant::now(),
                    wait: Duration::from_millis(wait_ms),
                });
                true
            }
        }
    }

    /// Waits a moment when this member has had the last turn and another one wants turns, too:
    /// whoever is nearer to the stores would be first each time.
    pub(crate) fn give_way(&self) {
        let ahead = {
            let seen = self.seen.lock();
            let is_wanted = seen.other.is_some_and(|at| at.elapsed() < WANTED);
            seen.own_end
                .filter(|_| is_wanted)
                .map(|end| end + HEAD_START)
        };
        let wait = ahead.map(|at| at.saturating_duration_since(Instant::now()));
        std::thread::sleep(wait.unwrap_or_default());
    }
}

impl TurnGuard<'_> {
    /// How many commits in a row have conflicted.
    pub(crate) fn conflicts(&self) -> u32 {
        self.0.conflicts.load(Ordering::Relaxed)
    }

    /// Records how a commit has ended.
    pub(crate) fn note_result(&self, is_conflict: bool) {
        match is_conflict {
            true => _ = self.0.conflicts.fetch_add(1, Ordering::Relaxed),
            false => self.0.conflicts.store(0, Ordering::Relaxed),
        }
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.seen.lock().own_end = Some(Instant::now());
        *self.0.is_taken.lock() = false;
        self.0.released.notify_one();
    }
}
