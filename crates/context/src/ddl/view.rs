//! Definitions of views: which stages their pipelines may have, and the check that a view does not
//! depend on itself.

use crate::ctx::Ctx;
use model::{Array, Doc, DocBuf, MongoError, Namespace, Result, Tag, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use query::pipeline::Pipeline;
use query::stage::{ParseOptions, PipelineContext, RequiredPrivilege, pipeline_needs};
use query::stages::TABLE;
use request::args::wrong_type;

/// Longest chain of views over views.
const DEPTH_MAX: usize = 20;

/// Checks `viewOn`.
///
/// # Errors
/// 2 BadValue when empty, 73 InvalidNamespace.
pub fn check_source(db: &str, source: &str) -> Result<Namespace> {
    if source.is_empty() {
        bail!(code::BAD_VALUE, "'viewOn' cannot be empty");
    }
    if source.contains('$') && !source.starts_with("system.buckets.") {
        bail!(
            code::INVALID_NAMESPACE,
            "Invalid name for 'viewOn' collection: {source}"
        );
    }
    Namespace::new(db, source)
}

/// Checks the pipeline of a view on `source`. Null elements are ignored.
///
/// # Errors
/// 14 TypeMismatch, 40323 for a stage without exactly one field, 40573, 73 InvalidNamespace, 167
/// OptionNotSupportedOnView, and those of the stages.
pub fn check_pipeline(cx: &Ctx<'_, '_>, source: &Namespace, pipeline: Array<'_>) -> Result<()> {
    check_stages(cx, pipeline)?;
    let mut env = Env::new(cx.now_ms(), 1);
    env.profile = cx.service.config.profile;
    // Whether a cluster time exists is checked when the view is read.
    env.cluster_time = Some(cx.service.operation_time());
    let given = write_stages(pipeline);
    let stages = given.doc().field("p").as_array().unwrap_or(Array::EMPTY);
    let options = ParseOptions {
        inside: PipelineContext::View,
        ..query::stages::collection_options(source.clone())
    };
    Pipeline::parse(&mut ParseCx::new(&env), stages, &options).map(|_| ())
}

/// The stages of a view in the array `p`, without null elements.
pub(crate) fn write_stages(pipeline: Array<'_>) -> DocBuf {
    DocBuf::build(|w| {
        let mut out = w.array("p");
        for stage in pipeline.iter().filter(|s| !s.is_nullish()) {
            out.push(stage);
        }
    })
}

fn check_stages(cx: &Ctx<'_, '_>, pipeline: Array<'_>) -> Result<()> {
    for (i, v) in pipeline.iter().enumerate() {
        let stage = match v {
            Value::Null | Value::Undefined => continue,
            Value::Document(d) => d,
            v => return Err(wrong_type(&format!("pipeline.{i}"), &v, &[Tag::DOCUMENT])),
        };
        let (Some((name, spec)), 1) = (stage.first(), stage.count()) else {
            bail!(
                40_323,
                "A pipeline stage specification object must contain exactly one field"
            );
        };
        match name {
            _ if TABLE.find(name).is_some_and(|op| op.placement.writes) => bail!(
                code::OPTION_NOT_SUPPORTED_ON_VIEW,
                "The aggregation stage {name} cannot be used in a view definition"
            ),
            // Without change streams, this error comes first.
            "$changeStream" if cx.service.store.log().is_none() => {
                bail!(40_573, "$changeStream cannot be used in a view definition")
            }
            "$backupCursor" | "$currentOp" | "$documents" | "$listSessions"
            | "$listLocalSessions" => {
                bail!(
                    code::INVALID_NAMESPACE,
                    "{name} must be run against a database, not against the source of a view"
                )
            }
            _ => check_nested(name, spec)?,
        }
    }
    Ok(())
}

fn writes(pipeline: Value<'_>) -> bool {
    pipeline.as_array().is_some_and(|p| TABLE.stores(p))
}

fn check_nested(name: &str, spec: Value<'_>) -> Result<()> {
    let Value::Document(d) = spec else {
        return Ok(());
    };
    match name {
        "$facet" if d.iter().any(|(_, p)| writes(p)) => {
            bail!(40_600, "$out and $merge are not allowed within $facet")
        }
        "$lookup" if writes(d.field("pipeline")) => bail!(
            51_047,
            "$out and $merge are not allowed within a $lookup's sub-pipeline"
        ),
        "$unionWith" if writes(d.field("pipeline")) => bail!(
            31_441,
            "$out and $merge are not allowed within a $unionWith's sub-pipeline"
        ),
        _ => Ok(()),
    }
}

/// The collections that a definition reads, each once. An invalid definition reads none; the error
/// is reported when the view is read.
fn list_sources(view: &Namespace, definition: Doc<'_>) -> Vec<Namespace> {
    let on = definition.field("viewOn").as_str();
    let Some(Ok(source)) = on.map(|on| Namespace::new(view.db(), on)) else {
        return Vec::new();
    };
    let pipeline = definition.field("pipeline").as_array();
    let given = write_stages(pipeline.unwrap_or(Array::EMPTY));
    let stages = given.doc().field("p").as_array().unwrap_or(Array::EMPTY);
    let options = query::stages::collection_options(source.clone());
    let needs = pipeline_needs(stages, &options);
    let mut all = vec![source];
    for need in needs.unwrap_or_default() {
        match need {
            RequiredPrivilege::Read(ns) if !all.contains(&ns) => all.push(ns),
            _ => {}
        }
    }
    all
}

/// Checks that a view does not depend on itself and is not built on too many views.
///
/// # Errors
/// 5 GraphContainsCycle, 165 ViewDepthLimitExceeded, 167 OptionNotSupportedOnView for views of
/// different collations.
pub fn check_cycle(cx: &Ctx<'_, '_>, view: &Namespace, definition: Doc<'_>) -> Result<()> {
    walk(cx, view, definition, 1)
}

/// Whether two definitions have the same collation; a missing one is the simple collation.
fn same_collation(a: Doc<'_>, b: Doc<'_>) -> bool {
    match (a.field("collation").as_doc(), b.field("collation").as_doc()) {
        (None, None) => true,
        (Some(a), Some(b)) => operators::collation::same(a, b),
        _ => false,
    }
}

fn walk(cx: &Ctx<'_, '_>, view: &Namespace, definition: Doc<'_>, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(MongoError::new(
            code::VIEW_DEPTH_LIMIT_EXCEEDED,
            format!("View depth limit of {DEPTH_MAX} exceeded on view {view}"),
        ));
    }
    for ns in list_sources(view, definition) {
        if ns == *view {
            bail!(
                code::GRAPH_CONTAINS_CYCLE,
                "View cycle detected: {view} leads back to itself"
            );
        }
        if let Some(c) = cx.service.store.collection(&ns)?
            && c.is_view()
        {
            if !same_collation(definition, c.options().doc()) {
                bail!(
                    code::OPTION_NOT_SUPPORTED_ON_VIEW,
                    "View {view} has conflicting collation with view {ns}"
                );
            }
            walk(cx, view, c.options().doc(), depth + 1)?;
        }
    }
    Ok(())
}
