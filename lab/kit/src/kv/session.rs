//! One client's calls on an ordered engine.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::check::{self, ScanCheck};
use super::encode;
use super::tables::{KvTables, STRIPES, space_of};
use crate::engine::{EngineError, EngineSession, KeyChange};
use crate::row::{Key, Value};
use crate::target::{Call, CallOutcome, Change, Session};

/// One client.
pub struct KvSession {
    shared: Arc<KvTables>,
    engine: Box<dyn EngineSession>,
    sync: bool,
    buffer: Vec<u8>,
    /// Reads so far.
    reads: u32,
}

/// Only one of this many reads has the contents of its rows checked: a check takes longer than an
/// engine's answer, and the time of a call should be the engine's.
const LOOK_EVERY: u32 = 8;

/// A call with its keys and values as bytes.
#[derive(Debug)]
pub enum KvCall {
    /// A statement of a workload file, which engines do not support; the lab refuses it before the
    /// run.
    Unsupported,
    /// A batch that needs no read.
    Write {
        /// The changes.
        batch: Vec<KeyChange>,
        /// Operations of the call.
        ops: u64,
    },
    /// A batch of new rows.
    Insert {
        /// The changes.
        batch: Vec<KeyChange>,
        /// Operations of the call.
        ops: u64,
        /// Keys of rows that must not exist.
        ids: Vec<Vec<u8>>,
        /// Prefixes that no entry of a unique index may have.
        values: Vec<Vec<u8>>,
    },
    /// Reads of single keys.
    Get {
        /// Number of the table.
        table: usize,
        /// Keys of the rows.
        keys: Vec<Vec<u8>>,
        /// The allowed values of fields, for a call that verifies them.
        allowed: Vec<(&'static str, Vec<u64>)>,
    },
    /// A read of neighbours.
    Scan {
        /// The table of the rows; `None` for entries of an index.
        table: Option<usize>,
        /// First key.
        from: Vec<u8>,
        /// Key after the last.
        end: Vec<u8>,
        /// The most rows to return.
        limit: u32,
        /// Whether in descending order.
        reverse: bool,
    },
    /// A change that needs the row.
    Modify {
        /// Number of the table.
        table: usize,
        /// The row's key.
        key: Vec<u8>,
        /// The change.
        change: RowChange,
    },
    /// Deletion of rows with their index entries.
    Delete {
        /// Number of the table.
        table: usize,
        /// Keys of the rows.
        keys: Vec<Vec<u8>>,
    },
    /// A search without an index.
    Filter {
        /// First key.
        from: Vec<u8>,
        /// Key after the last.
        end: Vec<u8>,
        /// Position of the field.
        at: usize,
        /// Its value.
        value: Value,
    },
}

/// A change of a row.
#[derive(Debug)]
pub enum RowChange {
    /// The counter grows by 1.
    Inc,
    /// The field at a position gets a value.
    Set(usize, Value),
    /// The whole row is stored, whether it exists or not.
    Put(Vec<(&'static str, Value)>),
}

impl KvSession {
    pub(super) fn new(shared: Arc<KvTables>, engine: Box<dyn EngineSession>, sync: bool) -> Self {
        Self {
            shared,
            engine,
            sync,
            buffer: Vec::new(),
            reads: 0,
        }
    }

    fn insert(&self, table: usize, rows: Vec<crate::row::Row>) -> KvCall {
        let ops = rows.len() as u64;
        let has_indexes = self.shared.has_indexes();
        let guards = self.shared.guards(table);
        let mut batch = Vec::with_capacity(rows.len() * 4);
        let (mut ids, mut unique) = (Vec::new(), Vec::new());
        for row in rows {
            let given = row.id.is_some();
            let id = row.id.unwrap_or_else(|| self.shared.make_id());
            let key = encode::row_key(table, &id);
            if guards && given {
                ids.push(key.clone());
            }
            if has_indexes {
                let values: Vec<Value> =
                    row.fields.iter().map(|(_, value)| value.clone()).collect();
                unique.extend(self.shared.unique_prefixes(table, &values));
                let entries = self.shared.entries(table, id_of(table, &key), &values);
                batch.extend(
                    entries
                        .into_iter()
                        .map(|key| KeyChange::Put(key, Vec::new())),
                );
            }
            batch.push(KeyChange::Put(key, encode::encode(&row.fields)));
        }
        if guards {
            return KvCall::Insert {
                batch,
                ops,
                ids,
                values: unique,
            };
        }
        KvCall::Write { batch, ops }
    }

    /// Reads each id and each unique value before it stores the rows, as a database must that
    /// cannot know otherwise whether they exist.
    fn insert_new(
        &mut self,
        batch: &[KeyChange],
        ops: u64,
        ids: &[Vec<u8>],
        values: &[Vec<u8>],
    ) -> Result<CallOutcome, EngineError> {
        let shared = self.shared.clone();
        let _locked = lock_all(&shared, ids.iter().chain(values));
        let mut seen = HashSet::new();
        for id in ids {
            if !seen.insert(id) || self.engine.get(id, &mut self.buffer)? {
                return Ok(CallOutcome::failure(
                    "duplicate id",
                    "a row with this id exists".to_owned(),
                ));
            }
        }
        for prefix in values {
            // No id contains nine such bytes: numbers have eight bytes, and text has none of these.
            let end = [prefix.as_slice(), &[0xff; 9]].concat();
            let mut found = !seen.insert(prefix);
            self.engine.scan(prefix, &end, false, &mut |_, _| {
                found = true;
                false
            })?;
            if found {
                return Ok(CallOutcome::failure(
                    "duplicate value",
                    "a unique index has a row with these values".to_owned(),
                ));
            }
        }
        self.engine.write(batch, self.sync)?;
        Ok(CallOutcome::success(ops, ops))
    }

    fn position(&self, table: usize, field: &str) -> usize {
        let fields = self
            .shared
            .tables
            .get(table)
            .map(|table| table.kind.fields());
        fields
            .and_then(|fields| fields.iter().position(|(name, _)| *name == field))
            .unwrap_or(usize::MAX)
    }

    /// Whether the rows of the next read are checked.
    fn is_check_due(&mut self) -> bool {
        self.reads = self.reads.wrapping_add(1);
        self.reads.is_multiple_of(LOOK_EVERY)
    }

    fn read(
        &mut self,
        table: usize,
        keys: &[Vec<u8>],
        allowed: &[(&'static str, Vec<u64>)],
    ) -> Result<CallOutcome, EngineError> {
        let mut found = 0;
        let looks = self.is_check_due() || !allowed.is_empty();
        for key in keys {
            if self.engine.get(key, &mut self.buffer)? {
                found += 1;
                if !looks {
                    // A row that cannot be decoded is not the row that was stored.
                    if encode::counter(&self.buffer).is_none() {
                        return Ok(CallOutcome::failure("damaged row", format!("{key:?}")));
                    }
                    continue;
                }
                let read = check::row(&self.shared, table, key, &self.buffer, allowed);
                if let Err(wrong) = read {
                    return Ok(wrong);
                }
            }
        }
        Ok(CallOutcome::success(1, found))
    }

    fn modify(
        &mut self,
        table: usize,
        key: &[u8],
        change: RowChange,
    ) -> Result<CallOutcome, EngineError> {
        let shared = self.shared.clone();
        let has_indexes = shared.has_indexes();
        let _locked = lock_row(&shared, key);
        if let (RowChange::Put(fields), false) = (&change, has_indexes) {
            let batch = [KeyChange::Put(key.to_vec(), encode::encode(fields))];
            self.engine.write(&batch, self.sync)?;
            return Ok(CallOutcome::success(1, 1));
        }
        let was_there = self.engine.get(key, &mut self.buffer)?;
        let before = if was_there {
            self.buffer.as_slice()
        } else {
            &[]
        };
        let after = match change {
            RowChange::Put(fields) => encode::encode(&fields),
            _ if !was_there => return Ok(CallOutcome::success(1, 0)),
            RowChange::Inc => encode::add_to_row(before, 1)
                .ok_or_else(|| EngineError("a row is damaged".to_owned()))?,
            RowChange::Set(at, value) => replace(&shared, table, before, at, value)?,
        };
        let mut batch = Vec::with_capacity(4);
        if has_indexes {
            let entries = |row: &[u8]| {
                let values = encode::decode(row).unwrap_or_default();
                shared.entries(table, id_of(table, key), &values)
            };
            let (old, new) = (
                if was_there {
                    entries(before)
                } else {
                    Vec::new()
                },
                entries(&after),
            );
            batch.extend(
                old.iter()
                    .filter(|key| !new.contains(key))
                    .cloned()
                    .map(KeyChange::Delete),
            );
            let put = |key: &Vec<u8>| KeyChange::Put(key.clone(), Vec::new());
            batch.extend(new.iter().filter(|key| !old.contains(key)).map(put));
        }
        batch.push(KeyChange::Put(key.to_vec(), after));
        self.engine.write(&batch, self.sync)?;
        Ok(CallOutcome::success(1, 1))
    }

    fn delete(&mut self, table: usize, keys: &[Vec<u8>]) -> Result<CallOutcome, EngineError> {
        let mut batch = Vec::with_capacity(keys.len());
        let mut found = 0;
        for key in keys {
            if !self.engine.get(key, &mut self.buffer)? {
                continue;
            }
            found += 1;
            let values = encode::decode(&self.buffer).unwrap_or_default();
            let entries = self.shared.entries(table, id_of(table, key), &values);
            batch.extend(entries.into_iter().map(KeyChange::Delete));
            batch.push(KeyChange::Delete(key.clone()));
        }
        self.engine.write(&batch, self.sync)?;
        Ok(CallOutcome::success(found, found))
    }

    fn execute(&mut self, encoded: KvCall) -> Result<CallOutcome, EngineError> {
        match encoded {
            KvCall::Unsupported => Ok(CallOutcome::failure(
                "no statements",
                "an engine takes no statements".to_owned(),
            )),
            KvCall::Write { batch, ops } => {
                self.engine.write(&batch, self.sync)?;
                Ok(CallOutcome::success(ops, ops))
            }
            KvCall::Insert {
                batch,
                ops,
                ids,
                values,
            } => self.insert_new(&batch, ops, &ids, &values),
            KvCall::Get {
                table,
                keys,
                allowed,
            } => self.read(table, &keys, &allowed),
            KvCall::Scan {
                table,
                from,
                end,
                limit,
                reverse,
            } => {
                let table = table.filter(|_| self.is_check_due());
                let mut read = ScanCheck::new(&self.shared, table, reverse);
                self.engine.scan(&from, &end, reverse, &mut |key, value| {
                    read.take(key, value) && read.rows() < u64::from(limit)
                })?;
                Ok(read.outcome())
            }
            KvCall::Modify { table, key, change } => self.modify(table, &key, change),
            KvCall::Delete { table, keys } => self.delete(table, &keys),
            KvCall::Filter {
                from,
                end,
                at,
                value,
            } => {
                let mut found = 0;
                self.engine.scan(&from, &end, false, &mut |_, row| {
                    let values = encode::decode(row).unwrap_or_default();
                    found += u64::from(values.get(at) == Some(&value));
                    true
                })?;
                Ok(CallOutcome::success(1, found))
            }
        }
    }
}

/// A stored row with another value at one position.
fn replace(
    shared: &KvTables,
    table: usize,
    row: &[u8],
    at: usize,
    value: Value,
) -> Result<Vec<u8>, EngineError> {
    let damaged = || EngineError("a row is damaged".to_owned());
    let mut values = encode::decode(row).ok_or_else(damaged)?;
    *values.get_mut(at).ok_or_else(damaged)? = value;
    let kind = shared.tables.get(table).ok_or_else(damaged)?.kind;
    let names = kind.fields().into_iter().map(|(name, _)| name);
    Ok(encode::encode(&names.zip(values).collect::<Vec<_>>()))
}

fn id_of(table: usize, key: &[u8]) -> &[u8] {
    key.get(encode::prefix(table, 0).len()..)
        .unwrap_or_default()
}

fn stripe_of(key: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() as usize % STRIPES
}

fn lock_row<'a>(shared: &'a KvTables, key: &[u8]) -> Option<MutexGuard<'a, ()>> {
    let stripe = shared.stripes.get(stripe_of(key))?;
    Some(stripe.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Locks all keys, always in the same order, so that clients cannot deadlock.
fn lock_all<'a>(
    shared: &'a KvTables,
    keys: impl Iterator<Item = &'a Vec<u8>>,
) -> Vec<MutexGuard<'a, ()>> {
    let stripes: BTreeSet<usize> = keys.map(|key| stripe_of(key)).collect();
    let stripes = stripes.into_iter().filter_map(|at| shared.stripes.get(at));
    stripes
        .map(|stripe| stripe.lock().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

fn get(table: usize, ids: &[Key], allowed: Vec<(&'static str, Vec<u64>)>) -> KvCall {
    KvCall::Get {
        table,
        keys: ids.iter().map(|id| encode::row_key(table, id)).collect(),
        allowed,
    }
}

fn index_range(table: usize, index: usize, from: &[Value], limit: u32) -> KvCall {
    let space = space_of(index);
    let mut start = encode::prefix(table, space);
    from.iter()
        .for_each(|value| encode::push_ordered(&mut start, value));
    KvCall::Scan {
        table: None,
        from: start,
        end: encode::prefix_end(table, space),
        limit,
        reverse: false,
    }
}

impl Session for KvSession {
    type Encoded = KvCall;
    const BLOCKING: bool = true;
    const INSIDE: bool = true;

    fn encode(&mut self, call: Call) -> KvCall {
        match call {
            Call::Insert { table, rows } => self.insert(table, rows),
            Call::Get { table, id } => get(table, &[id], Vec::new()),
            Call::Verify { table, id, fields } => get(table, &[id], fields),
            Call::GetMany { table, ids } => get(table, &ids, Vec::new()),
            Call::Range {
                table,
                from,
                limit,
                reverse,
            } => {
                let mut start = encode::row_key(table, &from);
                let (from, end) = if reverse {
                    // A descending range includes its first row, as on servers.
                    start.push(0);
                    (encode::prefix(table, 0), start)
                } else {
                    (start, encode::prefix_end(table, 0))
                };
                KvCall::Scan {
                    table: Some(table),
                    from,
                    end,
                    limit,
                    reverse,
                }
            }
            Call::IndexRange {
                table,
                index,
                from,
                limit,
            } => index_range(table, index, &from, limit),
            Call::Update { table, id, change } => KvCall::Modify {
                table,
                key: encode::row_key(table, &id),
                change: match change {
                    Change::Inc => RowChange::Inc,
                    Change::Set(field, value) => RowChange::Set(self.position(table, field), value),
                },
            },
            // In an engine every update reads and stores the row.
            Call::ReadModifyWrite { table, id } => KvCall::Modify {
                table,
                key: encode::row_key(table, &id),
                change: RowChange::Inc,
            },
            Call::Add { table, id } => KvCall::Write {
                batch: vec![KeyChange::Merge(encode::row_key(table, &id), 1)],
                ops: 1,
            },
            Call::Put { table, row } => {
                let id = row.id.unwrap_or(Key::Number(0));
                KvCall::Modify {
                    table,
                    key: encode::row_key(table, &id),
                    change: RowChange::Put(row.fields),
                }
            }
            Call::Statement(_) | Call::Program(_) => KvCall::Unsupported,
            Call::Delete { table, ids } => KvCall::Delete {
                table,
                keys: ids.iter().map(|id| encode::row_key(table, id)).collect(),
            },
            Call::Scan { table, from, to, n } => KvCall::Filter {
                from: encode::row_key(table, &Key::Number(from)),
                end: encode::row_key(table, &Key::Number(to.saturating_add(1))),
                at: self.position(table, "n"),
                value: Value::Long(n),
            },
        }
    }

    async fn run(&mut self, encoded: KvCall) -> CallOutcome {
        match self.execute(encoded) {
            Ok(outcome) => outcome,
            Err(error) => CallOutcome::failure("engine error", error.to_string()),
        }
    }
}
