//! Whether the lab itself stood still: a thread that looks at the clock fifty times a second and
//! notices when it could not.
//!
//! Promises: measurements during a standstill of the lab can be distinguished from a slow target; a
//! standstill is known while it still lasts. Must not know: clients, targets.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks.
const BEAT: Duration = Duration::from_millis(20);
/// No timer of a machine that runs is so late: the process was stopped or got no processor.
pub(crate) const STANDSTILL_MIN: Duration = Duration::from_millis(250);
/// At most so many standstills are recorded separately.
const KEPT_MAX: usize = 10_000;

/// A stretch in which the lab stood still.
type Stretch = (Instant, Instant);

#[derive(Debug)]
struct Pulse {
    last: Instant,
    stretches: Vec<Stretch>,
}

static PULSE: OnceLock<Mutex<Pulse>> = OnceLock::new();

impl Pulse {
    fn new(now: Instant) -> Self {
        Self {
            last: now,
            stretches: Vec::new(),
        }
    }

    fn beat(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) >= STANDSTILL_MIN
            && self.stretches.len() < KEPT_MAX
        {
            self.stretches.push((self.last, now));
        }
        self.last = now;
    }

    /// The parts of the time between two moments in which the lab stood still.
    fn within(&self, from: Instant, to: Instant) -> Vec<Stretch> {
        // The beat that ends a standstill may come after what asks for it.
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

/// Begins to look, if it does not yet.
pub(crate) fn start() {
    PULSE.get_or_init(|| {
        // A process that cannot have a thread more fails elsewhere; without it nothing is noticed.
        let _ = std::thread::Builder::new()
            .name("lab-pulse".to_owned())
            .spawn(|| {
                loop {
                    std::thread::sleep(BEAT);
                    if let Some(pulse) = PULSE.get() {
                        let mut pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
                        pulse.beat(Instant::now());
                    }
                }
            });
        Mutex::new(Pulse::new(Instant::now()))
    });
}

/// The stretches between two moments in which the lab stood still.
pub(crate) fn stretches(from: Instant, to: Instant) -> Vec<Stretch> {
    let pulse = PULSE.get();
    pulse.map_or_else(Vec::new, |pulse| {
        let pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.within(from, to)
    })
}

/// How long the lab stood still between two moments.
pub(crate) fn stood_still(from: Instant, to: Instant) -> Duration {
    // A shorter call cannot contain a standstill.
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
            pulse.beat(at(ms));
        }
        assert!(pulse.within(at(0), at(180)).is_empty(), "late, not still");
        // Stopped from 170 to 2,170.
        let found = pulse.within(at(100), at(2_170));
        assert_eq!(found, [(at(170), at(2_170))], "not noticed yet");
        pulse.beat(at(2_175));
        pulse.beat(at(2_195));
        assert_eq!(pulse.within(at(0), at(2_200)), [(at(170), at(2_175))]);
        assert_eq!(pulse.within(at(1_000), at(1_500)), [(at(1_000), at(1_500))]);
        assert!(pulse.within(at(2_180), at(2_300)).is_empty());
    }
}
