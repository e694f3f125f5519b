//! One client's calls on a MySQL server.

use std::sync::Arc;

use lab_kit::program::ProgramCall;
use lab_kit::row::contents::{Contents, OrderChecker};
use lab_kit::row::{Key, Row, Value};
use lab_kit::target::{Call, CallOutcome, Change, Session, Table};
use lab_kit::workload::Index;
use mysql::prelude::Queryable;
use mysql::{Conn, Params};

use crate::check::{ExpectedReply, RowSet};
use crate::connection::{Interface, one_line};
use crate::statements;

/// The largest number of values of a statement; the protocol counts them in 16 bits.
const VALUES_MAX: usize = 60_000;

/// One client.
pub struct SqlSession {
    pub(crate) conn: Conn,
    tables: Arc<Vec<Table>>,
    contents: Vec<Arc<Contents>>,
    indexes: Vec<Index>,
    interface: Interface,
}

/// A call as statements with their values.
#[derive(Debug)]
pub enum SqlCall {
    /// A statement of a workload file, which this target does not support; the lab refuses it
    /// before the run.
    Unsupported,
    /// A transaction of a program.
    Program(Box<ProgramCall>),
    /// Statements of one transaction; `ops` and not the server's counts gives the operations.
    Store {
        /// Text and values.
        statements: Vec<(String, Vec<mysql::Value>)>,
        /// Operations of the call.
        ops: u64,
    },
    /// A read.
    Read {
        /// Text.
        statement: String,
        /// Values.
        values: Vec<mysql::Value>,
        /// The rows that it must return.
        expected: ExpectedReply,
    },
    /// A write whose matched rows are counted.
    Change {
        /// Text.
        statement: String,
        /// Values.
        values: Vec<mysql::Value>,
        /// Whether each row is an operation (deletes), or the whole write is one.
        by_row: bool,
    },
    /// Read `k` of a row, then store it one higher.
    ReadAndStore {
        /// The table.
        table: String,
        /// The id.
        id: mysql::Value,
    },
}

fn sql(value: &Value) -> mysql::Value {
    match value {
        Value::Int(number) => mysql::Value::Int(i64::from(*number)),
        Value::Long(number) | Value::Date(number) => mysql::Value::Int(*number),
        Value::Double(number) => mysql::Value::Double(*number),
        Value::Text(text) => mysql::Value::Bytes(text.clone().into_bytes()),
        // Servers with columns do not take documents; the lab refuses such runs before they begin.
        Value::Tree(_) => mysql::Value::NULL,
    }
}

fn sql_id(id: &Key) -> mysql::Value {
    match id {
        Key::Number(number) => mysql::Value::Int(*number),
        Key::Text(text) => mysql::Value::Bytes(text.clone().into_bytes()),
    }
}

fn values(row: &Row) -> impl Iterator<Item = mysql::Value> {
    let fields = row.fields.iter().map(|(_, value)| sql(value));
    row.id.as_ref().map(sql_id).into_iter().chain(fields)
}

impl SqlSession {
    pub(crate) fn new(
        mut conn: Conn,
        tables: Arc<Vec<Table>>,
        indexes: Vec<Index>,
        interface: Interface,
    ) -> Result<Self, mysql::Error> {
        if interface == Interface::Handler {
            for table in tables.iter() {
                conn.query_drop(format!("HANDLER `{}` OPEN", table.name))?;
            }
        }
        let contents = tables.iter().map(Contents::of).map(Arc::new);
        Ok(Self {
            conn,
            contents: contents.collect(),
            tables,
            indexes,
            interface,
        })
    }

    fn expected_reply(&self, table: usize, which: RowSet) -> ExpectedReply {
        match self.contents.get(table) {
            Some(contents) => ExpectedReply::Rows(contents.clone(), which),
            None => ExpectedReply::Anything,
        }
    }

    fn get(&self, table: usize, id: Key) -> SqlCall {
        let name = self.name(table);
        let statement = match self.interface {
            Interface::Select => format!("SELECT * FROM `{name}` WHERE id = ?"),
            Interface::Handler => format!("HANDLER `{name}` READ `PRIMARY` = (?)"),
        };
        let value = sql_id(&id);
        let expected = self.expected_reply(table, RowSet::One(id));
        read(statement, vec![value], expected)
    }

    fn name(&self, table: usize) -> String {
        self.tables
            .get(table)
            .map(|table| table.name.clone())
            .unwrap_or_default()
    }

    fn insert(&self, table: usize, rows: &[Row]) -> SqlCall {
        let name = self.name(table);
        let per_row = rows.first().map_or(1, |row| row.fields.len() + 1);
        let statements = rows
            .chunks((VALUES_MAX / per_row).max(1))
            .filter_map(|chunk| {
                let statement = statements::store("INSERT", &name, chunk.first()?, chunk.len());
                Some((statement, chunk.iter().flat_map(values).collect()))
            })
            .collect();
        SqlCall::Store {
            statements,
            ops: rows.len() as u64,
        }
    }

    /// Stores a whole row. The operations are those of the call, because the server counts a
    /// replaced row twice.
    fn put(&self, table: usize, row: &Row) -> SqlCall {
        let statement = statements::store("REPLACE", &self.name(table), row, 1);
        SqlCall::Store {
            statements: vec![(statement, values(row).collect())],
            ops: 1,
        }
    }

    fn index_range(&self, table: usize, index: usize, from: &[Value], limit: u32) -> SqlCall {
        let Some(index) = self.indexes.get(index) else {
            return read(
                "SELECT 1 FROM DUAL WHERE 1 = 0".to_owned(),
                Vec::new(),
                ExpectedReply::Anything,
            );
        };
        let statement = statements::index_range(&self.name(table), index, from.len(), limit);
        let prefixes = (1..=from.len())
            .rev()
            .flat_map(|length| from.iter().take(length))
            .map(sql);
        let expected = ExpectedReply::Entries(from.to_vec());
        read(statement, prefixes.collect(), expected)
    }

    fn execute(&mut self, encoded: SqlCall) -> Result<CallOutcome, (mysql::Error, u64)> {
        let conn = &mut self.conn;
        match encoded {
            SqlCall::Unsupported | SqlCall::Program(_) => Ok(CallOutcome::failure(
                "no statements",
                "the target takes no statements of files".to_owned(),
            )),
            SqlCall::Store { statements, ops } => {
                let stored = match statements.as_slice() {
                    [(statement, values)] => {
                        conn.exec_drop(statement, Params::Positional(values.clone()))
                    }
                    _ => store_all(conn, statements),
                };
                stored.map_err(|error| (error, ops))?;
                Ok(CallOutcome::success(ops, ops))
            }
            SqlCall::Read {
                statement,
                values,
                mut expected,
            } => {
                let read = conn
                    .exec_iter(statement, positional(values))
                    .map_err(|error| (error, 1))?;
                let mut rows = 0;
                for row in read {
                    let row = row.map_err(|error| (error, 1))?;
                    if let Err(wrong) = expected.take(&row) {
                        return Ok(wrong);
                    }
                    rows += 1;
                }
                Ok(CallOutcome::success(1, rows))
            }
            SqlCall::Change {
                statement,
                values,
                by_row,
            } => {
                let size = if by_row { values.len() as u64 } else { 1 };
                conn.exec_drop(statement, positional(values))
                    .map_err(|error| (error, size))?;
                let rows = conn.affected_rows();
                Ok(CallOutcome::success(if by_row { rows } else { 1 }, rows))
            }
            SqlCall::ReadAndStore { table, id } => {
                let read = format!("SELECT k FROM `{table}` WHERE id = ?");
                let found: Option<i64> = conn
                    .exec_first(read, (id.clone(),))
                    .map_err(|error| (error, 1))?;
                let Some(k) = found else {
                    return Ok(CallOutcome::success(1, 0));
                };
                let store = format!("UPDATE `{table}` SET k = ? WHERE id = ?");
                conn.exec_drop(store, (k.wrapping_add(1), id))
                    .map_err(|error| (error, 1))?;
                Ok(CallOutcome::success(1, conn.affected_rows()))
            }
        }
    }
}

fn read(statement: String, values: Vec<mysql::Value>, expected: ExpectedReply) -> SqlCall {
    SqlCall::Read {
        statement,
        values,
        expected,
    }
}

/// The driver has a separate form for an empty list of values.
fn positional(values: Vec<mysql::Value>) -> Params {
    if values.is_empty() {
        Params::Empty
    } else {
        Params::Positional(values)
    }
}

fn store_all(
    conn: &mut Conn,
    statements: Vec<(String, Vec<mysql::Value>)>,
) -> Result<(), mysql::Error> {
    let mut transaction = conn.start_transaction(mysql::TxOpts::default())?;
    for (statement, values) in statements {
        transaction.exec_drop(statement, Params::Positional(values))?;
    }
    transaction.commit()
}

impl Session for SqlSession {
    type Encoded = SqlCall;
    const BLOCKING: bool = true;

    fn encode(&mut self, call: Call) -> SqlCall {
        let change = |statement: String, values: Vec<mysql::Value>| SqlCall::Change {
            statement,
            values,
            by_row: false,
        };
        match call {
            Call::Insert { table, rows } => self.insert(table, &rows),
            Call::Get { table, id } => self.get(table, id),
            Call::Verify { table, id, fields } => {
                let statement = format!("SELECT * FROM `{}` WHERE id = ?", self.name(table));
                let expected = self.expected_reply(table, RowSet::Version(id.clone(), fields));
                read(statement, vec![sql_id(&id)], expected)
            }
            Call::GetMany { table, ids } => read(
                statements::select_in(&self.name(table), ids.len()),
                ids.iter().map(sql_id).collect(),
                self.expected_reply(table, RowSet::Some(ids.into_iter().collect())),
            ),
            Call::Range {
                table,
                from,
                limit,
                reverse,
            } => read(
                statements::range(&self.name(table), limit, reverse),
                vec![sql_id(&from)],
                self.expected_reply(table, RowSet::InOrder(OrderChecker::from(from, reverse))),
            ),
            Call::IndexRange {
                table,
                index,
                from,
                limit,
            } => self.index_range(table, index, &from, limit),
            Call::Update {
                table,
                id,
                change: Change::Inc,
            }
            | Call::Add { table, id } => change(
                format!("UPDATE `{}` SET k = k + 1 WHERE id = ?", self.name(table)),
                vec![sql_id(&id)],
            ),
            Call::Update {
                table,
                id,
                change: Change::Set(field, value),
            } => change(
                format!(
                    "UPDATE `{}` SET `{field}` = ? WHERE id = ?",
                    self.name(table)
                ),
                vec![sql(&value), sql_id(&id)],
            ),
            Call::ReadModifyWrite { table, id } => SqlCall::ReadAndStore {
                table: self.name(table),
                id: sql_id(&id),
            },
            Call::Put { table, row } => self.put(table, &row),
            Call::Statement(_) => SqlCall::Unsupported,
            Call::Program(call) => SqlCall::Program(call),
            Call::Delete { table, ids } => SqlCall::Change {
                statement: statements::delete_in(&self.name(table), ids.len()),
                values: ids.iter().map(sql_id).collect(),
                by_row: true,
            },
            Call::Scan { table, from, to, n } => read(
                format!(
                    "SELECT * FROM `{}` WHERE id BETWEEN ? AND ? AND n = ?",
                    self.name(table)
                ),
                vec![from.into(), to.into(), n.into()],
                self.expected_reply(table, RowSet::Any),
            ),
        }
    }

    async fn run(&mut self, encoded: SqlCall) -> CallOutcome {
        let encoded = match encoded {
            SqlCall::Program(call) => return call.run(self).await.into(),
            other => other,
        };
        match self.execute(encoded) {
            Ok(outcome) => outcome,
            // The server answered with an error, so nothing of the failed statement is stored.
            Err((mysql::Error::MySqlError(error), _)) => {
                CallOutcome::failure(&format!("{} {}", error.code, error.state), error.message)
            }
            Err((error, unknown)) => CallOutcome::Lost {
                unknown,
                message: one_line(&error),
            },
        }
    }
}
