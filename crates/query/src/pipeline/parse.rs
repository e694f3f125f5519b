//! Parses a list of stages: shape, names, positions.

use crate::stage::{
    MAX_DEPTH, ParseOptions, PipelineContext, PipelineSource, Placement, Stage, StageContext,
    StageOp, StageTable, stage_of,
};
use model::{Array, Doc, MongoError, Result, Value, bail, code};
use operators::expr::ParseCx;
use std::sync::Arc;

/// Most stages of a pipeline.
const MAX_STAGES: usize = 1000;

/// A stage of the query and its argument.
pub(super) type NamedStage<'v> = (&'static StageOp, Value<'v>);

/// The stages that the elements of an array name.
///
/// # Errors
/// 14 TypeMismatch for an element that is no object, 40323 for a stage of more or less than one
/// field, 40324 for an unknown name.
pub(super) fn parse_names<'v>(spec: Array<'v>, table: StageTable) -> Result<Vec<NamedStage<'v>>> {
    spec.iter().map(|item| stage_of(item, table)).collect()
}

/// Parses stages; they are not optimized yet.
///
/// # Errors
/// 40600-40602, 51047, 31441, 73 InvalidNamespace for positions, and the stages' own.
pub(super) fn stages(
    cx: &mut ParseCx<'_>,
    asked: &[NamedStage<'_>],
    options: &ParseOptions,
) -> Result<Vec<Arc<dyn Stage>>> {
    let mut stages: Vec<Arc<dyn Stage>> = Vec::new();
    let mut placements = Vec::new();
    for &(op, arg) in asked {
        check_inside(op.name, &op.placement, options)?;
        let parsed = (op.parse)(
            &mut StageContext {
                cx,
                options,
                before: &stages,
            },
            op.name,
            arg,
        )?;
        parsed
            .iter()
            .for_each(|s| cx.meta.extend(s.provides_meta()));
        stages.extend(parsed);
        // The empty filter is removed before `$geoNear` checks that it is first.
        let is_nothing = op.name == "$match" && arg.as_doc().is_some_and(Doc::is_empty);
        let before_near = is_nothing && asked.iter().any(|(op, _)| op.name == "$geoNear");
        if !before_near {
            placements.push((op.name, op.placement));
        }
    }
    check_positions(&placements, options)?;
    Ok(stages)
}

/// Checks that every stage, also in inner pipelines, has one field and a known name. MongoDB checks
/// all of them before it parses any.
pub(super) fn check_shape(spec: Array<'_>, table: StageTable, depth: usize) -> Result<()> {
    if spec.elements().nth(MAX_STAGES).is_some() {
        bail!(
            7749501,
            "Pipeline length must be no longer than {MAX_STAGES} stages, but is {}",
            spec.len()
        );
    }
    if depth > MAX_DEPTH {
        bail!(
            code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
            "Maximum number of nested sub-pipelines exceeded. Limit is {}",
            MAX_DEPTH
        );
    }
    for item in spec.iter() {
        let (op, arg) = stage_of(item, table)?;
        match (op.name, arg) {
            ("$lookup" | "$unionWith", Value::Document(d)) => {
                if let Value::Array(inner) = d.field("pipeline") {
                    check_shape(inner, table, depth + 1)?;
                }
            }
            ("$facet", Value::Document(d)) => {
                for (_, v) in d.iter() {
                    if let Value::Array(inner) = v {
                        if let Some(v) = inner.iter().find(|v| v.as_doc().is_none()) {
                            bail!(
                                40171,
                                "elements of arrays in a $facet spec must be non-empty objects, \
                                    not {}",
                                v.type_name()
                            );
                        }
                        check_shape(inner, table, depth + 1)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that the stage may be inside this pipeline: first by the stage directly around it, then
/// by a `$facet` further out.
fn check_inside(name: &str, placement: &Placement, options: &ParseOptions) -> Result<()> {
    let (allowed, number, around) = match options.inside {
        PipelineContext::Top | PipelineContext::Update | PipelineContext::Facet => (true, 0, ""),
        PipelineContext::Lookup => (placement.in_lookup, 51047, "$lookup"),
        PipelineContext::Union => (placement.in_union, 31441, "$unionWith"),
        PipelineContext::View => (
            !placement.last,
            code::OPTION_NOT_SUPPORTED_ON_VIEW,
            "a view definition",
        ),
    };
    if !allowed {
        bail!(number, "{name} is not allowed to be used within {around}");
    }
    if options.in_facet && !placement.in_facet {
        let on_database = matches!(options.target, PipelineSource::Database(_));
        let number = match name {
            _ if on_database => 40600,
            "$listClusterCatalog" => 9621301,
            // These check their namespace first.
            "$listSessions" | "$listLocalSessions" => code::INVALID_NAMESPACE,
            _ => 40600,
        };
        bail!(
            number,
            "{name} is not allowed to be used within a $facet stage"
        );
    }
    Ok(())
}

fn check_positions(placements: &[(&'static str, Placement)], options: &ParseOptions) -> Result<()> {
    let on_database = matches!(options.target, PipelineSource::Database(_));
    let first_fits_database = placements.first().is_some_and(|(_, p)| p.on_database);
    if let (PipelineSource::Collection(_), Some((name, _))) = (
        &options.target,
        placements.first().filter(|(_, p)| p.needs_database),
    ) {
        let of_its_own = *name == "$listClusterCatalog" && options.inside != PipelineContext::Top;
        bail!(
            if of_its_own {
                9621301
            } else {
                code::INVALID_NAMESPACE
            },
            "{name} must be run against the database with {{aggregate: 1}}, not a collection"
        );
    }
    if on_database && !first_fits_database {
        return Err(MongoError::new(
            code::INVALID_NAMESPACE,
            "{aggregate: 1} is not valid for an empty pipeline or for a pipeline whose first stage \
                reads a collection",
        ));
    }
    for (i, (name, placement)) in placements.iter().enumerate() {
        if placement.first && i > 0 {
            bail!(
                if *name == "$geoNear" { 40603 } else { 40602 },
                "{name} is only valid as the first stage in a pipeline"
            );
        }
        let behind_changes = i > 0 && placements.first().is_some_and(|(_, p)| p.changes);
        if behind_changes && !placement.behind_changes {
            bail!(
                code::ILLEGAL_OPERATION,
                "{name} is not permitted in a $changeStream pipeline"
            );
        }
        if placement.last && i + 1 < placements.len() {
            let number = if placement.behind_changes {
                7_182_802
            } else {
                40601
            };
            bail!(number, "{name} can only be the final stage in the pipeline");
        }
    }
    Ok(())
}
