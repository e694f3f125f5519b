//! `$graphLookup: {from, startWith, connectFromField, connectToField, as, maxDepth, depthField,
//! restrictSearchWithMatch}`: every document reachable from the start values, breadth first, each
//! once. Errors: 40327 no object, 40100-40102 bad maxDepth, 40103 a field that is no string, 40104
//! unknown field, 40105 required field absent, 40185 restriction no object, 40099 past the memory
//! budget, and those of field paths.

use super::join::{Join, JoinCache, key_of, values_on_path};
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use crate::path::{checked_path, write_with};
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, NeedsContext, ParseOptions, PipelineSource, Placement, RequiredPrivilege, Stage,
    StageContext, StageNeeds, StageOp, one,
};
use hashbrown::HashSet;
use model::{
    Array, ArrayWriter, Bump, Doc, DocBuf, FieldPath, Namespace, Number, OwnedValue, Result, Value,
    bail,
};
use operators::expr::{self, BoxExpr};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$graphLookup",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

fn specification<'a>(name: &str, arg: Value<'a>) -> Result<Doc<'a>> {
    match arg {
        Value::Document(spec) => Ok(spec),
        _ => bail!(
            40327,
            "the {name} stage specification must be an object, but found {}",
            arg.type_name()
        ),
    }
}

/// A field whose value is a string.
fn text<'a>(field: &str, v: Value<'a>) -> Result<&'a str> {
    match v {
        Value::String(s) => Ok(s),
        _ => bail!(
            40103,
            "expected string as argument for {field}, found: {}",
            v.type_name()
        ),
    }
}

/// The collection that `from` names.
fn source(options: &ParseOptions, from: Value<'_>) -> Result<Namespace> {
    Namespace::to_read(options.target.db(), text("from", from)?)
}

/// If `from` is given several times the last one is used, but the privilege is needed for all.
fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    for (field, v) in specification(name, arg)?.iter() {
        if field == "from" {
            let ns = source(cx.options, v)?;
            cx.add(RequiredPrivilege::Read(ns));
        }
    }
    Ok(())
}

fn parse(scx: &mut StageContext<'_, '_>, name: &str, arg: Value<'_>) -> Result<GraphLookup> {
    let spec = specification(name, arg)?;
    let (mut from, mut start, mut connect_from, mut connect_to, mut as_field) =
        (None, None, None, None, None);
    let (mut max_depth, mut depth_field, mut restrict) = (None, None, None);
    for (field, v) in spec.iter() {
        match field {
            "startWith" => start = Some(expr::parse(scx.cx, v)?),
            "maxDepth" => max_depth = Some(parse_max_depth(v)?),
            "restrictSearchWithMatch" => {
                let Value::Document(d) = v else {
                    bail!(
                        40185,
                        "restrictSearchWithMatch argument to {name} must be an object, found {}",
                        v.type_name()
                    );
                };
                restrict = Some(MatchFilter::parse(scx.cx, d)?);
            }
            "from" => from = Some(source(scx.options, v)?),
            "as" | "connectFromField" | "connectToField" | "depthField" => {
                let s = text(field, v)?;
                match field {
                    "as" => as_field = Some(checked_path(s)?),
                    "connectFromField" => connect_from = Some(checked_path(s)?),
                    "connectToField" => connect_to = Some(checked_path(s)?),
                    _ => depth_field = Some(checked_path(s)?),
                }
            }
            _ => bail!(40104, "Unknown argument to {name}: {field}"),
        }
    }
    let (Some(from), Some(start), Some(connect_from), Some(connect_to), Some(as_field)) =
        (from, start, connect_from, connect_to, as_field)
    else {
        bail!(
            40105,
            "{name} requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' \
                to be specified"
        );
    };
    let source = Pipeline::from_stages(
        scx.options.stages,
        PipelineSource::Collection(from),
        Vec::new(),
    );
    let join = Join {
        source,
        local: connect_from,
        foreign: connect_to,
        null_in_arrays: false,
    };
    Ok(GraphLookup {
        join,
        start,
        as_field,
        max_depth,
        depth_field,
        restrict,
        spec: spec.to_buf(),
    })
}

fn parse_max_depth(v: Value<'_>) -> Result<u64> {
    let Some(n) = Number::of(&v) else {
        bail!(
            40100,
            "maxDepth requires numeric argument, found type: {}",
            v.type_name()
        )
    };
    if n.to_f64() < 0.0 {
        bail!(
            40101,
            "maxDepth requires a nonnegative argument, found: {v}"
        );
    }
    match v.as_i64_exact().and_then(|n| u64::try_from(n).ok()) {
        Some(n) => Ok(n),
        None => bail!(
            40102,
            "maxDepth could not be represented as a long long: {v}"
        ),
    }
}

struct GraphLookup {
    join: Join,
    start: BoxExpr,
    as_field: FieldPath,
    max_depth: Option<u64>,
    depth_field: Option<FieldPath>,
    restrict: Option<MatchFilter>,
    spec: DocBuf,
}

impl Stage for GraphLookup {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(GraphStream {
            stage: self,
            input,
            inbox: DocBatch::new(),
            at: 0,
            more: true,
            cache: JoinCache::default(),
            arena: Bump::new(),
        }))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$graphLookup": &self.spec }
    }
}

struct GraphStream {
    stage: Arc<GraphLookup>,
    input: Box<dyn BatchStream>,
    inbox: DocBatch,
    /// Next document of the input batch.
    at: usize,
    more: bool,
    cache: JoinCache,
    arena: Bump,
}

impl BatchStream for GraphStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.at >= self.inbox.len() {
            if !self.more {
                return Ok(false);
            }
            self.at = 0;
            self.inbox.clear();
            self.more = self.input.next_batch(exec, &mut self.inbox)?;
        }
        let stage = self.stage.clone();
        while self.at < self.inbox.len() && !out.is_full() {
            let i = self.at;
            self.at += 1;
            let start = {
                let v = stage.start.eval(&exec.cx(&self.arena, self.inbox.doc(i)))?;
                let mut start = Vec::new();
                values_on_path(v, &[], &mut |v| start.push(v.to_owned_value()));
                start
            };
            let found = self.search(&stage, start, exec)?;
            let list = Doc::new(&found).map_or(Array::EMPTY, Doc::as_array);
            let (doc, meta) = (self.inbox.doc(i), self.inbox.meta(i));
            out.build(meta, |w| {
                write_with(w, doc, stage.as_field.parts(), Value::Array(list))
            });
            self.arena.reset();
        }
        Ok(self.more || self.at < self.inbox.len())
    }
}

impl GraphStream {
    /// The array of everything reachable from the values.
    fn search(
        &mut self,
        stage: &GraphLookup,
        start: Vec<OwnedValue>,
        exec: &ExecContext<'_>,
    ) -> Result<Vec<u8>> {
        let budget = exec.host.memory_limit_bytes();
        let mut bytes = Vec::new();
        let mut list = ArrayWriter::new(&mut bytes);
        let mut visited: HashSet<Vec<u8>> = HashSet::new();
        let mut asked: HashSet<Vec<u8>> = HashSet::new();
        let (mut frontier, mut depth, mut key) = (start, 0u64, Vec::new());
        while !frontier.is_empty() && stage.max_depth.is_none_or(|max| depth <= max) {
            exec.env.check_interrupt()?;
            self.cache.prepare_values(&stage.join, &frontier, exec)?;
            let mut next = Vec::new();
            for doc in self.cache.matches_values(&frontier, exec).iter() {
                if let Some(filter) = &stage.restrict
                    && !exec.matches(filter, doc, &self.arena)?
                {
                    continue;
                }
                key_of(doc.field("_id"), exec, &mut key);
                exec.env.work(1 + doc.len_bytes() / 64)?;
                if !visited.insert(key.clone()) {
                    continue;
                }
                match &stage.depth_field {
                    Some(f) => {
                        write_with(&mut list.doc(), doc, f.parts(), Value::Int64(depth as i64))
                    }
                    None => {
                        list.push(doc);
                    }
                }
                if list.len_bytes() > budget {
                    bail!(
                        40099,
                        "$graphLookup reached maximum memory consumption of {budget} bytes"
                    );
                }
                values_on_path(Value::Document(doc), stage.join.local.parts(), &mut |v| {
                    key_of(v, exec, &mut key);
                    if asked.insert(key.clone()) {
                        next.push(v.to_owned_value());
                    }
                });
            }
            frontier = next;
            depth += 1;
        }
        drop(list);
        Ok(bytes)
    }
}
