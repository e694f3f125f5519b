//! Throttling of login attempts, for each pair of user and address. A successful login is answered
//! at once; failures are answered with growing delays, and each failure occupies one of a few
//! places of its pair for a while. Only when all places are occupied, which takes many guesses at
//! the same time, do further attempts of that pair wait. So sequential guesses do not delay the
//! rightful user behind the same address, and the number of guesses per day is small however many
//! connections try. Attempts from other addresses are never delayed.

use rustc_hash::FxHashMap;
use std::net::IpAddr;

/// Failures without delay, for mistyped passwords.
const FREE: u32 = 5;
/// Delay of the first delayed answer.
const FIRST_US: u64 = 100_000;
/// Longest delay of an answer.
const MOST_US: u64 = 10_000_000;
/// Longest wait for a place; an attempt that would wait longer is refused.
const QUEUE_US: u64 = 2 * MOST_US;
/// A pair is forgotten this long after its last failure.
const FORGET_US: u64 = 10 * 60 * 1_000_000;
/// Most pairs kept; beyond that the oldest are forgotten.
const PAIRS_MAX: usize = 50_000;

#[derive(Clone, Debug)]
struct Pair {
    failures: u32,
    /// Time of the last failure, monotonic microseconds.
    last_us: u64,
    /// When the occupied places become free, monotonic microseconds.
    held: Vec<u64>,
}

/// Failures by pair of user and address.
#[derive(Debug, Default)]
pub struct Throttle {
    pairs: FxHashMap<u64, Pair>,
}

/// How many attempts of a pair are checked at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Number of places of a pair.
    places: usize,
    /// A failure occupies its place this many times as long as its answer is delayed. Less than the
    /// number of places, so that sequential guesses leave some free.
    held_times: u64,
}

impl Pace {
    /// For proofs that this server checks.
    pub const PROOFS: Pace = Pace {
        places: 32,
        held_times: 29,
    };
    /// For passwords that another server checks, which may lock a user after some failures: one
    /// attempt at a time, and none before the answer to the last.
    pub const QUESTIONS: Pace = Pace {
        places: 1,
        held_times: 1,
    };

    fn hold_us(self, failures: u32) -> u64 {
        answer_us(failures).saturating_mul(self.held_times)
    }
}

/// The answer to a request for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleDecision {
    /// A place is free.
    Now,
    /// A place becomes free at this monotonic microsecond and is reserved.
    At(u64),
    /// Too many attempts wait already.
    Refused,
}

/// The delay of the answer to a failure.
fn answer_us(failures: u32) -> u64 {
    match failures.checked_sub(FREE + 1) {
        None => 0,
        Some(n) => FIRST_US.saturating_mul(1 << n.min(10)).min(MOST_US),
    }
}

/// The key of a pair. Clients of one IPv6 /64 network count as one address.
fn key(user: &str, from: Option<IpAddr>) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = rustc_hash::FxHasher::default();
    user.hash(&mut hasher);
    match from {
        Some(IpAddr::V6(ip)) => ip.segments().get(..4).hash(&mut hasher),
        other => other.hash(&mut hasher),
    }
    hasher.finish()
}

impl Throttle {
    /// Requests a place for an attempt of `user` (`name@db`).
    pub fn turn(
        &mut self,
        pace: Pace,
        user: &str,
        from: Option<IpAddr>,
        now_us: u64,
    ) -> ThrottleDecision {
        let Some(pair) = self.pairs.get_mut(&key(user, from)) else {
            return ThrottleDecision::Now;
        };
        pair.held.retain(|free_us| *free_us > now_us);
        if pair.held.len() < pace.places {
            return ThrottleDecision::Now;
        }
        let hold_us = pace.hold_us(pair.failures);
        match pair.held.iter_mut().min() {
            Some(first) if *first <= now_us.saturating_add(QUEUE_US) => {
                let at = *first;
                *first = at.saturating_add(hold_us);
                ThrottleDecision::At(at)
            }
            _ => ThrottleDecision::Refused,
        }
    }

    /// Notes a failed attempt; `waited` if a place was reserved for it.
    ///
    /// # Output
    /// When it may be answered, monotonic microseconds.
    pub fn record_failure(
        &mut self,
        pace: Pace,
        user: &str,
        from: Option<IpAddr>,
        now_us: u64,
        waited: bool,
    ) -> u64 {
        if self.pairs.len() >= PAIRS_MAX {
            self.shrink(now_us);
        }
        let pair = self.pairs.entry(key(user, from)).or_insert(Pair {
            failures: 0,
            last_us: now_us,
            held: Vec::new(),
        });
        if now_us > pair.last_us.saturating_add(FORGET_US) {
            pair.failures = 0;
        }
        pair.failures = pair.failures.saturating_add(1);
        pair.last_us = now_us;
        let answer_us = answer_us(pair.failures);
        if answer_us > 0 && !waited && pair.held.len() < pace.places {
            let hold_us = pace.hold_us(pair.failures);
            pair.held.push(now_us.saturating_add(hold_us));
        }
        now_us.saturating_add(answer_us)
    }

    fn shrink(&mut self, now_us: u64) {
        self.pairs
            .retain(|_, p| now_us <= p.last_us.saturating_add(FORGET_US));
        if self.pairs.len() >= PAIRS_MAX {
            let mut times: Vec<u64> = self.pairs.values().map(|p| p.last_us).collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.pairs.retain(|_, p| p.last_us > median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Pace = Pace::PROOFS;
    const DAY_US: u64 = 24 * 3600 * 1_000_000;

    #[test]
    fn failures_are_answered_later_and_later() {
        let mut t = Throttle::default();
        let (me, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        for i in 0..FREE {
            assert_eq!(t.record_failure(P, "a@admin", me, 0, false), 0, "{i}");
        }
        assert_eq!(t.record_failure(P, "a@admin", me, 0, false), FIRST_US);
        assert_eq!(t.record_failure(P, "a@admin", me, 0, false), 2 * FIRST_US);
        assert_eq!(t.record_failure(P, "a@admin", other, 0, false), 0);
        assert_eq!(t.record_failure(P, "b@admin", me, 0, false), 0);
        let late = 2 * FORGET_US;
        assert_eq!(
            t.record_failure(P, "a@admin", me, late, false),
            late,
            "forgotten"
        );
    }

    #[test]
    fn slow_guesses_leave_places_for_the_rightful_user() {
        let mut t = Throttle::default();
        let mut now = 0;
        while now < DAY_US {
            assert_eq!(
                t.turn(P, "a@admin", None, now),
                ThrottleDecision::Now,
                "the rightful user"
            );
            assert_eq!(
                t.turn(P, "a@admin", None, now),
                ThrottleDecision::Now,
                "the guesser"
            );
            now = t.record_failure(P, "a@admin", None, now, false) + 1;
        }
    }

    #[test]
    fn parallel_guesses_wait_for_a_free_place() {
        let mut t = Throttle::default();
        let mut tries = 0;
        while t.turn(P, "a@admin", None, 0) == ThrottleDecision::Now {
            t.record_failure(P, "a@admin", None, 0, false);
            tries += 1;
        }
        assert_eq!(tries, P.places + FREE as usize);
        let kept = |t: &mut Throttle| match t.turn(P, "a@admin", None, 0) {
            ThrottleDecision::At(at) => at,
            other => panic!("{other:?}"),
        };
        // The loop has occupied the first place.
        assert_eq!(kept(&mut t), 2 * FIRST_US * P.held_times);
        assert_eq!(kept(&mut t), 4 * FIRST_US * P.held_times);
        let from_elsewhere = Some([10, 0, 0, 2].into());
        assert_eq!(
            t.turn(P, "a@admin", from_elsewhere, 0),
            ThrottleDecision::Now
        );
    }

    #[test]
    fn logins_at_another_server_wait_in_turn_after_failures() {
        let mut t = Throttle::default();
        let ask = Pace::QUESTIONS;
        for _ in 0..=FREE {
            assert_eq!(t.turn(ask, "a@admin", None, 0), ThrottleDecision::Now);
            t.record_failure(ask, "a@admin", None, 0, false);
        }
        assert_eq!(
            t.turn(ask, "a@admin", None, 0),
            ThrottleDecision::At(FIRST_US)
        );
        assert_eq!(
            t.turn(ask, "a@admin", None, 0),
            ThrottleDecision::At(2 * FIRST_US)
        );
        assert_eq!(t.turn(ask, "b@admin", None, 0), ThrottleDecision::Now);
    }

    #[test]
    fn password_guesses_per_day_are_few_over_any_number_of_connections() {
        let mut t = Throttle::default();
        let (mut tried, mut now) = (0, 0);
        while now < DAY_US {
            match t.turn(P, "a@admin", None, now) {
                ThrottleDecision::Now => {
                    tried += 1;
                    t.record_failure(P, "a@admin", None, now, false);
                    now += 1;
                }
                ThrottleDecision::At(at) => {
                    tried += 1;
                    now = at.max(now);
                    t.record_failure(P, "a@admin", None, now, true);
                }
                ThrottleDecision::Refused => now += 1_000_000,
            }
        }
        assert!(tried < 10_000, "{tried}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut t = Throttle::default();
        for i in 0..2 * PAIRS_MAX as u64 {
            t.record_failure(P, &format!("u{i}"), None, i, false);
        }
        assert!(t.pairs.len() <= PAIRS_MAX);
        for i in 0..100 {
            t.record_failure(P, "u", None, i * 1_000_000, false);
            t.turn(P, "u", None, i * 1_000_000);
        }
        let held = t.pairs.get(&key("u", None)).map_or(0, |p| p.held.len());
        assert!(held <= P.places, "{held}");
    }
}
