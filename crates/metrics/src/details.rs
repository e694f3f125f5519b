//! Values that are too slow to read every second: parts of a process's memory, open files,
//! resources used by groups of threads.
//!
//! Promises: a value is absent if the kernel or permissions hide it; threads are grouped by their
//! own names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::field;

/// Most groups; further ones are combined in a group called `other`.
const GROUPS_MAX: usize = 40;

/// Parts of a process's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryParts {
    /// Resident.
    pub rss_bytes: u64,
    /// Resident; shared pages are counted proportionally.
    pub pss_bytes: u64,
    /// Of that, memory without a file behind it.
    pub anonymous_bytes: u64,
    /// Of that, pages of mapped files.
    pub file_bytes: u64,
}

impl MemoryParts {
    /// Of process `pid`; `None` if it may not be read.
    ///
    /// The kernel walks the page tables: milliseconds for each resident GB, during which the
    /// process cannot map memory.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = |name: &str| Some(field(text, name)? * 1_024);
        Some(Self {
            rss_bytes: bytes("Rss:")?,
            pss_bytes: bytes("Pss:")?,
            anonymous_bytes: bytes("Pss_Anon:").or_else(|| bytes("Anonymous:"))?,
            file_bytes: bytes("Pss_File:").unwrap_or(0) + bytes("Pss_Shmem:").unwrap_or(0),
        })
    }
}

/// Descriptors that process `pid` has open, sockets included.
pub fn open_descriptors(pid: u32) -> Option<u64> {
    Some(
        fs::read_dir(format!("/proc/{pid}/fd"))
            .ok()?
            .flatten()
            .count() as u64,
    )
}

/// Resources used by threads with one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// How many there are.
    pub threads: u64,
    /// CPU, in microseconds.
    pub cpu_us: u64,
    /// Bytes fetched from storage.
    pub read_bytes: u64,
    /// Bytes sent towards storage.
    pub write_bytes: u64,
    /// Context switches because the thread waited.
    pub switches_voluntary: u64,
    /// Context switches because the time slice ended.
    pub switches_involuntary: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
}

impl ThreadUse {
    fn add(&mut self, other: &Self) {
        self.cpu_us += other.cpu_us;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.switches_voluntary += other.switches_voluntary;
        self.switches_involuntary += other.switches_involuntary;
        self.faults_major += other.faults_major;
    }

    fn delta_since(&self, earlier: &Self) -> Self {
        Self {
            threads: self.threads,
            cpu_us: self.cpu_us.saturating_sub(earlier.cpu_us),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            switches_voluntary: self
                .switches_voluntary
                .saturating_sub(earlier.switches_voluntary),
            switches_involuntary: self
                .switches_involuntary
                .saturating_sub(earlier.switches_involuntary),
            faults_major: self.faults_major.saturating_sub(earlier.faults_major),
        }
    }
}

/// Follows the threads of one process. What a thread uses after the last look before its end is not
/// seen.
#[derive(Debug)]
pub struct ThreadSampler {
    tasks: PathBuf,
    ticks_per_second: u64,
    last: BTreeMap<u32, ThreadUse>,
    groups: BTreeMap<String, ThreadUse>,
}

impl ThreadSampler {
    /// Of process `pid`, from now on.
    pub fn new(pid: u32) -> Self {
        Self::open_in(Path::new("/proc"), pid)
    }

    fn open_in(proc: &Path, pid: u32) -> Self {
        let mut out = Self {
            tasks: proc.join(pid.to_string()).join("task"),
            ticks_per_second: crate::process::auxiliary_vector(proc).0.max(1),
            last: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        out.restart();
        out
    }

    /// Starts counting from zero again.
    pub fn restart(&mut self) {
        self.sample();
        self.groups.clear();
    }

    /// What each group has used since the sampler was made or restarted; the number of threads is
    /// the present one.
    ///
    /// # Cost
    /// Four small reads per thread.
    pub fn sample(&mut self) -> BTreeMap<String, ThreadUse> {
        let mut seen = BTreeMap::new();
        self.groups.values_mut().for_each(|group| group.threads = 0);
        for entry in fs::read_dir(&self.tasks).into_iter().flatten().flatten() {
            let Some(tid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let Some((name, now)) = self.read(&entry.path()) else {
                continue;
            };
            let used = now.delta_since(&self.last.get(&tid).copied().unwrap_or_default());
            let name = if self.groups.len() < GROUPS_MAX || self.groups.contains_key(&name) {
                name
            } else {
                "other".to_owned()
            };
            let group = self.groups.entry(name).or_default();
            group.add(&used);
            group.threads += 1;
            seen.insert(tid, now);
        }
        self.last = seen;
        self.groups.clone()
    }

    fn read(&self, task: &Path) -> Option<(String, ThreadUse)> {
        let text = |name: &str| fs::read_to_string(task.join(name)).ok();
        let stat = text("stat")?;
        let (head, fields) = stat.rsplit_once(')')?;
        let name = group_of(head.split_once('(')?.1);
        let fields: Vec<u64> = fields
            .split_ascii_whitespace()
            .skip(1)
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        // proc(5): fields[0] is field number 4.
        let number = |position: usize| fields.get(position - 4).copied();
        let status = text("status")?;
        let io = text("io").unwrap_or_default();
        Some((
            name,
            ThreadUse {
                threads: 1,
                cpu_us: (number(14)? + number(15)?)
                    .saturating_mul(1_000_000 / self.ticks_per_second),
                read_bytes: field(&io, "read_bytes:").unwrap_or(0),
                write_bytes: field(&io, "write_bytes:")
                    .unwrap_or(0)
                    .saturating_sub(field(&io, "cancelled_write_bytes:").unwrap_or(0)),
                switches_voluntary: field(&status, "voluntary_ctxt_switches:").unwrap_or(0),
                switches_involuntary: field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0),
                faults_major: number(12)?,
            },
        ))
    }
}

/// The name of a thread without its number: `conn12` and `conn7` are in one group.
fn group_of(name: &str) -> String {
    let short = name
        .trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-' || letter == ' ');
    if short.is_empty() {
        name.to_owned()
    } else {
        short.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &str = "5594118c3000-7ffc19ac3000 ---p 00000000 00:00 0                          \
        [rollup]\n\
        Rss:               21288 kB\nPss:               19297 kB\nPss_Dirty:          6264 \
        kB\nPss_Anon:           6264 kB\n\
        Pss_File:          13033 kB\nPss_Shmem:             0 kB\nAnonymous:          6264 kB\n";

    #[test]
    fn parts_of_memory_of_a_recorded_process() {
        let parts = MemoryParts::parse(ROLLUP).unwrap();
        assert_eq!(
            (parts.rss_bytes, parts.pss_bytes),
            (21_288 * 1_024, 19_297 * 1_024)
        );
        assert_eq!(
            (parts.anonymous_bytes, parts.file_bytes),
            (6_264 * 1_024, 13_033 * 1_024)
        );
        assert_eq!(MemoryParts::parse("Rss: 1 kB\n"), None);
    }

    #[test]
    fn this_process_has_open_files_and_memory() {
        let before = open_descriptors(std::process::id()).unwrap();
        let held = fs::File::open("/proc/self/stat").unwrap();
        assert!(
            open_descriptors(std::process::id()).unwrap() > before.saturating_sub(1) && before >= 3,
            "{before}"
        );
        drop(held);
        assert!(MemoryParts::of(std::process::id()).unwrap().anonymous_bytes > 0);
    }

    fn thread(
        proc: &Path,
        tid: u32,
        name: &str,
        (user, faults, read, switches): (u64, u64, u64, u64),
    ) {
        let task = proc.join(format!("9/task/{tid}"));
        fs::create_dir_all(&task).unwrap();
        let stat = format!(
            "{tid} ({name}) S 1 9 9 0 -1 4194368 5 0 {faults} 0 {user} 25 0 0 20 0 3 0 77 1000 512 \
                0"
        );
        fs::write(task.join("stat"), stat).unwrap();
        fs::write(
            task.join("io"),
            format!("syscr: 2\nread_bytes: {read}\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"),
        )
        .unwrap();
        fs::write(
            task.join("status"),
            format!("voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t1\n"),
        )
        .unwrap();
    }

    #[test]
    fn threads_of_a_recorded_process_are_grouped_by_name() {
        let dir = tempfile::tempdir().unwrap();
        thread(dir.path(), 11, "conn1", (100, 1, 1_000, 5));
        thread(dir.path(), 12, "rocksdb:low", (100, 0, 50_000, 5));
        let mut sampler = ThreadSampler::open_in(dir.path(), 9);
        thread(dir.path(), 11, "conn1", (150, 4, 9_192, 15));
        thread(dir.path(), 13, "conn (x) 2", (10, 0, 100, 3));
        let groups = sampler.sample();
        let conn = groups.get("conn").unwrap();
        assert_eq!(
            (
                conn.threads,
                conn.read_bytes,
                conn.faults_major,
                conn.switches_voluntary
            ),
            (1, 8_192, 3, 10)
        );
        assert_eq!(conn.cpu_us, 500_000);
        // A thread that started meanwhile counts from its start; a name may contain brackets.
        assert_eq!(
            groups
                .get("conn (x)")
                .map(|group| (group.read_bytes, group.cpu_us)),
            Some((100, 350_000))
        );
        assert_eq!(
            groups.get("rocksdb:low").map(|group| group.read_bytes),
            Some(0)
        );
        fs::remove_dir_all(dir.path().join("9/task/11")).unwrap();
        let groups = sampler.sample();
        assert_eq!(
            groups
                .get("conn")
                .map(|group| (group.threads, group.read_bytes)),
            Some((0, 8_192))
        );
    }
}
