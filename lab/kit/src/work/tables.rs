//! The state of the tables while clients change them: which row numbers exist, and what the sums
//! must be.
//!
//! Promises: constant memory, except one bit per row while a step stores rows at random.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use super::versions::Versions;
use crate::program::{ProgramState, Scale};
use crate::row::Key;
use crate::seed::mix;
use crate::share::Share;
use crate::workload::{DocumentKind, Ids, Index, Settings};

/// Tables with more rows than this do not track which rows were stored at random.
const BITS_MAX: u64 = 1 << 31;

/// One table. Row numbers start at 1.
#[derive(Debug, Default)]
pub struct TableState {
    /// The highest row number that was given to a client.
    given: AtomicU64,
    /// Rows up to this number have been deleted.
    deleted: AtomicU64,
    /// Rows up to this number are acknowledged.
    visible: AtomicU64,
    /// Acknowledged row numbers above the first gap.
    beyond: Mutex<BTreeSet<u64>>,
    bits: OnceLock<Vec<AtomicU64>>,
}

/// The part of [`TableState`] that a checkpoint keeps.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct TableCheckpoint {
    /// Rows up to this number are acknowledged.
    pub visible: u64,
    /// Rows up to this number have been deleted.
    pub deleted: u64,
    /// The highest row number given to a client; some rows up to it may not be stored.
    #[serde(default)]
    pub given: u64,
}

impl TableState {
    /// The highest number known to be stored.
    pub fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// The lowest number known to be stored.
    pub fn oldest(&self) -> u64 {
        self.deleted.load(Ordering::Acquire) + 1
    }

    /// Gives `count` row numbers to one client; returns the first.
    pub(super) fn give(&self, count: u64) -> u64 {
        self.given.fetch_add(count, Ordering::Relaxed) + 1
    }

    /// Notes that `count` rows from `first` on are stored.
    pub(super) fn acknowledge(&self, first: u64, count: u64) {
        let mut beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        let mut visible = self.visible.load(Ordering::Relaxed);
        beyond.extend(first..first + count);
        while beyond.remove(&(visible + 1)) {
            visible += 1;
        }
        self.visible.store(visible, Ordering::Release);
    }

    /// Takes up to `count` of the oldest row numbers, none above `limit`.
    pub(super) fn take_oldest(&self, count: u64, limit: u64) -> std::ops::Range<u64> {
        let take = |deleted: u64| (deleted < limit).then(|| (deleted + count).min(limit));
        match self
            .deleted
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
        {
            Ok(before) => before + 1..(before + count).min(limit) + 1,
            Err(at) => at + 1..at + 1,
        }
    }

    /// Marks a row stored at random and returns whether it is new; `None` if the table has too many
    /// rows to track.
    pub(super) fn mark(&self, number: u64, rows: u64) -> Option<bool> {
        if rows > BITS_MAX {
            return None;
        }
        let words = self
            .bits
            .get_or_init(|| (0..=rows / 64).map(|_| AtomicU64::new(0)).collect());
        let word = words.get(usize::try_from(number / 64).ok()?)?;
        let bit = 1 << (number % 64);
        Some(word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }
}

/// All tables of a run, and the facts about the workload that clients need.
#[derive(Debug)]
pub struct Dataset {
    /// Row generator.
    pub kind: DocumentKind,
    /// Who makes ids.
    pub ids: Ids,
    /// Secondary indexes that exist.
    pub indexes: Mutex<Vec<Index>>,
    /// The settings of the run.
    pub settings: Settings,
    /// The tables.
    pub tables: Vec<TableState>,
    /// Whether row numbers have gaps, so that a read may find nothing.
    pub sparse: AtomicBool,
    /// Rows inserted minus rows deleted in a running step that does both.
    pub(super) ahead: AtomicI64,
    /// Whether a step's deletes keep up with its inserts.
    pub(super) paired: AtomicBool,
    /// State that the clients of a program share.
    pub program: Option<Arc<ProgramState>>,
    /// The values that sampled rows must hold after updates.
    pub versions: Versions,
    /// The share of this generator, if several generators work on the same tables.
    lane: Option<Lane>,
}

/// One generator's share of the row numbers that inserts take.
#[derive(Clone, Debug)]
struct Lane {
    generator: u64,
    generators: u64,
    /// For each table: the rows that existed before the step, and the highest row number ever given
    /// to a client.
    before: Vec<(u64, u64)>,
}

impl Dataset {
    /// The dataset before the first step.
    pub fn new(kind: DocumentKind, ids: Ids, settings: Settings) -> Self {
        Self {
            kind,
            ids,
            indexes: Mutex::default(),
            tables: (0..settings.tables)
                .map(|_| TableState::default())
                .collect(),
            versions: Versions::of(settings.rows / u64::from(settings.tables.max(1))),
            settings,
            sparse: AtomicBool::new(false),
            ahead: AtomicI64::new(0),
            paired: AtomicBool::new(false),
            program: None,
            lane: None,
        }
    }

    /// The dataset as one of several generators uses it. Row numbers above those given out in
    /// `marks` are dealt to the generators in turn, so that no two generators insert the same row.
    /// Within its lane a generator counts rows without gaps; [`Self::number`] maps them to row
    /// numbers.
    #[must_use]
    pub fn for_generator(mut self, generators: Share, marks: &[TableCheckpoint]) -> Self {
        self.restore(marks);
        for (table, mark) in self.tables.iter().zip(marks) {
            table.given.store(mark.visible, Ordering::Release);
        }
        self.lane = Some(Lane {
            generator: generators.number.into(),
            generators: generators.of.max(1).into(),
            before: marks
                .iter()
                .map(|mark| (mark.visible, mark.given.max(mark.visible)))
                .collect(),
        });
        self
    }

    /// The row number of the row that this generator counts as `row`.
    pub(super) fn number(&self, table: usize, row: u64) -> u64 {
        let lane = self.lane.as_ref();
        match lane.and_then(|lane| Some((lane, lane.before.get(table)?))) {
            Some((lane, (there, given))) if row > *there => {
                given + (row - there - 1) * lane.generators + lane.generator + 1
            }
            _ => row,
        }
    }

    /// The last row, up to `row`, below which this generator's row numbers have no gaps.
    pub(super) fn last_gapless_row(&self, table: usize, row: u64) -> u64 {
        let lane = self.lane.as_ref();
        let there = lane.and_then(|lane| lane.before.get(table));
        there.map_or(row, |(there, _)| row.min(*there))
    }

    /// Merges the counts of several generators after a step; each counted in its own lane. All row
    /// numbers that were given out count as stored. If there are gaps, reads may find nothing.
    pub fn merge_lanes(&self, generators: &[Vec<TableCheckpoint>]) {
        let lanes = generators.len() as u64;
        for (number, table) in self.tables.iter().enumerate() {
            let (there, given) = (table.visible(), table.given.load(Ordering::Acquire));
            // Only one generator deletes the oldest rows.
            let deleted = generators.iter().filter_map(|marks| marks.get(number));
            if let Some(deleted) = deleted.map(|mark| mark.deleted).max() {
                table.deleted.fetch_max(deleted, Ordering::AcqRel);
            }
            let ends = generators.iter().zip(0_u64..).map(|(marks, generator)| {
                let end = marks.get(number).map_or(there, |mark| mark.given);
                let own = end.saturating_sub(there);
                let last = own
                    .checked_sub(1)
                    .map(|last| given + last * lanes + generator + 1);
                (own, last)
            });
            let ends: Vec<(u64, Option<u64>)> = ends.collect();
            let Some(last) = ends.iter().filter_map(|(_, last)| *last).max() else {
                continue;
            };
            let all: u64 = ends.iter().map(|(own, _)| own).sum();
            table.visible.store(last, Ordering::Release);
            table.given.store(last, Ordering::Release);
            table
                .beyond
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
            let is_whole = |marks: &Vec<TableCheckpoint>| {
                let mark = marks.get(number).copied().unwrap_or_default();
                mark.visible >= mark.given
            };
            if there + all < last || !generators.iter().all(is_whole) {
                self.sparse.store(true, Ordering::Release);
            }
        }
    }

    /// Adds the program that makes the records, if there is one; `seed` is the run's.
    #[must_use]
    pub fn with_program(mut self, seed: u64) -> Self {
        let scale = Scale {
            rows: self.settings.rows,
            tables: self.settings.tables,
            seed,
        };
        let program = self.kind.program();
        self.program = program.map(|program| Arc::new(ProgramState::new(program, scale)));
        self
    }

    /// The id of row `number`. Random ids are row numbers hashed by a bijection, so that no two are
    /// equal.
    pub fn key(&self, number: u64) -> Key {
        match self.ids {
            Ids::Random => Key::Number(mix(number).cast_signed()),
            Ids::Lab | Ids::Target => self.kind.key(number),
        }
    }

    /// Begins a step; `paired`: the step deletes as many rows as it inserts.
    pub fn begin_step(&self, paired: bool) {
        self.ahead.store(0, Ordering::Relaxed);
        self.paired.store(paired, Ordering::Relaxed);
    }

    /// Ends a step that stored `rows` in all tables together by quota.
    pub fn record_stored(&self, rows: u64) {
        let mut before = 0;
        for (number, table) in self.tables.iter().enumerate() {
            let end = self.end_of(rows, number);
            let visible = table.visible.fetch_add(end - before, Ordering::AcqRel) + end - before;
            table.given.store(visible, Ordering::Release);
            before = end;
        }
    }

    /// Ends a step that stored rows at random.
    pub fn stored_at_random(&self) {
        self.sparse.store(true, Ordering::Release);
        for (number, table) in self.tables.iter().enumerate() {
            let rows = self
                .settings
                .rows_of(u32::try_from(number).unwrap_or(u32::MAX));
            table.visible.store(rows, Ordering::Release);
            table.given.store(rows, Ordering::Release);
        }
    }

    /// Of `rows` in all, the number in the tables up to and including `table`.
    pub(super) fn end_of(&self, rows: u64, table: usize) -> u64 {
        let tables = self.tables.len().max(1) as u128;
        (u128::from(rows) * (table as u128 + 1) / tables) as u64
    }

    /// Notes that all rows were deleted.
    pub fn record_emptied(&self) {
        self.sparse.store(false, Ordering::Release);
        self.versions.clear();
        for table in &self.tables {
            let numbers = [&table.given, &table.visible, &table.deleted];
            let bits = table.bits.get().map(Vec::as_slice).unwrap_or_default();
            numbers
                .into_iter()
                .chain(bits)
                .for_each(|number| number.store(0, Ordering::Release));
        }
    }

    /// The state of each table for a checkpoint.
    pub fn table_checkpoints(&self) -> Vec<TableCheckpoint> {
        let mark = |table: &TableState| TableCheckpoint {
            visible: table.visible(),
            deleted: table.oldest() - 1,
            given: table.given.load(Ordering::Acquire),
        };
        self.tables.iter().map(mark).collect()
    }

    /// Restores the state from a checkpoint.
    pub fn restore(&self, table_checkpoints: &[TableCheckpoint]) {
        for (table, mark) in self.tables.iter().zip(table_checkpoints) {
            table.visible.store(mark.visible, Ordering::Release);
            let given = mark.given.max(mark.visible);
            table.given.store(given, Ordering::Release);
            table.deleted.store(mark.deleted, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_visible_when_all_before_it_are() {
        let table = TableState::default();
        let (first, second) = (table.give(3), table.give(2));
        assert_eq!((first, second), (1, 4));
        table.acknowledge(second, 2);
        assert_eq!(table.visible(), 0);
        table.acknowledge(first, 3);
        assert_eq!(table.visible(), 5);
        assert_eq!(
            (table.take_oldest(2, 5), table.take_oldest(9, 5)),
            (1..3, 3..6)
        );
        assert!(table.take_oldest(1, 5).is_empty());
        assert_eq!(table.oldest(), 6);
    }

    #[test]
    fn generators_assign_each_row_number_once() {
        let workload = crate::workload::Workload::load("ycsb-d").unwrap();
        let settings = workload.settings("smoke", Default::default()).unwrap();
        let kind = workload.data.documents;
        let new = || Dataset::new(kind, Ids::Lab, settings.clone());
        let all = new();
        all.restore(&[TableCheckpoint {
            visible: 10,
            deleted: 0,
            given: 12,
        }]);
        let before = all.table_checkpoints();
        assert_eq!((before[0].visible, before[0].given), (10, 12));
        let mut seen: BTreeSet<u64> = (1..=12).collect();
        let mut ends = Vec::new();
        for (generator, rows) in [(0, 5), (1, 0), (2, 3)] {
            let own = new().for_generator(Share::new(generator, 3), &before);
            for _ in 0..rows {
                let row = own.tables[0].give(1);
                own.tables[0].acknowledge(row, 1);
                let number = own.number(0, row);
                assert!(seen.insert(number), "{number} was given before");
            }
            assert_eq!(own.tables[0].visible(), 10 + rows);
            assert_eq!(own.number(0, 7), 7, "what was there stays what it was");
            assert_eq!(own.last_gapless_row(0, 12), 10);
            ends.push(own.table_checkpoints());
        }
        all.merge_lanes(&ends);
        let last = all.table_checkpoints()[0];
        assert_eq!(last.visible, *seen.iter().max().unwrap());
        assert_eq!((last.visible, last.given), (25, 25));
        assert!(all.sparse.load(Ordering::Acquire), "there are gaps");
        assert!(seen.insert(all.tables[0].give(1)));
    }

    #[test]
    fn rows_stored_twice_count_once() {
        let table = TableState::default();
        assert_eq!(
            [table.mark(64, 100), table.mark(64, 100), table.mark(1, 100)],
            [Some(true), Some(false), Some(true)]
        );
        assert_eq!(TableState::default().mark(1, 1 << 40), None);
    }
}
