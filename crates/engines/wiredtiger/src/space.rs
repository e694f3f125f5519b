//! Returns the space of removed rows to the file system. WiredTiger reuses it, but shortens a file
//! only at its end, and all collections share six files.
//!
//! A thread checks the files every few seconds. It compacts a file of which a third is unused, or a
//! fifth if nothing is being written to it: rows at its end move into unused space before them.
//! Each turn is short, because closing the engine waits for it. Must not know: keys, commits.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use storage::{Result, StorageError, Table};

use crate::pool::Pool;
use crate::session::{Outcome, Session};

/// The engine's names of two metrics of a table.
pub(crate) const FILE_BYTES: &str = "block-manager: file size in bytes";
pub(crate) const UNUSED_BYTES: &str = "block-manager: file bytes available for reuse";

/// Time between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// A table that did not become shorter is skipped for this many checks.
const LOOKS_SKIPPED: u32 = 20;
/// Length of one turn of compaction, in seconds.
const TURN_S: u8 = 2;
/// Less unused space is not worth moving rows for.
const UNUSED_BYTES_MIN: i64 = 4 << 20;
/// Nor is less than one part in this many of a file: writers need unused space, and would make the
/// file longer again.
const UNUSED_PART: i64 = 3;
const UNUSED_PART_AT_REST: i64 = 5;

#[derive(Default)]
struct Shared {
    closing: Mutex<bool>,
    wake: Condvar,
}

/// The thread that shortens files.
pub(crate) struct Space {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Space {
    pub(crate) fn start(pool: &Arc<Pool>) -> Result<Space> {
        let shared = Arc::new(Shared::default());
        let (own, session) = (Arc::clone(&shared), Session::of(pool)?);
        let thread = std::thread::Builder::new()
            .name("space".to_owned())
            .spawn(move || own.run(&session))
            .map_err(|e| StorageError::io("cannot start the thread that frees space", e))?;
        Ok(Space {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Ends the thread after its current turn.
    pub(crate) fn stop(&self) {
        *self.shared.closing.lock() = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, session: &Session) {
        let mut skipped = [0u32; Table::ALL.len()];
        let mut sizes = [None; Table::ALL.len()];
        let mut closing = self.closing.lock();
        while !*closing {
            self.wake.wait_for(&mut closing, LOOK_EVERY);
            for table in Table::ALL {
                let left = &mut skipped[table.index()];
                if *closing || *left > 0 {
                    *left = left.saturating_sub(1);
                    continue;
                }
                drop(closing);
                let size = Size::of(session, table);
                let last = std::mem::replace(&mut sizes[table.index()], size);
                if size.is_none_or(|now| now.is_worth_it(last) && !now.shorten(session, table)) {
                    *left = LOOKS_SKIPPED;
                }
                closing = self.closing.lock();
            }
        }
    }
}

/// The share of a range of `bytes` in the unused space of the table's file.
pub(crate) fn unused_share(session: &Session, table: Table, bytes: u64) -> u64 {
    let Some(Size {
        bytes: file,
        unused,
    }) = Size::of(session, table)
    else {
        return 0;
    };
    let share = i128::from(bytes) * i128::from(unused) / i128::from((file - unused).max(1));
    u64::try_from(share.clamp(0, i128::from(unused.max(0)))).unwrap_or(0)
}

/// Shortens the file of a table until a turn has no effect.
///
/// # Output
/// The number of bytes by which it became shorter.
pub(crate) fn shorten(session: &Session, table: Table, stop: &dyn Fn() -> bool) -> u64 {
    let before = Size::of(session, table).unwrap_or_default();
    let mut after = before;
    while !stop() && after.unused >= UNUSED_BYTES_MIN && after.shorten(session, table) {
        after = Size::of(session, table).unwrap_or_default();
    }
    u64::try_from(before.bytes - after.bytes).unwrap_or(0)
}

/// The size of a table's file, and its unused bytes.
#[derive(Clone, Copy, Default, PartialEq)]
struct Size {
    bytes: i64,
    unused: i64,
}

impl Size {
    /// `None` when it cannot be read now.
    fn of(session: &Session, table: Table) -> Option<Size> {
        let mut size = Size::default();
        let read = session.statistics(Some(table), &mut |name, value| match name {
            FILE_BYTES => size.bytes = value,
            UNUSED_BYTES => size.unused = value,
            _ => {}
        });
        read.is_ok().then_some(size)
    }

    /// `last` is the result of the previous check.
    fn is_worth_it(self, last: Option<Size>) -> bool {
        let part = match last == Some(self) {
            true => UNUSED_PART_AT_REST,
            false => UNUSED_PART,
        };
        self.unused >= UNUSED_BYTES_MIN && self.unused >= self.bytes / part
    }

    /// One turn. False when it had no effect: rows that are being read or held cannot be moved.
    fn shorten(self, session: &Session, table: Table) -> bool {
        match session.compact(table, TURN_S) {
            Ok(Outcome::Done | Outcome::Again) => {
                Size::of(session, table).is_some_and(|after| after.bytes < self.bytes)
            }
            Err(_) => false,
        }
    }
}
