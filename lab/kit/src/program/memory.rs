//! Records in memory for tests of programs, for one client at a time, with faults on request.

use std::collections::BTreeMap;

use crate::records::{
    Equals, Field, Mode, Outcome, Query, Record, RecordTable, Records, RecordsError, Set,
};

/// A fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    /// No fault.
    #[default]
    None,
    /// Every N-th change is acknowledged but not done.
    LoseChange(u64),
    /// Every N-th commit asks for another attempt.
    Conflict(u64),
}

/// The tables.
#[derive(Debug, Default)]
pub(super) struct Memory {
    tables: BTreeMap<&'static str, Vec<Record>>,
    before: Option<BTreeMap<&'static str, Vec<Record>>>,
    embeds: bool,
    pub(super) fault: Fault,
    changes: u64,
    transactions: u64,
}

fn fits(record: &Record, equals: Equals<'_>) -> bool {
    equals.iter().all(|(name, value)| {
        let found = record.0.iter().find(|(column, _)| column == name);
        found.map(|(_, value)| value) == Some(value)
    })
}

impl Memory {
    pub(super) fn new(embeds: bool) -> Self {
        Self {
            embeds,
            ..Self::default()
        }
    }

    pub(super) fn count(&self, table: &RecordTable) -> usize {
        self.tables.get(table.name).map_or(0, Vec::len)
    }

    fn is_lost(&mut self) -> bool {
        self.changes += 1;
        matches!(self.fault, Fault::LoseChange(every) if self.changes.is_multiple_of(every))
    }
}

impl Records for Memory {
    fn embeds(&self) -> bool {
        self.embeds
    }

    async fn begin(&mut self, _: Mode) -> Outcome<()> {
        self.before = Some(self.tables.clone());
        Ok(())
    }

    async fn commit(&mut self) -> Outcome<()> {
        self.transactions += 1;
        match self.fault {
            Fault::Conflict(every) if self.transactions.is_multiple_of(every) => {
                Err(RecordsError::Again("conflict".to_owned()))
            }
            _ => {
                self.before = None;
                Ok(())
            }
        }
    }

    async fn abort(&mut self) {
        let before = self.before.take();
        self.tables = before.unwrap_or_default();
    }

    async fn scan(
        &mut self,
        query: Query<'_>,
        see: &mut (dyn FnMut(Record) + Send),
    ) -> Outcome<()> {
        let rows = self.tables.get(query.table.name);
        let mut found: Vec<Record> = rows
            .into_iter()
            .flatten()
            .filter(|record| fits(record, query.equals))
            .filter(|record| {
                query
                    .between
                    .is_none_or(|(column, from, to)| (from..=to).contains(&record.int(column)))
            })
            .cloned()
            .collect();
        if let Some((column, is_descending)) = query.order {
            found.sort_by_key(|record| (record.int(column), record.text(column).to_owned()));
            if is_descending {
                found.reverse();
            }
        }
        if query.limit > 0 {
            found.truncate(query.limit as usize);
        }
        found.into_iter().for_each(see);
        Ok(())
    }

    async fn insert(&mut self, table: &'static RecordTable, records: &[Record]) -> Outcome<()> {
        let rows = self.tables.entry(table.name).or_default();
        let small = records.len() < 10;
        for record in records {
            for (name, _) in table.columns {
                let is_list = table.columns.iter().any(|(column, of_type)| {
                    column == name && matches!(of_type, crate::records::Column::List(_))
                });
                let is_there = record.0.iter().any(|(column, _)| column == name);
                if !is_there && !is_list {
                    let message = format!("{} lacks {name}", table.name);
                    return Err(RecordsError::failure("missing column", message));
                }
            }
            let key: Vec<(&'static str, Field)> = record
                .0
                .iter()
                .filter(|(name, _)| table.key.contains(name))
                .cloned()
                .collect();
            if small && rows.iter().any(|other| fits(other, &key)) {
                let message = format!("{} has {key:?} already", table.name);
                return Err(RecordsError::failure("duplicate", message));
            }
            rows.push(record.clone());
        }
        Ok(())
    }

    async fn update(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
        changes: &[(&'static str, Set)],
    ) -> Outcome<u64> {
        let is_lost = self.is_lost();
        let rows = self.tables.entry(table.name).or_default();
        let Some(record) = rows.iter_mut().find(|record| fits(record, key)) else {
            return Ok(0);
        };
        for (column, change) in changes.iter().filter(|_| !is_lost) {
            let Some((_, value)) = record.0.iter_mut().find(|(name, _)| name == column) else {
                let message = format!("{} has no {column}", table.name);
                return Err(RecordsError::failure("no such column", message));
            };
            match (change, &value) {
                (Set::To(new), _) => *value = new.clone(),
                (Set::Add(number), Field::Int(old)) => *value = Field::Int(old + number),
                (Set::Add(_), other) => {
                    let message = format!("{column} is {other:?}");
                    return Err(RecordsError::failure("not a number", message));
                }
            }
        }
        Ok(1)
    }

    async fn delete(&mut self, table: &'static RecordTable, key: Equals<'_>) -> Outcome<u64> {
        let rows = self.tables.entry(table.name).or_default();
        let at = rows.iter().position(|record| fits(record, key));
        at.map(|at| rows.remove(at));
        Ok(u64::from(at.is_some()))
    }

    async fn count_and_sum(
        &mut self,
        table: &'static RecordTable,
        equals: Equals<'_>,
        column: &'static str,
    ) -> Outcome<(i64, i64)> {
        let rows = self.tables.get(table.name).into_iter().flatten();
        let mut out = (0, 0);
        for record in rows.filter(|record| fits(record, equals)) {
            out.0 += 1;
            out.1 += record.int(column);
        }
        Ok(out)
    }
}
