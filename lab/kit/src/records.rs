//! Records in tables with keys, and transactions on them: what programs of several statements
//! (bank transfers, TPC-C, LinkBench) ask of a target.
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
    /// A number; 0 where the column is missing or holds something else.
    pub fn int(&self, column: &str) -> i64 {
        match self.get(column) {
            Some(Field::Int(number)) => *number,
            _ => 0,
        }
    }

    /// Text; empty where the column is missing or holds something else.
    pub fn text(&self, column: &str) -> &str {
        match self.get(column) {
            Some(Field::Text(text)) => text,
            _ => "",
        }
    }

    /// The records inside.
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
    /// At most so many bytes of text.
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
    /// The columns that identify a record. A single one is `_id` in documents; several are a unique
    /// index beside an `_id` of the driver's.
    pub key: &'static [&'static str],
    /// Other indexes: name and columns.
    pub indexes: &'static [(&'static str, &'static [&'static str])],
    /// Whether only targets that take no records inside records have it.
    pub only_flat: bool,
}

/// Columns and the values that they must have.
pub type Equals<'a> = &'a [(&'static str, Field)];

/// Which records.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The table.
    pub table: &'static RecordTable,
    /// Columns that must be equal.
    pub equals: Equals<'a>,
    /// A column between two numbers, both included.
    pub between: Option<(&'static str, i64, i64)>,
    /// The order: a column, and whether downwards.
    pub order: Option<(&'static str, bool)>,
    /// The most records to return; 0 for all.
    pub limit: u32,
    /// Whether the records are going to be changed: targets whose transactions do not detect
    /// concurrent changes lock them.
    pub is_locked: bool,
}

impl<'a> Query<'a> {
    /// Records with these values.
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

    /// To be changed afterwards.
    #[must_use]
    pub fn locked(self) -> Self {
        Self {
            is_locked: true,
            ..self
        }
    }

    /// With a column between two numbers, both included.
    #[must_use]
    pub fn between(self, column: &'static str, from: i64, to: i64) -> Self {
        Self {
            between: Some((column, from, to)),
            ..self
        }
    }

    /// Ordered by a column, with a limit.
    #[must_use]
    pub fn ordered(self, column: &'static str, is_descending: bool, limit: u32) -> Self {
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
    /// It gets a value.
    To(Field),
    /// It grows.
    Add(i64),
}

/// Why a statement or a transaction did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordsError {
    /// The target asks to begin the whole transaction again: a conflict, a deadlock.
    Again(String),
    /// It refused.
    Failed {
        /// Short and bounded in variety.
        kind: String,
        /// In full.
        message: String,
    },
    /// No reply.
    Lost(String),
}

impl RecordsError {
    /// A refusal, or something that the program must not see.
    pub fn failed(kind: &str, message: String) -> Self {
        Self::Failed {
            kind: kind.to_owned(),
            message,
        }
    }
}

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reading and writing.
    Write,
    /// Reading one state of everything, however long it takes.
    Snapshot,
}

/// The result of a statement.
pub type Found<T> = Result<T, RecordsError>;

/// A connection with transactions on records. A statement outside a transaction is a transaction of
/// its own.
pub trait Records: Send {
    /// Whether records may hold lists of records.
    fn embeds(&self) -> bool;

    /// Begins a transaction.
    fn begin(&mut self, mode: Mode) -> impl Future<Output = Found<()>> + Send;

    /// Ends it.
    fn commit(&mut self) -> impl Future<Output = Found<()>> + Send;

    /// Turns it back; what the target says to that does not matter.
    fn abort(&mut self) -> impl Future<Output = ()> + Send;

    /// Shows each record of a query.
    fn scan(
        &mut self,
        query: Query<'_>,
        see: &mut (dyn FnMut(Record) + Send),
    ) -> impl Future<Output = Found<()>> + Send;

    /// Stores records that are not there.
    fn insert(
        &mut self,
        table: &'static RecordTable,
        records: &[Record],
    ) -> impl Future<Output = Found<()>> + Send;

    /// Changes one record, found by its key; how many there were.
    fn update(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
        changes: &[(&'static str, Set)],
    ) -> impl Future<Output = Found<u64>> + Send;

    /// Deletes one record, found by its key; how many there were.
    fn delete(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
    ) -> impl Future<Output = Found<u64>> + Send;

    /// How many records there are with these values, and the sum of a column over them.
    fn count_and_sum(
        &mut self,
        table: &'static RecordTable,
        equals: Equals<'_>,
        column: &'static str,
    ) -> impl Future<Output = Found<(i64, i64)>> + Send;

    /// All records of a query.
    fn many(&mut self, query: Query<'_>) -> impl Future<Output = Found<Vec<Record>>> + Send {
        async move {
            let mut out = Vec::new();
            self.scan(query, &mut |record| out.push(record)).await?;
            Ok(out)
        }
    }

    /// The first record of a query; it must be there.
    fn one(&mut self, query: Query<'_>) -> impl Future<Output = Found<Record>> + Send {
        async move {
            let name = query.table.name;
            let what = format!("{:?}", query.equals);
            let found = self.many(query).await?.into_iter().next();
            found.ok_or_else(|| {
                RecordsError::failed("record not found", format!("{name} has no {what}"))
            })
        }
    }

    /// Changes one record that must be there.
    fn change(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
        changes: &[(&'static str, Set)],
    ) -> impl Future<Output = Found<()>> + Send {
        async move {
            match self.update(table, key, changes).await? {
                1 => Ok(()),
                other => Err(RecordsError::failed(
                    "wrong update count",
                    format!("{}: {other} records with {key:?}, expected one", table.name),
                )),
            }
        }
    }
}
