//! `$unionWith: "collection"` or `{coll, pipeline}`: the input, followed by the documents of the
//! other pipeline. Errors: 9 neither string nor object, or no collection although the pipeline
//! needs one; strict field codes.

use super::fields::Fields;
use super::lookup::starts_with_documents;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, NeedsContext, ParseOptions, PipelineContext, PipelineSource, Placement,
    RequiredPrivilege, Stage, StageContext, StageNeeds, StageOp, one,
};
use model::{Array, DocBuf, Namespace, OwnedValue, Result, Value, bail, code};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$unionWith",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

/// The pipeline that follows the input.
struct UnionSource<'a> {
    target: PipelineSource,
    stages: Array<'a>,
}

fn other<'a>(
    options: &ParseOptions,
    name: &'static str,
    arg: Value<'a>,
) -> Result<UnionSource<'a>> {
    let (coll, stages) = match arg {
        Value::String(coll) => (Some(coll), Array::EMPTY),
        Value::Document(spec) => {
            let f = Fields::new(name, spec, &["coll", "pipeline"])?;
            (
                f.string("coll")?,
                f.array("pipeline")?.unwrap_or(Array::EMPTY),
            )
        }
        other => bail!(
            code::FAILED_TO_PARSE,
            "the {name} stage specification must be an object or string, but found {}",
            other.type_name()
        ),
    };
    let db = options.target.db().to_owned();
    let target = match coll {
        Some(coll) => PipelineSource::Collection(Namespace::to_read(&db, coll)?),
        None if starts_with_documents(stages) => PipelineSource::Database(db),
        None => bail!(
            code::FAILED_TO_PARSE,
            "{name} stage without explicit collection must have a pipeline with $documents as \
                first stage"
        ),
    };
    Ok(UnionSource { target, stages })
}

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    let other = other(cx.options, name, arg)?;
    if let PipelineSource::Collection(ns) = &other.target {
        cx.add(RequiredPrivilege::Read(ns.clone()));
    }
    cx.inner(PipelineContext::Union, other.target, other.stages)
}

fn parse(scx: &mut StageContext<'_, '_>, name: &'static str, arg: Value<'_>) -> Result<UnionWith> {
    let UnionSource { target, stages } = other(scx.options, name, arg)?;
    let options = scx.options.inner(PipelineContext::Union, target)?;
    let other = Pipeline::parse(scx.cx, stages, &options)?;
    Ok(UnionWith {
        other,
        spec: arg.to_owned_value(),
    })
}

struct UnionWith {
    other: Pipeline,
    spec: OwnedValue,
}

impl Stage for UnionWith {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(UnionStream {
            stage: self,
            now: Some(input),
            second: false,
        }))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$unionWith": self.spec.get() }
    }
}

struct UnionStream {
    stage: Arc<UnionWith>,
    now: Option<Box<dyn BatchStream>>,
    second: bool,
}

impl BatchStream for UnionStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let Some(now) = &mut self.now else {
            return Ok(false);
        };
        if now.next_batch(exec, out)? {
            return Ok(true);
        }
        if self.second {
            self.now = None;
            return Ok(false);
        }
        self.second = true;
        self.now = Some(self.stage.other.open(exec)?);
        Ok(true)
    }
}
