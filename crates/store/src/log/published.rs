//! Publishes rows: gives them the time of their commit (ADR 0114). Promises: a row is published
//! once, in the commit that removes its mark. Must not know: readers.

use super::commit_times::{first_entry_time, wall_ms};
use super::member::{MemberLog, put_sums};
use super::moment::LogMoment;
use super::places::CommittedPlace;
use super::retention::damage_error;
use super::sums::LogSums;
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::log::{self as row, LogTotals};
use crate::format::meta;
use crate::format::raw_log::{Mark, Place};
use model::Result;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use storage::{CommitPos, Reader, Table, WriteBatch};

/// Commits of a dead member that are published together.
const LEFT_MAX: usize = 16;

/// A commit whose rows have no time yet.
pub(super) struct RawCommit {
    /// What its mark says, when its member may use the place again meanwhile: no two marks of a
    /// place are the same.
    pub(super) mark: Option<Mark>,
    pub(super) number: u32,
    pub(super) pos: CommitPos,
    pub(super) rows: u16,
}

impl MemberLog {
    /// Publishes commits of this member that have ended.
    ///
    /// # Output
    /// The sums of its log, if something was to be published.
    ///
    /// # Errors
    /// Engine failures; the rows are published by a later call.
    pub(super) fn publish(&self) -> Result<Option<LogSums>> {
        let _one = self.publishing.lock();
        let some = self.places.take_committed();
        if some.is_empty() {
            return Ok(None);
        }
        let of = |place: &CommittedPlace| RawCommit {
            mark: None,
            number: place.number,
            pos: place.pos,
            rows: place.rows,
        };
        let commits: Vec<RawCommit> = some.iter().map(of).collect();
        match self.publish_of(self.ident, &commits) {
            Ok(sums) => {
                self.places.release(&some);
                Ok(Some(sums))
            }
            Err(e) => {
                self.places.put_back(some);
                Err(e)
            }
        }
    }

    /// Publishes what members have left that have died: commits of the members with these idents,
    /// in the order of their positions, whose marks are older than this position.
    ///
    /// # Output
    /// Whether there were any.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn publish_left(
        &self,
        moment: &LogMoment,
        of: &FxHashSet<u32>,
        before: CommitPos,
    ) -> Result<bool> {
        let mut left: BTreeMap<u32, Vec<RawCommit>> = BTreeMap::new();
        for (place, mark) in &moment.marks {
            if mark.after >= before.0 || !of.contains(&place.member) {
                continue;
            }
            let key = place.key(self.shared.marks, 0);
            let written = self
                .engine
                .written_at(Table::Log, &key, CommitPos(mark.after));
            // Otherwise somebody has published it.
            if let Some(pos) = written.map_err(error::storage)? {
                left.entry(place.member).or_default().push(RawCommit {
                    mark: Some(*mark),
                    number: place.number,
                    pos,
                    rows: mark.rows,
                });
            }
        }
        let any = !left.is_empty();
        for (member, mut commits) in left {
            commits.sort_unstable_by_key(|commit| commit.pos);
            for some in commits.chunks(LEFT_MAX) {
                match self.publish_of(member, some) {
                    // Another process publishes them, too.
                    Err(e) if error::is_conflict(&e) => break,
                    done => _ = done?,
                }
            }
        }
        Ok(any)
    }

    /// Publishes commits of a member, as far as nobody else has done it. They are in the order of
    /// their positions.
    ///
    /// # Output
    /// The sums of the member's log.
    ///
    /// # Errors
    /// 112 when another process publishes them, too; other engine failures.
    pub(super) fn publish_of(&self, member: u32, commits: &[RawCommit]) -> Result<LogSums> {
        let unit = self.engine.begin().map_err(error::storage)?;
        let mut sums = Some(LogSums::default());
        unit.get_with(Table::Meta, &meta::member_log(member), &mut |value| {
            sums = LogSums::of(value);
        })
        .map_err(error::storage)?;
        let mut sums = sums.ok_or_else(damage_error)?;
        let keys: Vec<Vec<[u8; 12]>> = commits.iter().map(|c| self.keys_of(member, c)).collect();
        let asked: Vec<&[u8]> = keys.iter().flatten().map(<[u8; 12]>::as_slice).collect();
        let mut values = vec![None; asked.len()];
        unit.multi_get(Table::Log, &asked, &mut |n, value| {
            if let Some(place) = values.get_mut(n) {
                *place = value.map(<[u8]>::to_vec);
            }
        })
        .map_err(error::storage)?;
        let (mut batch, mut at) = (WriteBatch::new(), 0);
        for (commit, keys) in commits.iter().zip(&keys) {
            let found = values.get_mut(at..at + keys.len()).unwrap_or_default();
            at += keys.len();
            let Some((Some(mark), rows)) = found.split_first_mut() else {
                // Somebody else has published it.
                continue;
            };
            if commit
                .mark
                .is_some_and(|seen| Mark::read(mark) != Some(seen))
            {
                // So has somebody, and this is a later commit.
                continue;
            }
            put_rows(&mut batch, member, commit.pos, rows, &mut sums)?;
            keys.iter().for_each(|key| batch.delete(Table::Log, key));
        }
        if batch.is_empty() {
            return Ok(sums);
        }
        put_sums(&mut batch, member, sums);
        let unit = WriteUnit::new(&batch).commit_through(Some(unit));
        commit(self.engine.as_ref(), unit).map(|_| sums)
    }

    /// The keys of the mark and of the raw rows.
    fn keys_of(&self, member: u32, commit: &RawCommit) -> Vec<[u8; 12]> {
        let place = Place {
            member,
            number: commit.number,
        };
        let rows = (0..commit.rows).map(|n| place.key(self.shared.raw, n));
        std::iter::once(place.key(self.shared.marks, 0))
            .chain(rows)
            .collect()
    }
}

/// Puts the rows of a commit under their times.
fn put_rows(
    batch: &mut WriteBatch,
    ident: u32,
    pos: CommitPos,
    rows: &mut [Option<Vec<u8>>],
    sums: &mut LogSums,
) -> Result<()> {
    let mut entries = 0;
    for value in rows.iter() {
        let head = value.as_deref().and_then(row::read);
        entries += head.ok_or_else(damage_error)?.0.entries;
    }
    let mut last = first_entry_time(pos, entries) - 1;
    for value in rows {
        let value = value.as_mut().ok_or_else(damage_error)?;
        let (head, _) = row::read(value).ok_or_else(damage_error)?;
        last += u64::from(head.entries);
        sums.entries += u64::from(head.entries);
        sums.bytes += value.len() as u64;
        let late = LogTotals {
            entries_total: sums.entries,
            bytes_total: sums.bytes,
            wall_ms: wall_ms(pos),
        };
        if let Some(place) = value.get_mut(row::LATE_AT..row::HEAD_BYTES) {
            place.copy_from_slice(&late.encode());
        }
        batch.put(Table::Log, &row::key(ident, last), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::audience::Audience;
    use super::super::settings::LogSettings;
    use super::*;
    use std::sync::Arc;
    use storage::{Durability, Follower, MemoryEngine};

    fn member() -> MemberLog {
        let engine: Arc<dyn Follower> = Arc::new(MemoryEngine::new_checked());
        let settings = LogSettings {
            bytes_max: 1 << 20,
            uuid: [0; 16],
            audience: Audience::Everybody,
            now_ms: Arc::new(|| 5_000),
        };
        let mut ident = 6;
        let next = &mut || {
            ident += 1;
            Ok(ident)
        };
        MemberLog::join(&engine, next, &settings).unwrap().0
    }

    /// Commits a raw row.
    fn write(log: &MemberLog) -> CommitPos {
        let mut batch = WriteBatch::new();
        let value = row::head(row::DOCUMENTS, 1);
        let at = batch.put_parts(
            Table::Log,
            &row::key(log.raw_ident(), 0),
            std::iter::once(&value[..]),
        );
        let place = log.place(&mut batch, &[(at, 1)]).unwrap();
        assert_eq!(place.number(), 0);
        let unit = log.engine.begin().unwrap();
        let pos = unit.commit(&batch, Durability::Buffered).unwrap();
        place.note_committed(pos, 1, value.len() as u64);
        pos
    }

    #[test]
    fn a_place_that_is_used_again_is_not_taken_for_an_earlier_commit() {
        let log = member();
        let early = write(&log);
        let (_, mark) = log.take_moment().unwrap().marks[0];
        log.publish().unwrap();
        let late = write(&log);
        // Somebody else knows the position of the first commit only now.
        let commit = RawCommit {
            mark: Some(mark),
            number: 0,
            pos: early,
            rows: 1,
        };
        let sums = log.publish_of(log.ident, &[commit]).unwrap();
        assert_eq!(sums.entries, 1);
        assert_eq!(log.publish().unwrap().unwrap().entries, 2);
        for pos in [early, late] {
            let key = row::key(log.ident, first_entry_time(pos, 1));
            let mut found = Vec::new();
            assert!(log.engine.get(Table::Log, &key, &mut found).unwrap());
        }
    }
}
