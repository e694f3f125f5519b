//! Records in tables with keys, and transactions on them: the interface that programs of several
//! statements (bank transfers, TPC-C, LinkBench) need from a target.
//!
//! Promises: a program is written once and runs on every target that implements [`Records`]; money
//! and counters are whole numbers, so that sums can be compared exactly. Must not know: programs,
//! drivers.

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A whole number; money is in hundredths.
    Int(i64),
    /// Text.
    Text(String),
    /// Nothing.
    Null,
    /// Records inside the record, where the target takes them ([`Records::embeds`]).
    List(Vec<Record>),
}

impl From<i64> for Field {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Names and values of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(pub Vec<(&'static str, Field)>);

impl Record {
    /// The number in a column; 0 if the column is missing or holds another type.
    pub fn int(&self, column: &str) -> i64 {
        match self.get(column) {
            Some(Field::Int(number)) => *number,
            _ => 0,
        }
    }

    /// The text in a column; empty if the column is missing or holds another type.
    pub fn text(&self, column: &str) -> &str {
        match self.get(column) {
            Some(Field::Text(text)) => text,
            _ => "",
        }
    }

    /// The records inside a column.
    pub fn list(&self, column: &str) -> &[Record] {
        match self.get(column) {
            Some(Field::List(list)) => list,
            _ => &[],
        }
    }

    fn get(&self, column: &str) -> Option<&Field> {
        let found = self.0.iter().find(|(name, _)| *name == column);
        found.map(|(_, value)| value)
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// 64 bits.
    Int,
    /// 64 bits, or nothing.
    OptionalInt,
    /// Text of at most this many bytes.
    Text(u32),
    /// Records with these columns; only for targets that take records inside records.
    List(&'static [(&'static str, Column)]),
}

/// A table.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordTable {
    /// Its name.
    pub name: &'static str,
    /// Its columns in order.
    pub columns: &'static [(&'static str, Column)],
    /// The columns that identify a record. In documents a single key column is `_id`; several
    /// columns become a unique index, and the driver makes the `_id`.
    pub key: &'static [&'static str],
    /// Other indexes: name and columns.
    pub indexes: &'static [(&'static str, &'static [&'static str])],
    /// Whether the table exists only on targets that take no records inside records.
    pub only_flat: bool,
}

/// Columns and the values that they must have.
pub type Equals<'a> = &'a [(&'static str, Field)];

/// A selection of records.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The table.
    pub table: &'static RecordTable,
    /// Columns and the values that they must equal.
    pub equals: Equals<'a>,
    /// A column whose value lies between two numbers, both included.
    pub between: Option<(&'static str, i64, i64)>,
    /// The order: a column, and whether it is descending.
    pub order: Option<(&'static str, bool)>,
    /// The largest number of records; 0 for all.
    pub limit: u32,
    /// Whether the records found will be changed. Targets whose transactions do not detect
    /// concurrent changes by themselves lock these records.
    pub is_locked: bool,
}

impl<'a> Query<'a> {
    /// Selects the records with these values.
    pub fn of(table: &'static RecordTable, equals: Equals<'a>) -> Self {
        Self {
            table,
            equals,
            between: None,
            order: None,
            limit: 0,
            is_locked: false,
        }
    }

    /// Marks the records as to be changed afterwards ([`Query::is_locked`]).
    #[must_use]
    pub fn for_update(self) -> Self {
        Self {
            is_locked: true,
            ..self
        }
    }

    /// Selects only records whose column lies between two numbers, both included.
    #[must_use]
    pub fn where_between(self, column: &'static str, from: i64, to: i64) -> Self {
        Self {
            between: Some((column, from, to)),
            ..self
        }
    }

    /// Orders the records by a column and returns at most `limit` of them.
    #[must_use]
    pub fn order_by(self, column: &'static str, is_descending: bool, limit: u32) -> Self {
        Self {
            order: Some((column, is_descending)),
            limit,
            ..self
        }
    }
}

/// A change of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// Sets a value.
    To(Field),
    /// Adds a number.
    Add(i64),
}

/// Why a statement or a transaction failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordsError {
    /// The target asks the client to repeat the whole transaction, after a conflict or a deadlock.
    Again(String),
    /// The target refused.
    Failed {
        /// A short name, one of few.
        kind: String,
        /// The full message.
        message: String,
    },
    /// No reply.
    Lost(String),
}

impl RecordsError {
    /// A refusal, or a result that the program must never get.
    pub fn failure(kind: &str, message: String) -> Self {
        Self::Failed {
            kind: kind.to_owned(),
            message,
        }
    }
}

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reading and writing.
    Write,
    /// Reading everything in one consistent state, however long it takes.
    Snapshot,
}

/// The result of a statement.
pub type Outcome<T> = Result<T, RecordsError>;

/// A connection with transactions on records. A statement outside a transaction is a transaction of
/// its own.
pub trait Records: Send {
    /// Whether records may hold lists of records.
    fn embeds(&self) -> bool;

    /// Begins a transaction.
    fn begin(&mut self, mode: Mode) -> impl Future<Output = Outcome<()>> + Send;

    /// Commits the transaction.
    fn commit(&mut self) -> impl Future<Output = Outcome<()>> + Send;

    /// Rolls the transaction back; the target's answer is ignored.
    fn abort(&mut self) -> impl Future<Output = ()> + Send;

    /// Passes each record of a query to the callback.
    fn scan(
        &mut self,
        query: Query<'_>,
        see: &mut (dyn FnMut(Record) + Send),
    ) -> impl Future<Output = Outcome<()>> + Send;

    /// Stores records that do not exist yet.
    fn insert(
        &mut self,
        table: &'static RecordTable,
        records: &[Record],
    ) -> impl Future<Output = Outcome<()>> + Send;

    /// Changes one record, found by its key; returns the number of records found.
    fn update(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
        changes: &[(&'static str, Set)],
    ) -> impl Future<Output = Outcome<u64>> + Send;

    /// Deletes one record, found by its key; returns the number of records found.
    fn delete(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
    ) -> impl Future<Output = Outcome<u64>> + Send;

    /// The number of records with these values, and the sum of a column over them.
    fn count_and_sum(
        &mut self,
        table: &'static RecordTable,
        equals: Equals<'_>,
        column: &'static str,
    ) -> impl Future<Output = Outcome<(i64, i64)>> + Send;

    /// All records of a query.
    fn find_many(&mut self, query: Query<'_>) -> impl Future<Output = Outcome<Vec<Record>>> + Send {
        async move {
            let mut out = Vec::new();
            self.scan(query, &mut |record| out.push(record)).await?;
            Ok(out)
        }
    }

    /// The first record of a query; it must be there.
    fn one(&mut self, query: Query<'_>) -> impl Future<Output = Outcome<Record>> + Send {
        async move {
            let name = query.table.name;
            let what = format!("{:?}", query.equals);
            let found = self.find_many(query).await?.into_iter().next();
            found.ok_or_else(|| {
                RecordsError::failure("record not found", format!("{name} has no {what}"))
            })
        }
    }

    /// Changes one record that must be there.
    fn change(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
        changes: &[(&'static str, Set)],
    ) -> impl Future<Output = Outcome<()>> + Send {
        async move {
            match self.update(table, key, changes).await? {
                1 => Ok(()),
                other => Err(RecordsError::failure(
                    "wrong update count",
                    format!("{}: {other} records with {key:?}, expected one", table.name),
                )),
            }
        }
    }
}
