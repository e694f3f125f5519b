//! One client's calls on a MongoDB server, through the official driver.

use lab_kit::program::ProgramCall;
use lab_kit::row::contents::{Contents, OrderChecker};
use lab_kit::row::{Key, Row, Value};
use lab_kit::target::{Call, CallOutcome, Change, OVERLOADED, Session};
use lab_kit::workload::Index;
use mongodb::Collection;
use mongodb::bson::raw::CStr;
use mongodb::bson::{Bson, DateTime, Document, RawBson, RawDocumentBuf, cstr, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{FindOptions, Hint};

use super::check::{self, ExpectedReply};
use super::reply::{OVERLOADED_LABEL, one_line};
use super::statements::{EncodedStatement, Statements};
use super::transaction::Transaction;
use super::tree::tree_bson;

/// One client.
#[derive(Debug)]
pub(crate) struct MongoSession {
    pub(super) tables: Vec<Collection<RawDocumentBuf>>,
    pub(super) contents: Vec<Contents>,
    pub(super) indexes: Vec<Index>,
    pub(super) statements: Statements,
    pub(super) transaction: Transaction,
}

/// A call with its documents built.
#[derive(Debug)]
pub(crate) enum MongoCall {
    /// Insert a batch.
    Insert(usize, Vec<RawDocumentBuf>),
    /// Find one document by `_id` and check that some of its fields have one of the allowed values.
    FindOne(usize, Bson, Vec<(&'static str, Vec<u64>)>),
    /// Find several.
    Find(usize, Document, Box<FindOptions>, ExpectedReply),
    /// Update one.
    Update(usize, Document, Document, UpdateKind),
    /// Find one, then replace it with `k` one higher.
    FindAndReplace(usize, Document),
    /// Replace or insert one.
    Put(usize, Document, RawDocumentBuf),
    /// Delete some.
    Delete(usize, Document),
    /// A statement of a workload file.
    Statement(Box<EncodedStatement>),
    /// A transaction of a program.
    Program(Box<ProgramCall>),
    /// The workload asks for a table that does not exist, which is a bug of the lab.
    Nothing,
}

/// The possible effect of an update, known before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateKind {
    /// The update always changes the document.
    Changes,
    /// The update changes or inserts the document.
    Upserts,
    /// The new value is so short that it may equal the old one.
    MayBeSame,
}

/// Random texts shorter than this may be equal.
const DISTINCT_MIN: usize = 16;

pub(super) fn bson(value: &Value) -> Bson {
    match value {
        Value::Int(number) => Bson::Int32(*number),
        Value::Long(number) => Bson::Int64(*number),
        Value::Double(number) => Bson::Double(*number),
        Value::Date(ms) => Bson::DateTime(DateTime::from_millis(*ms)),
        Value::Text(text) => Bson::String(text.clone()),
        Value::Tree(tree) => tree_bson(tree),
    }
}

fn id_bson(id: &Key) -> Bson {
    match id {
        Key::Number(number) => Bson::Int64(*number),
        Key::Text(text) => Bson::String(text.clone()),
    }
}

fn document(row: &Row) -> RawDocumentBuf {
    let mut out = RawDocumentBuf::new();
    match &row.id {
        Some(Key::Number(number)) => out.append(cstr!("_id"), *number),
        Some(Key::Text(text)) => out.append(cstr!("_id"), text.as_str()),
        None => {}
    }
    for (name, value) in &row.fields {
        // Field names are constants without zero bytes.
        let Ok(name) = <&CStr>::try_from(*name) else {
            continue;
        };
        match value {
            Value::Int(number) => out.append(name, *number),
            Value::Long(number) => out.append(name, *number),
            Value::Double(number) => out.append(name, *number),
            Value::Date(ms) => out.append(name, DateTime::from_millis(*ms)),
            Value::Text(text) => out.append(name, text.as_str()),
            Value::Tree(tree) => match RawBson::try_from(tree_bson(tree)) {
                Ok(value) => out.append(name, value),
                // Names of a workload file contain no zero bytes, because TOML does not allow them
                // unescaped.
                Err(_) => continue,
            },
        }
    }
    out
}

fn ids(ids: &[Key]) -> Document {
    match ids {
        [id] => doc! { "_id": id_bson(id) },
        _ => doc! { "_id": { "$in": ids.iter().map(id_bson).collect::<Vec<_>>() } },
    }
}

/// A filter for tuples at or after `from` in the order of `keys`: an `$or` whose alternatives each
/// fix a longer prefix.
fn filter_from(keys: &[String], from: &[Value]) -> Document {
    let alternatives: Vec<Document> = (0..from.len())
        .rev()
        .map(|last| {
            let mut out = Document::new();
            for (at, (key, value)) in keys.iter().zip(from).enumerate().take(last + 1) {
                let operator = if at + 1 == from.len() { "$gte" } else { "$gt" };
                let condition = if at == last {
                    Bson::Document(doc! { operator: bson(value) })
                } else {
                    bson(value)
                };
                out.insert(key.clone(), condition);
            }
            out
        })
        .collect();
    match alternatives.as_slice() {
        [only] => only.clone(),
        _ => doc! { "$or": alternatives },
    }
}

impl MongoSession {
    fn index_range(&self, table: usize, index: usize, from: &[Value], limit: u32) -> MongoCall {
        let Some(index) = self.indexes.get(index) else {
            return MongoCall::Nothing;
        };
        let mut fields: Document = index
            .keys
            .iter()
            .map(|key| (key.clone(), Bson::Int32(1)))
            .collect();
        let order = fields.clone();
        fields.insert("_id", 0);
        let mut options = FindOptions::default();
        options.sort = Some(order);
        options.projection = Some(fields);
        options.hint = Some(Hint::Name(index.name.clone()));
        set_limit(&mut options, limit);
        let expected = ExpectedReply::Entries {
            keys: index.keys.clone(),
            last: from.to_vec(),
        };
        let filter = filter_from(&index.keys, from);
        MongoCall::Find(table, filter, Box::new(options), expected)
    }

    async fn execute(&self, encoded: MongoCall) -> Result<CallOutcome, (Error, u64)> {
        let one = |error| (error, 1);
        let (table, encoded) = match encoded {
            MongoCall::Insert(table, _)
            | MongoCall::FindOne(table, ..)
            | MongoCall::Find(table, ..)
            | MongoCall::Update(table, ..)
            | MongoCall::FindAndReplace(table, _)
            | MongoCall::Put(table, ..)
            | MongoCall::Delete(table, _) => {
                let table = self.tables.get(table).zip(self.contents.get(table));
                (table, encoded)
            }
            MongoCall::Statement(statement) => {
                return self.statements.run(*statement, &self.tables).await;
            }
            MongoCall::Nothing | MongoCall::Program(_) => (None, encoded),
        };
        let Some((table, contents)) = table else {
            return Ok(CallOutcome::failure(
                "no such table",
                "the workload names a table that does not exist".to_owned(),
            ));
        };
        match encoded {
            MongoCall::Insert(_, documents) => {
                let size = documents.len() as u64;
                table
                    .insert_many(documents)
                    .await
                    .map_err(|error| (error, size))?;
                Ok(CallOutcome::success(size, size))
            }
            MongoCall::FindOne(_, id, allowed) => {
                find_one(table, contents, id, &allowed).await.map_err(one)
            }
            MongoCall::Find(_, filter, options, mut expected) => {
                let mut cursor = table
                    .find(filter)
                    .with_options(*options)
                    .await
                    .map_err(one)?;
                let mut rows = 0;
                while cursor.advance().await.map_err(one)? {
                    if let Err(wrong) = expected.take(contents, cursor.current()) {
                        return Ok(wrong);
                    }
                    rows += 1;
                }
                Ok(CallOutcome::success(1, rows))
            }
            MongoCall::Update(_, filter, update, kind) => {
                update_one(table, filter, update, kind).await.map_err(one)
            }
            MongoCall::FindAndReplace(_, filter) => {
                find_and_replace(table, filter).await.map_err(one)
            }
            MongoCall::Put(_, filter, row) => {
                let reply = table
                    .replace_one(filter, row)
                    .upsert(true)
                    .await
                    .map_err(one)?;
                Ok(CallOutcome::success(
                    1,
                    reply.matched_count + u64::from(reply.upserted_id.is_some()),
                ))
            }
            MongoCall::Delete(_, filter) => {
                let reply = table.delete_many(filter).await.map_err(one)?;
                Ok(CallOutcome::success(
                    reply.deleted_count,
                    reply.deleted_count,
                ))
            }
            MongoCall::Statement(_) | MongoCall::Program(_) | MongoCall::Nothing => {
                Ok(CallOutcome::success(0, 0))
            }
        }
    }
}

async fn find_one(
    table: &Collection<RawDocumentBuf>,
    contents: &Contents,
    id: Bson,
    allowed: &[(&'static str, Vec<u64>)],
) -> Result<CallOutcome, Error> {
    let Some(found) = table.find_one(doc! { "_id": id.clone() }).await? else {
        return Ok(CallOutcome::success(1, 0));
    };
    let stored = found
        .get("_id")
        .ok()
        .flatten()
        .and_then(|id| Bson::try_from(id).ok());
    if stored.as_ref() != Some(&id) {
        return Ok(CallOutcome::failure(
            "wrong document",
            format!("asked for _id {id}, got {found:?}"),
        ));
    }
    let looked = check::whole(contents, &found, allowed);
    Ok(looked.map_or_else(|wrong| wrong, |()| CallOutcome::success(1, 1)))
}

async fn update_one(
    table: &Collection<RawDocumentBuf>,
    filter: Document,
    update: Document,
    kind: UpdateKind,
) -> Result<CallOutcome, Error> {
    let upsert = kind == UpdateKind::Upserts;
    let reply = table.update_one(filter, update).upsert(upsert).await?;
    let may_be_same = kind == UpdateKind::MayBeSame;
    if reply.matched_count > 1 || reply.modified_count != reply.matched_count && !may_be_same {
        return Ok(CallOutcome::failure(
            "wrong update count",
            format!("{reply:?}, expected one matched and modified"),
        ));
    }
    Ok(CallOutcome::success(
        1,
        reply.matched_count + u64::from(reply.upserted_id.is_some()),
    ))
}

async fn find_and_replace(
    table: &Collection<RawDocumentBuf>,
    filter: Document,
) -> Result<CallOutcome, Error> {
    let Some(found) = table.find_one(filter.clone()).await? else {
        return Ok(CallOutcome::success(1, 0));
    };
    let damaged =
        |error: &dyn std::fmt::Display| CallOutcome::failure("damaged document", error.to_string());
    let mut found: Document = match (&found).try_into() {
        Ok(found) => found,
        Err(error) => return Ok(damaged(&error)),
    };
    let k = found.get_i32("k").unwrap_or(0).wrapping_add(1);
    found.insert("k", k);
    let row = match RawDocumentBuf::try_from(&found) {
        Ok(row) => row,
        Err(error) => return Ok(damaged(&error)),
    };
    let reply = table.replace_one(filter, row).await?;
    Ok(CallOutcome::success(1, reply.matched_count))
}

fn set_limit(options: &mut FindOptions, limit: u32) {
    options.limit = Some(i64::from(limit));
    // One reply must hold all results, because the driver and not the workload would cause a second
    // round trip.
    options.batch_size = Some(limit.saturating_add(1));
}

impl Session for MongoSession {
    type Encoded = MongoCall;
    const BLOCKING: bool = false;

    fn encode(&mut self, call: Call) -> MongoCall {
        match call {
            Call::Insert { table, rows } => {
                MongoCall::Insert(table, rows.iter().map(document).collect())
            }
            Call::Get { table, id } => MongoCall::FindOne(table, id_bson(&id), Vec::new()),
            Call::Verify { table, id, fields } => MongoCall::FindOne(table, id_bson(&id), fields),
            Call::GetMany { table, ids: keys } => {
                let mut options = FindOptions::default();
                options.batch_size = u32::try_from(keys.len() + 1).ok();
                let expected = ExpectedReply::Ids(keys.iter().cloned().collect());
                MongoCall::Find(table, ids(&keys), Box::new(options), expected)
            }
            Call::Range {
                table,
                from,
                limit,
                reverse,
            } => {
                let mut options = FindOptions::default();
                let (operator, direction) = if reverse { ("$lte", -1) } else { ("$gte", 1) };
                options.sort = Some(doc! { "_id": direction });
                set_limit(&mut options, limit);
                let filter = doc! { "_id": { operator: id_bson(&from) } };
                let expected = ExpectedReply::InOrder(OrderChecker::from(from, reverse));
                MongoCall::Find(table, filter, Box::new(options), expected)
            }
            Call::IndexRange {
                table,
                index,
                from,
                limit,
            } => self.index_range(table, index, &from, limit),
            Call::Update { table, id, change } => {
                let (update, kind) = match change {
                    Change::Inc => (doc! { "$inc": { "k": 1 } }, UpdateKind::Changes),
                    Change::Set(field, value) => {
                        let kind = match &value {
                            Value::Text(text) if text.len() >= DISTINCT_MIN => UpdateKind::Changes,
                            _ => UpdateKind::MayBeSame,
                        };
                        (doc! { "$set": { field: bson(&value) } }, kind)
                    }
                };
                MongoCall::Update(table, doc! { "_id": id_bson(&id) }, update, kind)
            }
            Call::ReadModifyWrite { table, id } => {
                MongoCall::FindAndReplace(table, doc! { "_id": id_bson(&id) })
            }
            Call::Add { table, id } => MongoCall::Update(
                table,
                doc! { "_id": id_bson(&id) },
                doc! { "$inc": { "k": 1 } },
                UpdateKind::Upserts,
            ),
            Call::Put { table, row } => {
                let id = row.id.as_ref().map_or(Bson::Null, id_bson);
                MongoCall::Put(table, doc! { "_id": id }, document(&row))
            }
            Call::Delete { table, ids: keys } => MongoCall::Delete(table, ids(&keys)),
            Call::Statement(call) => MongoCall::Statement(Box::new(EncodedStatement::of(&call))),
            Call::Program(call) => MongoCall::Program(call),
            Call::Scan { table, from, to, n } => MongoCall::Find(
                table,
                doc! { "_id": { "$gte": from, "$lte": to }, "n": n },
                Box::default(),
                ExpectedReply::Rows,
            ),
        }
    }

    async fn run(&mut self, encoded: MongoCall) -> CallOutcome {
        let encoded = match encoded {
            MongoCall::Program(call) => return call.run(self).await.into(),
            other => other,
        };
        match self.execute(encoded).await {
            Ok(outcome) => outcome,
            Err((error, size)) => judge(&error, size),
        }
    }
}

/// Distinguishes an error reply from a missing reply.
fn judge(error: &Error, size: u64) -> CallOutcome {
    let message = one_line(error);
    if error.contains_label(OVERLOADED_LABEL) {
        return CallOutcome::failure(OVERLOADED, message);
    }
    match error.kind.as_ref() {
        ErrorKind::Command(inner) => CallOutcome::Failed {
            done: 0,
            kind: format!("{} {}", inner.code, inner.code_name),
            message,
        },
        ErrorKind::Write(_) => CallOutcome::Failed {
            done: 0,
            kind: "write error".to_owned(),
            message,
        },
        ErrorKind::InsertMany(inner) => {
            let first = inner
                .write_errors
                .as_ref()
                .and_then(|errors| errors.first());
            // The batch is ordered: documents before the first error are stored, later ones are
            // not.
            let done = first.map_or(size, |error| error.index as u64);
            let kind = first.map_or_else(
                || "write concern error".to_owned(),
                |error| format!("write error {}", error.code),
            );
            let message = first.map_or(message, |error| error.message.clone());
            CallOutcome::Failed {
                done,
                kind,
                message,
            }
        }
        _ => CallOutcome::Lost {
            unknown: size,
            message,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_becomes_alternatives_with_longer_and_longer_prefixes() {
        let keys = ["a", "b"].map(str::to_owned);
        assert_eq!(
            filter_from(&keys, &[Value::Int(1)]),
            doc! { "a": { "$gte": 1 } }
        );
        assert_eq!(
            filter_from(&keys, &[Value::Int(1), Value::Int(2)]),
            doc! { "$or": [ { "a": 1, "b": { "$gte": 2 } }, { "a": { "$gt": 1 } } ] }
        );
    }
}
