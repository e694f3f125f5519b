//! Facts about the machine and the build, so that every number comes with its conditions. They
//! contain no host name and no user name.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The machine of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// CPU model.
    pub cpu_model: String,
    /// CPUs that the lab may use.
    pub cpus: usize,
    /// Frequency governor, if there is one.
    pub cpu_governor: Option<String>,
    /// Memory.
    pub memory_bytes: u64,
    /// Memory available before the run.
    pub memory_available_bytes: u64,
    /// Memory limit of the control group, when set.
    pub memory_limit_bytes: Option<u64>,
    /// Swap in use before the run.
    pub swap_used_bytes: u64,
    /// Transparent huge pages setting.
    pub huge_pages: Option<String>,
    /// Load average before the run.
    pub load_average: Vec<f64>,
    /// Kernel release.
    pub kernel: String,
    /// File system of the data directory, or of the results if that is not known.
    pub filesystem: String,
    /// Read-ahead of the data device.
    pub read_ahead_kb: Option<u64>,
    /// `release` or `debug`.
    pub lab_profile: String,
    /// Version of the lab.
    pub lab_version: String,
    /// Driver and its version.
    pub driver: String,
}

impl Environment {
    /// Reads the state of the machine; `data` is the data directory of the server if known, else
    /// any directory of interest.
    pub fn capture(data: &Path, driver: &str) -> Self {
        let memory = metrics::Memory::sample().unwrap_or_default();
        let load = metrics::LoadAverage::sample().unwrap_or_default();
        let device = metrics::DiskSampler::of_path(data).ok().flatten();
        Self {
            cpu_model: cpu_model(&read("/proc/cpuinfo").unwrap_or_default()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: memory.total_bytes,
            memory_available_bytes: memory.available_bytes,
            memory_limit_bytes: memory_limit(),
            swap_used_bytes: memory.swap_used_bytes,
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .map(|text| chosen_word(&text)),
            load_average: load.0.to_vec(),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            filesystem: filesystem(&read("/proc/self/mountinfo").unwrap_or_default(), data),
            read_ahead_kb: device.and_then(|device| read_ahead_kb(device.name())),
            lab_profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            }
            .to_owned(),
            lab_version: env!("CARGO_PKG_VERSION").to_owned(),
            driver: driver.to_owned(),
        }
    }
}

/// The time now, UTC, to the second, as RFC 3339.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// The clock of a run: the machine's time at the beginning plus the monotonic time since, so that
/// no end is before the beginning even when the machine's clock is set meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    wall: jiff::Timestamp,
    begun: std::time::Instant,
}

impl RunClock {
    /// Starts it, never before `earliest`, the beginning of a resumed run (RFC 3339).
    pub fn start(earliest: Option<&str>) -> Self {
        let now = jiff::Timestamp::now();
        let earliest = earliest.and_then(|text| text.parse().ok());
        Self {
            wall: earliest.map_or(now, |earliest: jiff::Timestamp| earliest.max(now)),
            begun: std::time::Instant::now(),
        }
    }

    /// The time now, UTC, to the second, as RFC 3339.
    pub fn now(&self) -> String {
        let passed = jiff::SignedDuration::try_from(self.begun.elapsed()).unwrap_or_default();
        let now = self.wall.checked_add(passed).unwrap_or(self.wall);
        now.round(jiff::Unit::Second).unwrap_or(now).to_string()
    }
}

/// The name of a run and its folder, which sorts by time. The process number distinguishes two runs
/// that began in the same second.
pub fn run_id(started_at: &str, workload: &str, preset: &str) -> String {
    let time: String = started_at
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    format!("{time}-{workload}-{preset}-{}", std::process::id())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn cpu_model(cpuinfo: &str) -> String {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(
            || std::env::consts::ARCH.to_owned(),
            |(_, model)| model.trim().to_owned(),
        )
}

/// The word in brackets of a kernel setting such as `always [madvise] never`.
fn chosen_word(text: &str) -> String {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text, |(word, _)| word)
        .to_owned()
}

fn memory_limit() -> Option<u64> {
    [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .find_map(|path| read(path)?.parse::<u64>().ok())
    // Version 1 of control groups writes a huge number for "none".
    .filter(|bytes| *bytes < 1 << 60)
}

/// Partitions have no queue directory; the disk's name is the partition's without the number.
fn read_ahead_kb(device: &str) -> Option<u64> {
    let disk = device.trim_end_matches(|letter: char| letter.is_ascii_digit());
    [device, disk, disk.trim_end_matches('p')]
        .iter()
        .find_map(|name| {
            read(&format!("/sys/block/{name}/queue/read_ahead_kb"))?
                .parse()
                .ok()
        })
}

/// Type and options of the mount that holds `path`: the mount whose path is the longest prefix.
fn filesystem(mountinfo: &str, path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut best: Option<(usize, String)> = None;
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = before.split(' ').skip(4);
        let (Some(point), Some(options), Some(kind)) =
            (fields.next(), fields.next(), after.split(' ').next())
        else {
            continue;
        };
        let length = point.len();
        if absolute.starts_with(point)
            && best.as_ref().is_none_or(|(longest, _)| length >= *longest)
        {
            best = Some((length, format!("{kind} ({options})")));
        }
    }
    best.map_or_else(|| "unknown".to_owned(), |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins() {
        let table = "1 0 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n2 1 0:30 / /usr \
            rw,nosuid - xfs /dev/vdb rw\n";
        assert_eq!(
            filesystem(table, Path::new("/usr/absent")),
            "xfs (rw,nosuid)"
        );
        assert_eq!(
            filesystem(table, Path::new("/usrlocal")),
            "ext4 (rw,relatime)"
        );
    }

    #[test]
    fn a_clock_that_was_set_back_ends_no_run_before_it_began() {
        let clock = RunClock::start(Some("2999-01-01T00:00:00Z"));
        assert!(clock.now().starts_with("2999-01-01T00:00:0"));
        let clock = RunClock::start(Some("2001-01-01T00:00:00Z"));
        assert!(!clock.now().starts_with("2001"));
    }

    #[test]
    fn reads_kernel_forms() {
        assert_eq!(chosen_word("always [madvise] never"), "madvise");
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2GHz\n"),
            "Some CPU @ 2GHz"
        );
    }
}
