//! How much of the log is kept. Promises: a time before which entries may be gone is on disk and
//! known to readers before the first of them goes; what goes is given back as whole files, without
//! a deletion per entry. Must not know: who reads.

use super::{Log, SETTINGS, damaged};
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::log::{self as row, Late};
use model::Result;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{CursorOpts, Engine, KeyRange, Table, WriteBatch};

/// A log is cut when it is larger than it should be by this part of it.
const SLACK: u64 = 16;

/// What the disk says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) ident: u32,
    pub(super) oldest: u64,
    pub(super) bytes_max: u64,
    pub(super) keep_ms: u64,
}

impl Stored {
    pub(super) fn read(engine: &dyn Engine) -> Result<Option<Stored>> {
        let mut buf = Vec::new();
        if !engine
            .get(Table::Meta, SETTINGS, &mut buf)
            .map_err(error::storage)?
        {
            return Ok(None);
        }
        let number = |at: usize| {
            let bytes = buf.get(at..at + 8)?;
            bytes.try_into().ok().map(u64::from_be_bytes)
        };
        let stored = || {
            Some(Stored {
                ident: u32::from_be_bytes(*buf.first_chunk::<4>()?),
                oldest: number(4)?,
                bytes_max: number(12)?,
                keep_ms: number(20)?,
            })
        };
        stored().map(Some).ok_or_else(damaged)
    }

    /// Begins an empty log.
    pub(super) fn begin(engine: &dyn Engine, ident: u32, bytes_max: u64) -> Result<Stored> {
        let stored = Stored {
            ident,
            oldest: 0,
            bytes_max,
            keep_ms: 0,
        };
        let mut batch = WriteBatch::new();
        stored.put(&mut batch);
        commit(engine, WriteUnit::new(&batch))?;
        Ok(stored)
    }

    pub(super) fn put(&self, batch: &mut WriteBatch) {
        let mut value = self.ident.to_be_bytes().to_vec();
        for n in [self.oldest, self.bytes_max, self.keep_ms] {
            value.extend_from_slice(&n.to_be_bytes());
        }
        batch.put(Table::Meta, SETTINGS, &value);
    }
}

pub(super) struct Retention {
    /// Held while it is changed.
    stored: Mutex<Stored>,
    oldest: AtomicU64,
    /// Sums before the first row that is kept, once they were looked up.
    before: Mutex<Option<Late>>,
}

impl Retention {
    pub(super) fn open(engine: &dyn Engine, stored: Stored) -> Result<Retention> {
        let retention = Retention {
            stored: Mutex::new(stored),
            oldest: AtomicU64::new(stored.oldest),
            before: Mutex::new(None),
        };
        // What a crash has left of rows that were given up.
        drop_before(engine, &stored)?;
        Ok(retention)
    }

    pub(super) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    pub(super) fn stored(&self) -> Stored {
        *self.stored.lock()
    }

    /// Sums before the first row that is kept.
    pub(super) fn before(&self, engine: &dyn Engine, ident: u32) -> Result<Late> {
        let mut before = self.before.lock();
        if let Some(late) = *before {
            return Ok(late);
        }
        let Some((_, late, entries, bytes)) = first_row(engine, ident, self.oldest())? else {
            return Ok(Late::default());
        };
        let late = Late {
            entries_total: late.entries_total.saturating_sub(u64::from(entries)),
            bytes_total: late.bytes_total.saturating_sub(bytes),
            ..late
        };
        *before = Some(late);
        Ok(late)
    }
}

impl Log {
    /// Gives up the oldest entries when the log is too large and they are old enough.
    ///
    /// # Cost
    /// Nothing but a comparison when it is not; else some thirty seeks.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn truncate(&self, engine: &dyn Engine) -> Result<bool> {
        let bytes_total = self.times.lock().bytes_total;
        let stored = self.retention.stored();
        let size = self.counts(engine)?.1;
        if size <= stored.bytes_max + stored.bytes_max / SLACK {
            return Ok(false);
        }
        let keep_from = bytes_total.saturating_sub(stored.bytes_max);
        let Some(last) = self.last_before(engine, keep_from, &stored)? else {
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
        self.truncate(engine).map(|_| ())
    }

    /// Time of the last row that ends below the sum `keep_from` and may go. Rows are looked for by
    /// halving the range of times.
    fn last_before(
        &self,
        engine: &dyn Engine,
        keep_from: u64,
        stored: &Stored,
    ) -> Result<Option<u64>> {
        let (mut low, mut high) = (stored.oldest, self.visible().as_u64());
        let young = (self.now_ms)().saturating_sub(i64::try_from(stored.keep_ms).unwrap_or(0));
        let mut last = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let row = first_row(engine, self.ident, middle)?;
            let goes = row.filter(|(time, late, ..)| {
                *time < high
                    && late.bytes_total <= keep_from
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
            self.retention.oldest.store(oldest, Ordering::Release);
            *self.retention.before.lock() = None;
        };
        // On the device before the first file is deleted.
        commit(engine, WriteUnit::new(&batch).durable().then(raised))?;
        drop_before(engine, &new)
    }
}

/// The first row with an entry at `from` or later: its time, sums, entries and bytes.
fn first_row(engine: &dyn Engine, ident: u32, from: u64) -> Result<Option<(u64, Late, u32, u64)>> {
    let (lower, upper) = (row::key(ident, from), (ident + 1).to_be_bytes());
    let opts = CursorOpts {
        limit_hint: 1,
        ..CursorOpts::default()
    };
    let mut found = Ok(None);
    engine
        .cursor(Table::Log, KeyRange::new(&lower, &upper), opts)
        .and_then(|mut cursor| {
            cursor.visit(1, &mut |key, value| {
                let bytes = value.len() as u64;
                let read = row::time_of(key).zip(row::read(value));
                found = read
                    .map(|(time, (head, _))| Some((time, head.late, head.entries, bytes)))
                    .ok_or_else(damaged);
                false
            })
        })
        .map_err(error::storage)?;
    found
}

fn drop_before(engine: &dyn Engine, stored: &Stored) -> Result<()> {
    let (lower, upper) = (
        stored.ident.to_be_bytes(),
        row::key(stored.ident, stored.oldest),
    );
    engine
        .drop_range(Table::Log, KeyRange::new(&lower, &upper))
        .map_err(error::storage)
}
