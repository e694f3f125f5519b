//! `$lookup: {from, localField, foreignField, let, pipeline, as}`: adds to each document the
//! matching documents of another collection. By fields: equal values; an array on either side
//! counts by its elements, a missing value as null. By pipeline: its output for the document's
//! `let` variables. Both: the pipeline over the documents with equal values. Errors: 9 no object,
//! missing or mixed fields; 14 wrong types; 73 a pipeline that needs a database; strict field
//! codes.

use super::fields::Fields;
use super::join::{Join, JoinCache};
use super::variables::{LetClause, with_variables};
use crate::exec::{BatchStream, DocBatch, ExecContext, FinishedSpool, ReadyBatch, Spool, drain};
use crate::path::{checked_path, write_with};
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, Kind, NeedsContext, ParseOptions, PipelineContext, PipelineSource, Placement,
    RequiredPrivilege, Stage, StageContext, StageNeeds, StageOp, Transform, one,
};
use model::{
    Array, ArrayWriter, Bump, Doc, DocBuf, FieldPath, Namespace, Result, Value, bail, code,
};
use operators::RequiredFields;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$lookup",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

/// True for a pipeline that makes its documents itself.
pub(super) fn starts_with_documents(stages: Array<'_>) -> bool {
    stages
        .get(0)
        .and_then(|v| v.as_doc())
        .is_some_and(|d| d.contains("$documents"))
}

/// The foreign side of a `$lookup`.
struct ForeignSide<'a> {
    spec: Doc<'a>,
    target: PipelineSource,
    stages: Option<Array<'a>>,
    /// The pipeline makes its documents itself.
    own_documents: bool,
}

fn foreign<'a>(options: &ParseOptions, name: &str, arg: Value<'a>) -> Result<ForeignSide<'a>> {
    let Value::Document(spec) = arg else {
        bail!(
            code::FAILED_TO_PARSE,
            "the {name} stage specification must be an object, but found {}",
            arg.type_name()
        );
    };
    let stages = match spec.field("pipeline") {
        Value::Missing => None,
        Value::Array(a) => Some(a),
        v => bail!(
            code::TYPE_MISMATCH,
            "{name} argument 'pipeline' must be an array, not {}",
            v.type_name()
        ),
    };
    let own_documents = stages.is_some_and(starts_with_documents);
    Ok(ForeignSide {
        spec,
        target: target(options, name, spec.field("from"), own_documents)?,
        stages,
        own_documents,
    })
}

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    let foreign = foreign(cx.options, name, arg)?;
    if let PipelineSource::Collection(ns) = &foreign.target {
        cx.add(RequiredPrivilege::Read(ns.clone()));
    }
    let stages = foreign.stages.unwrap_or(Array::EMPTY);
    cx.inner(PipelineContext::Lookup, foreign.target, stages)
}

fn parse(scx: &mut StageContext<'_, '_>, name: &'static str, arg: Value<'_>) -> Result<Lookup> {
    // A missing collection is reported before an unknown field.
    let ForeignSide {
        spec,
        target,
        stages,
        own_documents,
    } = foreign(scx.options, name, arg)?;
    let f = Fields::new(
        name,
        spec,
        &[
            "from",
            "as",
            "localField",
            "foreignField",
            "let",
            "pipeline",
        ],
    )?;
    f.required("as")?;
    let as_field = f.string("as")?.unwrap_or_default();
    let as_field = checked_path(as_field)?;
    let by_field = parse_join_fields(name, &f)?;
    if stages.is_none() && (by_field.is_none() || spec.contains("let")) {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} requires either 'pipeline' or both 'localField' and 'foreignField' to be \
                specified, 'let' only with 'pipeline'"
        );
    }
    let vars = f.document("let")?.unwrap_or(Doc::EMPTY);
    let options = scx.options.inner(PipelineContext::Lookup, target.clone())?;
    let (vars, pipeline) = LetClause::parse(scx.cx, vars, |cx| {
        Pipeline::parse(cx, stages.unwrap_or(Array::EMPTY), &options)
    })?;
    // A pipeline that makes documents itself is joined on the output of its first stage.
    let (source, pipeline) = match by_field.is_some() && own_documents {
        true => pipeline.split_first(),
        false => (
            Pipeline::from_stages(scx.options.stages, target, Vec::new()),
            pipeline,
        ),
    };
    let join = by_field.map(|(local, foreign)| Join {
        source,
        local,
        foreign,
        null_in_arrays: true,
    });
    Ok(Lookup {
        join,
        vars,
        pipeline,
        as_field,
        correlated: is_correlated(spec),
        spec: spec.to_buf(),
    })
}

/// The fields whose values are compared, if there are any.
fn parse_join_fields(name: &str, f: &Fields<'_>) -> Result<Option<(FieldPath, FieldPath)>> {
    // Next to a pipeline an empty field name counts as missing.
    let piped = !f.get("pipeline").is_missing();
    let field = |name| -> Result<_> { Ok(f.string(name)?.filter(|s| !(piped && s.is_empty()))) };
    match (field("localField")?, field("foreignField")?) {
        (Some(""), _) | (_, Some("")) => bail!(
            code::FAILED_TO_PARSE,
            "{name} argument 'localField' and 'foreignField' must not be empty"
        ),
        (Some(l), Some(r)) => Ok(Some((checked_path(l)?, checked_path(r)?))),
        (None, None) => Ok(None),
        _ => bail!(
            code::FAILED_TO_PARSE,
            "{name} requires both or neither of 'localField' and 'foreignField' to be specified"
        ),
    }
}

fn target(
    options: &ParseOptions,
    name: &str,
    from: Value<'_>,
    own_documents: bool,
) -> Result<PipelineSource> {
    let db = options.target.db();
    match from {
        Value::String(coll) => Ok(PipelineSource::Collection(Namespace::to_read(db, coll)?)),
        Value::Missing if own_documents => Ok(PipelineSource::Database(db.to_owned())),
        Value::Missing => bail!(
            code::FAILED_TO_PARSE,
            "must specify 'from' field for a {name}"
        ),
        Value::Document(d) => {
            let f = Fields::new("from", d, &["db", "coll"])?;
            f.string("db")?;
            f.string("coll")?;
            bail!(
                code::FAILED_TO_PARSE,
                "{name} 'from' field must be a string on this server, but found {d}"
            )
        }
        v => bail!(
            code::FAILED_TO_PARSE,
            "{name} argument 'from' must be a string, but found {v}"
        ),
    }
}

/// Whether the pipeline may give other documents for other input: it uses a variable.
fn is_correlated(spec: Doc<'_>) -> bool {
    fn names_variable(v: Value<'_>) -> bool {
        match v {
            Value::String(s) => s.starts_with("$$"),
            Value::Document(d) => d.iter().any(|(n, v)| {
                matches!(n, "$rand" | "$sample" | "$sampleRate") || names_variable(v)
            }),
            Value::Array(a) => a.iter().any(names_variable),
            _ => false,
        }
    }
    names_variable(spec.field("pipeline"))
}

struct Lookup {
    join: Option<Join>,
    vars: LetClause,
    pipeline: Pipeline,
    as_field: FieldPath,
    correlated: bool,
    spec: DocBuf,
}

impl Stage for Lookup {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(LookupStream::new(self, input, None)))
    }
    fn fused_with(self: Arc<Self>, next: &dyn Stage) -> Option<Arc<dyn Stage>> {
        let Kind::Transform(Transform::Unwind {
            path,
            index: None,
            preserve,
        }) = next.kind()
        else {
            return None;
        };
        // With a nested field its parent would be left in the document.
        let same = path == self.as_field.as_str() && self.as_field.parts().len() == 1;
        same.then(|| -> Arc<dyn Stage> {
            Arc::new(LookupUnwind {
                lookup: self,
                preserve,
            })
        })
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$lookup": &self.spec }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Transform(Transform::Lookup(self.spec.doc()))
    }
    fn reads(&self, reads: &mut RequiredFields) {
        reads.add_path(&self.as_field);
        if let Some(join) = &self.join {
            reads.add_path(&join.local);
        }
        self.vars.reads(reads);
    }
}

/// The stage together with a `$unwind` of its result: the arrays never become part of a document.
struct LookupUnwind {
    lookup: Arc<Lookup>,
    /// Documents without a match are kept.
    preserve: bool,
}

impl Stage for LookupUnwind {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let lookup = Arc::clone(&self.lookup);
        Ok(Box::new(LookupStream::new(
            lookup,
            input,
            Some(self.preserve),
        )))
    }
    fn describe(&self) -> DocBuf {
        self.lookup.describe()
    }
}

struct LookupStream {
    stage: Arc<Lookup>,
    /// `Some` if each matching document becomes a document of its own; true if an input without a
    /// match is kept.
    unwind: Option<bool>,
    /// The matches of the document before `at` that were not given yet: an array, and how many of
    /// its bytes are left.
    found: Vec<u8>,
    found_left: usize,
    input: Box<dyn BatchStream>,
    inbox: DocBatch,
    /// Next document of the input batch.
    at: usize,
    more: bool,
    cache: JoinCache,
    /// The output of an uncorrelated pipeline.
    same_for_all: Option<FinishedSpool>,
    arena: Bump,
}

impl BatchStream for LookupStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let stage = self.stage.clone();
        if self.at >= self.inbox.len() && self.found_left == 0 {
            if !self.more {
                return Ok(false);
            }
            self.at = 0;
            self.inbox.clear();
            self.more = self.input.next_batch(exec, &mut self.inbox)?;
            if let Some(join) = &stage.join {
                self.cache.prepare(join, &self.inbox, exec)?;
            }
        }
        // One document may have very many matches; the other input documents then wait for the next
        // call.
        self.unwind_found(out);
        while self.at < self.inbox.len() && !out.is_full() {
            exec.env.check_interrupt()?;
            let i = self.at;
            self.at += 1;
            self.found = self.collect_matches(&stage, i, exec)?;
            let (doc, meta) = (self.inbox.doc(i), self.inbox.meta(i));
            let list = Doc::new(&self.found).unwrap_or(Doc::EMPTY).as_array();
            let value = match self.unwind {
                None => Some(Value::Array(list)),
                Some(preserve) => (preserve && list.is_empty()).then_some(Value::Missing),
            };
            if let Some(value) = value {
                out.build(meta, |w| write_with(w, doc, stage.as_field.parts(), value));
            } else {
                self.found_left = list.elements().rest_bytes();
                self.unwind_found(out);
            }
            self.arena.reset();
        }
        Ok(self.more || self.at < self.inbox.len() || self.found_left > 0)
    }
}

impl LookupStream {
    fn new(stage: Arc<Lookup>, input: Box<dyn BatchStream>, unwind: Option<bool>) -> LookupStream {
        LookupStream {
            stage,
            unwind,
            found: Vec::new(),
            found_left: 0,
            input,
            inbox: DocBatch::new(),
            at: 0,
            more: true,
            cache: JoinCache::default(),
            same_for_all: None,
            arena: Bump::new(),
        }
    }

    /// Gives a document for each match, until the batch is full.
    fn unwind_found(&mut self, out: &mut DocBatch) {
        if self.found_left == 0 {
            return;
        }
        let i = self.at.saturating_sub(1);
        let (doc, meta) = (self.inbox.doc(i), self.inbox.meta(i));
        let list = Doc::new(&self.found).unwrap_or(Doc::EMPTY).as_array();
        let mut left = list.elements_from(self.found_left);
        while !out.is_full()
            && let Some(e) = left.next()
        {
            let parts = self.stage.as_field.parts();
            out.build(meta, |w| write_with(w, doc, parts, e.value()));
        }
        self.found_left = left.rest_bytes();
    }

    /// The array of matches of input document `i`.
    fn collect_matches(
        &mut self,
        stage: &Lookup,
        i: usize,
        exec: &ExecContext<'_>,
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut list = ArrayWriter::new(&mut bytes);
        let mut push = |doc: Doc<'_>, _: Option<Doc<'_>>| {
            list.push(doc);
            Ok(())
        };
        if let Some(join) = &stage.join {
            let matched = self.cache.matches(join, self.inbox.doc(i), exec);
            if stage.pipeline.stages().is_empty() {
                matched.iter().try_for_each(|d| push(d, None))?;
            } else {
                let mut own = DocBatch::new();
                matched.iter().for_each(|d| own.push(d));
                with_variables(&stage.vars, exec, &self.arena, self.inbox.doc(i), |exec| {
                    let mut docs = stage.pipeline.open_over(exec, Box::new(ReadyBatch(own)))?;
                    drain(docs.as_mut(), exec, push)
                })?;
            }
        } else if stage.correlated {
            with_variables(&stage.vars, exec, &self.arena, self.inbox.doc(i), |exec| {
                let mut docs = stage.pipeline.open(exec)?;
                drain(docs.as_mut(), exec, push)
            })?;
        } else {
            let spooled = match &mut self.same_for_all {
                Some(s) => s,
                none => {
                    let mut spool = Spool::default();
                    let mut docs = stage.pipeline.open(exec)?;
                    drain(docs.as_mut(), exec, |d, m| spool.push(d, m, exec))?;
                    none.insert(spool.finish()?)
                }
            };
            drain(&mut spooled.reader()?, exec, push)?;
        }
        drop(list);
        Ok(bytes)
    }
}
