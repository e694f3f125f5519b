//! Whether the device has room for growth. LMDB copies pages to change them, deletes included, so
//! some space is kept back for them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::{BatchOp, Result, StorageError, Table, WriteBatch};

/// Kept back for deletes and for the catalog.
const RESERVE_BYTES: u64 = 64 << 20;
/// How long a look at the device counts.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks at the device of a directory.
pub(crate) struct Space {
    path: PathBuf,
    seen: Mutex<Option<(Instant, u64)>>,
}

impl Space {
    pub(crate) fn of(path: PathBuf) -> Space {
        Space {
            path,
            seen: Mutex::new(None),
        }
    }

    /// Bytes that may be written.
    pub(crate) fn free_bytes(&self) -> u64 {
        let mut seen = self.seen.lock();
        match *seen {
            Some((at, free)) if at.elapsed() < LOOK_EVERY => return free,
            _ => {}
        }
        let Ok(stat) = rustix::fs::statvfs(&self.path) else {
            return u64::MAX;
        };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        *seen = Some((Instant::now(), free));
        free
    }

    /// Refuses a batch that grows the data when little is left.
    ///
    /// # Errors
    /// [`StorageError::Full`]
    pub(crate) fn admit(&self, batch: &WriteBatch) -> Result<()> {
        let free = self.free_bytes();
        let needed = RESERVE_BYTES.saturating_add(2 * batch.byte_len() as u64);
        if free >= needed || batch.shrinks() || !grows(batch) {
            return Ok(());
        }
        Err(StorageError::Full {
            context: format!(
                "{free} bytes are free on the device, {RESERVE_BYTES} are kept for deletes"
            ),
        })
    }
}

fn grows(batch: &WriteBatch) -> bool {
    batch.iter().any(|op| {
        matches!(
            op,
            BatchOp::Put {
                table: Table::Doc | Table::Idx | Table::Cap,
                ..
            }
        )
    })
}
