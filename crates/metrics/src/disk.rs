//! Block device counters from `/proc/diskstats`, and the size of a directory.
//!
//! Promises: the device of a path is found through its mount, or honestly not found (overlay, tmpfs, network file systems).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const SECTOR_BYTES: u64 = 512;

/// Cumulative counters of one block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSample {
    /// Read requests completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

/// What a device did between two samples.
pub type DiskUse = DiskSample;

impl DiskSample {
    /// What was done since `earlier`.
    pub fn since(&self, earlier: &Self) -> DiskUse {
        DiskSample {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
        }
    }

    /// Adds a neighbouring stretch of the same device.
    pub fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.write_bytes += other.write_bytes;
    }
}

/// Samples the device on which a directory lies.
#[derive(Clone, Debug)]
pub struct DiskSampler {
    device: (u64, u64),
    name: String,
}

impl DiskSampler {
    /// The device of `path`, or none when no block device stands behind it.
    ///
    /// # Errors
    /// The path or `/proc/diskstats` cannot be read.
    pub fn of_path(path: &Path) -> io::Result<Option<Self>> {
        let device = device_numbers(fs::metadata(path)?.dev());
        Ok(parse(&fs::read_to_string("/proc/diskstats")?, device)
            .map(|(name, _)| Self { device, name }))
    }

    /// The kernel's name of the device, such as `nvme0n1p2`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the counters now.
    ///
    /// # Errors
    /// `/proc/diskstats` cannot be read or the device is gone.
    pub fn sample(&self) -> io::Result<DiskSample> {
        parse(&fs::read_to_string("/proc/diskstats")?, self.device)
            .map(|(_, sample)| sample)
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("device {} is gone", self.name),
                )
            })
    }
}

/// Major and minor number as the C library splits a `dev_t` on Linux.
fn device_numbers(dev: u64) -> (u64, u64) {
    let major = ((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff);
    let minor = (dev & 0xff) | ((dev >> 12) & !0xff);
    (major, minor)
}

fn parse(text: &str, device: (u64, u64)) -> Option<(String, DiskSample)> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |position: usize| fields.get(position)?.parse::<u64>().ok();
        if (number(0)?, number(1)?) != device {
            return None;
        }
        let sample = DiskSample {
            reads: number(3)?,
            read_bytes: number(5)? * SECTOR_BYTES,
            writes: number(7)?,
            write_bytes: number(9)? * SECTOR_BYTES,
        };
        Some(((*fields.get(2)?).to_owned(), sample))
    })
}

/// Bytes that a directory and everything below it take on the device (blocks, not apparent sizes).
///
/// Files that vanish while it looks are skipped: engines delete files all the time.
///
/// # Cost
/// One `stat` per file.
pub fn directory_bytes(root: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut open = vec![root.to_owned()];
    fs::read_dir(root)?;
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                open.push(entry.path());
            } else if metadata.is_file() {
                bytes += metadata.blocks() * 512;
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        " 254 0 vda 100 1 800 9 50 2 1600 9 0 9 9\n 254 1 vda1 10 1 80 9 5 2 160 9 0 9 9\n";

    #[test]
    fn finds_the_partition_not_the_whole_disk() {
        let (name, sample) = parse(TABLE, (254, 1)).unwrap();
        assert_eq!(name, "vda1");
        assert_eq!(
            sample,
            DiskSample {
                reads: 10,
                read_bytes: 80 * 512,
                writes: 5,
                write_bytes: 160 * 512
            }
        );
        assert!(parse(TABLE, (0, 54)).is_none());
    }

    #[test]
    fn splits_device_numbers() {
        assert_eq!(device_numbers(0xfe01), (254, 1));
        assert_eq!(device_numbers((0x12 << 12) << 8 | 0x0301), (3, 0x1201));
    }

    #[test]
    fn adds_up_a_directory_tree() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("deep")).unwrap();
        fs::write(dir.path().join("deep/a"), vec![1_u8; 100_000]).unwrap();
        let bytes = directory_bytes(dir.path()).unwrap();
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
        assert!(directory_bytes(&dir.path().join("absent")).is_err());
    }
}
