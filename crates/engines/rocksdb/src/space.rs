//! How much room the device has, and whether growing writes may still use it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The file system below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Space {
    /// Asks the operating system.
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: `path` is a C string and `stat` is writable memory of the right type.
        if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a zero return means the call filled the structure.
        let stat = unsafe { stat.assume_init() };
        Ok(Self {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    /// Bytes that must stay free: the larger of the two limits, yet never more than 5 GB or half the file system.
    pub(crate) fn reserve_bytes(&self, bytes_min: u64, percent_min: u64) -> u64 {
        let share = (self.total_bytes / 100).saturating_mul(percent_min).min(5 << 30);
        bytes_min.max(share).min(self.total_bytes / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_takes_the_larger_limit() {
        let space = |total_bytes| Space {
            free_bytes: 0,
            total_bytes,
        };
        assert_eq!(space(1 << 40).reserve_bytes(256 << 20, 2), 5 << 30);
        assert_eq!(space(100 << 30).reserve_bytes(256 << 20, 2), (1 << 30) * 2);
        assert_eq!(space(4 << 30).reserve_bytes(256 << 20, 2), 256 << 20);
        assert_eq!(space(100 << 20).reserve_bytes(256 << 20, 2), 50 << 20);
        assert!(Space::of(Path::new("/")).is_ok_and(|space| space.total_bytes > 0));
    }
}
