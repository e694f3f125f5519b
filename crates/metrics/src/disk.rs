//! Block device counters from `/proc/diskstats`.
//!
//! Promises: the device of a path is found through its mount, or reported as not found (overlay,
//! tmpfs, network file systems).

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
    /// Total time of read requests in milliseconds.
    pub read_ms: u64,
    /// Total time of write requests in milliseconds.
    pub write_ms: u64,
    /// Milliseconds during which at least one request was in progress.
    pub busy_ms: u64,
    /// Sum over time of the requests in progress, in milliseconds.
    pub queue_ms: u64,
    /// Cache flushes completed; 0 if the kernel does not count them.
    pub flushes: u64,
}

/// The activity of a device between two samples.
pub type DiskUse = DiskSample;

impl DiskSample {
    /// The activity since `earlier`.
    pub fn delta_since(&self, earlier: &Self) -> DiskUse {
        DiskSample {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            read_ms: subtract_wrapping(self.read_ms, earlier.read_ms),
            write_ms: subtract_wrapping(self.write_ms, earlier.write_ms),
            busy_ms: subtract_wrapping(self.busy_ms, earlier.busy_ms),
            queue_ms: subtract_wrapping(self.queue_ms, earlier.queue_ms),
            flushes: self.flushes.saturating_sub(earlier.flushes),
        }
    }

    /// Adds the adjacent interval of the same device.
    pub fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.write_bytes += other.write_bytes;
        self.read_ms += other.read_ms;
        self.write_ms += other.write_ms;
        self.busy_ms += other.busy_ms;
        self.queue_ms += other.queue_ms;
        self.flushes += other.flushes;
    }
}

/// The kernel counts milliseconds in 32 bits, which overflow after 49 days.
fn subtract_wrapping(now: u64, earlier: u64) -> u64 {
    if now >= earlier {
        now - earlier
    } else {
        (now + (1 << 32)).saturating_sub(earlier)
    }
}

/// The number by which the kernel knows a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Device {
    major: u64,
    minor: u64,
}

/// Samples the device on which a directory lies.
#[derive(Clone, Debug)]
pub struct DiskSampler {
    device: Device,
    name: String,
}

impl DiskSampler {
    /// The device of `path`; `None` if it is on no block device.
    ///
    /// # Errors
    /// The path or `/proc/diskstats` cannot be read.
    pub fn of_path(path: &Path) -> io::Result<Option<Self>> {
        let device = device_of(fs::metadata(path)?.dev());
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

/// The device as the C library splits a `dev_t` on Linux.
fn device_of(dev: u64) -> Device {
    Device {
        major: ((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff),
        minor: (dev & 0xff) | ((dev >> 12) & !0xff),
    }
}

fn parse(text: &str, device: Device) -> Option<(String, DiskSample)> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |position: usize| fields.get(position)?.parse::<u64>().ok();
        let here = Device {
            major: number(0)?,
            minor: number(1)?,
        };
        if here != device {
            return None;
        }
        let sample = DiskSample {
            reads: number(3)?,
            read_bytes: number(5)? * SECTOR_BYTES,
            writes: number(7)?,
            write_bytes: number(9)? * SECTOR_BYTES,
            read_ms: number(6)?,
            write_ms: number(10)?,
            busy_ms: number(12)?,
            queue_ms: number(13)?,
            flushes: number(18).unwrap_or(0),
        };
        Some(((*fields.get(2)?).to_owned(), sample))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(major: u64, minor: u64) -> Device {
        Device { major, minor }
    }

    const TABLE: &str =
        " 254 0 vda 100 1 800 9 50 2 1600 9 0 9 9\n 254 1 vda1 10 1 80 9 5 2 160 8 0 7 6\n";

    #[test]
    fn finds_the_partition_not_the_whole_disk() {
        let (name, sample) = parse(TABLE, device(254, 1)).unwrap();
        assert_eq!(name, "vda1");
        assert_eq!(
            sample,
            DiskSample {
                reads: 10,
                read_bytes: 80 * 512,
                writes: 5,
                write_bytes: 160 * 512,
                read_ms: 9,
                write_ms: 8,
                busy_ms: 7,
                queue_ms: 6,
                flushes: 0,
            }
        );
        assert!(parse(TABLE, device(0, 54)).is_none());
    }

    #[test]
    fn reads_every_column_of_a_recorded_table() {
        let table = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n 254       0 vda \
            10939241 465460 478431410 21505611 2957287 835173 \
                     739935728 3459512 0 1104032 25331088 547021 96 898269656 147076 566524 \
                     218888\n";
        let (_, sample) = parse(table, device(254, 0)).unwrap();
        assert_eq!((sample.read_ms, sample.write_ms), (21_505_611, 3_459_512));
        assert_eq!(
            (sample.busy_ms, sample.queue_ms, sample.flushes),
            (1_104_032, 25_331_088, 566_524)
        );
    }

    #[test]
    fn milliseconds_that_ran_over_are_still_a_difference() {
        let before = DiskSample {
            queue_ms: (1 << 32) - 5,
            ..DiskSample::default()
        };
        let after = DiskSample {
            queue_ms: 7,
            ..DiskSample::default()
        };
        assert_eq!(after.delta_since(&before).queue_ms, 12);
    }

    #[test]
    fn splits_device_numbers() {
        assert_eq!(device_of(0xfe01), device(254, 1));
        assert_eq!(device_of((0x12 << 12) << 8 | 0x0301), device(3, 0x1201));
    }
}
