//! Resources used by one process: CPU, storage traffic, context switches, memory, from `/proc/PID`.
//!
//! Promises: a sample is cumulative since the sampler was made, the difference of two samples is
//! the use between them, and a process that has ended (or whose id belongs to another process now)
//! is an error, never a silent zero.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Cumulative counters of one process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// Time in user mode.
    pub cpu_user: Duration,
    /// Time in kernel mode.
    pub cpu_system: Duration,
    /// Bytes fetched from storage (not from the page cache).
    pub read_bytes: u64,
    /// Bytes sent towards storage: pages made dirty, not device writes.
    pub write_bytes: u64,
    /// Read system calls, sockets not counted.
    pub read_calls: u64,
    /// Write system calls, sockets not counted.
    pub write_calls: u64,
    /// Context switches because the thread waited, over all threads seen.
    pub switches_voluntary: u64,
    /// Context switches because the time slice ended, over all threads seen.
    pub switches_involuntary: u64,
    /// Memory resident now.
    pub rss_bytes: u64,
    /// Highest resident memory since the process started.
    pub rss_bytes_max: u64,
    /// Threads alive now.
    pub threads: u64,
    /// Page faults that needed no storage access.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
}

/// What a process used between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// Time in user mode.
    pub cpu_user: Duration,
    /// Time in kernel mode.
    pub cpu_system: Duration,
    /// Bytes fetched from storage.
    pub read_bytes: u64,
    /// Bytes sent towards storage.
    pub write_bytes: u64,
    /// Read system calls.
    pub read_calls: u64,
    /// Write system calls.
    pub write_calls: u64,
    /// Voluntary context switches.
    pub switches_voluntary: u64,
    /// Involuntary context switches.
    pub switches_involuntary: u64,
    /// Resident memory at the end; of merged intervals, the highest.
    pub rss_bytes: u64,
    /// Resident memory at the end.
    pub rss_bytes_end: u64,
    /// Threads at the end; of merged intervals, the most.
    pub threads: u64,
    /// Page faults that needed no storage access.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
}

impl ProcessSample {
    /// The use since `earlier`.
    pub fn delta_since(&self, earlier: &Self) -> ProcessUse {
        ProcessUse {
            cpu_user: self.cpu_user.saturating_sub(earlier.cpu_user),
            cpu_system: self.cpu_system.saturating_sub(earlier.cpu_system),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
            write_calls: self.write_calls.saturating_sub(earlier.write_calls),
            switches_voluntary: self
                .switches_voluntary
                .saturating_sub(earlier.switches_voluntary),
            switches_involuntary: self
                .switches_involuntary
                .saturating_sub(earlier.switches_involuntary),
            rss_bytes: self.rss_bytes,
            rss_bytes_end: self.rss_bytes,
            threads: self.threads,
            faults_minor: self.faults_minor.saturating_sub(earlier.faults_minor),
            faults_major: self.faults_major.saturating_sub(earlier.faults_major),
        }
    }
}

impl ProcessUse {
    /// User and system time together.
    pub fn cpu(&self) -> Duration {
        self.cpu_user + self.cpu_system
    }

    /// Adds the adjacent interval of the same process.
    pub fn merge(&mut self, other: &Self) {
        self.cpu_user += other.cpu_user;
        self.cpu_system += other.cpu_system;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.read_calls += other.read_calls;
        self.write_calls += other.write_calls;
        self.switches_voluntary += other.switches_voluntary;
        self.switches_involuntary += other.switches_involuntary;
        self.rss_bytes = self.rss_bytes.max(other.rss_bytes);
        self.rss_bytes_end = other.rss_bytes_end;
        self.threads = self.threads.max(other.threads);
        self.faults_minor += other.faults_minor;
        self.faults_major += other.faults_major;
    }
}

/// Samples one process repeatedly.
#[derive(Debug)]
pub struct ProcessSampler {
    root: PathBuf,
    pid: u32,
    started_ticks: u64,
    ticks_per_second: u64,
    page_bytes: u64,
    /// The last seen switches of each live thread; those of ended threads stay in the totals.
    threads: HashMap<u32, (u64, u64)>,
    switches: (u64, u64),
}

impl ProcessSampler {
    /// A sampler of process `pid`.
    ///
    /// # Errors
    /// The process does not exist or `/proc` cannot be read.
    pub fn new(pid: u32) -> io::Result<Self> {
        Self::open_in(Path::new("/proc"), pid)
    }

    /// A sampler of the calling process.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn of_self() -> io::Result<Self> {
        Self::new(std::process::id())
    }

    fn open_in(proc: &Path, pid: u32) -> io::Result<Self> {
        let root = proc.join(pid.to_string());
        let stat = parse_stat(&fs::read_to_string(root.join("stat"))?)?;
        let (ticks_per_second, page_bytes) = auxiliary_vector(proc);
        Ok(Self {
            root,
            pid,
            started_ticks: stat.started_ticks,
            ticks_per_second,
            page_bytes,
            threads: HashMap::new(),
            switches: (0, 0),
        })
    }

    /// The process number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// The process has ended, or another process has its number now. Storage counters need the same
    /// user (or root); without permission they stay 0 and [`Self::sees_storage`] says so.
    ///
    /// # Cost
    /// Two small reads and one more per live thread.
    pub fn sample(&mut self) -> io::Result<ProcessSample> {
        let stat = parse_stat(&fs::read_to_string(self.root.join("stat"))?)?;
        if stat.started_ticks != self.started_ticks {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the process number belongs to another process now",
            ));
        }
        if stat.state == 'Z' {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the process has ended",
            ));
        }
        self.count_switches();
        let mut out = ProcessSample {
            cpu_user: self.ticks(stat.user_ticks),
            cpu_system: self.ticks(stat.system_ticks),
            switches_voluntary: self.switches.0,
            switches_involuntary: self.switches.1,
            rss_bytes: stat.rss_pages * self.page_bytes,
            threads: stat.threads,
            faults_minor: stat.faults_minor,
            faults_major: stat.faults_major,
            ..ProcessSample::default()
        };
        if let Ok(text) = fs::read_to_string(self.root.join("status")) {
            out.rss_bytes_max = field(&text, "VmHWM:").unwrap_or(0) * 1024;
        }
        if let Ok(text) = fs::read_to_string(self.root.join("io")) {
            out.read_bytes = field(&text, "read_bytes:").unwrap_or(0);
            out.write_bytes = field(&text, "write_bytes:")
                .unwrap_or(0)
                .saturating_sub(field(&text, "cancelled_write_bytes:").unwrap_or(0));
            out.read_calls = field(&text, "syscr:").unwrap_or(0);
            out.write_calls = field(&text, "syscw:").unwrap_or(0);
        }
        Ok(out)
    }

    /// Whether the storage counters of this process may be read.
    pub fn sees_storage(&self) -> bool {
        fs::read_to_string(self.root.join("io")).is_ok()
    }

    fn ticks(&self, ticks: u64) -> Duration {
        Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / self.ticks_per_second.max(1)))
    }

    /// Adds the switches of each thread since it was last seen, so that the sum does not fall when
    /// threads end.
    fn count_switches(&mut self) {
        let Ok(entries) = fs::read_dir(self.root.join("task")) else {
            return;
        };
        let mut seen = HashMap::with_capacity(self.threads.len());
        for entry in entries.flatten() {
            let Some(tid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let Ok(text) = fs::read_to_string(entry.path().join("status")) else {
                continue;
            };
            let now = (
                field(&text, "voluntary_ctxt_switches:").unwrap_or(0),
                field(&text, "nonvoluntary_ctxt_switches:").unwrap_or(0),
            );
            let before = self.threads.get(&tid).copied().unwrap_or((0, 0));
            self.switches.0 += now.0.saturating_sub(before.0);
            self.switches.1 += now.1.saturating_sub(before.1);
            seen.insert(tid, now);
        }
        self.threads = seen;
    }
}

pub(crate) struct Stat {
    pub(crate) state: char,
    faults_minor: u64,
    faults_major: u64,
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
    pub(crate) started_ticks: u64,
    rss_pages: u64,
}

/// Parses `/proc/PID/stat`. The second field is the command in brackets and may itself hold
/// brackets and blanks.
pub(crate) fn parse_stat(text: &str) -> io::Result<Stat> {
    let bad = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "unexpected form of /proc/PID/stat",
        )
    };
    let (_, rest) = text.rsplit_once(')').ok_or_else(bad)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field numbers of proc(5) start at 1 and the state is number 3.
    let number = |position: usize| {
        fields
            .get(position - 3)
            .and_then(|field| field.parse::<u64>().ok())
            .ok_or_else(bad)
    };
    Ok(Stat {
        state: fields
            .first()
            .and_then(|field| field.chars().next())
            .ok_or_else(bad)?,
        faults_minor: number(10)?,
        faults_major: number(12)?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        threads: number(20)?,
        started_ticks: number(22)?,
        rss_pages: number(24)?,
    })
}

/// The number after `name` at the start of a line, as `/proc/PID/status` and `/proc/PID/io` write
/// it.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .split_ascii_whitespace()
            .next()?
            .parse()
            .ok()
    })
}

/// Clock ticks per second and page size, as the kernel passed them to this process.
pub(crate) fn auxiliary_vector(proc: &Path) -> (u64, u64) {
    const PAGE_SIZE: u64 = 6;
    const CLOCK_TICKS: u64 = 17;
    let (mut ticks, mut page) = (100, 4096);
    for pair in fs::read(proc.join("self/auxv"))
        .unwrap_or_default()
        .chunks_exact(16)
    {
        let (Some(key), Some(value)) = (pair.first_chunk::<8>(), pair.last_chunk::<8>()) else {
            continue;
        };
        match u64::from_ne_bytes(*key) {
            PAGE_SIZE => page = u64::from_ne_bytes(*value),
            CLOCK_TICKS => ticks = u64::from_ne_bytes(*value),
            _ => {}
        }
    }
    (ticks, page)
}

/// The process that listens on TCP port `port` of this machine, when it can be seen.
///
/// # Cost
/// Reads the descriptors of every process; call it once per run.
pub fn listening_process(port: u16) -> Option<u32> {
    let mut inodes = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        inodes.extend(listening_inodes(
            &fs::read_to_string(table).unwrap_or_default(),
            port,
        ));
    }
    let wanted: Vec<PathBuf> = inodes
        .iter()
        .map(|inode| PathBuf::from(format!("socket:[{inode}]")))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        if descriptors.flatten().any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|link| wanted.contains(&link))
        }) {
            return Some(pid);
        }
    }
    None
}

fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let mut out = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (Some(local), Some(&state), Some(inode)) =
            (fields.get(1), fields.get(3), fields.get(9))
        else {
            continue;
        };
        let listens_here = local
            .rsplit_once(':')
            .and_then(|(_, hex)| u16::from_str_radix(hex, 16).ok())
            == Some(port);
        if listens_here && state == LISTEN {
            out.extend(inode.parse::<u64>());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_process(dir: &Path, started: u64, user: u64, threads: &[(u32, u64, u64)]) {
        let root = dir.join("77");
        let _ = fs::remove_dir_all(root.join("task"));
        fs::create_dir_all(&root).unwrap();
        let stat = format!(
            "77 (odd ) name (x) S 1 77 77 0 -1 4194560 5 0 6 0 {user} 25 0 0 20 0 3 0 {started} \
                1000 512 0"
        );
        fs::write(root.join("stat"), stat).unwrap();
        fs::write(root.join("status"), "Name:\tx\nVmHWM:\t   4096 kB\n").unwrap();
        fs::write(
            root.join("io"),
            "rchar: 9\nwchar: 9\nsyscr: 11\nsyscw: 12\nread_bytes: \
            8192\nwrite_bytes: 20480\ncancelled_write_bytes: 4096\n",
        )
        .unwrap();
        for (tid, voluntary, involuntary) in threads {
            let task = root.join("task").join(tid.to_string());
            fs::create_dir_all(&task).unwrap();
            let status = format!(
                "voluntary_ctxt_switches:\t{voluntary}\n\
                 nonvoluntary_ctxt_switches:\t{involuntary}\n"
            );
            fs::write(task.join("status"), status).unwrap();
        }
    }

    #[test]
    fn reads_every_counter_of_a_recorded_process() {
        let dir = tempfile::tempdir().unwrap();
        write_process(dir.path(), 900, 150, &[(77, 5, 1), (78, 7, 2)]);
        let sample = ProcessSampler::open_in(dir.path(), 77)
            .unwrap()
            .sample()
            .unwrap();
        assert_eq!(sample.cpu_user, Duration::from_millis(1_500));
        assert_eq!(sample.cpu_system, Duration::from_millis(250));
        assert_eq!((sample.read_bytes, sample.write_bytes), (8_192, 16_384));
        assert_eq!((sample.read_calls, sample.write_calls), (11, 12));
        assert_eq!(
            (sample.switches_voluntary, sample.switches_involuntary),
            (12, 3)
        );
        assert_eq!(
            (sample.rss_bytes, sample.rss_bytes_max, sample.threads),
            (512 * 4_096, 4_096 * 1_024, 3)
        );
        assert_eq!((sample.faults_minor, sample.faults_major), (5, 6));
    }

    #[test]
    fn a_thread_that_ends_does_not_take_its_switches_away() {
        let dir = tempfile::tempdir().unwrap();
        write_process(dir.path(), 900, 150, &[(77, 5, 1), (78, 7, 2)]);
        let mut sampler = ProcessSampler::open_in(dir.path(), 77).unwrap();
        let first = sampler.sample().unwrap();
        write_process(dir.path(), 900, 170, &[(77, 6, 1)]);
        let used = sampler.sample().unwrap().delta_since(&first);
        assert_eq!((used.switches_voluntary, used.switches_involuntary), (1, 0));
        assert_eq!(used.cpu(), Duration::from_millis(200));
    }

    #[test]
    fn a_reused_process_number_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        write_process(dir.path(), 900, 150, &[]);
        let mut sampler = ProcessSampler::open_in(dir.path(), 77).unwrap();
        write_process(dir.path(), 901, 3, &[]);
        assert_eq!(
            sampler.sample().unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn own_cpu_time_grows_with_work() {
        let mut sampler = ProcessSampler::of_self().unwrap();
        let before = sampler.sample().unwrap();
        let begun = std::time::Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed() < Duration::from_millis(200) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let used = sampler.sample().unwrap().delta_since(&before);
        assert!(used.cpu() >= Duration::from_millis(30), "{used:?}");
        assert!(used.rss_bytes > 100_000);
    }

    #[test]
    fn a_process_that_listens_on_a_port_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(
            listening_process(socket.local_addr().unwrap().port()),
            Some(std::process::id())
        );
        let table = "head\n 0: 0100007F:1F90 00000000:0000 01 0:0 0:0 0 0 0 55 1\n 1: \
            0100007F:1F90 0:0 0A 0:0 0:0 0 0 0 66 1\n";
        assert_eq!(listening_inodes(table, 8_080), vec![66]);
    }
}
