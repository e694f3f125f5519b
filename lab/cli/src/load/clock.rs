//! The offset of an agent's clocks from the lab's, measured by requests and answers.
//!
//! Promises: the error of the offset is at most half of the shortest round trip. Must not know: how
//! requests are sent.

use std::time::{Duration, Instant};

/// The largest allowed error of the common start, which is half of the shortest round trip.
pub(super) const START_ERROR_MAX: Duration = Duration::from_millis(50);
/// The largest allowed difference between the clocks, because documents contain times.
pub(super) const AHEAD_MAX: Duration = Duration::from_secs(1);

/// One request and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockSample {
    /// When the lab sent the request.
    pub(super) asked: Instant,
    /// When the answer arrived.
    pub(super) came: Instant,
    /// The lab's time in the middle between both, in microseconds since 1970.
    pub(super) wall_us: i64,
    /// The agent's monotonic clock, in nanoseconds since its start.
    pub(super) agent_ns: u64,
    /// The agent's time in microseconds since 1970.
    pub(super) agent_wall_us: i64,
}

/// An agent's clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// A moment of the lab's clock; `there` is the same moment of the agent's monotonic clock.
    here: Instant,
    there: Duration,
    /// The largest error of the offset.
    pub(crate) error: Duration,
    /// The number of microseconds by which the agent's time is ahead.
    pub(crate) ahead_us: i64,
}

impl Clock {
    /// A placeholder until the agent has been asked: the lab's own clock.
    pub(super) fn local() -> Self {
        Self {
            here: Instant::now(),
            there: Duration::ZERO,
            error: Duration::ZERO,
            ahead_us: 0,
        }
    }

    /// Takes the offset from the answer with the shortest round trip.
    pub(super) fn of(answers: &[ClockSample]) -> Option<Self> {
        let took = |answer: &&ClockSample| answer.came.saturating_duration_since(answer.asked);
        let best = answers.iter().min_by_key(took)?;
        let half = took(&best) / 2;
        Some(Self {
            here: best.asked + half,
            there: Duration::from_nanos(best.agent_ns),
            error: half,
            ahead_us: best.agent_wall_us.saturating_sub(best.wall_us),
        })
    }

    /// Checks that the lab and the agent can begin together.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.error > START_ERROR_MAX {
            return Err(format!(
                "it cannot start at the same time as the lab: half of the shortest round trip is \
                 {} ms; allowed is {} ms",
                self.error.as_millis(),
                START_ERROR_MAX.as_millis()
            ));
        }
        let most = i64::try_from(AHEAD_MAX.as_micros()).unwrap_or(i64::MAX);
        if !(-most..=most).contains(&self.ahead_us) {
            return Err(format!(
                "its clock is {:.3} s ahead of the lab's; allowed is {} s either way: \
                 synchronise both with the same time server",
                self.ahead_us as f64 / 1e6,
                AHEAD_MAX.as_secs()
            ));
        }
        Ok(())
    }

    /// Converts a moment into the agent's monotonic clock.
    pub(super) fn at(&self, moment: Instant) -> Duration {
        let later = moment.saturating_duration_since(self.here);
        let earlier = self.here.saturating_duration_since(moment);
        (self.there + later).saturating_sub(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(
        begun: Instant,
        asked_ms: u64,
        took_ms: u64,
        agent_ms: u64,
        ahead_us: i64,
    ) -> ClockSample {
        let asked = begun + Duration::from_millis(asked_ms);
        ClockSample {
            asked,
            came: asked + Duration::from_millis(took_ms),
            wall_us: 1_000_000,
            agent_ns: agent_ms * 1_000_000,
            agent_wall_us: 1_000_000 + ahead_us,
        }
    }

    #[test]
    fn the_shortest_round_trip_tells_the_clock() {
        let begun = Instant::now();
        let answers = [
            answer(begun, 0, 90, 1_080, 40_000),
            answer(begun, 100, 10, 1_105, 7_000),
            answer(begun, 200, 60, 1_201, 90_000),
        ];
        let clock = Clock::of(&answers).unwrap();
        assert_eq!(clock.error, Duration::from_millis(5));
        assert_eq!(clock.ahead_us, 7_000);
        assert!(clock.check().is_ok());
        // When the lab's clock showed 105 ms, the agent's showed 1,105 ms.
        assert_eq!(clock.at(begun), Duration::from_millis(1_000));
        let later = begun + Duration::from_millis(500);
        assert_eq!(clock.at(later), Duration::from_millis(1_500));
        assert!(Clock::of(&[]).is_none());
    }

    #[test]
    fn clocks_that_differ_and_long_ways_are_refused() {
        let begun = Instant::now();
        let of = |took_ms, ahead_us| {
            let clock = Clock::of(&[answer(begun, 0, took_ms, 5, ahead_us)]).unwrap();
            clock.check().err().unwrap_or_default()
        };
        assert_eq!(of(99, 900_000), "");
        assert!(of(104, 0).contains("round trip is 52 ms; allowed is 50 ms"));
        assert!(of(1, 3_250_000).contains("3.250 s ahead"));
        assert!(of(1, -1_000_001).contains("-1.000 s ahead"));
    }
}
