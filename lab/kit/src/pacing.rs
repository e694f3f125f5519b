//! When a client may send: at once (closed loop) or on a schedule (open loop).
//!
//! On a schedule each call has an intended start; latency counted from there includes the time it
//! had to wait behind slow ones, which a closed loop hides.

use std::time::Duration;

/// The schedule of one client.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    gap: Duration,
    offset: Duration,
    sent: u32,
}

impl Schedule {
    /// An even schedule for client `client` of `clients`, which together make `calls_per_second`.
    ///
    /// Clients are shifted against one another, so that they do not send in step.
    pub fn even(calls_per_second: f64, client: u32, clients: u32) -> Self {
        let gap = Duration::from_secs_f64(f64::from(clients.max(1)) / calls_per_second.max(1e-6));
        Self {
            gap,
            offset: gap * client / clients.max(1),
            sent: 0,
        }
    }

    /// The intended start of the next call, since the step began.
    pub fn next_start(&mut self) -> Duration {
        let start =
            self.offset + Duration::from_secs_f64(self.gap.as_secs_f64() * f64::from(self.sent));
        self.sent = self.sent.saturating_add(1);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_the_rate_and_alternate() {
        let mut first = Schedule::even(100.0, 0, 2);
        let mut second = Schedule::even(100.0, 1, 2);
        let starts: Vec<u128> = (0..2)
            .flat_map(|_| [first.next_start(), second.next_start()])
            .map(|start| start.as_millis())
            .collect();
        assert_eq!(starts, [0, 10, 20, 30]);
    }
}
