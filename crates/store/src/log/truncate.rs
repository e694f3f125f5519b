//! Giving up the oldest entries. Promises: readers are held off, and the disk says so, before the
//! first file goes; files go whole, without a deletion per entry.

use super::retention::{Stored, drop_before, first_row};
use super::times::Log;
use crate::commit::{WriteUnit, commit};
use model::Result;
use storage::{Engine, Table, WriteBatch};

/// A log is cut when it is larger than it should be by this part of it.
const SLACK: u64 = 16;
/// What is written at least between two looks at the size of the log.
const LOOK_BYTES_MIN: u64 = 64 << 10;

/// Which entries may go.
struct Removable {
    /// Those below this sum of bytes, when all consumers are past them.
    below: u64,
    /// Those below this sum of bytes, whoever needs them.
    below_anyway: u64,
    /// Some consumer needs entries from this time on.
    needed_from: u64,
}

impl Log {
    /// Gives up the oldest entries when the log is too large and they are old enough.
    ///
    /// # Cost
    /// Nothing but a comparison when it is not; else some thirty seeks. What consumers have not
    /// saved stays until the log has twice its size (ADR 0075).
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn truncate(&self, engine: &dyn Engine) -> Result<bool> {
        let cut = self.cut(engine);
        let slack = self.bytes_max() / SLACK;
        let size = self.counts(engine).map_or(0, |(_, bytes)| bytes);
        let left = (self.bytes_max() + slack).saturating_sub(size);
        // What could not be given up now is looked at again when there is as much more.
        let left = left.max(slack.max(LOOK_BYTES_MIN));
        self.due.looked(self.bytes_total().saturating_add(left));
        cut
    }

    /// Whether so much was written that the log is to be cut.
    ///
    /// # Cost
    /// One load.
    pub fn is_to_be_cut(&self) -> bool {
        self.due.is_due()
    }

    fn cut(&self, engine: &dyn Engine) -> Result<bool> {
        let bytes_total = self.bytes_total();
        let (stored, bytes_max) = (self.retention.stored(), self.bytes_max());
        let size = self.counts(engine)?.1;
        if size <= bytes_max + bytes_max / SLACK {
            return Ok(false);
        }
        // Until the entries are gone: who registers meanwhile is told that they are.
        let positions = self.consumers.hold();
        let held = self.held_bytes_max();
        let removable = Removable {
            below: bytes_total.saturating_sub(bytes_max),
            below_anyway: bytes_total.saturating_sub(held),
            needed_from: positions.earliest(stored.oldest),
        };
        let Some(last) = self.last_removable(engine, &removable, &stored)? else {
            return Ok(false);
        };
        self.give_up(engine, last + 1).map(|()| true)
    }

    /// Keeps the log to another size, and entries for at least so long.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn resize(
        &self,
        engine: &dyn Engine,
        bytes_max: Option<u64>,
        keep_ms: Option<u64>,
    ) -> Result<()> {
        {
            let mut stored = self.retention.stored.lock();
            let new = Stored {
                bytes_max: bytes_max.unwrap_or(stored.bytes_max),
                keep_ms: keep_ms.unwrap_or(stored.keep_ms),
                ..*stored
            };
            let mut batch = WriteBatch::new();
            new.put(&mut batch);
            let resized = &mut |_: storage::CommitPos| *stored = new;
            commit(engine, WriteUnit::new(&batch).durable().then(resized))?;
        }
        engine.expect_size(Table::Log, self.bytes_max());
        self.truncate(engine).map(|_| ())
    }

    /// Time of the last row that may go. Rows are looked for by halving the range of times.
    fn last_removable(
        &self,
        engine: &dyn Engine,
        removable: &Removable,
        stored: &Stored,
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
        let new = Stored { oldest, ..*stored };
        let mut batch = WriteBatch::new();
        new.put(&mut batch);
        let raised = &mut |_: storage::CommitPos| {
            *stored = new;
            self.retention.raise(oldest);
        };
        // On the device before the first file is deleted.
        commit(engine, WriteUnit::new(&batch).durable().then(raised))?;
        drop_before(engine, &new)
    }
}
