//! `$group: {_id: expression, field: {accumulator}, ...}`: a hash table on the equality of `_id`;
//! groups come in the order of their first document. Beyond the memory budget documents of groups
//! not yet in the table go to temporary files, partitioned by hash, and are grouped afterwards; the
//! order inside a group never changes. Errors: 15947 no document, 15955 no `_id`, 17390 a field of
//! `_id` as in a projection, 292 past the budget without disk use, and those of
//! [`super::accumulate`].

use super::accumulate::{Field, States, emit, parse_field};
use super::group_columns::{Columns, Groups};
use super::hash::hash_bytes;
use crate::exec::{
    BatchStream, DocBatch, ExecContext, Fold, PartialResult, SpillFile, drain_ahead, memory_error,
};
use crate::stage::{
    ApiClass, Kind, PipelineContext, Placement, Stage, StageNeeds, StageOp, Transform, one,
};
use hashbrown::HashTable;
use model::{
    Bump, Doc, DocBuf, ErrorKind, MongoError, OwnedValue, Result, Value, bail, code, compare,
};
use operators::columns::Paths;
use operators::expr::{self, BoxExpr, ParseCx};
use operators::vector::Rows;
use operators::{Cx, RequiredFields};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$group",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |scx, _, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                15947,
                "a group's fields must be specified in an object, not {}",
                arg.type_name()
            );
        };
        let mut id = None;
        let mut fields = Vec::new();
        for (name, v) in spec.iter() {
            if name == "_id" {
                if id.is_some() {
                    bail!(15948, "a group's _id may only be specified once");
                }
                check_id(v)?;
                id = Some(expr::parse(scx.cx, v)?);
            } else if name.is_empty() && scx.cx.env.profile.refuses_groups_without_a_name() {
                bail!(
                    15998,
                    "a field of $group must have a name, given an empty one"
                )
            } else {
                fields.push(parse_field(scx.cx, name, v)?);
            }
        }
        let Some(id) = id else {
            bail!(15955, "a group specification must include an _id")
        };
        let in_engine = scx.options.inside == PipelineContext::Top
            && scx.before.iter().all(|s| selects(s.kind()));
        one(Group {
            in_engine,
            id,
            fields,
            spec: Some(spec.to_buf()),
            shown: model::doc! { "$group": arg },
        })
    },
}];

/// The fields of an `_id` document are expressions; a projection's 0 or 1 is refused.
fn check_id(id: Value<'_>) -> Result<()> {
    let fields = id
        .as_doc()
        .filter(|d| d.first().is_some_and(|(n, _)| !n.starts_with('$')));
    let inclusion = |v: &Value<'_>| v.is_number() || v.as_bool().is_some();
    if fields.is_some_and(|d| d.iter().any(|(_, v)| inclusion(&v))) {
        bail!(17390, "$group does not support inclusion-style expressions");
    }
    Ok(())
}

/// Stages after which MongoDB runs a group in its other execution engine, whose errors have other
/// codes.
fn selects(kind: Kind<'_>) -> bool {
    matches!(
        kind,
        Kind::Match(_) | Kind::Sort { .. } | Kind::Limit(_) | Kind::Skip(_)
    )
}

/// Gives an error the code that this engine uses.
fn engine_error(e: MongoError) -> MongoError {
    let number = match e.code() {
        code::BAD_VALUE if e.is(ErrorKind::DivisionByZero) => 4848401,
        16610 => 4848403,
        40400 => 5911200,
        _ => return e,
    };
    MongoError::new(number, e.message())
}

/// Groups its input.
pub(crate) struct Group {
    in_engine: bool,
    id: BoxExpr,
    fields: Vec<Field>,
    /// The stage as written if it was a `$group`; `None` if another stage made it.
    spec: Option<DocBuf>,
    shown: DocBuf,
}

impl Group {
    /// A group that another stage makes; `shown` is what explain shows.
    pub(super) fn new(
        cx: &mut ParseCx<'_>,
        id: BoxExpr,
        output: Doc<'_>,
        shown: DocBuf,
    ) -> Result<Group> {
        let fields = output
            .iter()
            .map(|(name, v)| parse_field(cx, name, v))
            .collect::<Result<Vec<_>>>()?;
        Ok(Group {
            id,
            fields,
            spec: None,
            shown,
            in_engine: false,
        })
    }
}

impl Stage for Group {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(GroupStream {
            stage: self,
            input: Some(input),
            table: Table::default(),
            partitions: Vec::new(),
            waiting: Vec::new(),
            depth: 0,
            next: 0,
            arena: Bump::new(),
        }))
    }
    fn describe(&self) -> DocBuf {
        self.shown.clone()
    }
    fn kind(&self) -> Kind<'_> {
        self.spec.as_ref().map_or(Kind::Other, |spec| {
            Kind::Transform(Transform::Group(spec.doc()))
        })
    }
    fn reads(&self, reads: &mut RequiredFields) {
        self.id.reads(reads);
        self.fields.iter().for_each(|f| f.reads(reads));
    }
    fn fold(self: Arc<Self>) -> Option<Arc<dyn Fold>> {
        let columns = Columns::of(self.id.as_ref(), &self.fields)?;
        Some(Arc::new(GroupFold {
            stage: self,
            columns,
        }))
    }
}

/// The stage in the form that a read can do, on columns.
struct GroupFold {
    stage: Arc<Group>,
    columns: Columns,
}

impl GroupFold {
    fn renumber_error(&self, e: MongoError) -> MongoError {
        match self.stage.in_engine {
            true => engine_error(e),
            false => e,
        }
    }
}

/// The groups that a fold of this stage made.
fn groups_of(result: Box<dyn PartialResult>) -> Result<Box<Groups>> {
    let groups = result.into_any().downcast::<Groups>();
    groups.map_err(|_| MongoError::internal("groups of another stage"))
}

impl Fold for GroupFold {
    fn paths(&self) -> &Arc<Paths> {
        &self.columns.paths
    }
    fn any_order(&self) -> bool {
        // Several groups come in the order of their first documents.
        let one_group = self.stage.id.constant().is_some();
        one_group && self.stage.fields.iter().all(|f| f.spec().any_order)
    }
    fn begin(&self) -> Box<dyn PartialResult> {
        Box::new(Groups::new(&self.stage.fields))
    }
    fn add(
        &self,
        to: &mut dyn PartialResult,
        rows: Rows<'_>,
        exec: &ExecContext<'_>,
    ) -> Result<()> {
        let Some(groups) = to.as_any_mut().downcast_mut::<Groups>() else {
            return Err(MongoError::internal("groups of another stage"));
        };
        let Group { id, fields, .. } = &*self.stage;
        let added = self.columns.add(groups, id.as_ref(), fields, rows, exec);
        added.map_err(|e| self.renumber_error(e))
    }
    fn merge(
        &self,
        parts: Vec<Box<dyn PartialResult>>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn PartialResult>> {
        let mut groups: Option<Box<Groups>> = None;
        for part in parts {
            let later = groups_of(part)?;
            match &mut groups {
                None => groups = Some(later),
                Some(first) => first
                    .merge(*later, exec)
                    .map_err(|e| self.renumber_error(e))?,
            }
        }
        match groups {
            Some(groups) => Ok(groups),
            None => Ok(self.begin()),
        }
    }
    fn finish(self: Arc<Self>, merged: Box<dyn PartialResult>) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(GroupOutput {
            groups: *groups_of(merged)?,
            stage: self.stage.clone(),
            next: 0,
            arena: Bump::new(),
        }))
    }
    fn fold_documents(
        self: Arc<Self>,
        docs: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        self.stage.clone().open(docs, exec)
    }
}

/// Gives the documents of finished groups.
struct GroupOutput {
    stage: Arc<Group>,
    groups: Groups,
    next: usize,
    arena: Bump,
}

impl BatchStream for GroupOutput {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let fields = &self.stage.fields;
        while !out.is_full() && self.next < self.groups.len() {
            self.groups.room_to_write(self.next, exec.env)?;
            let cx = exec.cx(&self.arena, Doc::EMPTY);
            emit(out, |w| self.groups.write(self.next, fields, &cx, w))?;
            self.next += 1;
        }
        self.arena.reset();
        Ok(self.next < self.groups.len())
    }
}

/// Number of files over which documents that do not fit are spread, and how often a file may be
/// spread again.
const FAN_OUT: usize = 16;
const MAX_SPLITS: u32 = 6;

/// Groups in memory.
#[derive(Default)]
struct Table {
    index: HashTable<u32>,
    keys: Vec<u8>,
    groups: Vec<GroupState>,
    state_bytes: usize,
}

struct GroupState {
    hash: u64,
    key_start: usize,
    key_end: usize,
    id: OwnedValue,
    states: States,
}

impl Table {
    fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        self.index
            .find(hash, |i| self.key(*i) == Some(key))
            .map(|i| *i as usize)
    }
    fn key(&self, i: u32) -> Option<&[u8]> {
        let g = self.groups.get(i as usize)?;
        self.keys.get(g.key_start..g.key_end)
    }
    fn insert<'a>(
        &mut self,
        hash: u64,
        key: &[u8],
        id: Value<'a>,
        fields: &'a [Field],
        cx: &Cx<'_, 'a>,
    ) -> Result<usize> {
        let states = States::start(fields, &Cx { root: id, ..*cx })?;
        let key_start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.state_bytes += states.memory_bytes() + size_of::<GroupState>() + id.payload_bytes();
        let at = self.groups.len();
        self.groups.push(GroupState {
            hash,
            key_start,
            key_end: self.keys.len(),
            id: id.to_owned_value(),
            states,
        });
        let groups = &self.groups;
        self.index.insert_unique(hash, at as u32, |i| {
            groups.get(*i as usize).map_or(0, |g| g.hash)
        });
        Ok(at)
    }
    fn memory_bytes(&self) -> usize {
        self.keys.len() + self.state_bytes
    }
}

struct GroupStream {
    stage: Arc<Group>,
    /// The documents to group; `None` once the table is complete.
    input: Option<Box<dyn BatchStream>>,
    table: Table,
    /// Files for documents of groups that did not fit into the table.
    partitions: Vec<SpillFile>,
    /// Files that are still to be grouped, and how often each was spread.
    waiting: Vec<(SpillFile, u32)>,
    depth: u32,
    next: usize,
    arena: Bump,
}

impl BatchStream for GroupStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if let Some(mut input) = self.input.take() {
            let read = self.read(input.as_mut(), exec);
            if self.stage.in_engine {
                read.map_err(engine_error)?
            } else {
                read?
            }
        }
        while !out.is_full() {
            let Some(group) = self.table.groups.get(self.next) else {
                break;
            };
            let (arena, fields) = (&self.arena, &self.stage.fields);
            group.states.room_to_write(exec.env)?;
            emit(out, |w| {
                w.put("_id", group.id.get());
                group.states.write(fields, &exec.cx(arena, Doc::EMPTY), w)
            })?;
            self.next += 1;
        }
        self.arena.reset();
        if self.next < self.table.groups.len() {
            return Ok(true);
        }
        let Some((file, depth)) = self.waiting.pop() else {
            return Ok(false);
        };
        self.table = Table::default();
        self.next = 0;
        self.depth = depth;
        self.input = Some(Box::new(file.into_docs()?));
        Ok(true)
    }
}

impl GroupStream {
    fn read(&mut self, input: &mut dyn BatchStream, exec: &ExecContext<'_>) -> Result<()> {
        let budget = exec.group_bytes_max();
        let stage = self.stage.clone();
        let mut key = Vec::new();
        drain_ahead(
            input,
            exec,
            self,
            |me, doc, meta| {
                exec.env.check_interrupt()?;
                let cx = Cx {
                    meta,
                    ..exec.cx(&me.arena, doc)
                };
                let id = match stage.id.eval(&cx)? {
                    Value::Missing => Value::Null,
                    v => v,
                };
                key.clear();
                compare::equality_key(&id, exec.env.collate(), &mut key);
                let hash = hash_bytes(&key);
                let at = match me.table.find(hash, &key) {
                    Some(at) => at,
                    None if me.table.memory_bytes() < budget
                        && !(exec.allow_disk_use && exec.env.is_short_of_memory()) =>
                    {
                        me.table.insert(hash, &key, id, &stage.fields, &cx)?
                    }
                    None => return spill(&mut me.partitions, me.depth, hash, doc, exec, budget),
                };
                if let Some(group) = me.table.groups.get_mut(at) {
                    me.table.state_bytes += group.states.add(&stage.fields, &cx)?;
                }
                Ok(())
            },
            |me| {
                me.arena.reset();
                if me.table.memory_bytes() > budget && !exec.allow_disk_use {
                    return Err(memory_error("$group", budget));
                }
                Ok(())
            },
        )?;
        let depth = self.depth + 1;
        self.waiting.extend(
            self.partitions
                .drain(..)
                .filter(|f| !f.is_empty())
                .map(|f| (f, depth))
                .rev(),
        );
        Ok(())
    }
}

/// Writes a document to the file for its hash at this depth.
fn spill(
    partitions: &mut Vec<SpillFile>,
    depth: u32,
    hash: u64,
    doc: Doc<'_>,
    exec: &ExecContext<'_>,
    budget: usize,
) -> Result<()> {
    if !exec.allow_disk_use || depth >= MAX_SPLITS {
        return Err(memory_error("$group", budget));
    }
    if partitions.is_empty() {
        for _ in 0..FAN_OUT {
            partitions.push(SpillFile::create(exec)?);
        }
    }
    let which = (hash >> (60 - 4 * depth)) as usize % FAN_OUT;
    match partitions.get_mut(which) {
        Some(file) => file.write(doc),
        None => Ok(()),
    }
}
