//! Removes the oldest entries of a log that several processes write (ADR 0114). Promises: the time
//! before which entries may be removed is stored before the first of them is, and a state that
//! lacks a row has that time; two processes that change the settings conflict. Must not know: who
//! reads.

use super::commit_times::first_time_of_ms;
use super::member::MemberLog;
use super::moment::LogMoment;
use super::retention::{StoredRetention, damage_error, first_row};
use super::sums::LogSums;
use super::times::Log;
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::log as row;
use crate::format::meta;
use model::Result;
use storage::{CursorOpts, Engine, KeyRange, Reader, Table, WriteBatch};

/// Rows that one commit removes.
const REMOVED_MAX: usize = 512;
/// The logs are cut when they exceed their size by one part in this many.
const SLACK: u64 = 16;

impl Log {
    /// Raises the oldest time when the logs together are too large, and removes what is before it.
    pub(super) fn cut_shared(&self, member: &MemberLog) -> Result<bool> {
        let Some(moment) = self.look()? else {
            return Ok(false);
        };
        let stored = moment.stored;
        let size = moment.sums_from(stored.oldest)?.bytes;
        if size <= stored.bytes_max + stored.bytes_max / SLACK {
            return Ok(false);
        }
        let young = match stored.keep_ms {
            0 => u64::MAX,
            keep => {
                let now_ms = u64::try_from((self.now_ms)()).unwrap_or(0);
                first_time_of_ms(now_ms.saturating_sub(keep))
            }
        };
        let oldest = first_to_keep(&moment, young)?;
        if oldest <= stored.oldest {
            return Ok(false);
        }
        self.change_retention(member, &|stored| StoredRetention {
            oldest: oldest.max(stored.oldest),
            ..stored
        })?;
        for ident in moment.idents() {
            remove_before(member.engine.as_ref(), ident, oldest)?;
        }
        member.remove_empty_logs()?;
        Ok(true)
    }

    /// Changes the stored settings, also beside another process that does.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn change_retention(
        &self,
        member: &MemberLog,
        change: &dyn Fn(StoredRetention) -> StoredRetention,
    ) -> Result<()> {
        let engine = member.engine.as_ref();
        loop {
            let unit = engine.begin().map_err(error::storage)?;
            let new = change(StoredRetention::read(&unit)?.ok_or_else(damage_error)?);
            let mut batch = WriteBatch::new();
            new.put(&mut batch);
            let unit = WriteUnit::new(&batch).durable().commit_through(Some(unit));
            match commit(engine, unit) {
                Err(e) if error::is_conflict(&e) => {}
                done => {
                    done?;
                    self.retention.learn(new);
                    return Ok(());
                }
            }
        }
    }
}

impl MemberLog {
    /// Removes logs without rows from the list. A member that still publishes to one puts it back.
    fn remove_empty_logs(&self) -> Result<()> {
        let moment = self.take_moment()?;
        for (ident, sums) in &moment.logs {
            if *ident == self.ident || first_row(moment.reader(), *ident, 0)?.is_some() {
                continue;
            }
            let unit = self.engine.begin().map_err(error::storage)?;
            let mut same = false;
            unit.get_with(Table::Meta, &meta::member_log(*ident), &mut |value| {
                same = LogSums::of(value) == Some(*sums);
            })
            .map_err(error::storage)?;
            // Otherwise something was published meanwhile.
            if same {
                let mut batch = WriteBatch::new();
                batch.delete(Table::Meta, &meta::member_log(*ident));
                let unit = WriteUnit::new(&batch).commit_through(Some(unit));
                match commit(self.engine.as_ref(), unit) {
                    Err(e) if error::is_conflict(&e) => {}
                    done => _ = done?,
                }
            }
        }
        Ok(())
    }
}

/// The first time whose entries stay: those from there on have the size of the log. Found by
/// halving the range of times.
fn first_to_keep(moment: &LogMoment, young: u64) -> Result<u64> {
    let (mut low, mut high) = (moment.stored.oldest, moment.horizon.min(young));
    while low < high {
        let middle = low + (high - low) / 2;
        match moment.sums_from(middle)?.bytes <= moment.stored.bytes_max {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(low)
}

fn remove_before(engine: &dyn Engine, ident: u32, oldest: u64) -> Result<()> {
    let (mut lower, upper) = (row::key(ident, 0).to_vec(), row::key(ident, oldest));
    let mut more = true;
    while more {
        let range = KeyRange::new(&lower, &upper);
        let opts = CursorOpts {
            keys_only: true,
            ..CursorOpts::default()
        };
        let mut cursor = engine
            .cursor(Table::Log, range, opts)
            .map_err(error::storage)?;
        let mut batch = WriteBatch::new();
        let mut last = None;
        let see = &mut |key: &[u8], _: &[u8]| {
            batch.delete(Table::Log, key);
            last = Some([key, &[0]].concat());
            true
        };
        more = cursor.visit(REMOVED_MAX, see).map_err(error::storage)?;
        match last {
            Some(next) => lower = next,
            None => return Ok(()),
        }
        commit(engine, WriteUnit::new(&batch))?;
    }
    Ok(())
}
