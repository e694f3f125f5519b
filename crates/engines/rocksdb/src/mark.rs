//! How far the journal was flushed, in a separate file: a page that is mapped into memory and
//! written by plain stores, so that it costs no system call. It survives the death of the process;
//! after a loss of power it may be about a second old, but never ahead of the journal. It
//! distinguishes a journal that has lost flushed commits from one whose tail was never flushed.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use storage::{Result, StorageError};

pub(crate) const FILE: &str = "JOURNAL-MARK";
const MAGIC: [u8; 8] = *b"QRYMARK1";
const PAGE: usize = 4096;
const BOOT_AT: usize = 8;
const BOOT_LEN: usize = 40;
/// Index of each word in the page; its complement follows, so that a flipped bit is detected.
const DURABLE: usize = 8;
const SEALED: usize = 10;
/// How often the page is written to the device.
const SEND_EVERY: Duration = Duration::from_secs(1);

/// What the page claimed when it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Every journaled commit up to here was flushed; 0 claims nothing.
    pub(crate) durable: u64,
    /// Commits above this are in the journal file that was the newest at that time, or in later
    /// ones.
    pub(crate) sealed: u64,
    /// Written since the last start of the system, so no store to it was lost.
    pub(crate) same_boot: bool,
}

pub(crate) struct Mark {
    file: File,
    page: *mut AtomicU64,
    begun: Instant,
    sent_ms: AtomicU64,
}

// SAFETY: the mapping lives as long as the mark and is only accessed through atomics.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    /// Opens or creates the page of a data directory.
    pub(crate) fn open(directory: &Path) -> Result<(Self, Claim)> {
        let path = directory.join(FILE);
        let fail = |error| StorageError::io(format!("cannot open {}", path.display()), error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fail)?;
        // Locked before the page is changed: the mark of a running server must stay. RocksDB takes
        // its own lock later.
        if let Err(error) = file.try_lock() {
            return Err(match error {
                TryLockError::WouldBlock => StorageError::Locked {
                    path: directory.display().to_string(),
                },
                TryLockError::Error(error) => fail(error),
            });
        }
        let mut bytes = vec![0u8; PAGE];
        let len = file.read_at(&mut bytes, 0).map_err(fail)?;
        let boot = boot_id();
        let claim = read(bytes.get(..len).unwrap_or_default(), &boot);
        bytes.fill(0);
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        bytes[BOOT_AT..BOOT_AT + BOOT_LEN].copy_from_slice(&boot);
        let words = [(DURABLE, claim.durable), (SEALED, claim.sealed)];
        for (at, value) in words {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_ne_bytes());
            bytes[at * 8 + 8..at * 8 + 16].copy_from_slice(&(!value).to_ne_bytes());
        }
        // A claim from before the last start of the system stays marked as such until the engine is
        // open.
        if claim.durable != 0 && !claim.same_boot {
            bytes[BOOT_AT..BOOT_AT + BOOT_LEN].fill(0);
        }
        file.write_all_at(&bytes, 0)
            .and_then(|()| file.sync_all())
            .map_err(fail)?;
        // SAFETY: a fresh shared mapping of a whole page of an open file that nobody shortens.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(fail(std::io::Error::last_os_error()));
        }
        let mark = Self {
            file,
            page: page.cast(),
            begun: Instant::now(),
            sent_ms: AtomicU64::new(0),
        };
        Ok((mark, claim))
    }

    /// Claims nothing, while recovery moves commits from the journal to tables.
    pub(crate) fn clear(&self) {
        self.store(DURABLE, 0);
    }

    /// Begins to claim; everything up to `pos` is in tables.
    pub(crate) fn begin(&self, pos: u64) -> Result<()> {
        let boot = boot_id();
        self.store(SEALED, pos);
        self.store(DURABLE, pos);
        self.file
            .write_all_at(&boot, BOOT_AT as u64)
            .map_err(|error| StorageError::io(format!("cannot write {FILE}"), error))
    }

    /// A flush has covered everything up to `pos`.
    pub(crate) fn durable(&self, pos: u64) {
        self.store(DURABLE, pos);
        let now_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let sent_ms = self.sent_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(sent_ms) >= SEND_EVERY.as_millis() as u64 {
            self.sent_ms.store(now_ms, Ordering::Relaxed);
            // SAFETY: a plain system call on an open file; it starts writing and does not wait. If
            // it fails the page is sent whenever the system gets to it.
            unsafe {
                libc::sync_file_range(
                    self.file.as_raw_fd(),
                    0,
                    PAGE as i64,
                    libc::SYNC_FILE_RANGE_WRITE,
                )
            };
        }
    }

    /// Commits above `pos` go to the journal file that is the newest now, or to a later one.
    pub(crate) fn seal_up_to(&self, pos: u64) {
        self.store(SEALED, pos);
    }

    fn store(&self, at: usize, value: u64) {
        debug_assert!(at + 1 < PAGE / 8);
        // SAFETY: both words lie inside the mapped page, which is aligned and lives as long as
        // `self`.
        unsafe {
            (*self.page.add(at)).store(value, Ordering::Release);
            (*self.page.add(at + 1)).store(!value, Ordering::Release);
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: mapped once by `open`, unmapped once.
        unsafe { libc::munmap(self.page.cast(), PAGE) };
        // Closing the file is not enough while a child that was just forked still has it open.
        let _ = self.file.unlock();
    }
}

/// Reads a page; a damaged one claims less, never more.
fn read(bytes: &[u8], boot: &[u8]) -> Claim {
    if !bytes.starts_with(&MAGIC) {
        return Claim::default();
    }
    let word = |at: usize| {
        let bytes = bytes
            .get(at * 8..at * 8 + 8)
            .and_then(|word| word.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    };
    Claim {
        durable: word(DURABLE).min(!word(DURABLE + 1)),
        sealed: word(SEALED).max(!word(SEALED + 1)),
        same_boot: bytes.get(BOOT_AT..BOOT_AT + BOOT_LEN) == Some(boot)
            && boot.iter().any(|byte| *byte != 0),
    }
}

/// Identifies this run of the system; zeros when the system gives no identifier.
fn boot_id() -> [u8; BOOT_LEN] {
    let text = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut id = [0; BOOT_LEN];
    for (to, from) in id.iter_mut().zip(text) {
        *to = from;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_ends_with_the_mark_although_a_child_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let (mark, _) = Mark::open(dir.path()).unwrap();
        // The copy that a child process has between fork and exec.
        let inherited = mark.file.try_clone().unwrap();
        assert!(matches!(
            Mark::open(dir.path()),
            Err(StorageError::Locked { .. })
        ));
        drop(mark);
        assert!(Mark::open(dir.path()).is_ok());
        drop(inherited);
    }

    #[test]
    fn claims_survive_and_damage_claims_less() {
        let dir = tempfile::tempdir().unwrap();
        let (mark, claim) = Mark::open(dir.path()).unwrap();
        assert_eq!(claim, Claim::default());
        mark.begin(5).unwrap();
        mark.seal_up_to(7);
        mark.durable(9);
        drop(mark);
        let (mark, claim) = Mark::open(dir.path()).unwrap();
        let expected = Claim {
            durable: 9,
            sealed: 7,
            same_boot: true,
        };
        assert_eq!(claim, expected);
        drop(mark);
        let sound = std::fs::read(dir.path().join(FILE)).unwrap();
        for bit in 0..16 * 8 {
            let mut bytes = sound.clone();
            bytes[DURABLE * 8 + bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bytes, &boot_id()).durable <= 9, "bit {bit}");
            let mut bytes = sound.clone();
            bytes[SEALED * 8 + bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bytes, &boot_id()).sealed >= 7, "bit {bit}");
        }
        let mut other_boot = sound.clone();
        other_boot[BOOT_AT] ^= 1;
        assert!(!read(&other_boot, &boot_id()).same_boot);
    }
}
