//! The equality join of `$lookup` and `$graphLookup`: finds foreign documents by the values of a
//! field.
//!
//! If the host has an index, each input batch is one lookup. Once the lookups have read as many
//! documents as a small foreign side has, that side is read as a whole instead. Without an index
//! the foreign side is read once into a hash table, or, if it does not fit the budget, once per
//! batch for the batch's values.

use super::hash::hash_bytes;
use crate::exec::{BatchStream, DocBatch, ExecContext, ResolvedNamespace, drain};
use crate::pipeline::Pipeline;
use crate::stage::PipelineSource;
use hashbrown::{HashMap, HashTable};
use model::{Doc, FieldPath, OwnedValue, Result, Value, compare};
use operators::filter;

/// Fewest documents looked up by index before the size of the foreign side is checked.
const LOOKED_UP_MIN: u64 = 512;

/// The parameters of a join.
pub(super) struct Join {
    /// Gives the foreign documents.
    pub(super) source: Pipeline,
    pub(super) local: FieldPath,
    pub(super) foreign: FieldPath,
    /// A path counts as null if a filter would treat it so because of arrays (9.0).
    pub(super) null_in_arrays: bool,
}

impl Join {
    fn is_null(&self, doc: Doc<'_>, path: &FieldPath, exec: &ExecContext<'_>) -> bool {
        self.null_in_arrays && filter::counts_as_null(exec.env.profile, doc, path)
    }

    /// Whether null must also match documents for which an index has no entry.
    fn is_beyond_indexes(&self, values: &[Value<'_>], exec: &ExecContext<'_>) -> bool {
        self.null_in_arrays
            && exec.env.profile.finds_null_in_arrays()
            && self.foreign.parts().len() > 1
            && values.iter().any(Value::is_nullish)
    }

    /// Shows the equality keys of a local document: its value, the elements of an array, or null if
    /// there is no value.
    pub(super) fn local_keys(
        &self,
        doc: Doc<'_>,
        exec: &ExecContext<'_>,
        each: &mut dyn FnMut(&[u8], Value<'_>),
    ) {
        let mut any = false;
        let mut key = Vec::new();
        values_on_path(Value::Document(doc), self.local.parts(), &mut |v| {
            any = true;
            key_of(v, exec, &mut key);
            each(&key, v);
        });
        if !any || self.is_null(doc, &self.local, exec) {
            key_of(Value::Null, exec, &mut key);
            each(&key, Value::Null);
        }
    }
}

/// The equality key of a value; null and missing have the same one.
pub(super) fn key_of(v: Value<'_>, exec: &ExecContext<'_>, out: &mut Vec<u8>) {
    out.clear();
    let v = if v.is_missing() { Value::Null } else { v };
    compare::equality_key(&v, exec.env.collate(), out);
}

/// Shows every value at a local path. It descends into arrays, also at the end; numeric components
/// are also array positions.
pub(super) fn values_on_path<'a>(
    v: Value<'a>,
    path: &[model::path::PathPart],
    each: &mut dyn FnMut(Value<'a>),
) {
    let Some((head, rest)) = path.split_first() else {
        match v {
            Value::Array(a) => a.iter().for_each(each),
            Value::Missing => {}
            v => each(v),
        }
        return;
    };
    match v {
        Value::Document(d) => values_on_path(d.field(&head.name), rest, each),
        Value::Array(a) => {
            for (i, item) in a.iter().enumerate() {
                if head.index == Some(i) {
                    values_on_path(item, rest, each);
                }
                if item.as_doc().is_some() {
                    values_on_path(item, path, each);
                }
            }
        }
        _ => {}
    }
}

/// Foreign documents and a hash table of their keys.
#[derive(Default)]
pub(super) struct JoinTable {
    docs: DocBatch,
    index: HashTable<(u64, Box<[u8]>, Vec<u32>)>,
    bytes: usize,
}

impl JoinTable {
    fn insert(
        &mut self,
        join: &Join,
        doc: Doc<'_>,
        exec: &ExecContext<'_>,
        wanted: Option<&HashMap<Box<[u8]>, ()>>,
    ) {
        let at = self.docs.len() as u32;
        let (mut key, mut kept) = (Vec::new(), false);
        let (index, bytes) = (&mut self.index, &mut self.bytes);
        let mut add = |v: Value<'_>| {
            key_of(v, exec, &mut key);
            if wanted.is_some_and(|w| !w.contains_key(key.as_slice())) {
                return;
            }
            kept = true;
            let hash = hash_bytes(&key);
            let entry = index.entry(hash, |(_, k, _)| **k == *key, |(h, _, _)| *h);
            let entry = entry.or_insert_with(|| (hash, key.as_slice().into(), Vec::new()));
            let list = &mut entry.into_mut().2;
            if list.last() != Some(&at) {
                *bytes += key.len() + size_of::<u32>();
                list.push(at);
            }
        };
        filter::values_at(doc, &join.foreign, &mut add);
        if join.is_null(doc, &join.foreign, exec) {
            add(Value::Null);
        }
        if kept {
            self.docs.push(doc);
        }
    }
    fn find(&self, key: &[u8]) -> &[u32] {
        self.index
            .find(hash_bytes(key), |(_, k, _)| **k == *key)
            .map_or(&[], |(_, _, list)| list)
    }
    fn len_bytes(&self) -> usize {
        self.docs.len_bytes() + self.bytes
    }
}

/// The documents a join has read so far.
#[derive(Default)]
pub(super) struct JoinCache {
    table: JoinTable,
    state: State,
    /// Number of documents read by index.
    looked_up: u64,
    /// Number of documents read by index at which the size of the foreign side is checked next.
    ask_at: u64,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum State {
    /// Nothing was read.
    #[default]
    New,
    /// The table holds the whole foreign side.
    Whole,
    /// The table holds the documents for the current batch, read by index.
    ByIndex,
    /// The table holds the documents for the current batch, read by a scan.
    ByScan,
}

/// The matching documents.
pub(super) struct JoinMatches<'t> {
    table: &'t JoinTable,
    rows: Vec<u32>,
}

impl<'t> JoinMatches<'t> {
    fn add(&mut self, key: &[u8]) {
        self.rows.extend_from_slice(self.table.find(key));
    }
    fn sort_rows(mut self) -> JoinMatches<'t> {
        self.rows.sort_unstable();
        self.rows.dedup();
        self
    }
    /// In the order in which the foreign side was read.
    pub(super) fn iter(&self) -> impl Iterator<Item = Doc<'t>> {
        self.rows.iter().map(|i| self.table.docs.doc(*i as usize))
    }
}

impl JoinCache {
    /// Reads the documents that a batch needs.
    ///
    /// # Errors
    /// Those of the host.
    pub(super) fn prepare(
        &mut self,
        join: &Join,
        batch: &DocBatch,
        exec: &ExecContext<'_>,
    ) -> Result<()> {
        let mut values = Vec::new();
        if self.state != State::Whole {
            for doc in batch.iter() {
                join.local_keys(doc, exec, &mut |_, v| values.push(v.to_owned_value()));
            }
        }
        self.prepare_values(join, &values, exec)
    }

    /// Reads the documents that these values need.
    ///
    /// # Errors
    /// Those of the host.
    pub(super) fn prepare_values(
        &mut self,
        join: &Join,
        values: &[OwnedValue],
        exec: &ExecContext<'_>,
    ) -> Result<()> {
        if self.state == State::New {
            self.state = self.begin(join, exec)?;
        }
        if self.state == State::Whole || values.is_empty() {
            return Ok(());
        }
        let mut wanted: HashMap<Box<[u8]>, ()> = HashMap::new();
        let mut key = Vec::new();
        let mut once: Vec<Value<'_>> = Vec::new();
        for v in values {
            key_of(v.get(), exec, &mut key);
            if wanted.insert(key.as_slice().into(), ()).is_none() {
                once.push(v.get());
            }
        }
        if self.state == State::ByIndex && self.read_all(join, exec)? {
            return Ok(());
        }
        self.table = JoinTable::default();
        let mut docs = match (self.state, join.source.target()) {
            (State::ByIndex, PipelineSource::Collection(ns))
                if !join.is_beyond_indexes(&once, exec) =>
            {
                exec.host.look_up(exec, ns, &join.foreign, &once)?
            }
            _ => join.source.open(exec)?,
        };
        drain(docs.as_mut(), exec, |doc, _| {
            self.looked_up += 1;
            self.table.insert(join, doc, exec, Some(&wanted));
            Ok(())
        })
    }

    /// Reads the whole foreign side into the table if it is no larger than what was looked up by
    /// index so far; false if lookups continue.
    fn read_all(&mut self, join: &Join, exec: &ExecContext<'_>) -> Result<bool> {
        let PipelineSource::Collection(ns) = join.source.target() else {
            return Ok(false);
        };
        if self.looked_up < self.ask_at.max(LOOKED_UP_MIN) {
            return Ok(false);
        }
        self.ask_at = self.looked_up.saturating_mul(2);
        let most = self.looked_up;
        let Some(docs) = exec.host.look_up_all(exec, ns, &join.foreign, most)? else {
            return Ok(false);
        };
        if self.fill(join, docs, exec)? {
            self.state = State::Whole;
        }
        Ok(self.state == State::Whole)
    }

    fn begin(&mut self, join: &Join, exec: &ExecContext<'_>) -> Result<State> {
        if let PipelineSource::Collection(ns) = join.source.target()
            && matches!(exec.host.resolve(ns)?, ResolvedNamespace::Collection)
            && exec.host.can_look_up(ns, &join.foreign)
        {
            return Ok(State::ByIndex);
        }
        let docs = join.source.open(exec)?;
        Ok(match self.fill(join, docs, exec)? {
            true => State::Whole,
            false => State::ByScan,
        })
    }

    /// Reads everything into the table; false, with an empty table, if it does not fit.
    fn fill(
        &mut self,
        join: &Join,
        mut docs: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<bool> {
        self.table = JoinTable::default();
        let budget = exec.host.memory_limit_bytes();
        let mut batch = DocBatch::new();
        loop {
            exec.env.check_interrupt()?;
            batch.clear();
            let more = docs.next_batch(exec, &mut batch)?;
            for doc in batch.iter() {
                self.table.insert(join, doc, exec, None);
            }
            exec.env.check_interrupt()?;
            if self.table.len_bytes() > budget {
                self.table = JoinTable::default();
                return Ok(false);
            }
            if !more {
                return Ok(true);
            }
        }
    }

    /// The foreign documents equal to a local one.
    pub(super) fn matches(
        &self,
        join: &Join,
        doc: Doc<'_>,
        exec: &ExecContext<'_>,
    ) -> JoinMatches<'_> {
        let mut matched = JoinMatches {
            table: &self.table,
            rows: Vec::new(),
        };
        join.local_keys(doc, exec, &mut |key, _| matched.add(key));
        matched.sort_rows()
    }

    /// The foreign documents with any of these values.
    pub(super) fn matches_values(
        &self,
        values: &[OwnedValue],
        exec: &ExecContext<'_>,
    ) -> JoinMatches<'_> {
        let mut matched = JoinMatches {
            table: &self.table,
            rows: Vec::new(),
        };
        let mut key = Vec::new();
        for v in values {
            key_of(v.get(), exec, &mut key);
            matched.add(&key);
        }
        matched.sort_rows()
    }
}
