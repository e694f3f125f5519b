//! From an array of stage documents to stages: shape, names, positions.

use super::{Pipeline, Place};
use crate::stages::{self, Stage, StageOp};
use model::{Array, Doc, MongoError, Namespace, Result, Value, bail, code};
use operators::expr::ParseCx;
use std::sync::Arc;

/// Most stages of a pipeline.
const MAX_STAGES: usize = 1000;

/// What a pipeline reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A collection or view.
    Collection(Namespace),
    /// A database: `{aggregate: 1}`.
    Database(String),
}

impl Target {
    /// The database.
    pub fn db(&self) -> &str {
        match self {
            Target::Collection(ns) => ns.db(),
            Target::Database(db) => db,
        }
    }
}

/// What a pipeline stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    /// The command.
    Top,
    /// A sub-pipeline of `$facet`.
    Facet,
    /// The pipeline of `$lookup`.
    Lookup,
    /// The pipeline of `$unionWith`.
    Union,
    /// A view's definition.
    View,
    /// An update (`whenMatched` of `$merge`).
    Update,
}

/// What parsing must know besides the stages.
#[derive(Clone, Debug)]
pub struct ParseOptions {
    /// What the pipeline reads.
    pub target: Target,
    /// What it stands in.
    pub inside: Inside,
    /// How many pipelines are around it.
    pub depth: usize,
    /// Rewrite the stages and hand what can be to the planner. Off only to compare results with and
    /// without.
    pub optimize: bool,
}

impl ParseOptions {
    /// A command's pipeline over a collection.
    pub fn collection(ns: Namespace) -> ParseOptions {
        ParseOptions {
            target: Target::Collection(ns),
            inside: Inside::Top,
            depth: 0,
            optimize: true,
        }
    }
    /// A command's pipeline over a database.
    pub fn database(db: &str) -> ParseOptions {
        ParseOptions {
            target: Target::Database(db.to_owned()),
            inside: Inside::Top,
            depth: 0,
            optimize: true,
        }
    }
    /// A pipeline inside this one.
    ///
    /// # Errors
    /// 232 MaxSubPipelineDepthExceeded.
    pub fn inner(&self, inside: Inside, target: Target) -> Result<ParseOptions> {
        if self.depth >= super::MAX_DEPTH {
            bail!(
                code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
                "Maximum number of nested sub-pipelines exceeded. Limit is {}",
                super::MAX_DEPTH
            );
        }
        Ok(ParseOptions {
            target,
            inside,
            depth: self.depth + 1,
            optimize: self.optimize,
        })
    }
}

/// What a stage's parser works with.
pub struct StageCx<'c, 'e> {
    /// Expression parsing.
    pub cx: &'c mut ParseCx<'e>,
    /// The pipeline around the stage.
    pub options: &'c ParseOptions,
    /// Stages before this one (after expansion), for rules that look back.
    pub before: &'c [Arc<dyn Stage>],
}

impl Pipeline {
    /// Parses an array of stages.
    ///
    /// # Errors
    /// 14 for an element that is no object, 40323 for a stage of more or less than one field, 40324
    /// for an unknown name, 40600-40602, 51047, 31441, 73 for positions, and the stages' own.
    pub fn parse(
        cx: &mut ParseCx<'_>,
        spec: Array<'_>,
        options: &ParseOptions,
    ) -> Result<Pipeline> {
        check_shape(spec, 0)?;
        // Sub-pipelines of a facet see the metadata of the documents they share; others begin
        // without.
        let around = cx.meta.clone();
        if options.inside != Inside::Facet {
            cx.meta.clear();
        }
        let parsed = Pipeline::parse_stages(cx, spec, options);
        cx.meta = around;
        parsed
    }

    fn parse_stages(
        cx: &mut ParseCx<'_>,
        spec: Array<'_>,
        options: &ParseOptions,
    ) -> Result<Pipeline> {
        let mut stages: Vec<Arc<dyn Stage>> = Vec::new();
        let mut places = Vec::new();
        for item in spec.iter() {
            let (op, arg) = stage_of(item)?;
            check_inside(op.name, &op.place, options.inside)?;
            let parsed = (op.parse)(
                &mut StageCx {
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
            places.push((op.name, op.place));
        }
        check_positions(&places, options)?;
        let target = options.target.clone();
        Ok(match options.optimize {
            true => Pipeline::from_stages(target, super::optimize::optimize(stages, cx)),
            false => Pipeline::as_written(target, stages),
        })
    }

    /// Parses a value that must be an array of stages.
    ///
    /// # Errors
    /// 14 TypeMismatch, and those of [`Pipeline::parse`].
    pub fn parse_value(
        cx: &mut ParseCx<'_>,
        spec: Value<'_>,
        options: &ParseOptions,
    ) -> Result<Pipeline> {
        let Value::Array(spec) = spec else {
            bail!(
                code::TYPE_MISMATCH,
                "'pipeline' option must be specified as an array, not {}",
                spec.type_name()
            );
        };
        Pipeline::parse(cx, spec, options)
    }
}

fn stage_of<'v>(item: Value<'v>) -> Result<(&'static StageOp, Value<'v>)> {
    let Value::Document(doc) = item else {
        bail!(
            code::TYPE_MISMATCH,
            "Each element of the 'pipeline' array must be an object, not {}",
            item.type_name()
        );
    };
    let Some((name, arg)) = single_field(doc) else {
        bail!(
            40323,
            "A pipeline stage specification object must contain exactly one field, not {}",
            doc.count()
        );
    };
    let Some(op) = stages::find(name) else {
        bail!(40324, "Unrecognized pipeline stage name: '{name}'");
    };
    Ok((op, arg))
}

/// The only field of a document.
pub(crate) fn single_field(doc: Doc<'_>) -> Option<(&str, Value<'_>)> {
    let mut fields = doc.iter();
    let first = fields.next()?;
    fields.next().is_none().then_some(first)
}

/// Checks that every stage here and in pipelines inside has one field and a known name. MongoDB
/// looks at all of them before it parses any.
fn check_shape(spec: Array<'_>, depth: usize) -> Result<()> {
    if spec.elements().nth(MAX_STAGES).is_some() {
        bail!(
            7749501,
            "Pipeline length must be no longer than {MAX_STAGES} stages, but is {}",
            spec.len()
        );
    }
    if depth > super::MAX_DEPTH {
        bail!(
            code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
            "Maximum number of nested sub-pipelines exceeded. Limit is {}",
            super::MAX_DEPTH
        );
    }
    for item in spec.iter() {
        let (op, arg) = stage_of(item)?;
        match (op.name, arg) {
            ("$lookup" | "$unionWith", Value::Document(d)) => {
                if let Value::Array(inner) = d.field("pipeline") {
                    check_shape(inner, depth + 1)?;
                }
            }
            ("$facet", Value::Document(d)) => {
                for (_, v) in d.iter() {
                    if let Value::Array(inner) = v {
                        check_shape(inner, depth + 1)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_inside(name: &str, place: &Place, inside: Inside) -> Result<()> {
    let (allowed, number, around) = match inside {
        Inside::Top | Inside::Update => return Ok(()),
        Inside::Facet => (place.in_facet || place.needs_database, 40600, "$facet"),
        Inside::Lookup => (place.in_lookup, 51047, "$lookup"),
        Inside::Union => (place.in_union, 31441, "$unionWith"),
        Inside::View => (
            !place.last,
            code::OPTION_NOT_SUPPORTED_ON_VIEW,
            "a view definition",
        ),
    };
    if !allowed {
        bail!(number, "{name} is not allowed to be used within {around}");
    }
    Ok(())
}

fn check_positions(places: &[(&'static str, Place)], options: &ParseOptions) -> Result<()> {
    let on_database = matches!(options.target, Target::Database(_));
    let first_needs_database = places.first().is_some_and(|(_, p)| p.needs_database);
    if let (Target::Collection(_), Some((name, _))) = (
        &options.target,
        places.first().filter(|(_, p)| p.needs_database),
    ) {
        bail!(
            code::INVALID_NAMESPACE,
            "{name} must be run against the database with {{aggregate: 1}}, not a collection"
        );
    }
    if on_database && !first_needs_database {
        return Err(MongoError::new(
            code::INVALID_NAMESPACE,
            "{aggregate: 1} is not valid for an empty pipeline or for a pipeline whose first stage \
                reads a collection",
        ));
    }
    for (i, (name, place)) in places.iter().enumerate() {
        if place.first && i > 0 {
            bail!(
                40602,
                "{name} is only valid as the first stage in a pipeline"
            );
        }
        if place.last && i + 1 < places.len() {
            bail!(40601, "{name} can only be the final stage in the pipeline");
        }
    }
    Ok(())
}
