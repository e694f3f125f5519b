//! How long a process's control group had to wait because it had used up its CPU quota.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::field;

/// Watches one control group.
#[derive(Clone, Debug)]
pub struct ThrottleSampler {
    file: PathBuf,
}

impl ThrottleSampler {
    /// The control group of process `pid`; `None` if it has no quota file.
    pub fn of(pid: u32) -> Option<Self> {
        let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        Self::open_in(Path::new("/sys/fs/cgroup"), &membership)
    }

    fn open_in(root: &Path, membership: &str) -> Option<Self> {
        let places = membership.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (names, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
            let mount = if names.is_empty() {
                String::new()
            } else {
                names
                    .split(',')
                    .find(|name| *name == "cpu")
                    .map(|_| names.to_owned())?
            };
            Some([
                root.join(&mount).join(path),
                root.join("unified").join(path),
            ])
        });
        let file = places
            .flatten()
            .map(|place| place.join("cpu.stat"))
            .find(|file| fs::read_to_string(file).is_ok_and(|text| parse(&text).is_some()))?;
        Some(Self { file })
    }

    /// Total microseconds in which the group had work but no quota left, over all CPUs.
    pub fn sample(&self) -> Option<u64> {
        parse(&fs::read_to_string(&self.file).ok()?)
    }
}

/// Version 2 writes microseconds, version 1 nanoseconds.
fn parse(text: &str) -> Option<u64> {
    field(text, "throttled_usec ").or_else(|| field(text, "throttled_time ").map(|ns| ns / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "usage_usec 9\nnr_periods 12\nnr_throttled 3\nthrottled_usec 45000\n";
    const V1: &str = "nr_periods 12\nnr_throttled 3\nthrottled_time 45000000\n";

    #[test]
    fn both_versions_of_control_groups() {
        for (place, membership, text) in [
            ("slice/db", "0::/slice/db\n", V2),
            ("cpu/box", "2:cpuacct:/\n1:cpu:/box\n0::/\n", V1),
            ("cpu,cpuacct/box", "4:memory:/\n3:cpu,cpuacct:/box\n", V1),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join(place)).unwrap();
            fs::write(dir.path().join(place).join("cpu.stat"), text).unwrap();
            let sampler = ThrottleSampler::open_in(dir.path(), membership).unwrap();
            assert_eq!(sampler.sample(), Some(45_000), "{place}");
        }
        assert!(ThrottleSampler::open_in(Path::new("/nowhere"), "0::/\n").is_none());
    }
}
