//! Facts about machine and process, from `/proc`. Zero or empty when a file does not exist.

use std::fs::{File, read_to_string};
use std::io::{BufRead, BufReader};

/// Memory and faults of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Bytes of its memory that are in RAM.
    pub resident_bytes: i64,
    /// Bytes of its address space.
    pub virtual_bytes: i64,
    /// Page faults that read from the disk.
    pub page_faults: i64,
    /// CPU time of the program itself, in microseconds.
    pub user_time_us: i64,
    /// CPU time of the kernel for it, in microseconds.
    pub system_time_us: i64,
    /// Its threads.
    pub threads: i64,
}

/// The value in bytes of a line `name: 123 kB`.
fn kilobytes(text: &str, name: &str) -> i64 {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|l| l.split_whitespace().next()?.parse::<i64>().ok())
        .unwrap_or(0)
        .saturating_mul(1024)
}

impl Process {
    /// The figures of this moment; those that cannot be read are 0.
    pub fn sample() -> Process {
        let status = read_to_string("/proc/self/status").unwrap_or_default();
        let stat = read_to_string("/proc/self/stat").unwrap_or_default();
        // The fields after the process name, which stands in parentheses and may contain spaces.
        let rest: Vec<i64> = stat
            .rsplit_once(')')
            .map(|(_, r)| {
                r.split_whitespace()
                    .map(|f| f.parse().unwrap_or(0))
                    .collect()
            })
            .unwrap_or_default();
        let field = |n: usize| rest.get(n).copied().unwrap_or(0);
        // Ticks are hundredths of a second on every Linux platform we know.
        let tick_us = 10_000;
        Process {
            resident_bytes: kilobytes(&status, "VmRSS"),
            virtual_bytes: kilobytes(&status, "VmSize"),
            page_faults: field(9),
            user_time_us: field(11).saturating_mul(tick_us),
            system_time_us: field(12).saturating_mul(tick_us),
            threads: field(17),
        }
    }
}

/// The facts that `hostInfo` reports.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Name of the host.
    pub hostname: String,
    /// Bytes of RAM.
    pub memory_bytes: i64,
    /// Bytes of RAM that the process may use.
    pub memory_limit_bytes: i64,
    /// Logical processors.
    pub cores: i64,
    /// Logical processors that the process may use.
    pub cores_available: i64,
    /// Cores, each counted once.
    pub physical_cores: i64,
    /// Processor packages.
    pub sockets: i64,
    /// Nodes of memory.
    pub numa_nodes: i64,
    /// Name of the distribution.
    pub os_name: String,
    /// Version of the distribution.
    pub os_version: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Version of the kernel.
    pub kernel_version: String,
    /// Name of the processor.
    pub cpu_model: String,
    /// Its frequency in MHz, as the kernel shows it.
    pub cpu_mhz: String,
    /// Its features, separated by spaces.
    pub cpu_features: String,
    /// Bytes of a page of memory.
    pub page_bytes: i64,
}

impl Host {
    /// Reads the figures of this host; those that cannot be read are 0 or empty.
    pub fn read() -> Host {
        let text = |path: &str| {
            read_to_string(path)
                .map(|s| s.trim().to_owned())
                .unwrap_or_default()
        };
        let cpu = text("/proc/cpuinfo");
        let first = |name: &str| {
            cpu.lines()
                .find_map(|l| value_of(l, name))
                .unwrap_or("")
                .to_owned()
        };
        let distinct = |name: &str| {
            let all: std::collections::BTreeSet<&str> =
                cpu.lines().filter_map(|l| value_of(l, name)).collect();
            i64::try_from(all.len()).unwrap_or(1).max(1)
        };
        let cores = i64::try_from(
            cpu.lines()
                .filter(|l| value_of(l, "processor").is_some())
                .count(),
        )
        .unwrap_or(1)
        .max(1);
        let sockets = distinct("physical id");
        let per_socket: i64 = first("cpu cores").parse().unwrap_or(cores);
        let memory = kilobytes(&text("/proc/meminfo"), "MemTotal");
        let limit = text("/sys/fs/cgroup/memory.max").parse().unwrap_or(memory);
        let release = text("/etc/os-release");
        let os = |name: &str| {
            release
                .lines()
                .find_map(|l| l.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or("")
                .trim_matches('"')
                .to_owned()
        };
        let nodes = std::fs::read_dir("/sys/devices/system/node").map_or(1, |d| {
            d.filter_map(|e| e.ok()?.file_name().into_string().ok())
                .filter(|n| n.starts_with("node"))
                .count()
                .max(1)
        });
        Host {
            hostname: text("/proc/sys/kernel/hostname"),
            memory_bytes: memory,
            memory_limit_bytes: std::cmp::min(limit, memory.max(1)),
            cores,
            cores_available: std::thread::available_parallelism()
                .map_or(cores, |n| i64::try_from(n.get()).unwrap_or(cores)),
            physical_cores: (per_socket * sockets).clamp(1, cores),
            sockets,
            numa_nodes: i64::try_from(nodes).unwrap_or(1),
            os_name: os("PRETTY_NAME"),
            os_version: os("VERSION_ID"),
            kernel: text("/proc/sys/kernel/osrelease"),
            kernel_version: text("/proc/version"),
            cpu_model: first("model name"),
            cpu_mhz: first("cpu MHz"),
            cpu_features: first("flags"),
            page_bytes: page_bytes(),
        }
    }
}

/// Bytes of a page of memory, read from the first mapping of the process: reading all mappings
/// makes the kernel walk over all used memory.
fn page_bytes() -> i64 {
    let line = File::open("/proc/self/smaps").ok().and_then(|f| {
        let mut lines = BufReader::with_capacity(512, f).lines();
        lines.find_map(|l| l.ok().filter(|l| l.starts_with("KernelPageSize")))
    });
    kilobytes(&line.unwrap_or_default(), "KernelPageSize").max(4096)
}

/// The value of a `name : value` line.
fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    (key.trim() == name).then(|| value.trim())
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_this_machine() {
        let (p, h) = (super::Process::sample(), super::Host::read());
        assert!(p.resident_bytes > 1_000_000 && p.threads > 0, "{p:?}");
        assert!(
            h.cores > 0 && h.memory_bytes > 1_000_000 && !h.hostname.is_empty(),
            "{h:?}"
        );
    }
}
