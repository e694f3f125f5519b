//! Checks whether the device has room for growth. Some space is reserved for deletes and for the
//! catalog, because deleting takes space before it frees any.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::batch::{BatchOp, WriteBatch};
use crate::error::{Result, StorageError};
use crate::keys::Table;

/// How long a measurement of free space is used.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Measures the free space of a directory's device.
pub struct SpaceMonitor {
    path: PathBuf,
    reserve_bytes: u64,
    seen: Mutex<Option<(Instant, u64)>>,
}

impl SpaceMonitor {
    /// Measures the device of `path`, of which `reserve_bytes` are kept free.
    pub fn of(path: PathBuf, reserve_bytes: u64) -> Self {
        Self {
            path,
            reserve_bytes,
            seen: Mutex::new(None),
        }
    }

    /// Bytes that may be written.
    pub fn free_bytes(&self) -> u64 {
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

    /// Refuses a batch that grows the data when little space is left.
    ///
    /// # Errors
    /// [`StorageError::Full`]
    pub fn admit(&self, batch: &WriteBatch) -> Result<()> {
        let free = self.free_bytes();
        let needed = self
            .reserve_bytes
            .saturating_add(2 * batch.byte_len() as u64);
        if free >= needed || batch.shrinks() || !grows(batch) {
            return Ok(());
        }
        Err(StorageError::Full {
            context: format!(
                "{free} bytes are free on the device, {} are kept for deletes",
                self.reserve_bytes
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
