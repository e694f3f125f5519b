//! Detects pauses of the lab itself: a thread reads the clock fifty times a second and notices when
//! it could not run.
//!
//! Promises: measurements during a pause of the lab can be distinguished from a slow target; a
//! pause is known while it still lasts. Must not know: clients, targets.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The interval between two readings of the clock.
const BEAT: Duration = Duration::from_millis(20);
/// A timer is never this late on a running machine. If it is, the process was stopped or got no
/// processor.
pub(crate) const STANDSTILL_MIN: Duration = Duration::from_millis(250);
/// The largest number of pauses that are recorded separately.
const KEPT_MAX: usize = 10_000;

/// A pause of the lab.
type Pause = (Instant, Instant);

#[derive(Debug)]
struct Pulse {
    last: Instant,
    stretches: Vec<Pause>,
}

static PULSE: OnceLock<Mutex<Pulse>> = OnceLock::new();

impl Pulse {
    fn new(now: Instant) -> Self {
        Self {
            last: now,
            stretches: Vec::new(),
        }
    }

    fn record_beat(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) >= STANDSTILL_MIN
            && self.stretches.len() < KEPT_MAX
        {
            self.stretches.push((self.last, now));
        }
        self.last = now;
    }

    /// The parts of the time between two moments in which the lab was paused.
    fn pauses_between(&self, from: Instant, to: Instant) -> Vec<Pause> {
        // This call may come before the reading of the clock that ends a pause.
        let unnoticed = (self.last, to);
        let is_still = to.saturating_duration_since(self.last) >= STANDSTILL_MIN;
        let all = self.stretches.iter().rev();
        let all = all.take_while(|(_, end)| *end > from).copied();
        all.chain(is_still.then_some(unnoticed))
            .map(|(begin, end)| (begin.max(from), end.min(to)))
            .filter(|(begin, end)| begin < end)
            .collect()
    }
}

/// Starts the thread, if it is not running.
pub(crate) fn start() {
    PULSE.get_or_init(|| {
        // A process that cannot start another thread fails elsewhere. Without this thread no pause
        // is noticed.
        let _ = std::thread::Builder::new()
            .name("lab-pulse".to_owned())
            .spawn(|| {
                loop {
                    std::thread::sleep(BEAT);
                    if let Some(pulse) = PULSE.get() {
                        let mut pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
                        pulse.record_beat(Instant::now());
                    }
                }
            });
        Mutex::new(Pulse::new(Instant::now()))
    });
}

/// The pauses of the lab between two moments.
pub(crate) fn stretches(from: Instant, to: Instant) -> Vec<Pause> {
    let pulse = PULSE.get();
    pulse.map_or_else(Vec::new, |pulse| {
        let pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.pauses_between(from, to)
    })
}

/// The time for which the lab was paused between two moments.
pub(crate) fn stood_still(from: Instant, to: Instant) -> Duration {
    // A shorter period cannot contain a pause.
    if to.saturating_duration_since(from) < STANDSTILL_MIN {
        return Duration::ZERO;
    }
    let all = stretches(from, to);
    all.iter().map(|(begin, end)| *end - *begin).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standstill_is_known_before_and_after_it_is_noticed() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut pulse = Pulse::new(begun);
        for ms in [20, 40, 150, 170] {
            pulse.record_beat(at(ms));
        }
        assert!(
            pulse.pauses_between(at(0), at(180)).is_empty(),
            "late, not still"
        );
        // The process was stopped from 170 to 2,170.
        let found = pulse.pauses_between(at(100), at(2_170));
        assert_eq!(found, [(at(170), at(2_170))], "not noticed yet");
        pulse.record_beat(at(2_175));
        pulse.record_beat(at(2_195));
        assert_eq!(
            pulse.pauses_between(at(0), at(2_200)),
            [(at(170), at(2_175))]
        );
        assert_eq!(
            pulse.pauses_between(at(1_000), at(1_500)),
            [(at(1_000), at(1_500))]
        );
        assert!(pulse.pauses_between(at(2_180), at(2_300)).is_empty());
    }
}
