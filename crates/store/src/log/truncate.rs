//! Removes the oldest entries. Promises: readers are refused, and the new beginning is on disk,
//! before the first file is deleted; whole files are deleted, without a deletion for each entry.

use super::retention::{StoredRetention, drop_before, first_row};
use super::times::Log;
use crate::commit::{WriteUnit, commit};
use model::Result;
use storage::{Engine, Table, WriteBatch};

/// A log is cut when it exceeds its size by one part in this many.
const SLACK: u64 = 16;
/// Bytes that are written at least between two checks of the log's size.
const LOOK_BYTES_MIN: u64 = 64 << 10;

/// Which entries may be removed.
struct TruncationBounds {
    /// Entries below this sum of bytes, if all consumers have processed them.
    below: u64,
    /// Entries below this sum of bytes, even if a consumer needs them.
    below_anyway: u64,
    /// The earliest time that some consumer needs.
    needed_from: u64,
}

impl Log {
    /// Removes the oldest entries when the log is too large and they are old enough.
    ///
    /// # Cost
    /// A comparison when the log is not too large, otherwise about thirty seeks. Entries that
    /// consumers have not saved stay until the log has twice its size (ADR 0075).
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn truncate(&self, engine: &dyn Engine) -> Result<bool> {
        let cut = self.cut(engine);
        let slack = self.bytes_max() / SLACK;
        let size = self.counts(engine).map_or(0, |(_, bytes)| bytes);
        let left = (self.bytes_max() + slack).saturating_sub(size);
        // Entries that could not be removed now are checked again when as much more was written.
        let left = left.max(slack.max(LOOK_BYTES_MIN));
        self.due
            .schedule_check(self.bytes_total().saturating_add(left));
        cut
    }

    /// Whether enough was written that the log has to be cut.
    ///
    /// # Cost
    /// One load.
    pub fn is_to_be_cut(&self) -> bool {
        self.due.is_due()
    }

    fn cut(&self, engine: &dyn Engine) -> Result<bool> {
        if let Some(member) = &self.member {
            return self.cut_shared(member);
        }
        let bytes_total = self.bytes_total();
        let (stored, bytes_max) = (self.retention.stored_retention(), self.bytes_max());
        let size = self.counts(engine)?.1;
        if size <= bytes_max + bytes_max / SLACK {
            return Ok(false);
        }
        // Locked until the entries are removed: a consumer that registers later finds that they
        // are.
        let positions = self.consumers.hold();
        let held = self.held_bytes_max();
        let removable = TruncationBounds {
            below: bytes_total.saturating_sub(bytes_max),
            below_anyway: bytes_total.saturating_sub(held),
            needed_from: positions.earliest(stored.oldest),
        };
        let Some(last) = self.last_removable(engine, &removable, &stored)? else {
            return Ok(false);
        };
        self.give_up(engine, last + 1).map(|()| true)
    }

    /// Sets the size of the log and the minimum time for which entries are kept.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn resize(
        &self,
        engine: &dyn Engine,
        bytes_max: Option<u64>,
        keep_ms: Option<u64>,
    ) -> Result<()> {
        let change = |stored: StoredRetention| StoredRetention {
            bytes_max: bytes_max.unwrap_or(stored.bytes_max),
            keep_ms: keep_ms.unwrap_or(stored.keep_ms),
            ..stored
        };
        if let Some(member) = &self.member {
            self.change_retention(member, &change)?;
        } else {
            let mut stored = self.retention.stored.lock();
            let new = change(*stored);
            let mut batch = WriteBatch::new();
            new.put(&mut batch);
            let resized = &mut |_: storage::CommitPos| *stored = new;
            commit(engine, WriteUnit::new(&batch).durable().add_hook(resized))?;
        }
        engine.expect_size(Table::Log, self.bytes_max());
        self.truncate(engine).map(|_| ())
    }

    /// Time of the last row that may be removed. It is found by halving the range of times.
    fn last_removable(
        &self,
        engine: &dyn Engine,
        removable: &TruncationBounds,
        stored: &StoredRetention,
    ) -> Result<Option<u64>> {
        let (mut low, mut high) = (stored.oldest, self.visible().as_u64());
        let young = (self.now_ms)().saturating_sub(i64::try_from(stored.keep_ms).unwrap_or(0));
        let mut last = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let row = first_row(engine, self.ident, middle)?;
            let goes = row.filter(|(time, late, ..)| {
                let needed = *time >= removable.needed_from;
                let below = match needed {
                    true => removable.below_anyway,
                    false => removable.below,
                };
                *time < high
                    && late.bytes_total <= below
                    && (stored.keep_ms == 0 || late.wall_ms < young)
            });
            match goes {
                Some((time, ..)) => (last, low) = (Some(time), time + 1),
                None => high = middle,
            }
        }
        Ok(last)
    }

    fn give_up(&self, engine: &dyn Engine, oldest: u64) -> Result<()> {
        let mut stored = self.retention.stored.lock();
        let new = StoredRetention { oldest, ..*stored };
        let mut batch = WriteBatch::new();
        new.put(&mut batch);
        let raised = &mut |_: storage::CommitPos| {
            *stored = new;
            self.retention.raise(oldest);
        };
        // Durable before the first file is deleted.
        commit(engine, WriteUnit::new(&batch).durable().add_hook(raised))?;
        drop_before(engine, &new)
    }
}
