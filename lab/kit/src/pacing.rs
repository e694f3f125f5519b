//! When a client may send: at once (closed loop) or on a schedule (open loop), and how long a
//! scheduled call took if the lab itself had never been late.
//!
//! On a schedule each call is due at a time of its own. Its latency counts from then, so that it
//! includes the time it had to wait behind slow calls, which a closed loop hides. It does not
//! include the time by which the lab's timer woke up late: that is the lab's own lateness.

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

    /// When the next call is due, since the step began.
    pub fn next_start(&mut self) -> Duration {
        let start =
            self.offset + Duration::from_secs_f64(self.gap.as_secs_f64() * f64::from(self.sent));
        self.sent = self.sent.saturating_add(1);
        start
    }
}

/// The queue in front of one client's connection, as it would be if the lab sent each call the
/// moment it is due and the connection is free.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualQueue {
    free_at: Duration,
}

/// A call that went through the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// From the time it was due to its reply.
    pub latency: Duration,
    /// The part of it before the connection was free.
    pub waited: Duration,
}

impl VirtualQueue {
    /// A call that was due at `due` and took `service` from sending to its reply.
    pub fn serve(&mut self, due: Duration, service: Duration) -> Served {
        let start = self.free_at.max(due);
        self.free_at = start + service;
        Served {
            latency: self.free_at - due,
            waited: start - due,
        }
    }

    /// How long a call that was due at `due` and never sent had waited for the connection at
    /// `until`; none if the connection was free, so that only the lab was late.
    pub fn waited_unsent(&self, due: Duration, until: Duration) -> Option<Duration> {
        (self.free_at > due).then(|| until.saturating_sub(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

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

    #[test]
    fn a_call_waits_for_the_one_before_it_and_never_for_the_lab() {
        let mut queue = VirtualQueue::default();
        let served = |latency, waited| Served {
            latency: ms(latency),
            waited: ms(waited),
        };
        assert_eq!(queue.serve(ms(10), ms(3)), served(3, 0));
        // A call of 30 ms holds up the two that are due meanwhile.
        assert_eq!(queue.serve(ms(20), ms(30)), served(30, 0));
        assert_eq!(queue.serve(ms(30), ms(1)), served(21, 20));
        assert_eq!(queue.serve(ms(40), ms(1)), served(12, 11));
        // Whenever the lab sent it, a call on a free connection took what it took.
        assert_eq!(queue.serve(ms(90), ms(2)), served(2, 0));
    }

    #[test]
    fn an_unsent_call_waited_only_if_the_connection_was_busy() {
        let mut queue = VirtualQueue::default();
        queue.serve(ms(10), ms(90));
        assert_eq!(queue.waited_unsent(ms(60), ms(100)), Some(ms(40)));
        assert_eq!(queue.waited_unsent(ms(100), ms(101)), None);
    }
}
