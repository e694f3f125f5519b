//! The batches applied to an engine, in the order of their commits, and the rows after each number
//! of batches: after a crash a directory must contain exactly one of these states.

use crate::recorder;
use parking_lot::Mutex;
use proof::Event;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use storage::observe::{Call, Observer};
use storage::{
    BatchOp, Caps, CommitPos, CursorOpts, Durability, Engine, KeyRange, Result, StorageError,
    Table, WriteBatch, counter_add, counter_decode, counter_encode,
};

/// A range of keys that was dropped: its rows may or may not be there.
#[derive(Clone, Debug)]
struct Range {
    table: Table,
    lower: Vec<u8>,
    upper: Vec<u8>,
}

/// Collects applied batches, and notes in the recording which are durable.
#[derive(Default)]
pub(crate) struct HistoryRecorder {
    batches: Mutex<Vec<(u64, WriteBatch)>>,
    /// Batches whose commit failed, each with the number of batches before it. They may have been
    /// applied.
    failed: Mutex<Vec<(usize, WriteBatch)>>,
    given_up: Mutex<Vec<Range>>,
}

impl Observer for HistoryRecorder {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> Result<()> {
        if let Call::Apply { .. } = call {
            recorder::note(Event::Began);
        }
        Ok(())
    }

    fn after_call(
        &self,
        call: &Call<'_>,
        outcome: std::result::Result<CommitPos, &StorageError>,
    ) -> Result<()> {
        match (call, outcome) {
            (Call::Apply { batch, durability }, Ok(pos)) => {
                self.batches.lock().push((pos.0, (*batch).clone()));
                if *durability == Durability::Journaled {
                    recorder::note(Event::Durable(pos.0));
                }
            }
            // A failed batch may have been applied without being durable, or not at all.
            (Call::Apply { batch, .. }, Err(_)) => {
                let before = self.batches.lock().len();
                self.failed.lock().push((before, (*batch).clone()));
            }
            (Call::WaitDurable { pos }, Ok(_)) => recorder::note(Event::Durable(pos.0)),
            (Call::DropRange { table, range }, _) => self.given_up.lock().push(Range {
                table: *table,
                lower: range.lower.to_vec(),
                upper: range.upper.to_vec(),
            }),
            _ => {}
        }
        Ok(())
    }
}

/// The states after each batch.
pub(crate) struct History {
    /// Position of each batch, in order.
    positions: Vec<u64>,
    /// For each digest of all rows, the numbers of batches after which the rows had it.
    states: HashMap<u64, Vec<usize>>,
    given_up: Vec<Range>,
}

impl History {
    pub(crate) fn of(historian: &HistoryRecorder) -> History {
        let mut batches = std::mem::take(&mut *historian.batches.lock());
        batches.sort_by_key(|(pos, _)| *pos);
        let mut history = History {
            positions: batches.iter().map(|(pos, _)| *pos).collect(),
            states: HashMap::new(),
            given_up: historian.given_up.lock().clone(),
        };
        let mut rows = Rows::default();
        history.note(&rows, 0);
        for (n, (_, batch)) in batches.iter().enumerate() {
            rows.apply(batch);
            history.note(&rows, n + 1);
        }
        history.note_failed(&historian.failed.lock(), &batches);
        history
    }

    /// Also notes the states in which some of the failed batches were applied: up to three in a
    /// row.
    fn note_failed(&mut self, failed: &[(usize, WriteBatch)], batches: &[(u64, WriteBatch)]) {
        for first in 0..failed.len() {
            for end in first + 1..=failed.len().min(first + 3) {
                let there = failed.get(first..end).unwrap_or_default();
                let mut rows = Rows::default();
                for n in 0..=batches.len() {
                    for (_, batch) in there.iter().filter(|(before, _)| *before == n) {
                        rows.apply(batch);
                        self.note(&rows, n);
                    }
                    if let Some((_, batch)) = batches.get(n) {
                        rows.apply(batch);
                        self.note(&rows, n + 1);
                    }
                }
            }
        }
    }

    fn note(&mut self, rows: &Rows, n: usize) {
        let digest = rows
            .0
            .iter()
            .flat_map(|(table, rows)| rows.iter().map(move |(k, v)| (*table, k, v)))
            .filter(|(table, key, _)| self.counts(*table, key))
            .fold(0u64, |sum, (t, k, v)| sum.wrapping_add(digest(t, k, v)));
        self.states.entry(digest).or_default().push(n);
    }

    fn counts(&self, table: Table, key: &[u8]) -> bool {
        let holds = |r: &Range| r.table == table && KeyRange::new(&r.lower, &r.upper).contains(key);
        table != Table::Tmp && !self.given_up.iter().any(holds)
    }

    /// Number of batches reported as durable.
    pub(crate) fn durable(&self, events: &[Event]) -> usize {
        let last = events.iter().rev().find_map(|e| match e {
            Event::Durable(pos) => Some(*pos),
            _ => None,
        });
        last.map_or(0, |pos| self.count_up_to(pos))
    }

    /// Number of batches.
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(crate) fn count_up_to(&self, pos: u64) -> usize {
        self.positions.partition_point(|p| *p <= pos)
    }

    /// The numbers of batches after which the rows were those of the engine now; empty if they
    /// never were.
    pub(crate) fn find(&self, engine: &dyn Engine) -> Result<&[usize]> {
        let mut sum = 0u64;
        for table in Table::ALL.into_iter().filter(|t| *t != Table::Tmp) {
            let mut cursor = engine.cursor(table, KeyRange::ALL, CursorOpts::default())?;
            while cursor.visit(1024, &mut |key, value| {
                if self.counts(table, key) {
                    sum = sum.wrapping_add(digest(table, key, value));
                }
                true
            })? {}
        }
        Ok(self.states.get(&sum).map_or(&[], Vec::as_slice))
    }
}

fn digest(table: Table, key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (table.index(), key, value).hash(&mut hasher);
    hasher.finish()
}

/// Rows by table and key, as a model.
#[derive(Default)]
struct Rows(BTreeMap<Table, BTreeMap<Vec<u8>, Vec<u8>>>);

impl Rows {
    fn apply(&mut self, batch: &WriteBatch) {
        for op in batch.iter() {
            match op {
                BatchOp::Put { table, key, value } => {
                    self.of(table).insert(key.to_vec(), value.to_vec());
                }
                BatchOp::Delete { table, key } => {
                    self.of(table).remove(key);
                }
                BatchOp::DeleteRange {
                    table,
                    lower,
                    upper,
                } => {
                    let range = KeyRange::new(lower, upper);
                    self.of(table).retain(|key, _| !range.contains(key));
                }
                BatchOp::Add { table, key, delta } => {
                    let row = self.of(table).entry(key.to_vec()).or_default();
                    let old = match row.is_empty() {
                        true => [0, 0],
                        false => counter_decode(row),
                    };
                    *row = counter_encode(counter_add(old, delta)).to_vec();
                }
            }
        }
    }

    fn of(&mut self, table: Table) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        self.0.entry(table).or_default()
    }
}
