//! How much space the device has, whether growing writes may still use it, and a file that reserves
//! space so that a database on a full device can still be opened and emptied. Knows the file system
//! and sizes; nothing of RocksDB's files.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rust_rocksdb::{SstFileManager, WriteBufferManager};
use storage::{BatchOp, Result, StorageError, Table, WriteBatch};

use crate::config::Config;
use crate::listener::Events;

/// The file system below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Space {
    /// Queries the operating system: about a microsecond.
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

    /// Whether there is enough free space to extend a journal file by `bytes` in advance.
    pub(crate) fn allows_extent(&self, bytes: u64) -> bool {
        self.free_bytes / 4 >= bytes
    }

    /// Bytes that must stay free: the larger of the two limits, but at most 5 GB and at most half
    /// of the file system.
    pub(crate) fn reserve_bytes(&self, bytes_min: u64, percent_min: u64) -> u64 {
        let share = (self.total_bytes / 100)
            .saturating_mul(percent_min)
            .min(5 << 30);
        bytes_min.max(share).min(self.total_bytes / 2)
    }
}

/// Blocks reserved by a file without content, which is deleted when no other space is left.
struct Reserve {
    path: PathBuf,
    bytes: u64,
    held: bool,
}

/// The file that reserves blocks; at most a sixteenth of the file system.
pub(crate) const HELD_BACK_FILE: &str = "QUARRY-RESERVE";

impl Reserve {
    /// Space for the memtables, which must be written to tables before the journal can be deleted,
    /// and for deletes.
    fn new(config: &Config, space: Space) -> Self {
        let path = config.path.join(HELD_BACK_FILE);
        let wanted = (config.write_buffer_bytes as u64 + (16 << 20)).min(256 << 20);
        Self {
            held: path.exists(),
            path,
            bytes: wanted.min(space.total_bytes / 16),
        }
    }

    /// Reserves the blocks while there is enough space and frees them when little is left. `plenty`
    /// bytes must stay free.
    ///
    /// # Output
    /// True when blocks were freed.
    fn keep(&mut self, free_bytes: u64, plenty: u64) -> bool {
        if self.held && free_bytes < self.bytes / 2 {
            // A failure is ignored: a file that cannot be removed now could not be removed the next
            // time either.
            let _ = fs::remove_file(&self.path);
            self.held = false;
            return true;
        }
        if !self.held && free_bytes >= plenty.saturating_add(2 * self.bytes) {
            self.held = self.take().is_ok();
            if !self.held {
                let _ = fs::remove_file(&self.path);
            }
        }
        false
    }

    fn take(&self) -> std::io::Result<()> {
        let file = File::create(&self.path)?;
        let bytes = libc::off_t::try_from(self.bytes).unwrap_or(libc::off_t::MAX);
        // SAFETY: the descriptor is open during the call, which touches no memory of ours.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Bytes of batches that are always allowed between two measurements of the device.
const LOOK_BYTES_MIN: u64 = 256 << 10;

/// Most bytes of the device that a byte of a batch takes until the next measurement: one in the
/// journal, one in a table file, and as much again for a batch that another thread admits at the
/// same time, for filters, indexes and the engine's own files.
const BYTES_FOR_A_BYTE: u64 = 4;

/// Bytes of batches that may be admitted before the next measurement, when `room` bytes are neither
/// used nor promised nor reserved; none when they could use up the reserve.
fn look_after(room: u64) -> Option<u64> {
    let bytes = room / BYTES_FOR_A_BYTE;
    (bytes >= LOOK_BYTES_MIN).then_some(bytes.min(1 << 30))
}

/// Refuses growing writes before the device is full, and releases the reserve when it is needed.
pub(crate) struct Guard {
    path: PathBuf,
    bytes_min: u64,
    percent_min: u64,
    delete_bytes_per_s: i64,
    journal_extent_bytes: u64,
    memtables: WriteBufferManager,
    files: SstFileManager,
    events: Arc<Events>,
    held_back: Mutex<Reserve>,
    // Bytes of batches since the last measurement, and how many are allowed before the next.
    unseen_bytes: AtomicU64,
    look_after_bytes: AtomicU64,
    full: AtomicBool,
    free_bytes: AtomicU64,
    reserve_bytes: AtomicU64,
    promised_bytes: AtomicU64,
}

impl Guard {
    /// Takes the first measurement before the database is opened, because opening needs space.
    pub(crate) fn new(
        config: &Config,
        memtables: &WriteBufferManager,
        files: &SstFileManager,
        events: &Arc<Events>,
    ) -> Self {
        let space = Space::of(&config.path).unwrap_or(Space {
            free_bytes: u64::MAX,
            total_bytes: 0,
        });
        let guard = Self {
            path: config.path.clone(),
            bytes_min: config.free_bytes_min,
            percent_min: config.free_percent_min,
            delete_bytes_per_s: i64::try_from(config.delete_bytes_per_s).unwrap_or(i64::MAX),
            journal_extent_bytes: config.journal_extent_bytes(),
            memtables: memtables.clone(),
            files: files.clone(),
            events: Arc::clone(events),
            held_back: Mutex::new(Reserve::new(config, space)),
            unseen_bytes: AtomicU64::new(0),
            look_after_bytes: AtomicU64::new(LOOK_BYTES_MIN),
            full: AtomicBool::new(false),
            free_bytes: AtomicU64::new(u64::MAX),
            reserve_bytes: AtomicU64::new(0),
            promised_bytes: AtomicU64::new(0),
        };
        guard.measure();
        guard
    }

    /// Counts the batch and refuses it if it adds data while space is short. Deletes, batches that
    /// were declared to shrink, catalog rows and log entries are always accepted, so that space can
    /// be freed.
    ///
    /// # Cost
    /// One atomic addition; a measurement of the device when the bytes written since the last one
    /// may matter.
    pub(crate) fn admit(&self, batch: &WriteBatch) -> Result<()> {
        let bytes = batch.byte_len() as u64;
        let unseen = self
            .unseen_bytes
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        if unseen >= self.look_after_bytes.load(Ordering::Relaxed) {
            self.measure();
        }
        if !self.is_full() || !grows(batch) {
            return Ok(());
        }
        Err(self.refusal(""))
    }

    /// The refusal when space is short: `why`, with the free and the required space.
    pub(crate) fn refusal(&self, why: &str) -> StorageError {
        let promised = self.promised_bytes.load(Ordering::Relaxed);
        StorageError::Full {
            context: format!(
                "{why}{} MB are free, {} MB must stay free beside {} MB for what is in memory, the \
                 next journal file and running compactions",
                self.free_bytes() >> 20,
                self.reserve_bytes() >> 20,
                promised.div_ceil(1 << 20)
            ),
        }
    }

    /// Measures the free space and decides again whether growth is refused.
    pub(crate) fn measure(&self) {
        self.measure_by(&|| Space::of(&self.path));
    }

    /// Bytes that memtables and running compactions will take on the device.
    fn background_bytes(&self) -> (u64, u64) {
        let memtables = self.memtables.get_usage() as u64;
        (memtables, self.events.compacting_bytes())
    }

    fn measure_by(&self, device: &dyn Fn() -> std::io::Result<Space>) {
        // One thread at a time, so that an older result never overwrites a newer one.
        let mut held_back = self.held_back.lock();
        // Taken before and after the measurement: a flush that ends in between would otherwise
        // count neither as used space nor as memory.
        let before = self.background_bytes();
        let Ok(mut space) = device() else {
            return;
        };
        let reserve = space.reserve_bytes(self.bytes_min, self.percent_min);
        if held_back.keep(space.free_bytes, reserve)
            && let Ok(after) = device()
        {
            space = after;
        }
        let after = self.background_bytes();
        // Data in memory is already in the journal and needs further space in table files; the next
        // sealed memtable begins a journal file; a compaction writes as much as it reads before it
        // deletes its input.
        let journal = Some(self.journal_extent_bytes)
            .filter(|bytes| space.allows_extent(*bytes))
            .unwrap_or(0);
        let promised = (before.0.max(after.0))
            .saturating_add(journal)
            .saturating_add(before.1.max(after.1));
        let room = space
            .free_bytes
            .saturating_sub(promised)
            .saturating_sub(reserve);
        let look_after = look_after(room);
        let full = look_after.is_none();
        self.look_after_bytes
            .store(look_after.unwrap_or(LOOK_BYTES_MIN), Ordering::Relaxed);
        self.unseen_bytes.store(0, Ordering::Relaxed);
        self.free_bytes.store(space.free_bytes, Ordering::Relaxed);
        self.reserve_bytes.store(reserve, Ordering::Relaxed);
        self.promised_bytes.store(promised, Ordering::Relaxed);
        let was_full = self.full.swap(full, Ordering::Relaxed);
        if full != was_full {
            // When space is short, files that wait for deletion are deleted without delay.
            let rate = if full { 0 } else { self.delete_bytes_per_s };
            self.files.set_delete_rate_bytes_per_second(rate);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes.load(Ordering::Relaxed)
    }
}

fn grows(batch: &WriteBatch) -> bool {
    let adds = |op| {
        matches!(
            op,
            BatchOp::Put {
                table: Table::Doc | Table::Idx | Table::Cap | Table::Tmp,
                ..
            }
        )
    };
    !batch.shrinks() && batch.iter().any(adds)
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

    fn guard(root: &Path) -> Guard {
        let config = Config::with_budget(root, 64 << 20);
        let memtables =
            WriteBufferManager::new_write_buffer_manager(config.write_buffer_bytes, false);
        Guard::new(&config, &memtables, &SstFileManager::new(), &Arc::default())
    }

    #[test]
    fn short_space_refuses_growth_and_allows_making_room() {
        let root = tempfile::tempdir().unwrap();
        let guard = guard(root.path());
        let mut grow = WriteBatch::new();
        grow.put(Table::Doc, b"\0\0\0\x01k", b"v");
        assert!(guard.admit(&grow).is_ok());
        guard.full.store(true, Ordering::Relaxed);
        guard.free_bytes.store(100 << 20, Ordering::Relaxed);
        guard.reserve_bytes.store(256 << 20, Ordering::Relaxed);
        guard.promised_bytes.store(107 << 20, Ordering::Relaxed);
        let error = guard.admit(&grow).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no space left for growing writes: 100 MB are free, 256 MB must stay free beside 107 \
             MB for what is in memory, the next journal file and running compactions"
        );
        grow.set_shrinks();
        assert!(
            guard.admit(&grow).is_ok(),
            "a put that shrinks its document passes"
        );
        let mut shrink = WriteBatch::new();
        shrink.delete(Table::Doc, b"\0\0\0\x01k");
        shrink.put(Table::Meta, b"d|1", b"dropped");
        shrink.add(Table::Meta, b"n|1", [-1, -1]);
        assert!(guard.admit(&shrink).is_ok());
    }

    #[test]
    fn a_device_marked_full_is_checked_again_after_few_refused_bytes() {
        let root = tempfile::tempdir().unwrap();
        let guard = guard(root.path());
        let mut grow = WriteBatch::new();
        grow.put(Table::Doc, b"\0\0\0\x01k", &[0; 4096]);
        // An outdated result, from a time with little space.
        guard.full.store(true, Ordering::Relaxed);
        guard
            .look_after_bytes
            .store(LOOK_BYTES_MIN, Ordering::Relaxed);
        let refused =
            std::iter::repeat_with(|| guard.admit(&grow)).take_while(|verdict| verdict.is_err());
        let bytes = refused.count() as u64 * grow.byte_len() as u64;
        assert!(
            (LOOK_BYTES_MIN / 2..LOOK_BYTES_MIN).contains(&bytes),
            "looked again after {bytes} bytes"
        );
        assert!(!guard.is_full());
    }

    #[test]
    fn what_ends_while_the_device_is_asked_counts() {
        let root = tempfile::tempdir().unwrap();
        let guard = guard(root.path());
        let space = |free_bytes| Space {
            free_bytes,
            total_bytes: 100 << 30,
        };
        let reserve = space(0).reserve_bytes(guard.bytes_min, guard.percent_min);
        let ends = || {
            guard.events.compacting.lock().clear();
            Ok(space(reserve + (256 << 20)))
        };
        guard.measure_by(&ends);
        assert!(!guard.is_full());
        guard.events.compacting.lock().insert(1, 300 << 20);
        guard.measure_by(&ends);
        assert!(guard.is_full());
    }

    #[test]
    fn the_next_disk_check_comes_before_the_reserve_is_used() {
        for room in (0..4 << 20).step_by(10_000) {
            match look_after(room) {
                Some(bytes) => assert!(bytes * BYTES_FOR_A_BYTE <= room),
                None => assert!(room < 1 << 20, "refused with {room} bytes left"),
            }
        }
    }

    #[test]
    fn the_reserve_is_held_while_space_is_plenty_and_released_when_short() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(HELD_BACK_FILE);
        let mut held = Reserve {
            path: path.clone(),
            bytes: 8 << 20,
            held: false,
        };
        assert!(
            !held.keep(100 << 20, 90 << 20) && !path.exists(),
            "too little to hold back"
        );
        assert!(!held.keep(200 << 20, 90 << 20));
        assert_eq!(fs::metadata(&path).unwrap().len(), 8 << 20);
        assert!(!held.keep(10 << 20, 90 << 20) && path.exists());
        assert!(held.keep(3 << 20, 90 << 20) && !path.exists());
    }
}
