//! The clock of operations. It is passed in, so that tests can use a mock clock. Must not know:
//! operations.

/// A source of time.
pub trait Clock: Send + Sync {
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> i64;
    /// Microseconds since a fixed point in time; never decreases.
    fn monotonic_us(&self) -> u64;
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
