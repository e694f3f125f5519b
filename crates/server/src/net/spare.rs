//! How many spare drivers a set needs: as many as its drivers are blocked on average, so that reads
//! from the device leave no processor idle, and none while requests only compute.
//!
//! Promises: reads the kernel's counters ten times a second under traffic, never on the path of a
//! request. Must not know: connections, how a spare is started.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::driver_state::DriverState;

/// Number of looks at the drivers for one decision.
const LOOKS: u32 = 50;
/// A spare ends after this many decisions in a row found it superfluous.
const PATIENCE: u32 = 5;

/// The activity of the drivers of one set since the last decision.
pub(super) struct DriverActivity {
    begun: Instant,
    looks: u32,
    drivers: Vec<DriverSample>,
    spares: usize,
    superfluous: u32,
}

struct DriverSample {
    driver: Arc<DriverState>,
    /// Looks that found the driver inside a request.
    inside: u32,
    at_begin: SchedulerTimes,
}

/// The scheduler's counters of a thread.
#[derive(Clone, Copy, Default)]
struct SchedulerTimes {
    running: Duration,
    /// Time in which the thread was ready to run and no processor was free.
    waiting: Duration,
}

impl DriverActivity {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            looks: 0,
            drivers: Vec::new(),
            spares: 0,
            superfluous: 0,
        }
    }

    /// Records the drivers' activity. After every [`LOOKS`] calls it returns the number of spare
    /// drivers wanted, at most `spares_max`.
    pub(super) fn record_activity(
        &mut self,
        drivers: &[Arc<DriverState>],
        spares_max: usize,
    ) -> Option<usize> {
        let same = self.drivers.len() == drivers.len()
            && self
                .drivers
                .iter()
                .zip(drivers)
                .all(|(s, d)| Arc::ptr_eq(&s.driver, d));
        if !same {
            self.begin(drivers);
            return None;
        }
        self.looks += 1;
        for seen in &mut self.drivers {
            seen.inside += u32::from(seen.driver.is_in_request());
        }
        if self.looks < LOOKS {
            return None;
        }
        let blocked = self.count_blocked();
        self.begin(drivers);
        self.decide(blocked?, spares_max);
        Some(self.spares)
    }

    fn begin(&mut self, drivers: &[Arc<DriverState>]) {
        self.begun = Instant::now();
        self.looks = 0;
        let seen = |driver: &Arc<DriverState>| DriverSample {
            at_begin: read_scheduler_times(driver.thread()).unwrap_or_default(),
            driver: Arc::clone(driver),
            inside: 0,
        };
        self.drivers = drivers.iter().map(seen).collect();
    }

    /// The average number of drivers that were inside a request and neither ran nor waited for a
    /// processor. `None` if the kernel does not tell.
    fn count_blocked(&self) -> Option<f64> {
        let elapsed = self.begun.elapsed().as_secs_f64();
        let mut blocked = 0.0;
        for seen in &self.drivers {
            let now = read_scheduler_times(seen.driver.thread())?;
            let busy = (now.running - seen.at_begin.running.min(now.running))
                + (now.waiting - seen.at_begin.waiting.min(now.waiting));
            let inside = f64::from(seen.inside) / f64::from(self.looks.max(1));
            blocked += (inside - busy.as_secs_f64() / elapsed).max(0.0);
        }
        Some(blocked)
    }

    fn decide(&mut self, blocked: f64, spares_max: usize) {
        if blocked > self.spares as f64 + 0.25 && self.spares < spares_max {
            self.spares += 1;
            self.superfluous = 0;
        } else if self.spares > 0 && blocked < self.spares as f64 - 0.75 {
            self.superfluous += 1;
            if self.superfluous >= PATIENCE {
                self.spares -= 1;
                self.superfluous = 0;
            }
        } else {
            self.superfluous = 0;
        }
    }
}

/// `None` for a thread that has not begun or has ended, and if the kernel keeps no such counters.
fn read_scheduler_times(thread: i32) -> Option<SchedulerTimes> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map_while(|n| n.parse().ok());
    Some(SchedulerTimes {
        running: Duration::from_nanos(numbers.next()?),
        waiting: Duration::from_nanos(numbers.next()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spares_follow_what_is_blocked() {
        let mut blocking = DriverActivity::new();
        let mut after = |blocked: f64, decisions: u32| {
            (0..decisions).for_each(|_| blocking.decide(blocked, 2));
            blocking.spares
        };
        assert_eq!(after(0.2, 10), 0, "requests that compute");
        assert_eq!(after(0.9, 1), 1);
        assert_eq!(after(1.2, 5), 1, "one is enough");
        assert_eq!(after(1.7, 1), 2);
        assert_eq!(after(3.5, 10), 2, "no more than allowed");
        assert_eq!(after(0.9, 4), 2, "patient");
        assert_eq!(after(0.9, 1), 1);
        assert_eq!(after(0.1, 10), 0);
    }

    #[test]
    fn a_thread_that_sleeps_in_a_request_is_blocked_and_one_that_computes_is_not() {
        // The thread stays inside the request while it is observed, however slow the machine is.
        let blocked = |work: fn(&std::sync::mpsc::Receiver<()>)| {
            let driver = Arc::new(DriverState::default());
            let thread = Arc::clone(&driver);
            let (end, ended) = std::sync::mpsc::channel();
            let running = std::thread::spawn(move || {
                thread.begin();
                thread.enter();
                work(&ended);
                thread.leave();
            });
            while !driver.is_in_request() {
                std::thread::yield_now();
            }
            let mut blocking = DriverActivity::new();
            blocking.begin(&[Arc::clone(&driver)]);
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(20));
                blocking.looks += 1;
                blocking.drivers[0].inside += u32::from(driver.is_in_request());
            }
            let blocked = blocking.count_blocked().expect("counters of the kernel");
            end.send(()).unwrap();
            running.join().unwrap();
            blocked
        };
        let sleeping = blocked(|end| end.recv().unwrap());
        let computing = blocked(|end| while end.try_recv().is_err() {});
        assert!(sleeping > 0.9, "{sleeping}");
        assert!(computing < 0.3, "{computing}");
    }
}
