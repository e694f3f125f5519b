//! Throttling of the TTL monitor: while clients read or write, it works a small part of the time
//! and sleeps the rest.

use crate::state::service::Service;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// While clients are busy, one part in so many of the time is worked. On two processors this takes
/// about two hundredths of what there is, and what it leaves to compaction as much again.
const SHARE: u32 = 24;
/// Requests a second from which clients count as busy.
const BUSY_PER_SECOND: f64 = 50.0;
/// Longest sleep between two looks at whether to go on.
const NAP_MAX: Duration = Duration::from_millis(50);
/// Work on which a pause is put off: shorter ones would sleep less precisely than they are long.
const WORK_MIN: Duration = Duration::from_millis(1);

/// The measured work of one thread.
pub(super) struct Pace {
    worked: Duration,
    requests: i64,
    since: Instant,
}

impl Pace {
    pub(super) fn new(service: &Service) -> Pace {
        Pace {
            worked: Duration::ZERO,
            requests: service.counters.requests.load(Relaxed),
            since: Instant::now(),
        }
    }

    /// Work that took so long is done: sleeps as long as clients need.
    pub(super) fn worked(&mut self, service: &Service, time: Duration, go_on: &dyn Fn() -> bool) {
        self.worked += time;
        if self.worked < WORK_MIN {
            return;
        }
        let (requests, now) = (service.counters.requests.load(Relaxed), Instant::now());
        let rate = (requests - self.requests) as f64 / (now - self.since).as_secs_f64().max(1e-6);
        let pause = if rate > BUSY_PER_SECOND {
            self.worked * (SHARE - 1)
        } else {
            Duration::ZERO
        };
        // The next look is at what comes in from here on, the pause included.
        *self = Pace {
            worked: Duration::ZERO,
            requests,
            since: now,
        };
        nap(pause, go_on);
    }
}

/// Sleeps, in steps.
pub(super) fn nap(time: Duration, go_on: &dyn Fn() -> bool) {
    let until = Instant::now() + time;
    while go_on() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(NAP_MAX));
    }
}
