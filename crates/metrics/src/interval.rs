//! The interval row: everything measured in one interval of time.
//!
//! Rates, costs per operation and cumulative averages are computed from these rows and never
//! measured separately.

use std::time::Duration;

use crate::{DirectorySize, DiskUse, HostCpuUse, LatencyHistogram, Paging, Pressure, ProcessUse};

/// One interval of a run, usually a second.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Start, relative to the start of the step.
    pub start: Duration,
    /// Its actual length.
    pub length: Duration,
    /// Completed logical operations: documents for an insert, calls for a point query.
    pub ops: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Latency of each call; its count is the number of calls.
    pub latency: LatencyHistogram,
    /// The server's resource use, if it can be seen.
    pub server: Option<ProcessUse>,
    /// The load generator's resource use.
    pub client: ProcessUse,
    /// The activity of the data's device, if known.
    pub disk: Option<DiskUse>,
    /// The machine's use of CPU time.
    pub host: HostCpuUse,
    /// How long tasks of the machine waited, if the kernel counts it.
    pub pressure: Option<Pressure>,
    /// Traffic of the machine's page cache, if the kernel counts it.
    pub paging: Option<Paging>,
    /// Microseconds in which the server's control group had used up its CPU quota, if that can be
    /// seen.
    pub throttled_us: Option<u64>,
    /// Size of the data directory, if it was measured in this interval.
    pub directory: Option<DirectorySize>,
    /// Whether it belongs to the warm-up.
    pub warmup: bool,
}

impl Interval {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        let seconds = self.length.as_secs_f64();
        if seconds > 0.0 {
            self.ops as f64 / seconds
        } else {
            0.0
        }
    }

    /// Adds the interval that follows this one.
    ///
    /// Sums are added, shares are weighted by time, sizes keep the later value, and a use seen in
    /// only one interval is kept as it is.
    pub fn merge(&mut self, next: &Self) {
        let (mine, theirs) = (self.length.as_secs_f64(), next.length.as_secs_f64());
        let weighted = |left: f64, right: f64| {
            if mine + theirs > 0.0 {
                (left * mine + right * theirs) / (mine + theirs)
            } else {
                0.0
            }
        };
        self.host = HostCpuUse {
            busy_percent: weighted(self.host.busy_percent, next.host.busy_percent),
            steal_percent: weighted(self.host.steal_percent, next.host.steal_percent),
            io_wait_percent: weighted(self.host.io_wait_percent, next.host.io_wait_percent),
        };
        self.length += next.length;
        self.ops += next.ops;
        self.errors += next.errors;
        self.latency.merge(&next.latency);
        self.client.merge(&next.client);
        match (&mut self.server, &next.server) {
            (Some(left), Some(right)) => left.merge(right),
            (left @ None, Some(right)) => *left = Some(*right),
            (_, None) => {}
        }
        match (&mut self.disk, &next.disk) {
            (Some(left), Some(right)) => left.merge(right),
            (left @ None, Some(right)) => *left = Some(*right),
            (_, None) => {}
        }
        match (&mut self.pressure, &next.pressure) {
            (Some(left), Some(right)) => left.merge(right),
            (left @ None, Some(right)) => *left = Some(*right),
            (_, None) => {}
        }
        match (&mut self.paging, &next.paging) {
            (Some(left), Some(right)) => left.merge(right),
            (left @ None, Some(right)) => *left = Some(*right),
            (_, None) => {}
        }
        if let Some(us) = next.throttled_us {
            *self.throttled_us.get_or_insert(0) += us;
        }
        self.directory = next.directory.or(self.directory);
        self.warmup &= next.warmup;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_neighbours_keeps_sums_and_weights_shares() {
        let mut left = Interval {
            length: Duration::from_secs(1),
            ops: 100,
            ..Interval::default()
        };
        left.host.busy_percent = 90.0;
        left.latency.record(Duration::from_millis(1));
        let mut right = Interval {
            start: Duration::from_secs(1),
            length: Duration::from_secs(3),
            ops: 500,
            errors: 2,
            ..Interval::default()
        };
        right.host.busy_percent = 10.0;
        right.latency.record(Duration::from_millis(9));
        right.server = Some(ProcessUse {
            write_bytes: 7,
            ..ProcessUse::default()
        });
        right.directory = Some(DirectorySize {
            files: 5,
            ..DirectorySize::default()
        });
        right.throttled_us = Some(9);
        left.merge(&right);
        assert_eq!((left.ops, left.errors, left.latency.count()), (600, 2, 2));
        assert_eq!(left.rate(), 150.0);
        assert_eq!(left.host.busy_percent, 30.0);
        assert_eq!(left.server.map(|server| server.write_bytes), Some(7));
        assert_eq!(
            (left.start, left.directory.map(|size| size.files)),
            (Duration::ZERO, Some(5))
        );
        assert_eq!(left.throttled_us, Some(9));
    }
}
