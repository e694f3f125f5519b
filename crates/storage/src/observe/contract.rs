//! The contract checker: refuses calls that break the rules of `docs/storage-contract.md`, and
//! panics when the engine breaks them. For debug builds and tests; the engines themselves check
//! what would harm them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Call, Observer};
use crate::batch::{BatchOp, WriteBatch};
use crate::engine::{Caps, CommitPos};
use crate::error::{Result, StorageError};
use crate::keys::{IDENT_BYTES, KeyRange, MAX_KEY, Table};

/// Checks arguments, positions and the kinds of errors.
#[derive(Debug, Default)]
pub struct Contract {
    last_pos: AtomicU64,
}

impl Observer for Contract {
    fn before_call(&self, call: &Call<'_>, caps: &Caps) -> Result<()> {
        match call {
            Call::Get { table, key } => check_key(*table, key, caps),
            Call::MultiGet { table, keys } => {
                keys.iter().try_for_each(|key| check_key(*table, key, caps))
            }
            Call::Cursor { range, .. }
            | Call::DropRange { range, .. }
            | Call::ApproxSize { range, .. } => range.check(),
            Call::Apply { batch, .. } => check_batch(batch, caps),
            Call::Seek { .. }
            | Call::Visit { .. }
            | Call::Snapshot
            | Call::WaitDurable { .. }
            | Call::SetDropped { .. }
            | Call::Checkpoint { .. }
            | Call::Verify
            | Call::Flush
            | Call::Close => Ok(()),
        }
    }

    fn after_call(
        &self,
        call: &Call<'_>,
        outcome: std::result::Result<CommitPos, &StorageError>,
    ) -> Result<()> {
        let writes = matches!(
            call,
            Call::Apply { .. } | Call::WaitDurable { .. } | Call::Flush | Call::Close
        );
        match outcome {
            Ok(pos) => {
                if let Call::Apply { batch, .. } = call
                    && !batch.is_empty()
                {
                    // Another thread's commit may have been counted in between, so only zero is
                    // certainly wrong ...
                    assert!(pos.0 > 0, "a commit has no position");
                    // ... and a position that goes back by more than concurrent commits explain is
                    // found by the conformance suite.
                    self.last_pos.fetch_max(pos.0, Ordering::Relaxed);
                }
            }
            Err(error) => {
                let only_writes = matches!(
                    error,
                    StorageError::Conflict
                        | StorageError::Full { .. }
                        | StorageError::ReadOnly { .. }
                        | StorageError::Undetermined
                );
                let at_open = matches!(
                    error,
                    StorageError::Locked { .. }
                        | StorageError::ForeignDirectory { .. }
                        | StorageError::JournalDamaged { .. }
                        | StorageError::NotUnlocked { .. }
                        | StorageError::Untrusted { .. }
                        | StorageError::NewerFormat { .. }
                );
                assert!(
                    !at_open && (writes || !only_writes),
                    "{call:?} must not fail by {error:?}"
                );
            }
        }
        Ok(())
    }
}

impl Contract {
    /// The highest position that any commit was given.
    pub fn last_pos(&self) -> CommitPos {
        CommitPos(self.last_pos.load(Ordering::Relaxed))
    }
}

fn check_batch(batch: &WriteBatch, caps: &Caps) -> Result<()> {
    let mut seen = 0;
    for op in batch.iter() {
        seen += 1;
        match op {
            BatchOp::Put { table, key, value } => {
                check_key(table, key, caps)?;
                if value.len() > caps.value_bytes_max {
                    return Err(StorageError::TooLarge {
                        what: "value",
                        len: value.len(),
                        max: caps.value_bytes_max,
                    });
                }
            }
            BatchOp::Delete { table, key } => check_key(table, key, caps)?,
            BatchOp::Add { table, key, .. } => {
                if table != Table::Meta {
                    return Err(StorageError::Contract(format!(
                        "a counter in {}, only meta has counters",
                        table.name()
                    )));
                }
                check_key(table, key, caps)?;
            }
            BatchOp::DeleteRange { lower, upper, .. } => {
                if !caps.delete_range {
                    return Err(StorageError::Unsupported("delete_range"));
                }
                KeyRange::new(lower, upper).check()?;
            }
        }
    }
    assert_eq!(seen, batch.len(), "the batch is malformed");
    Ok(())
}

fn check_key(table: Table, key: &[u8], caps: &Caps) -> Result<()> {
    let least = if table == Table::Meta { 1 } else { IDENT_BYTES };
    if key.len() < least || key >= MAX_KEY {
        return Err(StorageError::Contract(format!(
            "{key:02x?} is no key of {}",
            table.name()
        )));
    }
    if key.len() > caps.key_bytes_max {
        return Err(StorageError::KeyTooLong {
            len: key.len(),
            max: caps.key_bytes_max,
        });
    }
    Ok(())
}
