//! Throttles the TTL monitor: while clients read or write, it works for a small fraction of the
//! time and sleeps for the rest.

use state::service::Service;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// While clients are busy, the monitor works for one part in 24 of the time. On two processors this
/// takes about two percent of their time, and compaction takes as much for the deletes.
const SHARE: u32 = 24;
/// Requests per second from which clients count as busy.
const BUSY_PER_SECOND: f64 = 50.0;
/// Longest sleep between two checks whether the monitor may continue.
const NAP_MAX: Duration = Duration::from_millis(50);
/// Work after which a pause is made; pauses for less work would be shorter than the precision of
/// sleeping.
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

    /// Reports an amount of work, and sleeps as long as the clients need.
    pub(super) fn add_work(&mut self, service: &Service, time: Duration, go_on: &dyn Fn() -> bool) {
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
        // The next measurement begins here and includes the pause.
        *self = Pace {
            worked: Duration::ZERO,
            requests,
            since: now,
        };
        nap(pause, go_on);
    }
}

/// Sleeps in short steps.
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
