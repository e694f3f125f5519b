//! Records and transactions of programs on a MongoDB server.
//!
//! Promises: a key of one column is `_id`; every statement of a transaction uses the transaction's
//! session; a commit with an unknown outcome is sent again, as drivers do. Must not know: programs.

use lab_kit::records::{
    Column, Equals, Field, Mode, Outcome, Query, Record, RecordTable, Records, RecordsError, Set,
};
use lab_kit::target::OVERLOADED;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::{
    Error, ErrorKind, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT, WriteFailure,
};
use mongodb::options::{CollectionOptions, IndexOptions};
use mongodb::{ClientSession, Collection, IndexModel};

use super::reply::{OVERLOADED_LABEL, one_line};
use super::session::MongoSession;

/// The name of a column in documents.
fn field_name(table: &RecordTable, column: &'static str) -> &'static str {
    if table.key == [column] { "_id" } else { column }
}

fn bson(field: &Field) -> Bson {
    match field {
        Field::Int(number) => Bson::Int64(*number),
        Field::Text(text) => Bson::String(text.clone()),
        Field::Null => Bson::Null,
        Field::List(list) => {
            let document = |record: &Record| {
                let fields = record.0.iter();
                let fields = fields.map(|(name, value)| ((*name).to_owned(), bson(value)));
                Bson::Document(fields.collect())
            };
            Bson::Array(list.iter().map(document).collect())
        }
    }
}

fn document(table: &RecordTable, fields: Equals<'_>) -> Document {
    let fields = fields.iter();
    fields
        .map(|(name, value)| (field_name(table, name).to_owned(), bson(value)))
        .collect()
}

fn field(value: Option<&Bson>, column: Column) -> Field {
    match (value, column) {
        (Some(Bson::Int64(number)), _) => Field::Int(*number),
        (Some(Bson::Int32(number)), _) => Field::Int(i64::from(*number)),
        (Some(Bson::String(text)), _) => Field::Text(text.clone()),
        (Some(Bson::Array(list)), Column::List(columns)) => {
            let documents = list.iter().filter_map(Bson::as_document);
            Field::List(
                documents
                    .map(|one| record(columns, |name| one.get(name)))
                    .collect(),
            )
        }
        _ => Field::Null,
    }
}

fn record<'a>(
    columns: &[(&'static str, Column)],
    get: impl Fn(&'static str) -> Option<&'a Bson>,
) -> Record {
    let columns = columns.iter();
    Record(
        columns
            .map(|(name, column)| (*name, field(get(name), *column)))
            .collect(),
    )
}

fn filter(query: &Query<'_>) -> Document {
    let mut out = document(query.table, query.equals);
    if let Some((column, from, to)) = query.between {
        let name = field_name(query.table, column);
        out.insert(name, doc! { "$gte": from, "$lte": to });
    }
    out
}

/// Classifies an error. An error reply is a refusal or a request to repeat the transaction; without
/// a reply the call is lost.
fn classify_error(error: Error) -> RecordsError {
    let message = one_line(&error);
    if error.contains_label(OVERLOADED_LABEL) {
        return RecordsError::failure(OVERLOADED, message);
    }
    let kind = match error.kind.as_ref() {
        ErrorKind::Command(inner) => format!("{} {}", inner.code, inner.code_name),
        ErrorKind::Write(WriteFailure::WriteError(inner)) => format!("write error {}", inner.code),
        ErrorKind::InsertMany(inner) => {
            let first = inner.write_errors.iter().flatten().next();
            let code = first.map_or_else(String::new, |first| format!(" {}", first.code));
            format!("write error{code}")
        }
        ErrorKind::Write(_) => "write error".to_owned(),
        _ => return RecordsError::Lost(message),
    };
    if error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
        return RecordsError::Again(message);
    }
    RecordsError::Failed { kind, message }
}

/// The indexes of a program's table in addition to `_id`.
pub(super) fn indexes(table: &RecordTable) -> Vec<IndexModel> {
    let model = |name: &str, columns: &[&'static str], is_unique: bool| {
        let keys: Document = columns
            .iter()
            .map(|column| (field_name(table, column).to_owned(), Bson::Int32(1)))
            .collect();
        let mut options = IndexOptions::default();
        options.name = Some(name.to_owned());
        options.unique = is_unique.then_some(true);
        IndexModel::builder().keys(keys).options(options).build()
    };
    let key = (table.key.len() > 1).then(|| model("key", table.key, true));
    let others = table.indexes.iter();
    let others = others.map(|(name, columns)| model(name, columns, false));
    key.into_iter().chain(others).collect()
}

impl MongoSession {
    /// The collection. In a transaction only the commit has a write concern.
    fn records_of(&self, table: &RecordTable) -> Collection<RawDocumentBuf> {
        let mut options = CollectionOptions::default();
        if self.transaction.mode.is_none() {
            options.write_concern = self.statements.write_concern.clone();
        }
        let database = &self.statements.database;
        database.collection_with_options(table.name, options)
    }

    fn transaction_session(&mut self) -> Option<&mut ClientSession> {
        let transaction = &mut self.transaction;
        match transaction.mode {
            None => None,
            Some(Mode::Write) => transaction.session.as_mut(),
            Some(Mode::Snapshot) => transaction.snapshot.as_mut(),
        }
    }

    async fn run_aggregate(
        &mut self,
        table: &'static RecordTable,
        stages: Vec<Document>,
    ) -> Result<Option<Document>, Error> {
        let collection = self.records_of(table);
        let aggregate = collection.aggregate(stages);
        match self.transaction_session() {
            Some(session) => {
                let mut cursor = aggregate.session(&mut *session).await?;
                let there = cursor.advance(session).await?;
                if !there {
                    return Ok(None);
                }
                Ok(Document::try_from(cursor.current()).ok())
            }
            None => {
                let mut cursor = aggregate.await?;
                let there = cursor.advance().await?;
                if !there {
                    return Ok(None);
                }
                Ok(Document::try_from(cursor.current()).ok())
            }
        }
    }
}

impl Records for MongoSession {
    fn embeds(&self) -> bool {
        true
    }

    async fn begin(&mut self, mode: Mode) -> Outcome<()> {
        let client = self.statements.database.client().clone();
        match mode {
            Mode::Snapshot => {
                let session = client.start_session().snapshot(true).await;
                self.transaction.snapshot = Some(session.map_err(classify_error)?);
            }
            Mode::Write => {
                let mut session = match self.transaction.session.take() {
                    Some(session) => session,
                    None => client.start_session().await.map_err(classify_error)?,
                };
                let started = match self.statements.write_concern.clone() {
                    Some(concern) => session.start_transaction().write_concern(concern).await,
                    None => session.start_transaction().await,
                };
                started.map_err(classify_error)?;
                self.transaction.session = Some(session);
            }
        }
        self.transaction.mode = Some(mode);
        Ok(())
    }

    async fn commit(&mut self) -> Outcome<()> {
        let mode = self.transaction.mode;
        self.transaction.snapshot = None;
        let committed = match (mode, self.transaction.session.as_mut()) {
            (Some(Mode::Write), Some(session)) => loop {
                match session.commit_transaction().await {
                    Err(error) if is_worth_another_commit(&error) => {}
                    ended => break ended.map_err(classify_error),
                }
            },
            _ => Ok(()),
        };
        // A transaction whose commit failed must still be aborted, so its mode is kept.
        if committed.is_ok() {
            self.transaction.mode = None;
        }
        committed
    }

    async fn abort(&mut self) {
        if let (Some(Mode::Write), Some(session)) =
            (self.transaction.mode, self.transaction.session.as_mut())
        {
            // The server may already have ended the transaction.
            let _ = session.abort_transaction().await;
        }
        self.transaction.snapshot = None;
        self.transaction.mode = None;
    }

    async fn scan(
        &mut self,
        query: Query<'_>,
        see: &mut (dyn FnMut(Record) + Send),
    ) -> Outcome<()> {
        let table = query.table;
        let collection = self.records_of(table);
        let mut find = collection.find(filter(&query));
        if let Some((column, is_descending)) = query.order {
            let direction = if is_descending { -1 } else { 1 };
            find = find.sort(doc! { field_name(table, column): direction });
        }
        if query.limit > 0 {
            find = find.limit(i64::from(query.limit));
        }
        let mut show = |raw: &mongodb::bson::RawDocument| -> Outcome<()> {
            let found = Document::try_from(raw);
            let found = found
                .map_err(|error| RecordsError::failure("damaged document", error.to_string()))?;
            see(record(table.columns, |name| {
                found.get(field_name(table, name))
            }));
            Ok(())
        };
        match self.transaction_session() {
            Some(session) => {
                let mut cursor = find.session(&mut *session).await.map_err(classify_error)?;
                while cursor.advance(session).await.map_err(classify_error)? {
                    show(cursor.current())?;
                }
            }
            None => {
                let mut cursor = find.await.map_err(classify_error)?;
                while cursor.advance().await.map_err(classify_error)? {
                    show(cursor.current())?;
                }
            }
        }
        Ok(())
    }

    async fn insert(&mut self, table: &'static RecordTable, records: &[Record]) -> Outcome<()> {
        let documents: Vec<RawDocumentBuf> = records
            .iter()
            .filter_map(|one| RawDocumentBuf::try_from(&document(table, &one.0)).ok())
            .collect();
        let collection = self.records_of(table);
        let insert = collection.insert_many(documents);
        let inserted = match self.transaction_session() {
            Some(session) => insert.session(session).await,
            None => insert.await,
        };
        inserted.map(drop).map_err(classify_error)
    }

    async fn update(
        &mut self,
        table: &'static RecordTable,
        key: Equals<'_>,
        changes: &[(&'static str, Set)],
    ) -> Outcome<u64> {
        let (mut set, mut add) = (Document::new(), Document::new());
        for (column, change) in changes {
            match change {
                Set::To(value) => set.insert(*column, bson(value)),
                Set::Add(number) => add.insert(*column, *number),
            };
        }
        let parts = [("$set", set), ("$inc", add)].into_iter();
        let parts = parts.filter(|(_, fields)| !fields.is_empty());
        let change: Document = parts
            .map(|(operator, fields)| (operator.to_owned(), Bson::Document(fields)))
            .collect();
        let collection = self.records_of(table);
        let update = collection.update_one(document(table, key), change);
        let updated = match self.transaction_session() {
            Some(session) => update.session(session).await,
            None => update.await,
        };
        updated
            .map(|reply| reply.matched_count)
            .map_err(classify_error)
    }

    async fn delete(&mut self, table: &'static RecordTable, key: Equals<'_>) -> Outcome<u64> {
        let collection = self.records_of(table);
        let delete = collection.delete_one(document(table, key));
        let deleted = match self.transaction_session() {
            Some(session) => delete.session(session).await,
            None => delete.await,
        };
        deleted
            .map(|reply| reply.deleted_count)
            .map_err(classify_error)
    }

    async fn count_and_sum(
        &mut self,
        table: &'static RecordTable,
        equals: Equals<'_>,
        column: &'static str,
    ) -> Outcome<(i64, i64)> {
        let group = doc! {
            "_id": null,
            "n": { "$sum": 1_i64 },
            "sum": { "$sum": format!("${}", field_name(table, column)) },
        };
        let stages = vec![
            doc! { "$match": document(table, equals) },
            doc! { "$group": group },
        ];
        let found = self
            .run_aggregate(table, stages)
            .await
            .map_err(classify_error)?;
        let number = |name: &str| match found.as_ref().and_then(|found| found.get(name)) {
            Some(Bson::Int64(number)) => *number,
            Some(Bson::Int32(number)) => i64::from(*number),
            _ => 0,
        };
        Ok((number("n"), number("sum")))
    }
}

/// Whether the server asks for the commit to be sent again: it may have been done, and there was an
/// error reply.
fn is_worth_another_commit(error: &Error) -> bool {
    error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT)
        && matches!(error.kind.as_ref(), ErrorKind::Command(_))
}
