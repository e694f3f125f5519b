//! The pace of attempts to log in. After a few failures of one user from one address, every further
//! attempt of that pair waits its turn, and turns are twice as far apart after each failure.
//! Attempts of others are not delayed, so nobody can lock a user out from another address.

use rustc_hash::FxHashMap;
use std::net::IpAddr;

/// Failures that cost nothing: a password mistyped.
const FREE: u32 = 5;
/// Between turns after the first failure that costs.
const FIRST_US: u64 = 100_000;
/// Longest time between turns.
const MOST_US: u64 = 10_000_000;
/// A pair is forgotten this long after its last turn.
const FORGET_US: u64 = 10 * 60 * 1_000_000;
/// Most pairs kept; beyond that the oldest go.
const PAIRS_MAX: usize = 50_000;

#[derive(Clone, Copy, Debug)]
struct Pair {
    failures: u32,
    /// The next turn, monotonic microseconds.
    next_us: u64,
}

/// Failures by user and address.
#[derive(Debug, Default)]
pub struct Throttle {
    pairs: FxHashMap<u64, Pair>,
}

/// What came of asking for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Now.
    Now,
    /// At this monotonic microsecond.
    At(u64),
    /// Too many wait already.
    Refused,
}

fn between_us(failures: u32) -> u64 {
    match failures.checked_sub(FREE) {
        None => 0,
        Some(n) => FIRST_US.saturating_mul(1 << n.min(10)).min(MOST_US),
    }
}

/// Clients of one IPv6 network of 64 bits count as one address.
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
    /// Takes a turn for an attempt of `user` (`name@db`).
    pub fn turn(&mut self, user: &str, from: Option<IpAddr>, now_us: u64) -> Turn {
        let Some(pair) = self.pairs.get_mut(&key(user, from)) else {
            return Turn::Now;
        };
        let between = between_us(pair.failures);
        if between == 0 {
            return Turn::Now;
        }
        let at = pair.next_us.max(now_us);
        if at > now_us.saturating_add(2 * MOST_US) {
            return Turn::Refused;
        }
        pair.next_us = at.saturating_add(between);
        if at <= now_us {
            Turn::Now
        } else {
            Turn::At(at)
        }
    }

    /// Notes a failed attempt.
    pub fn failed(&mut self, user: &str, from: Option<IpAddr>, now_us: u64) {
        if self.pairs.len() >= PAIRS_MAX {
            self.shrink(now_us);
        }
        let pair = self.pairs.entry(key(user, from)).or_insert(Pair {
            failures: 0,
            next_us: now_us,
        });
        if now_us > pair.next_us.saturating_add(FORGET_US) {
            pair.failures = 0;
        }
        pair.failures = pair.failures.saturating_add(1);
        let next = now_us.saturating_add(between_us(pair.failures));
        pair.next_us = pair.next_us.max(next);
    }

    /// Notes that the user has logged in.
    pub fn succeeded(&mut self, user: &str, from: Option<IpAddr>) {
        if !self.pairs.is_empty() {
            self.pairs.remove(&key(user, from));
        }
    }

    fn shrink(&mut self, now_us: u64) {
        self.pairs
            .retain(|_, p| now_us <= p.next_us.saturating_add(FORGET_US));
        if self.pairs.len() >= PAIRS_MAX {
            let mut times: Vec<u64> = self.pairs.values().map(|p| p.next_us).collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.pairs.retain(|_, p| p.next_us > median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_slow_down_their_own_pair_only() {
        let mut t = Throttle::default();
        let (me, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        for i in 0..FREE {
            assert_eq!(t.turn("a@admin", me, 0), Turn::Now, "{i}");
            t.failed("a@admin", me, 0);
        }
        assert_eq!(t.turn("a@admin", me, 0), Turn::At(FIRST_US));
        assert_eq!(t.turn("a@admin", me, 0), Turn::At(2 * FIRST_US));
        assert_eq!(t.turn("a@admin", other, 0), Turn::Now);
        assert_eq!(t.turn("b@admin", me, 0), Turn::Now);
        t.succeeded("a@admin", me);
        assert_eq!(t.turn("a@admin", me, 0), Turn::Now);
    }

    #[test]
    fn guesses_of_a_day_are_few_however_many_connections_try() {
        let mut t = Throttle::default();
        let (mut tried, mut now, day_us) = (0, 0, 24 * 3600 * 1_000_000u64);
        while now < day_us {
            match t.turn("a@admin", None, now) {
                Turn::Now => {
                    tried += 1;
                    t.failed("a@admin", None, now);
                    now += 1;
                }
                Turn::At(at) => {
                    tried += 1;
                    now = at;
                    t.failed("a@admin", None, now);
                }
                Turn::Refused => now += 1_000_000,
            }
        }
        assert!(tried < 10_000, "{tried}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut t = Throttle::default();
        for i in 0..2 * PAIRS_MAX as u64 {
            t.failed(&format!("u{i}"), None, i);
        }
        assert!(t.pairs.len() <= PAIRS_MAX);
    }
}
