//! A limit on memory for the target and its page cache: a control group (version 2 or 1), or else a
//! balloon process that leaves only a given amount free.
//!
//! Promises: the limit is removed when the run ends; limits of the process's parent groups stay in
//! force; the result names the way that was used and what it cannot limit. A balloon is a separate
//! process that ends with the lab, however the lab ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use lab_kit::result::MemoryLimit;
use serde::{Deserialize, Serialize};

use crate::errors::LabError;

const ROOT: &str = "/sys/fs/cgroup";
const PAGE: usize = 4_096;
/// The memory that a balloon leaves to the lab and the system in addition to the target's share.
const SPARE_BYTES: u64 = 256 << 20;
/// Version 1 of control groups writes a huge number for "none".
const NO_LIMIT: u64 = 1 << 60;
const PREFIX: &str = "quarry-lab-";

/// Ways to limit memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum LimitBy {
    /// Control group of version 1
    Cgroup1,
    /// Control group of version 2
    Cgroup2,
    /// Process that holds the rest of the machine's memory
    Balloon,
}

/// A limit in force.
#[derive(Debug)]
pub(crate) struct Limit {
    bytes: u64,
    held: LimitMethod,
    pid: Option<u32>,
}

#[derive(Debug)]
enum LimitMethod {
    ControlGroup(ControlGroup),
    /// The process, and the bytes that it holds.
    Balloon(Child, u64),
}

/// A control group that the lab has made.
#[derive(Debug)]
struct ControlGroup {
    path: PathBuf,
    /// The process's original group.
    home: PathBuf,
    version: Version,
}

/// The version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Limit {
    /// Limits process `pid`, whose files are in `data`, to `memory_mb`; `None` means no limit.
    /// Without `by` it uses the first way that works.
    pub(crate) fn apply(
        memory_mb: Option<u64>,
        by: Option<LimitBy>,
        pid: Option<u32>,
        data: Option<&Path>,
    ) -> Result<Option<Self>, LabError> {
        let Some(bytes) = memory_mb.and_then(|mb| mb.checked_mul(1 << 20)) else {
            return Ok(None);
        };
        let mut reasons = Vec::new();
        for version in [Version::Two, Version::One] {
            if by.is_some_and(|by| by != version.way()) {
                continue;
            }
            let grouped = pid
                .ok_or_else(|| "the target's process is not known".to_owned())
                .and_then(|pid| group(Path::new(ROOT), Path::new("/proc"), version, pid, bytes));
            match grouped {
                Ok(group) => {
                    // Pages that are already in memory are charged to the process that read them
                    // first.
                    data.into_iter().for_each(forget_pages);
                    let held = LimitMethod::ControlGroup(group);
                    return Ok(Some(Self { bytes, held, pid }));
                }
                Err(reason) => reasons.push(format!("{}: {reason}", version.name())),
            }
        }
        if by.is_some_and(|by| by != LimitBy::Balloon) {
            return Err(LabError::NoLimit {
                reason: reasons.join("; "),
            });
        }
        if by.is_none() {
            note_line!(
                "no control group for the memory limit ({}); a balloon takes the rest of the \
                    memory",
                reasons.join("; ")
            );
        }
        let (child, held_bytes) = inflate(bytes)?;
        let held = LimitMethod::Balloon(child, held_bytes);
        Ok(Some(Self { bytes, held, pid }))
    }

    /// Whether the system killed a process of the group because of the limit; `None` if unknown.
    pub(crate) fn has_killed(&self) -> Option<bool> {
        let LimitMethod::ControlGroup(group) = &self.held else {
            return None;
        };
        let file = match group.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(group.path.join(file)).ok()?;
        let killed = text
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())?;
        Some(killed > 0)
    }

    /// Describes the limit for the result, with the group's usage until now.
    pub(crate) fn describe(&self) -> MemoryLimit {
        let is_self = self.pid == Some(std::process::id());
        let (bytes_max, cache_bytes) = match &self.held {
            LimitMethod::ControlGroup(group) => group.usage(),
            LimitMethod::Balloon(..) => (None, None),
        };
        let (how, remark) = match &self.held {
            LimitMethod::ControlGroup(group) if is_self => (
                group.version.name().to_owned(),
                "the engine runs inside the lab, so the lab's histograms and clients count \
                 towards the limit"
                    .to_owned(),
            ),
            LimitMethod::ControlGroup(group) => (
                group.version.name().to_owned(),
                "memory that the process used before the run is not counted in the group"
                    .to_owned(),
            ),
            LimitMethod::Balloon(_, held) => (
                "balloon".to_owned(),
                format!(
                    "a process of the lab holds {} MiB so that {} MiB are left, which other \
                     programs share; this limits only a target on this machine{}",
                    held >> 20,
                    (self.bytes + SPARE_BYTES) >> 20,
                    if metrics::Memory::sample().is_ok_and(|memory| memory.swap_bytes > 0) {
                        ", and swap is on, so that the balloon may have been swapped out"
                    } else {
                        ""
                    }
                ),
            ),
        };
        MemoryLimit {
            bytes: self.bytes,
            how,
            remark,
            bytes_max,
            cache_bytes,
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        match &mut self.held {
            LimitMethod::ControlGroup(group) => group.leave(),
            LimitMethod::Balloon(child, _) => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

impl Version {
    fn way(self) -> LimitBy {
        match self {
            Self::One => LimitBy::Cgroup1,
            Self::Two => LimitBy::Cgroup2,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::One => "cgroup v1",
            Self::Two => "cgroup v2",
        }
    }

    fn limit_file(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }

    /// The mount point of the hierarchy with the memory controller.
    fn mount(self, root: &Path) -> Result<PathBuf, String> {
        if self == Self::One {
            let mount = root.join("memory");
            let there = mount.join(self.limit_file()).exists();
            return there
                .then_some(mount)
                .ok_or_else(|| "the memory controller is not there".to_owned());
        }
        let mounts = [root.to_owned(), root.join("unified")];
        let mount = mounts
            .into_iter()
            .find(|mount| mount.join("cgroup.controllers").exists());
        let mount = mount.ok_or_else(|| "not mounted".to_owned())?;
        let controllers = fs::read_to_string(mount.join("cgroup.controllers"))
            .map_err(|error| error.to_string())?;
        let there = controllers.split_whitespace().any(|name| name == "memory");
        there
            .then_some(mount)
            .ok_or_else(|| "the memory controller is not there".to_owned())
    }
}

impl ControlGroup {
    /// The most memory that the group held at once, and the page cache that is charged to it now.
    fn usage(&self) -> (Option<u64>, Option<u64>) {
        let (most, cache) = match self.version {
            Version::One => ("memory.max_usage_in_bytes", "total_cache "),
            Version::Two => ("memory.peak", "file "),
        };
        let stat = fs::read_to_string(self.path.join("memory.stat")).unwrap_or_default();
        let cache = stat
            .lines()
            .find_map(|line| line.strip_prefix(cache)?.trim().parse().ok());
        (number(&self.path.join(most)), cache)
    }

    /// Moves the processes back to their original group and removes this one.
    fn leave(&self) {
        let members = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in members.split_whitespace() {
            let _ = fs::write(self.home.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file)
        .ok()?
        .trim()
        .parse()
        .ok()
        .filter(|bytes| *bytes < NO_LIMIT)
}

/// Makes a group with the limit and moves the process into it. `root` and `proc` are other
/// directories in tests.
fn group(
    root: &Path,
    proc: &Path,
    version: Version,
    pid: u32,
    bytes: u64,
) -> Result<ControlGroup, String> {
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let mount = version.mount(root)?;
    let membership = fs::read_to_string(proc.join(format!("{pid}/cgroup")))
        .map_err(|error| error.to_string())?;
    let controller = if version == Version::One {
        "memory"
    } else {
        ""
    };
    let home = home_of(&membership, controller).ok_or("the process is in no group")?;
    let parent = parent_of(version, &mount, &home, bytes)?;
    let home = mount.join(home);
    remove_stale_groups(&parent, proc);
    if version == Version::Two {
        // This fails if the controller is already on or must not be; only the write of the limit
        // below matters.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
    }
    let path = parent.join(format!("{PREFIX}{}", std::process::id()));
    fs::create_dir_all(&path).map_err(|error| failed("a group cannot be created", error))?;
    let group = ControlGroup {
        path,
        home,
        version,
    };
    let limit = fs::write(group.path.join(version.limit_file()), bytes.to_string());
    // Swapped-out memory would escape the limit. Without swap these files may be absent.
    let swap = match version {
        Version::One => ("memory.memsw.limit_in_bytes", bytes.to_string()),
        Version::Two => ("memory.swap.max", "0".to_owned()),
    };
    if group.path.join(swap.0).exists() {
        let _ = fs::write(group.path.join(swap.0), swap.1);
    }
    if let Err(error) =
        limit.and_then(|()| fs::write(group.path.join("cgroup.procs"), pid.to_string()))
    {
        group.leave();
        return Err(failed("the group cannot be used", error));
    }
    Ok(group)
}

/// The group below which a group for a process of `home` can be made without escaping a limit: the
/// nearest group with a limit.
fn parent_of(version: Version, mount: &Path, home: &Path, bytes: u64) -> Result<PathBuf, String> {
    for (step, group) in home.ancestors().enumerate() {
        let path = mount.join(group);
        let Some(limit) = number(&path.join(version.limit_file())).filter(|_| path != mount) else {
            continue;
        };
        if limit < bytes {
            return Err(format!(
                "the process' group allows only {} MiB",
                limit >> 20
            ));
        }
        // In version 2 a group that contains processes cannot have child groups with limits. The
        // new limit is the lower one.
        let is_own = version == Version::Two && step == 0;
        return Ok(if is_own {
            path.parent().unwrap_or(mount).to_owned()
        } else {
            path
        });
    }
    Ok(mount.to_owned())
}

/// Removes the groups of labs that were killed.
fn remove_stale_groups(parent: &Path, proc: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !proc.join(owner.to_string()).exists()) {
            // This fails while the group contains a process.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The group of a process, from its `cgroup` file; `controller` is empty for version 2.
fn home_of(membership: &str, controller: &str) -> Option<PathBuf> {
    membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (names, path) = (fields.next()?, fields.next()?);
        let fits = if controller.is_empty() {
            names.is_empty()
        } else {
            names.split(',').any(|name| name == controller)
        };
        fits.then(|| PathBuf::from(path.trim_start_matches('/')))
    })
}

/// Drops the clean pages of all files below `directory` from the page cache, so that the process
/// that reads them again is charged.
fn forget_pages(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => forget_pages(&path),
            Ok(kind) if kind.is_file() => {
                if let Ok(file) = fs::File::open(&path) {
                    let _ = file.sync_data();
                    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
                }
            }
            _ => {}
        }
    }
}

/// Starts a process that takes all memory except `bytes`, and waits until it holds it.
fn inflate(bytes: u64) -> Result<(Child, u64), LabError> {
    let memory = metrics::Memory::sample()?;
    let size = memory.available_bytes.saturating_sub(bytes + SPARE_BYTES);
    let mut child = Command::new(std::env::current_exe()?)
        .args(["balloon", &size.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.trim() != READY {
        let _ = child.kill();
        let _ = child.wait();
        return Err(LabError::NoLimit {
            reason: format!("balloon: {} MiB cannot be allocated", size >> 20),
        });
    }
    Ok((child, size))
}

const READY: &str = "ready";

/// The process of a balloon: takes memory, reports this, and holds the memory until its input ends.
pub(crate) fn balloon(bytes: u64) -> Result<(), LabError> {
    // If memory runs out, the system should kill this process and no other. An error here is
    // ignored.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let mut held: Vec<u8> = Vec::new();
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    held.try_reserve_exact(size)
        .map_err(|error| std::io::Error::other(format!("the balloon: {error}")))?;
    held.resize(size, 0);
    // The system provides memory only when it is written to.
    held.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    print_line!("{READY}");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(std::hint::black_box(held));
    Ok(())
}

#[cfg(test)]
mod tests;
