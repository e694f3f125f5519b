//! The oracle's time without a request: the last time received from it, plus the time passed since
//! by this machine's monotonic clock.
//!
//! Promises: never goes back. Must not know: leases, requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A time of the oracle, and when it was received.
struct OracleSample {
    ms: u64,
    at: Instant,
}

/// The clock.
pub(crate) struct OracleClock {
    heard: Mutex<OracleSample>,
    shown: AtomicU64,
}

impl OracleClock {
    /// Starts the clock; the oracle's time is `ms` now.
    pub(crate) fn start(ms: u64) -> OracleClock {
        OracleClock {
            heard: Mutex::new(OracleSample {
                ms,
                at: Instant::now(),
            }),
            shown: AtomicU64::new(ms),
        }
    }

    /// Sets the clock; the oracle's time is `ms` now.
    ///
    /// # Output
    /// The difference between the time passed on the oracle and on this machine since the last
    /// call.
    pub(crate) fn set(&self, ms: u64) -> Duration {
        let at = Instant::now();
        let mut heard = self.heard.lock();
        let by_oracle = ms.abs_diff(heard.ms);
        let is_back = ms < heard.ms;
        let passed = at.saturating_duration_since(heard.at);
        *heard = OracleSample { ms, at };
        match is_back {
            true => passed + Duration::from_millis(by_oracle),
            false => passed.abs_diff(Duration::from_millis(by_oracle)),
        }
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        let heard = self.heard.lock();
        let passed = u64::try_from(heard.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now = heard.ms.saturating_add(passed);
        drop(heard);
        self.shown.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_follows_the_oracle_and_never_goes_back() {
        let clock = OracleClock::start(5_000);
        assert!((5_000..60_000).contains(&clock.now_ms()));
        assert!(clock.set(3_600_000) > Duration::from_secs(3_000));
        let ahead = clock.now_ms();
        assert!(ahead >= 3_600_000);
        // The oracle's time stands still.
        std::thread::sleep(Duration::from_millis(30));
        assert!(clock.set(3_600_000) >= Duration::from_millis(30));
        assert!(clock.set(3_590_000) >= Duration::from_secs(10));
        assert!(clock.now_ms() >= ahead);
    }
}
