//! The machine as a whole: CPU shares, load average, memory.
//!
//! Promises: differences of `/proc/stat` in shares of the whole machine; guest time is not counted
//! twice.

use std::fs;
use std::io;

use crate::process::field;

/// Cumulative CPU time of the machine, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCpu {
    busy: u64,
    steal: u64,
    waiting: u64,
    total: u64,
}

/// The use of the machine's CPU time between two samples, in percent of all its CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostCpuUse {
    /// User, nice, system and interrupt time.
    pub busy_percent: f64,
    /// Time that a hypervisor gave to other machines.
    pub steal_percent: f64,
    /// Idle while storage requests were in progress.
    pub io_wait_percent: f64,
}

impl HostCpu {
    /// Reads the counters now.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read or has another form.
    pub fn sample() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat")?)
    }

    fn parse(text: &str) -> io::Result<Self> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "unexpected form of /proc/stat");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("cpu "))
            .ok_or_else(bad)?;
        let ticks: Vec<u64> = line
            .split_ascii_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        let [user, nice, system, idle, waiting, hard, soft, steal, ..] = ticks[..] else {
            return Err(bad());
        };
        let busy = user + nice + system + hard + soft;
        Ok(Self {
            busy,
            steal,
            waiting,
            total: busy + idle + waiting + steal,
        })
    }

    /// The use since `earlier`.
    pub fn delta_since(&self, earlier: &Self) -> HostCpuUse {
        let total = self.total.saturating_sub(earlier.total).max(1) as f64;
        let percent = |now: u64, then: u64| now.saturating_sub(then) as f64 * 100.0 / total;
        HostCpuUse {
            busy_percent: percent(self.busy, earlier.busy),
            steal_percent: percent(self.steal, earlier.steal),
            io_wait_percent: percent(self.waiting, earlier.waiting),
        }
    }
}

/// Load average over 1, 5 and 15 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadAverage(pub [f64; 3]);

impl LoadAverage {
    /// Reads it now.
    ///
    /// # Errors
    /// `/proc/loadavg` cannot be read.
    pub fn sample() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/loadavg")?;
        let mut numbers = text
            .split_ascii_whitespace()
            .map_while(|field| field.parse().ok());
        Ok(Self([
            numbers.next().unwrap_or(0.0),
            numbers.next().unwrap_or(0.0),
            numbers.next().unwrap_or(0.0),
        ]))
    }
}

/// Memory of the machine in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Installed, as the kernel counts it.
    pub total_bytes: u64,
    /// Available without swapping.
    pub available_bytes: u64,
    /// Swap that exists.
    pub swap_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
}

impl Memory {
    /// Reads it now.
    ///
    /// # Errors
    /// `/proc/meminfo` cannot be read.
    pub fn sample() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/meminfo")?))
    }

    fn parse(text: &str) -> Self {
        let bytes = |name: &str| field(text, name).unwrap_or(0) * 1024;
        let swap_bytes = bytes("SwapTotal:");
        Self {
            total_bytes: bytes("MemTotal:"),
            available_bytes: bytes("MemAvailable:"),
            swap_bytes,
            swap_used_bytes: swap_bytes.saturating_sub(bytes("SwapFree:")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole_machine() {
        let before = HostCpu::parse("cpu  100 0 50 800 20 5 5 20 7 0\ncpu0 1 2\n").unwrap();
        let after = HostCpu::parse("cpu  140 0 60 830 30 5 5 30 90 0\n").unwrap();
        let used = after.delta_since(&before);
        assert_eq!(
            (used.busy_percent, used.steal_percent, used.io_wait_percent),
            (50.0, 10.0, 10.0)
        );
        assert!(HostCpu::parse("cpu  1 2 3\n").is_err());
    }

    #[test]
    fn swap_in_use_is_total_less_free() {
        let memory = Memory::parse(
            "MemTotal: 1000 kB\nMemAvailable: 600 kB\nSwapTotal: 200 kB\nSwapFree: 150 kB\n",
        );
        assert_eq!(
            (memory.total_bytes, memory.available_bytes),
            (1_024_000, 614_400)
        );
        assert_eq!(
            (memory.swap_bytes, memory.swap_used_bytes),
            (204_800, 51_200)
        );
    }
}
