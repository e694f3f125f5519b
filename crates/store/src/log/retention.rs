//! Keeps the log at its size. Promises: the time before which entries may be removed is on disk and
//! known to readers before the first of them is removed; removed entries free whole files, without
//! a deletion for each entry. Must not know: who reads.

use super::audience::Audience;
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::log::{self as row, LogTotals};
use crate::format::meta;
use crate::format::references::{self, image_key};
use model::{MongoError, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{CursorOpts, Engine, KeyRange, Reader, Table, WriteBatch};

/// The stored settings and state of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredRetention {
    pub(super) ident: u32,
    pub(super) oldest: u64,
    pub(super) bytes_max: u64,
    pub(super) keep_ms: u64,
    pub(super) audience: Audience,
}

impl StoredRetention {
    pub(super) fn read(reader: &dyn Reader) -> Result<Option<StoredRetention>> {
        let mut buf = Vec::new();
        if !reader
            .get(Table::Meta, meta::LOG, &mut buf)
            .map_err(error::storage)?
        {
            return Ok(None);
        }
        let number = |at: usize| {
            let bytes = buf.get(at..at + 8)?;
            bytes.try_into().ok().map(u64::from_be_bytes)
        };
        let stored = || {
            Some(StoredRetention {
                ident: u32::from_be_bytes(*buf.first_chunk::<4>()?),
                oldest: number(4)?,
                bytes_max: number(12)?,
                keep_ms: number(20)?,
                // Older versions did not write this byte.
                audience: match buf.get(28) {
                    Some(1) => Audience::Consumers,
                    _ => Audience::Everybody,
                },
            })
        };
        let stored = stored().filter(|stored| stored.oldest <= row::TIMES_END);
        stored.map(Some).ok_or_else(damage_error)
    }

    /// Those of an empty log.
    pub(super) fn new(ident: u32, bytes_max: u64, audience: Audience) -> StoredRetention {
        StoredRetention {
            ident,
            oldest: 0,
            bytes_max,
            keep_ms: 0,
            audience,
        }
    }

    /// Creates an empty log.
    pub(super) fn begin(
        engine: &dyn Engine,
        ident: u32,
        bytes_max: u64,
        audience: Audience,
    ) -> Result<StoredRetention> {
        let stored = StoredRetention::new(ident, bytes_max, audience);
        let mut batch = WriteBatch::new();
        stored.put(&mut batch);
        commit(engine, WriteUnit::new(&batch))?;
        Ok(stored)
    }

    /// Removes all entries and begins a log for `audience`. One time is skipped, so that a position
    /// at the last entry can be recognised as one of the old log.
    pub(super) fn end(self, engine: &dyn Engine, audience: Audience) -> Result<StoredRetention> {
        let (last, _) = last_row(engine, self.ident)?;
        let ended = StoredRetention {
            oldest: last.max(self.oldest).saturating_add(2),
            audience,
            ..self
        };
        let mut batch = WriteBatch::new();
        ended.put(&mut batch);
        commit(engine, WriteUnit::new(&batch).durable())?;
        Ok(ended)
    }

    pub(super) fn put(&self, batch: &mut WriteBatch) {
        let mut value = self.ident.to_be_bytes().to_vec();
        for n in [self.oldest, self.bytes_max, self.keep_ms] {
            value.extend_from_slice(&n.to_be_bytes());
        }
        if self.audience == Audience::Consumers {
            value.push(1);
        }
        batch.put(Table::Meta, meta::LOG, &value);
    }
}

pub(super) struct Retention {
    /// Locked during a change.
    pub(super) stored: Mutex<StoredRetention>,
    oldest: AtomicU64,
    /// Sums before the first remaining row, once they were read.
    before: Mutex<Option<LogTotals>>,
}

impl Retention {
    /// Those that several processes change; nothing is removed at the opening.
    pub(super) fn of_several(stored: StoredRetention) -> Retention {
        Retention {
            stored: Mutex::new(stored),
            oldest: AtomicU64::new(stored.oldest),
            before: Mutex::new(None),
        }
    }

    /// Learns what another process has stored. What was learned of a later state stays.
    pub(super) fn learn(&self, stored: StoredRetention) {
        let mut known = self.stored.lock();
        if stored.oldest >= known.oldest {
            *known = stored;
            self.oldest.fetch_max(stored.oldest, Ordering::AcqRel);
        }
    }

    pub(super) fn open(engine: &dyn Engine, stored: StoredRetention) -> Result<Retention> {
        let retention = Retention {
            stored: Mutex::new(stored),
            oldest: AtomicU64::new(stored.oldest),
            before: Mutex::new(None),
        };
        // Rows that were removed before a crash may still be there.
        drop_before(engine, &stored)?;
        Ok(retention)
    }

    pub(super) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    /// From now on entries before this time may be removed.
    pub(super) fn raise(&self, oldest: u64) {
        self.oldest.store(oldest, Ordering::Release);
        *self.before.lock() = None;
    }

    pub(super) fn stored_retention(&self) -> StoredRetention {
        *self.stored.lock()
    }

    /// Sums before the first remaining row.
    pub(super) fn totals_before(&self, engine: &dyn Engine, ident: u32) -> Result<LogTotals> {
        let mut before = self.before.lock();
        if let Some(late) = *before {
            return Ok(late);
        }
        let Some((_, late, entries, bytes)) = first_row(engine, ident, self.oldest())? else {
            return Ok(LogTotals::default());
        };
        let late = LogTotals {
            entries_total: late.entries_total.saturating_sub(u64::from(entries)),
            bytes_total: late.bytes_total.saturating_sub(bytes),
            ..late
        };
        *before = Some(late);
        Ok(late)
    }
}

/// The first row with an entry at `from` or later: its time, sums, entries and bytes.
pub(super) fn first_row(
    reader: &dyn Reader,
    ident: u32,
    from: u64,
) -> Result<Option<(u64, LogTotals, u32, u64)>> {
    let (lower, upper) = (row::key(ident, from), (ident + 1).to_be_bytes());
    let opts = CursorOpts {
        limit_hint: 1,
        ..CursorOpts::default()
    };
    let mut found = Ok(None);
    reader
        .cursor(Table::Log, KeyRange::new(&lower, &upper), opts)
        .and_then(|mut cursor| {
            cursor.visit(1, &mut |key, value| {
                let bytes = references::log_bytes(value);
                let read = row::time_of(key).zip(row::read(value));
                found = read
                    .map(|(time, (head, _))| Some((time, head.late, head.entries, bytes)))
                    .ok_or_else(damage_error);
                false
            })
        })
        .map_err(error::storage)?;
    found
}

pub(super) fn drop_before(engine: &dyn Engine, stored: &StoredRetention) -> Result<()> {
    let (lower, upper) = (
        stored.ident.to_be_bytes(),
        row::key(stored.ident, stored.oldest),
    );
    engine
        .drop_range(Table::Log, KeyRange::new(&lower, &upper))
        .map_err(error::storage)?;
    if stored.oldest == 0 {
        return Ok(());
    }
    let (first, behind) = (image_key(0), image_key(stored.oldest));
    engine
        .drop_range(Table::Log, KeyRange::new(&first, &behind))
        .map_err(error::storage)
}

/// Time and sums of the last row; zeros when there is none.
pub(super) fn last_row(reader: &dyn Reader, ident: u32) -> Result<(u64, LogTotals)> {
    let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
    let opts = CursorOpts {
        reverse: true,
        limit_hint: 1,
        ..CursorOpts::default()
    };
    let range = KeyRange::new(&lower, &upper);
    let mut found = Ok((0, LogTotals::default()));
    reader
        .cursor(Table::Log, range, opts)
        .and_then(|mut cursor| {
            cursor.visit(1, &mut |key, value| {
                let read = row::time_of(key).zip(row::read(value));
                found = read
                    .map(|(time, (head, _))| (time, head.late))
                    .ok_or_else(damage_error);
                false
            })
        })
        .map_err(error::storage)?;
    found
}

pub(super) fn damage_error() -> MongoError {
    error::corrupt("a row of the log")
}
