//! The contracts for parsing a stage and for finding the privileges it needs: the pipeline around
//! it, the stages before it, the table of stages. The table is passed in, so that a stage with an
//! inner pipeline knows no other stage.

use super::need::{RequiredPrivilege, Subject};
use super::placement::Placement;
use super::source::PipelineSource;
use super::traits::Stage;
use model::{Array, Doc, MongoError, Result, Value, bail, code};
use operators::expr::ParseCx;
use std::sync::Arc;

/// Deepest nesting of views, and of pipelines inside pipelines.
pub(crate) const MAX_DEPTH: usize = 20;

/// Parses a stage's argument; the stage's name is for error messages.
pub type ParseStage =
    fn(&mut StageContext<'_, '_>, &'static str, Value<'_>) -> Result<Vec<Arc<dyn Stage>>>;

/// An entry of the table of stages.
pub struct StageOp {
    /// With the dollar sign.
    pub name: &'static str,
    /// Where it is allowed.
    pub placement: Placement,
    /// Whether the stable API has it.
    pub api: ApiClass,
    /// The privileges it needs.
    pub needs: StageNeeds,
    /// Parses its argument; a stage that stands for several returns them all.
    pub parse: ParseStage,
}

/// Whether a stage is part of version 1 of the stable API.
#[derive(Clone, Copy)]
pub enum ApiClass {
    /// It is part of version 1.
    Inside,
    /// It is not part of version 1.
    Outside,
    /// It is part of version 1 with some arguments.
    Of(fn(Value<'_>) -> bool),
}

impl ApiClass {
    /// Whether the stage is part of it with this argument.
    pub fn has(self, arg: Value<'_>) -> bool {
        match self {
            ApiClass::Inside => true,
            ApiClass::Outside => false,
            ApiClass::Of(has) => has(arg),
        }
    }
}

/// The stages that a pipeline may use, grouped by file.
#[derive(Clone, Copy)]
pub struct StageTable(pub &'static [&'static [StageOp]]);

impl StageTable {
    /// The stage called `name` (with the dollar sign).
    pub fn find(self, name: &str) -> Option<&'static StageOp> {
        self.iter().find(|op| op.name == name)
    }

    /// Whether a pipeline stores its output. An element that is not a stage stores nothing.
    pub fn stores(self, pipeline: Array<'_>) -> bool {
        let stages = pipeline.iter().filter_map(|stage| stage.as_doc());
        let mut names = stages.flat_map(|stage| stage.iter().map(|(name, _)| name));
        names.any(|name| self.find(name).is_some_and(|op| op.placement.writes))
    }

    /// All stages.
    pub fn iter(self) -> impl Iterator<Item = &'static StageOp> {
        self.0.iter().flat_map(|ops| ops.iter())
    }
}

impl std::fmt::Debug for StageTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|op| op.name))
            .finish()
    }
}

/// Where a pipeline is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipelineContext {
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

/// The context of parsing a pipeline.
#[derive(Clone, Debug)]
pub struct ParseOptions {
    /// The stages that can be named.
    pub stages: StageTable,
    /// What the pipeline reads.
    pub target: PipelineSource,
    /// Where the pipeline is used.
    pub inside: PipelineContext,
    /// A `$facet` is around it, at any depth.
    pub in_facet: bool,
    /// The number of pipelines around it.
    pub depth: usize,
    /// Rewrite the stages and offer leading stages to the planner. Off only to compare the results.
    pub optimize: bool,
    /// The server has search; otherwise search stages are refused by name.
    pub search: bool,
}

impl ParseOptions {
    /// The options for the pipeline of a command.
    pub fn top(stages: StageTable, target: PipelineSource) -> ParseOptions {
        ParseOptions {
            stages,
            target,
            inside: PipelineContext::Top,
            in_facet: false,
            depth: 0,
            optimize: true,
            search: true,
        }
    }

    /// The options for a pipeline inside this one.
    ///
    /// # Errors
    /// 232 MaxSubPipelineDepthExceeded.
    pub fn inner(&self, inside: PipelineContext, target: PipelineSource) -> Result<ParseOptions> {
        if self.depth >= MAX_DEPTH {
            bail!(
                code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
                "Maximum number of nested sub-pipelines exceeded. Limit is {}",
                MAX_DEPTH
            );
        }
        Ok(ParseOptions {
            stages: self.stages,
            target,
            inside,
            in_facet: self.in_facet || inside == PipelineContext::Facet,
            depth: self.depth + 1,
            optimize: self.optimize,
            search: self.search,
        })
    }
}

/// The context for parsing a stage.
pub struct StageContext<'c, 'e> {
    /// Expression parsing.
    pub cx: &'c mut ParseCx<'e>,
    /// The pipeline around the stage.
    pub options: &'c ParseOptions,
    /// Stages before this one (after expansion), for rules that depend on them.
    pub before: &'c [Arc<dyn Stage>],
}

impl StageContext<'_, '_> {
    /// Parses a stage into which another one expands.
    ///
    /// # Errors
    /// Those of that stage.
    pub(crate) fn expand(&mut self, name: &str, arg: Value<'_>) -> Result<Vec<Arc<dyn Stage>>> {
        let op = self.options.stages.find(name);
        let op = op.ok_or_else(|| MongoError::internal("no such stage"))?;
        (op.parse)(self, op.name, arg)
    }
}

/// The only field of a document.
pub(crate) fn single_field(doc: Doc<'_>) -> Option<(&str, Value<'_>)> {
    let mut fields = doc.iter();
    let first = fields.next()?;
    fields.next().is_none().then_some(first)
}

/// The stage that an element of a pipeline names, and its argument.
///
/// # Errors
/// 14 TypeMismatch for an element that is no object, 40323 for more or less than one field, 40324
/// for an unknown name.
pub(crate) fn stage_of<'v>(
    item: Value<'v>,
    table: StageTable,
) -> Result<(&'static StageOp, Value<'v>)> {
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
    let Some(op) = table.find(name) else {
        bail!(40324, "Unrecognized pipeline stage name: '{name}'");
    };
    Ok((op, arg))
}

/// Finds the privileges that a stage needs with this argument.
///
/// # Errors
/// Those of its parser, for what it reads of the argument.
pub type FindNeeds = fn(&mut NeedsContext<'_>, &'static str, Value<'_>) -> Result<()>;

/// The privileges that a stage needs.
#[derive(Clone, Copy)]
pub enum StageNeeds {
    /// None: it uses only its input documents.
    Nothing,
    /// They depend on its argument.
    Of(FindNeeds),
    /// The same for a stage that makes documents itself: a pipeline that begins with it reads no
    /// collection.
    OfSource(FindNeeds),
}

/// The context for finding the privileges that a stage needs.
pub struct NeedsContext<'c> {
    /// The pipeline around the stage.
    pub(crate) options: &'c ParseOptions,
    found: &'c mut Vec<RequiredPrivilege>,
}

impl NeedsContext<'_> {
    /// Adds a privilege.
    pub(crate) fn add(&mut self, need: RequiredPrivilege) {
        self.found.push(need);
    }

    /// Adds the privilege to see information about the stage's collection or database.
    pub(crate) fn add_server_facts(&mut self, subject: Subject) {
        let target = self.options.target.clone();
        self.add(RequiredPrivilege::Told(subject, target));
    }

    /// Adds the privileges of an inner pipeline, which reads `target`.
    ///
    /// # Errors
    /// 232 MaxSubPipelineDepthExceeded, and those of [`pipeline_needs`].
    pub(crate) fn inner(
        &mut self,
        inside: PipelineContext,
        target: PipelineSource,
        pipeline: Array<'_>,
    ) -> Result<()> {
        let options = self.options.inner(inside, target)?;
        each_stage(pipeline, &options, self.found)
    }
}

/// The privileges that a pipeline needs, found before any part of it is opened. The stages of a
/// view are not included: the right to read the view is enough for what it shows.
///
/// # Errors
/// 14 TypeMismatch, 40323, 40324 for what is no stage, and those of the stages for what is read of
/// their arguments.
pub fn pipeline_needs(
    pipeline: Array<'_>,
    options: &ParseOptions,
) -> Result<Vec<RequiredPrivilege>> {
    let mut found = Vec::new();
    let first = pipeline.get(0).map(|item| stage_of(item, options.stages));
    let makes_documents = match first.transpose()? {
        Some((op, _)) => matches!(op.needs, StageNeeds::OfSource(_)),
        None => false,
    };
    if let (PipelineSource::Collection(ns), false) = (&options.target, makes_documents) {
        found.push(RequiredPrivilege::Read(ns.clone()));
    }
    each_stage(pipeline, options, &mut found)?;
    Ok(found)
}

fn each_stage(
    pipeline: Array<'_>,
    options: &ParseOptions,
    found: &mut Vec<RequiredPrivilege>,
) -> Result<()> {
    for item in pipeline.iter() {
        let (op, arg) = stage_of(item, options.stages)?;
        if let StageNeeds::Of(find) | StageNeeds::OfSource(find) = op.needs {
            find(&mut NeedsContext { options, found }, op.name, arg)?;
        }
    }
    Ok(())
}
