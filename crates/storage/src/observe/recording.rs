//! The recorder: keeps what was written, in order, and counts what was read. For golden tests of
//! key layouts and for tests that limit the reads of a lookup.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{Call, Observer};
use crate::batch::{BatchOp, WriteBatch};
use crate::engine::{Caps, Durability};
use crate::error::Result;
use crate::keys::Table;

/// One recorded change.
#[derive(Debug, Clone)]
pub enum RecordedChange {
    /// A batch as applied.
    Apply(WriteBatch, Durability),
    /// A physical drop of `lower..upper`.
    DropRange(Table, Vec<u8>, Vec<u8>),
    /// A new set of dropped idents.
    SetDropped(Table, Vec<u32>),
}

/// Records changes, counts reads.
#[derive(Debug, Default)]
pub struct Recorder {
    changes: Mutex<Vec<RecordedChange>>,
    gets: AtomicU64,
    keys_of_multi_gets: AtomicU64,
    cursors: AtomicU64,
    snapshots: AtomicU64,
}

impl Recorder {
    /// The changes since the last call.
    pub fn take(&self) -> Vec<RecordedChange> {
        std::mem::take(&mut *self.changes.lock())
    }

    /// Reads so far: single gets, keys of multi_gets, cursors opened, snapshots taken.
    pub fn reads(&self) -> [u64; 4] {
        [
            &self.gets,
            &self.keys_of_multi_gets,
            &self.cursors,
            &self.snapshots,
        ]
        .map(|count| count.load(Ordering::Relaxed))
    }

    fn keep(&self, change: RecordedChange) {
        self.changes.lock().push(change);
    }
}

impl Observer for Recorder {
    fn before_call(&self, call: &Call<'_>, _caps: &Caps) -> Result<()> {
        let count = |counter: &AtomicU64, by: usize| {
            counter.fetch_add(by as u64, Ordering::Relaxed);
        };
        match call {
            Call::Get { .. } => count(&self.gets, 1),
            Call::MultiGet { keys, .. } => count(&self.keys_of_multi_gets, keys.len()),
            Call::Cursor { .. } => count(&self.cursors, 1),
            Call::Snapshot => count(&self.snapshots, 1),
            Call::Apply { batch, durability } => {
                self.keep(RecordedChange::Apply((*batch).clone(), *durability))
            }
            Call::DropRange { table, range } => {
                self.keep(RecordedChange::DropRange(
                    *table,
                    range.lower.to_vec(),
                    range.upper.to_vec(),
                ));
            }
            Call::SetDropped { table, idents } => {
                self.keep(RecordedChange::SetDropped(*table, idents.iter().collect()))
            }
            Call::Seek { .. }
            | Call::Visit { .. }
            | Call::WaitDurable { .. }
            | Call::ApproxSize { .. }
            | Call::Checkpoint { .. }
            | Call::Verify
            | Call::Flush
            | Call::Close => {}
        }
        Ok(())
    }
}

impl RecordedChange {
    /// One line per operation, keys and values in hexadecimal; stable, for golden files.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |parts: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{parts}");
        };
        match self {
            Self::Apply(batch, durability) => {
                line(format_args!("apply {durability:?}"));
                for op in batch.iter() {
                    match op {
                        BatchOp::Put { table, key, value } => {
                            line(format_args!(
                                "  put {} {} = {}",
                                table.name(),
                                hex(key),
                                hex(value)
                            ));
                        }
                        BatchOp::Delete { table, key } => {
                            line(format_args!("  delete {} {}", table.name(), hex(key)))
                        }
                        BatchOp::DeleteRange {
                            table,
                            lower,
                            upper,
                        } => {
                            line(format_args!(
                                "  delete {} {}..{}",
                                table.name(),
                                hex(lower),
                                hex(upper)
                            ));
                        }
                        BatchOp::Add { table, key, delta } => {
                            line(format_args!(
                                "  add {} {} + {delta:?}",
                                table.name(),
                                hex(key)
                            ));
                        }
                    }
                }
            }
            Self::DropRange(table, lower, upper) => {
                line(format_args!(
                    "drop {} {}..{}",
                    table.name(),
                    hex(lower),
                    hex(upper)
                ));
            }
            Self::SetDropped(table, idents) => {
                line(format_args!("dropped {} {idents:?}", table.name()))
            }
        }
        text
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
