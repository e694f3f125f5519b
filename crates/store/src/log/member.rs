//! The part of this process in a log that several write (ADR 0114). Promises: all members have the
//! same idents for marks and raw rows; the log of a member is listed before its first row is
//! published. Must not know: entries, readers.

use super::commit_times::{COMMIT_ENTRIES_MAX, first_time, positions_of};
use super::places::{Places, TakenPlace};
use super::quiet::QuietLogs;
use super::retention::{StoredRetention, drop_before, last_row};
use super::settings::LogSettings;
use super::sums::LogSums;
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::meta;
use crate::format::raw_log::{Mark, Place, ROWS_MAX};
use model::{MongoError, Result, bail, code};
use parking_lot::Mutex;
use std::sync::Arc;
use storage::{CommitPos, Engine, Follower, PutOffsets, Reader, Table, WriteBatch};

/// What this process needs to write the log beside others.
pub(crate) struct MemberLog {
    pub(super) engine: Arc<dyn Engine>,
    /// Tells the states in which the log is read.
    pub(super) follower: Arc<dyn Follower>,
    /// Ident of the log of this member.
    pub(super) ident: u32,
    pub(super) shared: SharedIdents,
    pub(super) places: Places,
    /// Members that may have died.
    pub(super) quiet: Mutex<QuietLogs>,
    /// Held while rows are published.
    pub(super) publishing: Mutex<()>,
}

/// The idents that all members use.
#[derive(Clone, Copy)]
pub(super) struct SharedIdents {
    pub(super) marks: u32,
    pub(super) raw: u32,
}

impl SharedIdents {
    pub(super) fn read(reader: &dyn Reader) -> Result<Option<SharedIdents>> {
        let mut read = None;
        let see = &mut |value: &[u8]| {
            let marks = value.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
            let raw = value.last_chunk::<4>().map(|b| u32::from_be_bytes(*b));
            let both = marks.zip(raw).filter(|_| value.len() == 8);
            read = Some(both.map(|(marks, raw)| SharedIdents { marks, raw }));
        };
        reader
            .get_with(Table::Meta, meta::LOG_MARKS, see)
            .map_err(error::storage)?;
        match read {
            None => Ok(None),
            Some(None) => Err(error::corrupt("the idents of the log's marks")),
            Some(found) => Ok(found),
        }
    }

    fn put(self, batch: &mut WriteBatch) {
        let both = [self.marks.to_be_bytes(), self.raw.to_be_bytes()].concat();
        batch.put(Table::Meta, meta::LOG_MARKS, &both);
    }
}

impl MemberLog {
    /// Adds a log of this process to those of the others; the first one begins the log.
    ///
    /// # Errors
    /// 20 IllegalOperation when an earlier log has times that the cluster has not reached; engine
    /// failures.
    pub(super) fn join(
        follower: &Arc<dyn Follower>,
        new_ident: &mut dyn FnMut() -> Result<u32>,
        settings: &LogSettings,
    ) -> Result<(MemberLog, StoredRetention)> {
        let engine = Arc::clone(follower) as Arc<dyn Engine>;
        let (shared, stored) = loop {
            match begin_or_find(engine.as_ref(), new_ident, settings) {
                // Another member begins it.
                Err(e) if error::is_conflict(&e) => {}
                found => break found?,
            }
        };
        let ident = new_ident()?;
        let mut batch = WriteBatch::new();
        put_sums(&mut batch, ident, LogSums::default());
        commit(engine.as_ref(), WriteUnit::new(&batch))?;
        let member = MemberLog {
            engine,
            follower: Arc::clone(follower),
            ident,
            shared,
            places: Places::default(),
            quiet: Mutex::default(),
            publishing: Mutex::default(),
        };
        Ok((member, stored))
    }

    /// The time up to which this process has seen all changes.
    pub(super) fn newest_pos(&self) -> CommitPos {
        self.engine.last_pos()
    }

    /// The ident under which rows without a time are put.
    pub(super) fn raw_ident(&self) -> u32 {
        self.shared.raw
    }

    /// Gives the raw rows of a commit their place, and adds the mark.
    ///
    /// # Errors
    /// 257 TransactionTooLarge for more entries than a commit may have; 24 LockTimeout when
    /// nothing can be published.
    pub(super) fn place(
        &self,
        batch: &mut WriteBatch,
        rows: &[(PutOffsets, u32)],
    ) -> Result<TakenPlace<'_>> {
        let entries: u32 = rows.iter().map(|(_, entries)| entries).sum();
        if entries > COMMIT_ENTRIES_MAX || rows.len() > ROWS_MAX {
            bail!(
                code::TRANSACTION_TOO_LARGE,
                "beside others a commit logs {COMMIT_ENTRIES_MAX} changes at most, not {entries}"
            );
        }
        batch.take_positions(positions_of(entries));
        let taken = self.places.take()?;
        let place = Place {
            member: self.ident,
            number: taken.number(),
        };
        for (n, (at, _)) in (0..).zip(rows) {
            batch.patch(at.key + 4, &place.key_part(n));
        }
        let mark = Mark {
            after: self.newest_pos().0,
            rows: rows.len() as u16,
        };
        batch.put(Table::Log, &place.key(self.shared.marks, 0), &mark.encode());
        Ok(taken)
    }
}

pub(super) fn put_sums(batch: &mut WriteBatch, ident: u32, sums: LogSums) {
    let value = [sums.entries.to_be_bytes(), sums.bytes.to_be_bytes()].concat();
    batch.put(Table::Meta, &meta::member_log(ident), &value);
}

fn begin_or_find(
    engine: &dyn Engine,
    new_ident: &mut dyn FnMut() -> Result<u32>,
    settings: &LogSettings,
) -> Result<(SharedIdents, StoredRetention)> {
    let unit = engine.begin().map_err(error::storage)?;
    let stored = StoredRetention::read(&unit)?;
    let shared = SharedIdents::read(&unit)?;
    if let (Some(shared), Some(stored)) = (shared, stored) {
        return Ok((shared, stored));
    }
    let shared = SharedIdents {
        marks: new_ident()?,
        raw: new_ident()?,
    };
    let stored = match stored {
        // The log of one process ends here: one time is skipped, see `StoredRetention::end`.
        Some(alone) => StoredRetention {
            oldest: last_row(engine, alone.ident)?.0.max(alone.oldest) + 2,
            audience: settings.audience,
            ..alone
        },
        None => StoredRetention::new(new_ident()?, settings.bytes_max, settings.audience),
    };
    let now = engine.last_pos();
    if stored.oldest > first_time(now).max(1) {
        let why = "the log of changes has times that the cluster has not reached";
        return Err(MongoError::new(code::ILLEGAL_OPERATION, why));
    }
    let mut batch = WriteBatch::new();
    stored.put(&mut batch);
    shared.put(&mut batch);
    commit(
        engine,
        WriteUnit::new(&batch).durable().commit_through(Some(unit)),
    )?;
    drop_before(engine, &stored)?;
    Ok((shared, stored))
}
