//! Records and transactions of programs on a MySQL server.
//!
//! Promises: values are bound; deadlocks and lock wait timeouts ask for another attempt. Must not
//! know: programs.

use lab_kit::records::{
    Column, Equals, Field, Mode, Outcome, Query, Record, RecordTable, Records, RecordsError, Set,
};
use mysql::prelude::Queryable;
use mysql::{Params, Value};

use crate::connection::one_line;
use crate::session::SqlSession;
use crate::statements;

/// Errors that ask for another attempt: a lock wait timeout, a deadlock, a row that changed since
/// the snapshot was taken.
const TRY_AGAIN: [u16; 3] = [1205, 1213, 1020];

fn classify_error(error: mysql::Error) -> RecordsError {
    match &error {
        mysql::Error::MySqlError(inner) if TRY_AGAIN.contains(&inner.code) => {
            RecordsError::Again(one_line(&error))
        }
        mysql::Error::MySqlError(inner) => RecordsError::failure(
            &format!("{} {}", inner.code, inner.state),
            inner.message.clone(),
        ),
        _ => RecordsError::Lost(one_line(&error)),
    }
}

fn bound(field: &Field) -> Value {
    match field {
        Field::Int(number) => Value::Int(*number),
        Field::Text(text) => Value::Bytes(text.clone().into_bytes()),
        // Only targets that accept lists get them.
        Field::Null | Field::List(_) => Value::NULL,
    }
}

fn read(value: Value) -> Field {
    match value {
        Value::Int(number) => Field::Int(number),
        Value::UInt(number) => Field::Int(i64::try_from(number).unwrap_or(i64::MAX)),
        Value::Bytes(bytes) => Field::Text(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Field::Null,
    }
}

fn params(values: Vec<Value>) -> Params {
    if values.is_empty() {
        Params::Empty
    } else {
        Params::Positional(values)
    }
}

fn values(equals: Equals<'_>) -> Vec<Value> {
    equals.iter().map(|(_, value)| bound(value)).collect()
}

impl SqlSession {
    fn execute_change(&mut self, statement: String, values: Vec<Value>) -> Outcome<u64> {
        let done = self.conn.exec_drop(statement, params(values));
        done.map_err(classify_error)?;
        Ok(self.conn.affected_rows())
    }
}

impl Records for SqlSession {
    fn embeds(&self) -> bool {
        false
    }

    async fn begin(&mut self, mode: Mode) -> Outcome<()> {
        let statement = match mode {
            Mode::Write => "START TRANSACTION",
            Mode::Snapshot => "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        };
        self.conn.query_drop(statement).map_err(classify_error)
    }

    async fn commit(&mut self) -> Outcome<()> {
        self.conn.query_drop("COMMIT").map_err(classify_error)
    }

    async fn abort(&mut self) {
        let _ = self.conn.query_drop("ROLLBACK");
    }

    async fn scan(
        &mut self,
        query: Query<'_>,
        see: &mut (dyn FnMut(Record) + Send),
    ) -> Outcome<()> {
        let mut bound_values = values(query.equals);
        if let Some((_, from, to)) = query.between {
            bound_values.extend([Value::Int(from), Value::Int(to)]);
        }
        let columns = query.table.columns.iter();
        let columns: Vec<&'static str> = columns
            .filter(|(_, column)| !matches!(column, Column::List(_)))
            .map(|(name, _)| *name)
            .collect();
        let statement = statements::select_records(&query, &columns);
        let rows = self.conn.exec_iter(statement, params(bound_values));
        for row in rows.map_err(classify_error)? {
            let found = row.map_err(classify_error)?.unwrap();
            let fields = columns.iter().copied().zip(found.into_iter().map(read));
            see(Record(fields.collect()));
        }
        Ok(())
    }

    async fn insert(&mut self, table: &'static RecordTable, records: &[Record]) -> Outcome<()> {
        /// The largest number of values of one statement; the protocol counts them in 16 bits.
        const VALUES_MAX: usize = 60_000;
        let per_record = records.first().map_or(1, |record| record.0.len()).max(1);
        for chunk in records.chunks(VALUES_MAX / per_record) {
            let Some(first) = chunk.first() else { break };
            let statement = statements::insert_records(table.name, first, chunk.len());
            let all = chunk.iter().flat_map(|record| values(&record.0));
            self.execute_change(statement, all.collect())?;
        }
        Ok(())
    }

    async fn update(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
        changes: &[(&'static str, Set)],
    ) -> Outcome<u64> {
        let mut all: Vec<Value> = changes
            .iter()
            .map(|(_, change)| match change {
                Set::To(value) => bound(value),
                Set::Add(number) => Value::Int(*number),
            })
            .collect();
        all.extend(values(key));
        self.execute_change(statements::update_records(table.name, key, changes), all)
    }

    async fn delete(&mut self, table: &'static RecordTable, key: Equals<'_>) -> Outcome<u64> {
        let statement = format!(
            "DELETE FROM `{}`{}",
            table.name,
            statements::write_condition(key, None)
        );
        self.execute_change(statement, values(key))
    }

    async fn count_and_sum(
        &mut self,
        table: &'static RecordTable,
        equals: Equals<'_>,
        column: &'static str,
    ) -> Outcome<(i64, i64)> {
        let statement = format!(
            "SELECT COUNT(*), CAST(COALESCE(SUM(`{column}`), 0) AS SIGNED) FROM `{}`{}",
            table.name,
            statements::write_condition(equals, None)
        );
        let found: Option<(i64, i64)> = self
            .conn
            .exec_first(statement, params(values(equals)))
            .map_err(classify_error)?;
        Ok(found.unwrap_or_default())
    }
}
