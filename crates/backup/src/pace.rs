//! A limit on bytes per second.

use std::time::{Duration, Instant};

/// Longest delay that is compensated: after a longer one a caller does not speed up.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Keeps a caller below this many bytes per second by letting it sleep.
#[derive(Debug)]
pub struct Pace {
    bytes_per_s: Option<u64>,
    /// When the bytes counted so far are due at the given rate.
    due: Option<Instant>,
}

impl Pace {
    /// At most this many bytes per second; `None` and 0 set no limit.
    pub fn new(bytes_per_s: Option<u64>) -> Pace {
        Pace {
            bytes_per_s: bytes_per_s.filter(|n| *n > 0),
            due: None,
        }
    }

    /// Counts `bytes` and sleeps until they are due.
    pub fn spend(&mut self, bytes: u64) {
        let wait = self.wait(bytes, Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }

    fn wait(&mut self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.bytes_per_s else {
            return Duration::ZERO;
        };
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let begun = self.due.map_or(now, |due| due.max(earliest));
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let due = begun.checked_add(takes).unwrap_or(begun);
        self.due = Some(due);
        due.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_to_the_bound_and_a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(Some(1000));
        let start = Instant::now();
        assert_eq!(pace.wait(500, start), Duration::from_millis(500));
        assert_eq!(pace.wait(500, start), Duration::from_secs(1));
        let later = start + Duration::from_secs(60);
        assert_eq!(pace.wait(500, later), Duration::from_millis(400));
        assert_eq!(Pace::new(None).wait(u64::MAX, start), Duration::ZERO);
        assert_eq!(Pace::new(Some(0)).wait(1, start), Duration::ZERO);
    }
}
