//! Calls that store or delete rows, and the row numbers that they take.

use std::sync::atomic::Ordering;

use rand::Rng;

use super::client::{BatchCheckpoint, ClientAction, ClientWork};
use crate::row::Row;
use crate::target::Call;
use crate::workload::{Ids, Operation};

/// The number of batches by which inserts may be ahead of the deletes paired with them.
const INSERT_LEAD_BATCHES: i64 = 8;

impl ClientWork {
    pub(super) fn row(&mut self, table: usize, number: u64) -> Row {
        let table_rows = self
            .dataset
            .settings
            .rows_of(u32::try_from(table).unwrap_or(u32::MAX));
        let (kind, payload) = (self.dataset.kind, self.dataset.settings.payload);
        let now = jiff::Timestamp::now().as_millisecond();
        let mut fields = kind.draw(&mut self.random, number, table_rows.max(1), payload, now);
        let values = fields.iter_mut().map(|(name, value)| (*name, value));
        self.write_checksums(number, values);
        let id = (self.dataset.ids != Ids::Target).then(|| self.dataset.key(number));
        let row = Row { id, fields };
        self.pending.bytes += row.logical_bytes();
        row
    }

    pub(super) fn insert(&mut self) -> ClientAction {
        let paired = self.dataset.paired.load(Ordering::Relaxed);
        let ahead = self.dataset.ahead.load(Ordering::Relaxed);
        if paired && ahead > INSERT_LEAD_BATCHES * i64::try_from(self.batch).unwrap_or(1) {
            return ClientAction::Wait;
        }
        let (table, numbers) = if self.rows > 0 {
            self.before = Some(BatchCheckpoint {
                random: self.random.clone(),
                next: self.next,
            });
            let Some((table, first, count)) = self.take_share() else {
                return ClientAction::End;
            };
            (table, (first..first + count).collect::<Vec<u64>>())
        } else {
            let table = self.draw_table();
            let count = if self.role.operation == Operation::Mix {
                1
            } else {
                self.batch
            };
            let Some(state) = self.dataset.tables.get(table) else {
                return ClientAction::End;
            };
            let first = state.give(count);
            self.pending.given = Some((table, first, count));
            let rows = first..first + count;
            let numbers = rows.map(|row| self.dataset.number(table, row));
            (table, numbers.collect())
        };
        let mut rows = Vec::with_capacity(numbers.len());
        for number in numbers {
            let row = self.row(table, number);
            self.pending.ks.extend(row.k());
            rows.push(row);
        }
        ClientAction::Call(Operation::Insert, Call::Insert { table, rows })
    }

    /// The next batch of this client's share: table, first number, count. A batch never spans two
    /// tables.
    pub(super) fn take_share(&mut self) -> Option<(usize, u64, u64)> {
        if self.next >= self.end {
            return None;
        }
        let tables = self.dataset.tables.len();
        let table = (0..tables).find(|table| self.dataset.end_of(self.rows, *table) > self.next)?;
        let begin = if table == 0 {
            0
        } else {
            self.dataset.end_of(self.rows, table - 1)
        };
        let end = self.end.min(self.dataset.end_of(self.rows, table));
        let count = self.batch.min(end - self.next);
        let first = self.starts.get(table)? + (self.next - begin) + 1;
        self.next += count;
        Some((table, first, count))
    }

    pub(super) fn delete_oldest(&mut self) -> ClientAction {
        let paired = self.dataset.paired.load(Ordering::Relaxed);
        let batch = i64::try_from(self.batch).unwrap_or(i64::MAX);
        if paired && self.dataset.ahead.load(Ordering::Relaxed) < batch {
            return ClientAction::Wait;
        }
        let table = self.draw_table();
        let limit = self.delete_limits.get(table).copied().unwrap_or(0);
        let Some(state) = self.dataset.tables.get(table) else {
            return ClientAction::End;
        };
        // One row always stays, so that readers have something to draw.
        let numbers = state.take_oldest(self.batch, limit.saturating_sub(1));
        if numbers.is_empty() {
            // No rows are left to delete. Inserters without a quota must then no longer wait for
            // the deletes.
            self.dataset.paired.store(false, Ordering::Relaxed);
            return ClientAction::End;
        }
        let versions = &self.dataset.versions;
        let ids = numbers.map(|number| {
            versions.forget(table, number);
            self.dataset.key(number)
        });
        let ids = ids.collect();
        ClientAction::Call(Operation::DeleteOldest, Call::Delete { table, ids })
    }

    pub(super) fn delete_insert(&mut self) -> Call {
        if let Some((table, number)) = self.to_reinsert.take() {
            let row = self.row(table, number);
            self.pending.ks.extend(row.k());
            self.pending.is_reinsert = true;
            return Call::Insert {
                table,
                rows: vec![row],
            };
        }
        let table = self.draw_table();
        let number = self.draw_own(table);
        self.dataset.versions.forget(table, number);
        self.to_reinsert = Some((table, number));
        Call::Delete {
            table,
            ids: vec![self.dataset.key(number)],
        }
    }

    pub(super) fn fill_random(&mut self) -> Call {
        let table = self.draw_table();
        let rows = self
            .dataset
            .settings
            .rows_of(u32::try_from(table).unwrap_or(u32::MAX))
            .max(1);
        let number = self.random.random_range(1..=rows);
        let state = self.dataset.tables.get(table);
        self.pending.is_new = state
            .and_then(|state| state.mark(number, rows))
            .unwrap_or(false);
        self.pending.expected = 0;
        let row = self.row(table, number);
        self.writes(table, number, &row.fields);
        Call::Put { table, row }
    }
}
