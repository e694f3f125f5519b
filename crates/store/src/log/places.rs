//! The places of one member for rows that have no time yet. Promises: a place is given again only
//! when its rows are published or were never committed. Must not know: rows, engines.

use super::commit_times::wall_ms;
use crate::format::raw_log::PLACES_END;
use model::{MongoError, Result, code};
use parking_lot::{Condvar, Mutex};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};
use storage::CommitPos;

/// Bytes of rows that are published together, unless one commit has more.
const GROUP_BYTES_MAX: u64 = 1 << 20;
/// Commits that are published together.
const GROUP_MAX: usize = 128;

/// The places of a member.
#[derive(Default)]
pub(super) struct Places {
    state: Mutex<PlacesState>,
    /// Signalled when something was committed, and at the end.
    gathered: Condvar,
}

#[derive(Default)]
struct PlacesState {
    /// The least ones are given first, so that few are in use.
    free: BinaryHeap<Reverse<u32>>,
    next: u32,
    committed: Vec<CommittedPlace>,
    ended: bool,
}

/// What a process has committed and not published yet, of a log that several processes write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpublishedLog {
    /// Number of commits, with those in progress.
    pub commits: u64,
    /// Age of the oldest that has ended, in milliseconds.
    pub age_ms: u64,
}

/// A place whose rows were committed and are not published yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommittedPlace {
    pub(super) number: u32,
    pub(super) pos: CommitPos,
    pub(super) rows: u16,
    pub(super) bytes: u64,
}

/// A place taken for a commit. When it is dropped without an outcome, that is unknown, and the
/// place is never given again.
pub(crate) struct TakenPlace<'p> {
    places: &'p Places,
    number: u32,
}

impl Places {
    /// Takes a place for a commit.
    ///
    /// # Errors
    /// 24 LockTimeout when a million commits are not published.
    pub(super) fn take(&self) -> Result<TakenPlace<'_>> {
        let mut state = self.state.lock();
        let number = match state.free.pop() {
            Some(Reverse(number)) => number,
            None if state.next < PLACES_END => {
                state.next += 1;
                state.next - 1
            }
            None => {
                let why = "the log of changes cannot be written";
                return Err(MongoError::new(code::LOCK_TIMEOUT, why));
            }
        };
        Ok(TakenPlace {
            places: self,
            number,
        })
    }

    /// The commits to be published next, in the order of their positions.
    pub(super) fn take_committed(&self) -> Vec<CommittedPlace> {
        let mut state = self.state.lock();
        state.committed.sort_unstable_by_key(|place| place.pos);
        let mut bytes = 0;
        let fits = state.committed.iter().take(GROUP_MAX).take_while(|place| {
            let is_first = bytes == 0;
            bytes += place.bytes.max(1);
            is_first || bytes <= GROUP_BYTES_MAX
        });
        let count = fits.count();
        state.committed.drain(..count).collect()
    }

    /// The places that are taken, and the time of the oldest commit that waits, in milliseconds.
    pub(super) fn unpublished(&self, now_ms: u64) -> UnpublishedLog {
        let state = self.state.lock();
        let oldest = state
            .committed
            .iter()
            .map(|place| wall_ms(place.pos) as u64);
        let oldest = oldest.min();
        UnpublishedLog {
            commits: u64::from(state.next).saturating_sub(state.free.len() as u64),
            age_ms: oldest.map_or(0, |ms| now_ms.saturating_sub(ms)),
        }
    }

    /// Gives back commits that could not be published.
    pub(super) fn put_back(&self, some: Vec<CommittedPlace>) {
        self.state.lock().committed.extend(some);
    }

    /// The rows of these commits are published.
    pub(super) fn release(&self, some: &[CommittedPlace]) {
        let numbers = some.iter().map(|place| Reverse(place.number));
        self.state.lock().free.extend(numbers);
    }

    /// Waits until something is to be published, at most this long; false at the end.
    pub(super) fn wait(&self, longest: Duration) -> bool {
        let mut state = self.state.lock();
        if state.committed.is_empty() && !state.ended {
            let _ = self.gathered.wait_for(&mut state, longest);
        }
        !state.ended
    }

    /// Waits until so much is to be published that it is done at once, or until this time; not
    /// after the end.
    pub(super) fn gather(&self, until: Instant) {
        let mut state = self.state.lock();
        while state.committed.len() < GROUP_MAX && !state.ended {
            if self.gathered.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }

    /// Ends the waits.
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.gathered.notify_all();
    }

    /// Allows waits again, after an earlier end.
    pub(super) fn begin(&self) {
        self.state.lock().ended = false;
    }
}

impl TakenPlace<'_> {
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The commit was applied, with this many rows.
    pub(crate) fn note_committed(self, pos: CommitPos, rows: u16, bytes: u64) {
        self.places.state.lock().committed.push(CommittedPlace {
            number: self.number,
            pos,
            rows,
            bytes,
        });
        self.places.gathered.notify_one();
    }

    /// The commit was not applied.
    pub(crate) fn note_refused(self) {
        self.places.state.lock().free.push(Reverse(self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::super::commit_times::{first_time_of_ms, position_of};
    use super::*;

    #[test]
    fn a_place_is_given_again_when_it_is_published_or_refused() {
        let places = Places::default();
        let (first, second) = (places.take().unwrap(), places.take().unwrap());
        assert_eq!((first.number(), second.number()), (0, 1));
        second.note_refused();
        first.note_committed(CommitPos(9), 1, 10);
        let _unknown = places.take().unwrap();
        assert_eq!(places.take().unwrap().number(), 2);
        let some = places.take_committed();
        assert_eq!(some.len(), 1);
        assert!(places.take_committed().is_empty());
        places.release(&some);
        assert_eq!(places.take().unwrap().number(), 0);
    }

    #[test]
    fn what_is_not_published_has_an_age() {
        let places = Places::default();
        let told = |now_ms| {
            let told = places.unpublished(now_ms);
            [told.commits, told.age_ms]
        };
        assert_eq!(told(5), [0, 0]);
        let (first, second) = (places.take().unwrap(), places.take().unwrap());
        assert_eq!(told(5), [2, 0]);
        let at = |ms: u64| position_of(first_time_of_ms(ms));
        second.note_committed(at(2_000), 1, 10);
        first.note_committed(at(1_000), 1, 10);
        assert_eq!(told(3_500), [2, 2_500]);
        let some = places.take_committed();
        places.release(&some);
        assert_eq!(told(3_500), [0, 0]);
    }

    #[test]
    fn commits_gather_until_a_time_or_until_they_are_many() {
        let places = Places::default();
        let began = Instant::now();
        places.gather(began + Duration::from_millis(30));
        assert!(began.elapsed() >= Duration::from_millis(30));
        for pos in 0..GROUP_MAX {
            let place = places.take().unwrap();
            place.note_committed(CommitPos(pos as u64), 1, 1);
        }
        let later = Instant::now() + Duration::from_secs(60);
        places.gather(later);
        assert_eq!(places.take_committed().len(), GROUP_MAX);
        places.end();
        places.gather(later);
        assert!(Instant::now() < later);
    }

    #[test]
    fn a_group_has_the_earliest_commits_and_a_bound() {
        let places = Places::default();
        for (pos, bytes) in [(3, 10), (1, GROUP_BYTES_MAX + 5), (2, 10)] {
            let place = places.take().unwrap();
            place.note_committed(CommitPos(pos), 1, bytes);
        }
        let taken = |some: Vec<CommittedPlace>| some.iter().map(|p| p.pos.0).collect::<Vec<_>>();
        assert_eq!(taken(places.take_committed()), [1]);
        assert_eq!(taken(places.take_committed()), [2, 3]);
    }
}
