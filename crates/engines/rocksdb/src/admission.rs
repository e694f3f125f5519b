//! Admission control: slows writers down gradually before RocksDB would stop all of them. It knows
//! no engine: it turns a pressure (0 idle, 1 where RocksDB would intervene) into a byte rate and
//! makes writers wait, outside of every lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use storage::WriteClass;

/// No single call waits longer than this; the controller's next tick corrects the rest.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(150);

/// Writers may exceed the rate by this much before they wait, so that small writes need no sleep.
const BURST: Duration = Duration::from_millis(5);

/// Background work is charged this many times its bytes while the rate is limited.
const BACKGROUND_FACTOR: u64 = 10;

const RATE_MIN: f64 = 2.0 * 1024.0 * 1024.0;

/// The pressure that the controller aims at; well below the limit, well above idle.
const TARGET: f64 = 0.7;

/// The rate limit that writers wait for.
pub(crate) struct Admission {
    origin: Instant,
    // Bytes per second; 0 means unlimited.
    rate: AtomicU64,
    // Nanoseconds since `origin` at which the rate will have covered all admitted bytes.
    paid_until_ns: AtomicU64,
    admitted_bytes: AtomicU64,
    waits: AtomicU64,
    wait_us: AtomicU64,
    wait_us_max: AtomicU64,
}

/// Counts of admissions.
pub(crate) struct AdmissionStats {
    pub(crate) rate: u64,
    pub(crate) admitted_bytes: u64,
    pub(crate) waits: u64,
    pub(crate) wait_us: u64,
    pub(crate) wait_us_max: u64,
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            rate: AtomicU64::new(0),
            paid_until_ns: AtomicU64::new(0),
            admitted_bytes: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            wait_us: AtomicU64::new(0),
            wait_us_max: AtomicU64::new(0),
        }
    }

    pub(crate) fn set_rate(&self, bytes_per_s: u64) {
        self.rate.store(bytes_per_s, Ordering::Relaxed);
    }

    pub(crate) fn admitted_bytes(&self) -> u64 {
        self.admitted_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> AdmissionStats {
        AdmissionStats {
            rate: self.rate.load(Ordering::Relaxed),
            admitted_bytes: self.admitted_bytes(),
            waits: self.waits.load(Ordering::Relaxed),
            wait_us: self.wait_us.load(Ordering::Relaxed),
            wait_us_max: self.wait_us_max.load(Ordering::Relaxed),
        }
    }

    /// Waits until `bytes` fit the rate.
    pub(crate) fn pass(&self, bytes: usize, class: WriteClass) -> Duration {
        let bytes = bytes as u64;
        self.admitted_bytes.fetch_add(bytes, Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return Duration::ZERO;
        }
        let now = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let wait = self.reserve(bytes, class, rate, now);
        if wait.is_zero() {
            return wait;
        }
        let us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.wait_us.fetch_add(us, Ordering::Relaxed);
        self.wait_us_max.fetch_max(us, Ordering::Relaxed);
        std::thread::sleep(wait);
        wait
    }

    // The generic cell rate algorithm: one atomic, no lock, no queue.
    fn reserve(&self, bytes: u64, class: WriteClass, rate: u64, now: u64) -> Duration {
        let weight = if class == WriteClass::Background {
            BACKGROUND_FACTOR
        } else {
            1
        };
        let cost = u64::try_from(u128::from(bytes * weight) * 1_000_000_000 / u128::from(rate))
            .unwrap_or(u64::MAX);
        let debt_max = WAIT_MAX.as_nanos() as u64;
        let mut before = self.paid_until_ns.load(Ordering::Relaxed);
        loop {
            // The debt is bounded: a longer wait would only make clients queue up.
            let after = before
                .max(now)
                .saturating_add(cost)
                .min(now.saturating_add(debt_max));
            match self.paid_until_ns.compare_exchange_weak(
                before,
                after,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(seen) => before = seen,
            }
        }
        let ahead = Duration::from_nanos(before.saturating_sub(now)).min(WAIT_MAX);
        if ahead <= BURST {
            Duration::ZERO
        } else {
            ahead
        }
    }
}

/// Turns pressure into a rate. Pressure is the integral of the excess intake, so a rate that falls
/// with pressure reaches an equilibrium by itself; the base rate is adjusted slowly until the
/// equilibrium is at the target pressure, which works for devices of any speed.
pub(crate) struct Controller {
    base: f64,
    intake: f64,
    smooth: f64,
}

/// Pressure at which limiting begins and below which it ends.
const BEGIN: f64 = 0.6;
const END: f64 = 0.3;

/// How steeply the rate falls: by a factor of fifty from `BEGIN` to the limit.
const STEEPNESS: f64 = 3.9 / (1.0 - BEGIN);

impl Controller {
    pub(crate) fn new() -> Self {
        Self {
            base: 0.0,
            intake: 0.0,
            smooth: 0.0,
        }
    }

    /// One step; `admitted` bytes were written during the last `seconds`.
    ///
    /// # Output
    /// The rate in bytes per second, 0 for unlimited.
    pub(crate) fn tick(&mut self, pressure: f64, admitted: u64, seconds: f64) -> u64 {
        let seconds = seconds.clamp(0.001, 1.0);
        self.intake += (admitted as f64 / seconds - self.intake) * (seconds / 0.5).min(1.0);
        // Files and memtables are counted in whole numbers; smoothing avoids jumps of the rate with
        // each of them, but a sudden rise takes effect.
        self.smooth += (pressure - self.smooth) * (seconds / 0.5).min(1.0);
        let felt = self.smooth.max(pressure - 0.15);
        if self.base == 0.0 {
            if felt < BEGIN {
                return 0;
            }
            self.base = self.intake.max(RATE_MIN);
        } else if felt < END {
            self.base = 0.0;
            return 0;
        }
        self.base *= 1.0 + 0.3 * (TARGET - felt).clamp(-0.3, 0.1) * seconds;
        // Unused headroom must be bounded, or the next burst would not be limited.
        self.base = self.base.clamp(RATE_MIN, self.intake.max(RATE_MIN) * 8.0);
        let fall = (STEEPNESS * (felt - BEGIN)).max(0.0);
        (self.base * (-fall).exp()).max(RATE_MIN / 2.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A store that drains at a fixed rate; pressure grows with the backlog. The offered load is
    // four times the drain rate.
    #[test]
    fn settles_at_the_drain_rate_without_reaching_the_brink() {
        let (drain, offered, brink) = (20e6, 80e6f64, 400e6);
        let (mut controller, mut backlog, mut rate) = (Controller::new(), 0.0f64, 0u64);
        let dt = 0.05;
        let mut tail = Vec::new();
        for step in 0..4000 {
            let intake = if rate == 0 {
                offered
            } else {
                offered.min(rate as f64)
            };
            backlog = (backlog + (intake - drain) * dt).max(0.0);
            assert!(backlog < brink, "step {step}: the limit is reached");
            rate = controller.tick(backlog / brink, (intake * dt) as u64, dt);
            if step >= 2000 {
                tail.push(intake);
            }
        }
        let mean = tail.iter().sum::<f64>() / tail.len() as f64;
        assert!((mean / drain - 1.0).abs() < 0.05, "mean {mean}");
        let spread = tail
            .iter()
            .fold(0.0f64, |worst, rate| worst.max((rate / mean - 1.0).abs()));
        assert!(spread < 0.2, "spread {spread}");
    }

    #[test]
    fn unlimited_again_when_idle() {
        let mut controller = Controller::new();
        assert_eq!(controller.tick(0.3, 1 << 20, 0.05), 0);
        assert!(controller.tick(0.9, 1 << 20, 0.05) > 0);
        let mut rate = 1;
        for _ in 0..100 {
            rate = controller.tick(0.1, 0, 0.05);
        }
        assert_eq!(rate, 0);
    }

    #[test]
    fn waits_follow_the_rate_and_are_bounded() {
        let gate = Admission::new();
        assert_eq!(
            gate.reserve(1000, WriteClass::Client, 1_000_000, 0),
            Duration::ZERO
        );
        // 1 ms per call; the burst allowance covers the first five.
        let waits: Vec<_> = (0..20)
            .map(|_| gate.reserve(1000, WriteClass::Client, 1_000_000, 0))
            .collect();
        assert_eq!(waits[0], Duration::ZERO);
        assert_eq!(waits[19], Duration::from_millis(20));
        for _ in 0..1000 {
            assert!(gate.reserve(1 << 30, WriteClass::Client, 1, 0) <= WAIT_MAX);
        }
        let fresh = Admission::new();
        fresh.reserve(1000, WriteClass::Background, 1_000_000, 0);
        assert_eq!(
            fresh.reserve(0, WriteClass::Client, 1_000_000, 0),
            Duration::from_millis(10)
        );
    }
}
