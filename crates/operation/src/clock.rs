//! The clock of operations. It is passed in, so that tests can use a mock clock. Must not know:
//! operations.

/// A source of time.
pub trait Clock: Send + Sync {
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> i64;
    /// Microseconds since a fixed point in time; never decreases.
    fn monotonic_us(&self) -> u64;
    /// Both clocks.
    fn read(&self) -> ClockReading {
        ClockReading {
            wall_ms: self.now_ms(),
            us: self.monotonic_us(),
        }
    }
}

/// A time by both clocks. Ages and limits are measured by the monotonic one: what is open does not
/// end when the machine's time is set ahead, and does not outlive its limit when it is set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// For reports: milliseconds since the epoch.
    pub wall_ms: i64,
    /// By the monotonic clock, in microseconds.
    pub us: u64,
}

impl ClockReading {
    /// The time so many seconds later.
    #[must_use]
    pub fn after_s(self, seconds: i64) -> ClockReading {
        let us = u64::try_from(seconds)
            .unwrap_or(0)
            .saturating_mul(1_000_000);
        ClockReading {
            wall_ms: self.wall_ms.saturating_add(seconds.saturating_mul(1000)),
            us: self.us.saturating_add(us),
        }
    }

    /// Milliseconds from this time to `now_us` of the monotonic clock.
    #[must_use]
    pub fn age_ms(self, now_us: u64) -> i64 {
        i64::try_from(now_us.saturating_sub(self.us) / 1000).unwrap_or(i64::MAX)
    }
}

/// The machine's clocks.
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock {
            start: std::time::Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
    fn monotonic_us(&self) -> u64 {
        let elapsed = self.start.elapsed();
        // Avoids the 128-bit arithmetic of `as_micros`, because every operation reads this clock.
        elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros())
    }
}
