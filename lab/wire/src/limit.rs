//! A limit on memory for the target and its page cache: a control group (version 2 or 1), else a balloon that leaves only so much free.
//!
//! Promises: what was put on is taken off when the run ends, and the result says how it was done and what it cannot hold.

use std::fs;
use std::path::{Path, PathBuf};

use lab_kit::result::MemoryLimit;

use crate::errors::LabError;

const ROOT: &str = "/sys/fs/cgroup";
const PAGE: usize = 4_096;
/// A balloon leaves the lab and the system this much beside the target's share.
const SPARE_BYTES: u64 = 256 << 20;

/// A limit in force.
#[derive(Debug)]
pub(crate) struct Limit {
    bytes: u64,
    held: Held,
    pid: Option<u32>,
}

#[derive(Debug)]
enum Held {
    /// Group, the group that the process came from, and the version.
    Group {
        group: PathBuf,
        home: PathBuf,
        version: u8,
    },
    /// Memory that nobody else gets.
    Balloon(Vec<u8>),
}

impl Limit {
    /// Puts a limit of `memory_mb` on process `pid`; none without a number.
    pub(crate) fn apply(
        memory_mb: Option<u64>,
        pid: Option<u32>,
    ) -> Result<Option<Self>, LabError> {
        let Some(bytes) = memory_mb.and_then(|mb| mb.checked_mul(1 << 20)) else {
            return Ok(None);
        };
        let grouped = pid
            .ok_or_else(|| "the target's process is not known".to_owned())
            .and_then(|pid| group(pid, bytes));
        let held = match grouped {
            Ok(held) => held,
            Err(reason) => {
                eprintln!(
                    "no control group for the memory limit ({reason}); a balloon takes the rest of the memory"
                );
                balloon(bytes)?
            }
        };
        Ok(Some(Self { bytes, held, pid }))
    }

    /// For the result.
    pub(crate) fn describe(&self) -> MemoryLimit {
        let is_self = self.pid == Some(std::process::id());
        let (how, remark) = match &self.held {
            Held::Group { version, .. } if is_self => (
                format!("cgroup v{version}"),
                "the engine runs inside the lab: histograms and clients count, too".to_owned(),
            ),
            Held::Group { version, .. } => (
                format!("cgroup v{version}"),
                "what the process had in memory before the run stays with its old group".to_owned(),
            ),
            Held::Balloon(held) => (
                "balloon".to_owned(),
                format!(
                    "{} MiB are held by the lab so that {} MiB are left; other programs share those",
                    held.len() >> 20,
                    (self.bytes + SPARE_BYTES) >> 20
                ),
            ),
        };
        MemoryLimit {
            bytes: self.bytes,
            how,
            remark,
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Held::Group { group, home, .. } = &self.held {
            if let Some(pid) = self.pid {
                let _ = fs::write(home.join("cgroup.procs"), pid.to_string());
            }
            let _ = fs::remove_dir(group);
        }
    }
}

fn group(pid: u32, bytes: u64) -> Result<Held, String> {
    let membership =
        fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|error| error.to_string())?;
    let name = format!("quarry-lab-{}", std::process::id());
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let v1 = Path::new(ROOT).join("memory");
    let (parent, home, file, version) = if v1.join("memory.limit_in_bytes").exists() {
        (
            v1.clone(),
            home_of(&membership, "memory").map(|path| v1.join(path)),
            "memory.limit_in_bytes",
            1,
        )
    } else {
        let root = PathBuf::from(ROOT);
        let controllers = fs::read_to_string(root.join("cgroup.controllers"))
            .map_err(|error| failed("control groups", error))?;
        if !controllers.split_whitespace().any(|name| name == "memory") {
            return Err("the memory controller is not there".to_owned());
        }
        // Fails where it is switched on already or may not be; the write of the limit below decides.
        let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
        (
            root.clone(),
            home_of(&membership, "").map(|path| root.join(path)),
            "memory.max",
            2,
        )
    };
    let group = parent.join(name);
    fs::create_dir_all(&group).map_err(|error| failed("a group cannot be made", error))?;
    let written = fs::write(group.join(file), bytes.to_string())
        .and_then(|()| fs::write(group.join("cgroup.procs"), pid.to_string()));
    if let Err(error) = written {
        let _ = fs::remove_dir(&group);
        return Err(failed("the group cannot be used", error));
    }
    Ok(Held::Group {
        group,
        home: home.unwrap_or(parent),
        version,
    })
}

/// The group of a process, from its list; `controller` is empty for version 2.
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

fn balloon(bytes: u64) -> Result<Held, LabError> {
    let memory = metrics::Memory::sample()?;
    let left = memory.available_bytes.saturating_sub(bytes + SPARE_BYTES);
    if memory.swap_bytes > 0 {
        eprintln!("swap is on: the balloon may be swapped out, and the limit with it");
    }
    let mut held: Vec<u8> = Vec::new();
    let size = usize::try_from(left).unwrap_or(0);
    held.try_reserve_exact(size)
        .map_err(|error| std::io::Error::other(format!("the balloon: {error}")))?;
    held.resize(size, 0);
    // Memory that was never written to is not there yet.
    held.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    Ok(Held::Balloon(held))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_group_of_a_process() {
        let v1 = "5:cpu,cpuacct:/a\n4:memory:/user/b\n0::/c\n";
        assert_eq!(home_of(v1, "memory"), Some(PathBuf::from("user/b")));
        assert_eq!(home_of(v1, ""), Some(PathBuf::from("c")));
        assert_eq!(home_of("", "memory"), None);
    }

    #[test]
    fn no_number_is_no_limit() {
        assert!(Limit::apply(None, Some(1)).unwrap().is_none());
    }
}
