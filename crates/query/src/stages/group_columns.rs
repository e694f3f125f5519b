//! `$group` over columns: the groups of a part of the input, with the states of each accumulator
//! side by side. Keys, states and errors equal those of grouping document by document, because the
//! same functions make them. Must not know: how documents are read, spilling.

use super::accumulate::Field;
use crate::exec::{ExecContext, PartialResult};
use hashbrown::HashTable;
use model::{Bump, Collate, DocWriter, OwnedValue, Result, Value, compare};
use operators::accumulator::GroupAccumulator;
use operators::columns::{Operand, Paths};
use operators::expr::Expr;
use operators::vector::{ColumnExpr, Rows};
use operators::{Cx, Env};
use std::any::Any;
use std::sync::Arc;

/// The values that a `$group` needs of documents.
pub(super) struct Columns {
    pub(super) paths: Arc<Paths>,
    id: ColumnExpr,
    inputs: Vec<ColumnExpr>,
}

impl Columns {
    /// The columns of a group; `None` if it needs whole documents, or if the states of an
    /// accumulator cannot be merged.
    pub(super) fn of(id: &dyn Expr, fields: &[Field]) -> Option<Columns> {
        let mut paths = Paths::default();
        let id = ColumnExpr::of(id, &mut paths)?;
        let inputs = fields.iter().map(|f| {
            let merges = f.spec().many.is_some() && f.spec().init.is_none();
            let input = f.spec().input.as_ref();
            merges.then(|| ColumnExpr::of(input, &mut paths)).flatten()
        });
        let inputs = inputs.collect::<Option<Vec<_>>>()?;
        Some(Columns {
            paths: Arc::new(paths),
            id,
            inputs,
        })
    }

    /// Adds documents to groups.
    ///
    /// # Errors
    /// Those of the expressions and accumulators, of the first document that has one.
    pub(super) fn add(
        &self,
        groups: &mut Groups,
        id: &dyn Expr,
        fields: &[Field],
        rows: Rows<'_>,
        exec: &ExecContext<'_>,
    ) -> Result<()> {
        let evaluated = self.id.eval(id, rows).and_then(|id| {
            let inputs = fields.iter().zip(&self.inputs);
            let inputs = inputs.map(|(f, form)| form.eval(f.spec().input.as_ref(), rows));
            Ok((id, inputs.collect::<Result<Vec<_>>>()?))
        });
        let (ids, inputs) = match evaluated {
            Ok(both) => both,
            Err(e) => return Err(first_error(id, fields, rows, exec).unwrap_or(e)),
        };
        groups.find(&ids, rows.len(), exec.env.collate());
        let arena = Bump::new();
        let cx = exec.cx(&arena, model::Doc::EMPTY);
        for (states, input) in groups.states.iter_mut().zip(&inputs) {
            states.grow(groups.list.len());
            states.add(&cx, &groups.found, input)?;
        }
        Ok(())
    }
}

/// The error of the first document that fails, as the stage reports it document by document.
fn first_error(
    id: &dyn Expr,
    fields: &[Field],
    rows: Rows<'_>,
    exec: &ExecContext<'_>,
) -> Option<model::MongoError> {
    let mut arena = Bump::new();
    for at in 0..rows.len() {
        let cx = exec.cx(&arena, rows.doc(at, &arena));
        let outcome = id.eval(&cx).map(|_| ()).and_then(|()| {
            let mut inputs = fields.iter();
            inputs.try_for_each(|f| f.spec().group_input(&cx).map(|_| ()))
        });
        if let Err(e) = outcome {
            return Some(e);
        }
        arena.reset();
    }
    None
}

/// The groups of a part of the input.
pub(super) struct Groups {
    index: HashTable<u32>,
    keys: Vec<u8>,
    list: Vec<Group>,
    states: Vec<Box<dyn GroupAccumulator>>,
    id_bytes: usize,
    /// The group of each row of the current batch.
    found: Vec<u32>,
    key: Vec<u8>,
}

struct Group {
    hash: u64,
    key_start: usize,
    key_end: usize,
    id: OwnedValue,
}

impl Groups {
    /// No groups.
    pub(super) fn new(fields: &[Field]) -> Groups {
        let states = fields.iter().filter_map(|f| Some((f.spec().many?)()));
        Groups {
            index: HashTable::new(),
            keys: Vec::new(),
            list: Vec::new(),
            states: states.collect(),
            id_bytes: 0,
            found: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Finds or makes the group of each row.
    fn find(&mut self, ids: &Operand<'_>, rows: usize, collate: Option<&dyn Collate>) {
        self.found.clear();
        let mut arena = Bump::new();
        let mut key = std::mem::take(&mut self.key);
        let same_for_all = matches!(ids, Operand::Constant(_));
        for row in 0..rows {
            if let (true, Some(group)) = (same_for_all, self.found.first()) {
                self.found.push(*group);
                continue;
            }
            key.clear();
            write_key(ids, row, collate, &mut key);
            let hash = super::hash::hash_bytes(&key);
            let group = match self.look_up(hash, &key) {
                Some(group) => group,
                None => {
                    let id = id_of(ids.value(row, &arena)).to_owned_value();
                    arena.reset();
                    self.insert(hash, &key, id)
                }
            };
            self.found.push(group);
        }
        self.key = key;
    }

    fn look_up(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let same = |at: &u32| self.key_of(*at) == Some(key);
        self.index.find(hash, same).copied()
    }

    fn key_of(&self, at: u32) -> Option<&[u8]> {
        let group = self.list.get(at as usize)?;
        self.keys.get(group.key_start..group.key_end)
    }

    fn insert(&mut self, hash: u64, key: &[u8], id: OwnedValue) -> u32 {
        let key_start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.id_bytes += id.len_bytes();
        let at = self.list.len() as u32;
        self.list.push(Group {
            hash,
            key_start,
            key_end: self.keys.len(),
            id,
        });
        let list = &self.list;
        let hash_of = |at: &u32| list.get(*at as usize).map_or(0, |g| g.hash);
        self.index.insert_unique(hash, at, hash_of);
        at
    }

    /// Adds the groups of later documents.
    ///
    /// # Errors
    /// Those of the accumulators; the operation's interrupt.
    pub(super) fn merge(&mut self, later: Groups, exec: &ExecContext<'_>) -> Result<()> {
        let mut to = Vec::with_capacity(later.list.len());
        for group in later.list {
            let key = later.keys.get(group.key_start..group.key_end);
            let key = key.unwrap_or_default();
            to.push(match self.look_up(group.hash, key) {
                Some(at) => at,
                None => self.insert(group.hash, key, group.id),
            });
        }
        exec.env.check_interrupt()?;
        let arena = Bump::new();
        let cx = exec.cx(&arena, model::Doc::EMPTY);
        for (states, later) in self.states.iter_mut().zip(later.states) {
            states.grow(self.list.len());
            states.merge(&cx, later, &to)?;
        }
        Ok(())
    }

    /// Checks that there is memory for the results of a group.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit.
    pub(super) fn room_to_write(&self, group: usize, env: &Env) -> Result<()> {
        let bytes: usize = self.states.iter().map(|s| s.group_bytes(group)).sum();
        env.room_for(2 * bytes)
    }

    /// Writes a group.
    ///
    /// # Errors
    /// Those of the accumulators.
    pub(super) fn write(
        &self,
        group: usize,
        fields: &[Field],
        cx: &Cx<'_, '_>,
        w: &mut DocWriter<'_>,
    ) -> Result<()> {
        if let Some(group) = self.list.get(group) {
            w.put("_id", group.id.get());
        }
        for (field, states) in fields.iter().zip(&self.states) {
            w.put(&field.name, states.finish(group, cx)?);
        }
        Ok(())
    }
}

/// A missing `_id` counts as null.
fn id_of(v: Value<'_>) -> Value<'_> {
    match v {
        Value::Missing => Value::Null,
        v => v,
    }
}

/// The equality key of a row's `_id`, as [`compare::equality_key`] makes it of the value.
fn write_key(ids: &Operand<'_>, row: usize, collate: Option<&dyn Collate>, out: &mut Vec<u8>) {
    match ids {
        Operand::Fields(_) => write_below(ids, row, collate, out),
        ids => compare::equality_key(&id_of(value(ids, row)), collate, out),
    }
}

/// The value of a row; the default for a computed document.
fn value<'o>(operand: &'o Operand<'_>, at: usize) -> Value<'o> {
    operand.scalar(at).unwrap_or_default()
}

/// The key of a value. A missing value leaves its field out and has no key.
fn write_below(
    operand: &Operand<'_>,
    row: usize,
    collate: Option<&dyn Collate>,
    out: &mut Vec<u8>,
) {
    let v = match operand {
        Operand::Fields(fields) => {
            out.push(compare::class(&Value::Document(model::Doc::EMPTY)));
            for (name, below) in fields {
                let start = out.len();
                out.push(1);
                out.extend_from_slice(&(name.len() as u32).to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                let before = out.len();
                write_below(below, row, collate, out);
                if out.len() == before {
                    out.truncate(start);
                }
            }
            out.push(0);
            return;
        }
        operand => value(operand, row),
    };
    if !v.is_missing() {
        compare::equality_key(&v, collate, out);
    }
}

impl PartialResult for Groups {
    fn memory_bytes(&self) -> usize {
        let states: usize = self.states.iter().map(|s| s.memory_bytes()).sum();
        self.keys.len() + self.id_bytes + self.list.len() * size_of::<Group>() + states
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
