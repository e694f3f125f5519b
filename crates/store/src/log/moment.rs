//! A state of a log that several processes write, as its readers take it (ADR 0114). Promises: the
//! rows up to the horizon are all there, and no row with such a time is added later. Must not know:
//! who reads, what rows contain.

use super::commit_times::end_time;
use super::member::MemberLog;
use super::retention::{StoredRetention, damage_error, first_row};
use super::sums::LogSums;
use crate::error;
use crate::format::meta;
use crate::format::raw_log::{Mark, Place};
use model::Result;
use std::sync::Arc;
use storage::{CommitPos, CursorOpts, KeyRange, Reader, Snapshot, Table};

/// Rows that are read at a time.
const STEP_ROWS: usize = 256;

/// A state of the log.
pub(crate) struct LogMoment {
    pub(super) snapshot: Arc<dyn Snapshot>,
    pub(super) stored: StoredRetention,
    pub(super) logs: Vec<(u32, LogSums)>,
    pub(super) marks: Vec<(Place, Mark)>,
    /// Every entry up to this time is in the state.
    pub(super) horizon: u64,
}

impl MemberLog {
    /// Takes a state with everything that was committed before the call.
    ///
    /// # Cost
    /// With an engine on other machines, a time and three requests.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn take_moment(&self) -> Result<LogMoment> {
        let moment = self.follower.moment().map_err(error::storage)?;
        let snapshot = moment.snapshot;
        let stored = StoredRetention::read(snapshot.as_ref())?.ok_or_else(damage_error)?;
        let (mut logs, mut marks) = (Vec::new(), Vec::new());
        let range = KeyRange::new(meta::MEMBER_LOGS.0, meta::MEMBER_LOGS.1);
        each_row(snapshot.as_ref(), Table::Meta, range, &mut |key, value| {
            let log = meta::member_log_of(key).zip(LogSums::of(value));
            logs.extend(log);
            log.is_some()
        })?;
        let ident = self.shared.marks;
        let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        let range = KeyRange::new(&lower, &upper);
        each_row(snapshot.as_ref(), Table::Log, range, &mut |key, value| {
            let mark = Place::of(key).zip(Mark::read(value));
            marks.extend(mark);
            mark.is_some()
        })?;
        let least = marks.iter().map(|(_, mark)| CommitPos(mark.after)).min();
        Ok(LogMoment {
            horizon: end_time(least.unwrap_or(snapshot.pos())),
            snapshot,
            stored,
            logs,
            marks,
        })
    }
}

impl LogMoment {
    pub(crate) fn reader(&self) -> &dyn Reader {
        self.snapshot.as_ref()
    }

    /// Idents of all logs.
    pub(crate) fn idents(&self) -> impl Iterator<Item = u32> + '_ {
        self.logs.iter().map(|(ident, _)| *ident)
    }

    pub(crate) fn horizon(&self) -> u64 {
        self.horizon
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.stored.oldest
    }

    /// Whether there is a row that can be read, from a time on.
    pub(super) fn has_row_from(&self, time: u64) -> Result<bool> {
        for ident in self.idents() {
            let row = first_row(self.reader(), ident, time)?;
            if row.is_some_and(|(last, ..)| last <= self.horizon) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Numbers of the entries and bytes of the rows from a time on.
    pub(super) fn sums_from(&self, time: u64) -> Result<LogSums> {
        let mut all = LogSums::default();
        for (ident, sums) in &self.logs {
            if let Some((_, late, entries, bytes)) = first_row(self.reader(), *ident, time)? {
                let before = late.entries_total.saturating_sub(u64::from(entries));
                all.entries += sums.entries.saturating_sub(before);
                let before = late.bytes_total.saturating_sub(bytes);
                all.bytes += sums.bytes.saturating_sub(before);
            }
        }
        Ok(all)
    }
}

/// Calls `f` with each row of a range; false means that the row is damaged.
fn each_row(
    reader: &dyn Reader,
    table: Table,
    range: KeyRange<'_>,
    f: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let mut cursor = reader
        .cursor(table, range, CursorOpts::default())
        .map_err(error::storage)?;
    let (mut more, mut sound) = (true, true);
    while more && sound {
        let see = &mut |key: &[u8], value: &[u8]| {
            sound = f(key, value);
            sound
        };
        more = cursor.visit(STEP_ROWS, see).map_err(error::storage)?;
    }
    match sound {
        true => Ok(()),
        false => Err(damage_error()),
    }
}
