//! The memory budget: how much this process may use, how that is divided, when freed memory is
//! returned to the system, and how sizes are written in options.

use memory::{Budget, Pressure, ResidentMemory};
use std::path::Path;
use std::sync::Arc;
use tikv_jemalloc_ctl::{Access, AsName};

/// Bytes this process may use: the smaller of the machine's memory and its control group's limit.
pub fn available_bytes() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|t| {
            let line = t.lines().find(|l| l.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(1 << 30, |kib| kib * 1024);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.min(group_limit(Path::new("/sys/fs/cgroup"), &groups))
}

/// The smallest limit of the process's control groups (v1 and v2) and their ancestors; `groups` is
/// the content of `/proc/self/cgroup`. Inside a container its own group is the root.
fn group_limit(root: &Path, groups: &str) -> u64 {
    let mut smallest = u64::MAX;
    for line in groups.lines().chain(["0::/", "0:memory:/"]) {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or("/"));
        let (root, file) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            c if c.split(',').any(|c| c == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let own = root.join(path.trim_start_matches('/'));
        let above = own.ancestors().take_while(|group| group.starts_with(&root));
        let limits = above.filter_map(|group| {
            let text = std::fs::read_to_string(group.join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        });
        smallest = limits.fold(smallest, u64::min);
    }
    smallest
}

/// Memory that the process needs whatever its budget: code, stacks, catalog, sessions.
const FIXED_BYTES: u64 = 32 << 20;

/// The longest message, and the other memory of its connection.
const MESSAGE_BYTES: u64 = 49 << 20;

/// The parts of `--memory`; the rest is for [`FIXED_BYTES`] and for the allocator's overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShares {
    /// The engine's: block cache with memtables, table readers, flushes and compactions.
    pub engine: u64,
    /// What operations, open cursors and messages hold together.
    pub operations: u64,
    /// What one operation may hold.
    pub operation: u64,
    /// What messages being received and sent may hold of the operations' part.
    pub messages: u64,
}

impl MemoryShares {
    /// The parts of a budget.
    pub fn of(bytes: u64) -> MemoryShares {
        let operations = bytes.saturating_sub(FIXED_BYTES) / 100 * 35;
        // A document of 16 MB exists as read, as computed and in the reply, and a buffer that grows
        // exists twice for a moment.
        let operation = (operations / 2).max(operations.min(96 << 20));
        MemoryShares {
            engine: bytes / 100 * 60,
            operations,
            operation,
            // The longest message fits; the rest is for running operations.
            messages: operations.min((operations / 3).max(MESSAGE_BYTES)),
        }
    }

    /// The operations' part as a budget that keeps the process below `bytes`.
    pub fn budget(self, bytes: u64) -> Budget {
        let len = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Budget::new(len(self.operations), len(self.operation)).with_resident(Process { bytes })
    }

    /// The messages' part of `operations`.
    pub fn messages(self, operations: &Arc<Budget>) -> Arc<Budget> {
        Arc::new(Budget::part(
            operations,
            usize::try_from(self.messages).unwrap_or(usize::MAX),
        ))
    }
}

/// Above this share of the budget freed memory is returned at the end of a large operation, not a
/// second later.
const TRIM_PERCENT: u64 = 60;
/// Above this share it is returned whenever operations allocate more.
const PRESSURE_PERCENT: u64 = 80;
/// How long the allocator keeps freed memory for reuse. With its default of ten seconds, the memory
/// of a few large operations in a row would add up.
const DECAY_MS: isize = 1000;

/// This process and the number of bytes it may use.
struct Process {
    bytes: u64,
}

impl ResidentMemory for Process {
    fn trim(&self) -> bool {
        resident_bytes() > self.bytes / 100 * TRIM_PERCENT && reclaim()
    }

    fn pressure(&self) -> Pressure {
        if resident_bytes() <= self.bytes / 100 * PRESSURE_PERCENT || !reclaim() {
            return Pressure::None;
        }
        match resident_bytes() {
            resident if resident > self.bytes => Pressure::Over {
                resident,
                allowed: self.bytes,
            },
            _ => Pressure::Trimmed,
        }
    }
}

/// Resident memory of this process; 0 where the system does not tell.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// Sets how long the allocator keeps freed memory. No effect if the process has another allocator.
pub fn set_decay() {
    // Sets it for future arenas, then for the existing ones.
    let _ = b"arenas.dirty_decay_ms\0"[..].name().write(DECAY_MS);
    each_arena(|name| {
        let _ = name.as_bytes().name().write(DECAY_MS);
    });
}

/// Returns all freed memory to the system; true if the allocator can do that.
fn reclaim() -> bool {
    each_arena(|name| {
        // With a decay of zero the allocator returns kept memory at once.
        let _ = name.as_bytes().name().write(0isize);
        let _ = name.as_bytes().name().write(DECAY_MS);
    })
}

fn each_arena(f: impl Fn(&str)) -> bool {
    let count: Result<u32, _> = b"arenas.narenas\0"[..].name().read();
    (0..count.as_ref().map_or(0, |n| *n)).for_each(|i| f(&format!("arena.{i}.dirty_decay_ms\0")));
    count.is_ok()
}

/// Smallest budget the server runs with.
pub const BYTES_MIN: u64 = 128 << 20;

/// Reads a size such as `512M`, `4G`, `1.5GB`, `800 MiB` or plain bytes.
///
/// # Errors
/// One line for anything else and for less than [`BYTES_MIN`].
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("memory must be a size such as 512M or 4G, given {text}");
    let bytes = size(text).ok_or_else(wrong)?;
    if bytes < BYTES_MIN {
        return Err(format!(
            "memory must be at least {}M, given {text}",
            BYTES_MIN >> 20
        ));
    }
    Ok(bytes)
}

/// Bytes of a size such as `512M`, `4G`, `1.5GB`, `800 MiB` or plain bytes; `None` for anything
/// else.
pub fn size(text: &str) -> Option<u64> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.parse().ok()?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = number * f64::from(2u32).powi(shift);
    (0.0..9e15).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_all_groups_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let slice = root.path().join("system.slice");
        let unit = slice.join("quarry.service");
        std::fs::create_dir_all(&unit).unwrap();
        let groups = "0::/system.slice/quarry.service\n";
        assert_eq!(group_limit(root.path(), groups), u64::MAX);
        std::fs::write(unit.join("memory.max"), "max\n").unwrap();
        std::fs::write(slice.join("memory.max"), "3000000\n").unwrap();
        assert_eq!(group_limit(root.path(), groups), 3_000_000);
        std::fs::write(unit.join("memory.max"), "2000000\n").unwrap();
        assert_eq!(group_limit(root.path(), groups), 2_000_000);
        let old = root.path().join("memory/docker/1");
        std::fs::create_dir_all(&old).unwrap();
        std::fs::write(old.join("memory.limit_in_bytes"), "1000000\n").unwrap();
        assert_eq!(
            group_limit(root.path(), "7:cpu:/x\n4:memory:/docker/1\n"),
            1_000_000
        );
        // As a container shows it: the group's path is not there, its files are at the root.
        std::fs::write(root.path().join("memory.max"), "500000\n").unwrap();
        assert_eq!(group_limit(root.path(), "0::/gone/from/here\n"), 500_000);
    }

    #[test]
    fn parts_leave_room_for_the_rest() {
        for bytes in [BYTES_MIN, 512 << 20, 1 << 30, 64 << 30] {
            let p = MemoryShares::of(bytes);
            assert!(
                p.engine + p.operations < bytes && p.operation <= p.operations,
                "{p:?}"
            );
        }
        let p = MemoryShares::of(1 << 30);
        assert_eq!(
            (p.engine >> 20, p.operations >> 20, p.operation >> 20),
            (614, 347, 173)
        );
        assert!(resident_bytes() > 1 << 20);
    }

    #[test]
    fn sizes() {
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse("268435456"), Ok(256 << 20));
        for bad in ["", "x", "12q", "5", "-1G", "1e99G"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(available_bytes() > 1 << 20);
    }
}
