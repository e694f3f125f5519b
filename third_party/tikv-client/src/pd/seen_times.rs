//! Quarry: which timestamps this process has seen, and when by its own clock. With them it knows a
//! least age of a transaction while the oracle's time stands still, as it does after it was moved
//! ahead. Promises: a transaction began before the moment that `later_than` returns for its start
//! timestamp.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One timestamp in this time is remembered, for half a minute.
const EVERY: Duration = Duration::from_millis(20);
const TIMES_MAX: usize = 1500;

#[derive(Default)]
pub(crate) struct SeenTimes(Mutex<VecDeque<(u64, Instant)>>);

impl SeenTimes {
    /// Records a timestamp that the oracle has just given.
    pub(crate) fn note(&self, version: u64) {
        let mut times = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let is_new = |&(last, at): &(u64, Instant)| version > last && at.elapsed() >= EVERY;
        if times.back().is_none_or(is_new) {
            if times.len() == TIMES_MAX {
                times.pop_front();
            }
            times.push_back((version, Instant::now()));
        }
    }

    /// When a later timestamp was seen first; `None` when none was.
    pub(crate) fn later_than(&self, version: u64) -> Option<Instant> {
        let times = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let first = times.partition_point(|(seen, _)| *seen <= version);
        times.get(first).map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_that_of_the_first_later_timestamp() {
        let times = SeenTimes::default();
        let before = Instant::now();
        times.note(10);
        times.note(11);
        let between = Instant::now();
        std::thread::sleep(EVERY);
        times.note(20);
        times.note(5);
        let seen = [9, 10, 19, 20].map(|version| times.later_than(version));
        assert!(seen[0].is_some_and(|at| before <= at && at <= between));
        assert!(seen[1].is_some_and(|at| at >= between) && seen[1] == seen[2]);
        assert_eq!(seen[3], None);
    }
}
