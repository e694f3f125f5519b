//! One answer for all callers that ask at about the same time, and the moments at which units may
//! begin. Promises: the answer to a call was requested after that call began; one request is in
//! progress at a time; one unit begins at a moment. Must not know: the request.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Moments at which no unit has begun; older ones are forgotten.
const OFFERED_MAX: usize = 1024;

/// A unit begins at a moment that is younger than this: exclusive commits wait for units that have
/// begun, and conflict with those that take longer.
pub(crate) const AGE_MAX: Duration = Duration::from_millis(100);

/// The moments at which a unit may begin, by their timestamps: two transactions must not have one
/// timestamp.
#[derive(Default)]
pub(crate) struct OfferedMoments(Mutex<VecDeque<u64>>);

impl OfferedMoments {
    /// Adds a timestamp, which nobody else has.
    pub(crate) fn add(&self, ts: u64) {
        let mut offered = self.0.lock();
        if offered.len() == OFFERED_MAX {
            offered.pop_front();
        }
        offered.push_back(ts);
    }

    /// Takes a timestamp for a transaction; false when it is not there.
    pub(crate) fn take(&self, ts: u64) -> bool {
        let mut offered = self.0.lock();
        // Usually it is one of the last.
        let at = offered.iter().rposition(|one| *one == ts);
        at.and_then(|at| offered.remove(at)).is_some()
    }
}

struct State<T> {
    /// A request is in progress.
    asking: bool,
    /// Number of requests begun, and the last one that was answered.
    begun: u64,
    answered: u64,
    answer: Option<T>,
}

/// Combines calls that ask at the same time into one request.
pub(crate) struct RequestCombiner<T> {
    state: Mutex<State<T>>,
    turn: Condvar,
}

impl<T> Default for RequestCombiner<T> {
    fn default() -> RequestCombiner<T> {
        let state = State {
            asking: false,
            begun: 0,
            answered: 0,
            answer: None,
        };
        RequestCombiner {
            state: Mutex::new(state),
            turn: Condvar::new(),
        }
    }
}

impl<T: Clone> RequestCombiner<T> {
    /// Asks, or gets the answer to a request that began after this call.
    pub(crate) fn ask(&self, question: impl FnOnce() -> T) -> T {
        let mut state = self.state.lock();
        // A request in progress began before this call.
        let wanted = state.begun + 1;
        loop {
            if state.answered >= wanted
                && let Some(answer) = &state.answer
            {
                return answer.clone();
            }
            if !state.asking {
                state.asking = true;
                state.begun += 1;
                let number = state.begun;
                drop(state);
                let answer = question();
                let mut state = self.state.lock();
                state.asking = false;
                state.answered = number;
                state.answer = Some(answer.clone());
                self.turn.notify_all();
                return answer;
            }
            self.turn.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_moment_is_taken_once_and_forgotten_after_many_others() {
        let moments = OfferedMoments::default();
        (0..=OFFERED_MAX as u64).for_each(|ts| moments.add(ts));
        assert!(!moments.take(0));
        assert!(moments.take(1) && moments.take(1024) && !moments.take(1));
    }

    #[test]
    fn an_answer_is_never_older_than_its_question_and_many_share_one() {
        let (together, clock) = (
            Arc::new(RequestCombiner::default()),
            Arc::new(AtomicU64::new(0)),
        );
        let asked = Arc::new(AtomicU64::new(0));
        let ask = |_| {
            let (together, clock) = (Arc::clone(&together), Arc::clone(&clock));
            let asked = Arc::clone(&asked);
            std::thread::spawn(move || {
                for _ in 0..50 {
                    let before = clock.fetch_add(1, Ordering::SeqCst);
                    let told = together.ask(|| {
                        asked.fetch_add(1, Ordering::SeqCst);
                        let now = clock.load(Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(1));
                        now
                    });
                    assert!(told > before, "{told} after {before}");
                }
            })
        };
        let threads: Vec<_> = (0..8).map(ask).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let asked = asked.load(Ordering::SeqCst);
        assert!(asked < 300, "{asked} of 400 asked by themselves");
    }
}
