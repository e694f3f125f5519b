//! Pipelines: parsed once into stages, opened as a chain of pull operators, and read batch by
//! batch.

mod buckets;
mod optimize;
mod parse;
mod query_parts;

use crate::exec::{
    BatchStream, ChangeProgress, CountOutput, DocBatch, EmptyStream, ExecContext, Fold, GroupEnd,
    ReadRequest, ResolvedNamespace, drain,
};
use crate::stage::{
    Kind, MAX_DEPTH, ParseOptions, PipelineContext, PipelineSource, Stage, StageTable,
};
use buckets::ReadBuckets;
use model::{Array, DocBuf, Namespace, Result, Value, bail, code};
use operators::expr::ParseCx;
pub use query_parts::QueryParts;
use std::sync::{Arc, OnceLock};

/// A parsed, optimized pipeline. Cheap to clone; holds no data.
#[derive(Clone)]
pub struct Pipeline {
    /// The collection or database it reads.
    target: PipelineSource,
    /// The table of stages for parsing the views below.
    table: StageTable,
    stages: Vec<Arc<dyn Stage>>,
    /// Leading stages may be offered to the host.
    optimize: bool,
    /// What the later stages need of the read, computed once: a pipeline of `$lookup` is opened for
    /// every document.
    needs: Arc<OnceLock<Requirements>>,
    /// Some `$meta` asks for the record id or the index key.
    row_metadata: bool,
}

/// What the stages after the leading filter need of documents.
struct Requirements {
    /// Only these top-level fields.
    fields: Option<Vec<String>>,
    /// Only one document for each value at this path.
    distinct: Option<String>,
    /// Only one document of each group.
    group_end: Option<GroupEnd>,
    /// Only their number.
    number: Option<CountOutput>,
    /// The first of these stages, if a read can do its work.
    fold: Option<Arc<dyn Fold>>,
}

impl Pipeline {
    /// Parses an array of stages.
    ///
    /// # Errors
    /// 14 TypeMismatch for an element that is no object, 40323 for a stage of more or less than one
    /// field, 40324 for an unknown name, 40600-40602, 51047, 31441, 73 InvalidNamespace for
    /// positions, and the stages' own.
    pub fn parse(
        cx: &mut ParseCx<'_>,
        spec: Array<'_>,
        options: &ParseOptions,
    ) -> Result<Pipeline> {
        parse::check_shape(spec, options.stages, 0)?;
        let asked = parse::parse_names(spec, options.stages)?;
        Pipeline::of_named(cx, &asked, options)
    }

    /// Parses stages that are named already.
    fn of_named(
        cx: &mut ParseCx<'_>,
        asked: &[parse::NamedStage<'_>],
        options: &ParseOptions,
    ) -> Result<Pipeline> {
        // Sub-pipelines of a facet see the metadata of their shared documents; other pipelines
        // begin without metadata.
        let around = cx.meta.clone();
        let around_wants = std::mem::take(&mut cx.wants_row_metadata);
        if options.inside != PipelineContext::Facet {
            cx.meta.clear();
        }
        let parsed = parse::stages(cx, asked, options).map(|stages| Pipeline {
            optimize: options.optimize,
            row_metadata: cx.wants_row_metadata,
            ..Pipeline::from_stages(
                options.stages,
                options.target.clone(),
                match options.optimize {
                    true => optimize::optimize(stages, cx),
                    false => stages,
                },
            )
        });
        cx.meta = around;
        // The documents of a facet are read by the pipeline around it.
        cx.wants_row_metadata =
            around_wants || options.inside == PipelineContext::Facet && cx.wants_row_metadata;
        parsed
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

    /// A pipeline of parsed stages.
    pub(crate) fn from_stages(
        table: StageTable,
        target: PipelineSource,
        stages: Vec<Arc<dyn Stage>>,
    ) -> Pipeline {
        Pipeline {
            target,
            table,
            stages,
            optimize: true,
            needs: Arc::default(),
            row_metadata: false,
        }
    }

    /// Splits off the first stage; the other stages then run over documents of the caller.
    pub(crate) fn split_first(mut self) -> (Pipeline, Pipeline) {
        let rest = self.stages.split_off(self.stages.len().min(1));
        let rest = Pipeline {
            target: self.target.clone(),
            table: self.table,
            stages: rest,
            optimize: self.optimize,
            needs: Arc::default(),
            row_metadata: self.row_metadata,
        };
        self.needs = Arc::default();
        (self, rest)
    }

    /// The stages after optimization.
    pub fn stages(&self) -> &[Arc<dyn Stage>] {
        &self.stages
    }

    fn makes_documents(&self) -> bool {
        self.stages.first().is_some_and(|s| s.makes_documents())
    }

    /// Where it reads.
    pub fn target(&self) -> &PipelineSource {
        &self.target
    }

    /// True when it ends in `$out` or `$merge`.
    pub fn writes(&self) -> bool {
        self.stages.last().is_some_and(|s| s.is_writer())
    }

    /// True if its cursor stays open at the end, because something outside is held while it is
    /// open.
    pub fn holds_open(&self) -> bool {
        self.stages.first().is_some_and(|s| s.holds_open())
    }

    /// The change stream with which it begins.
    pub fn changes(&self) -> Option<&Arc<ChangeProgress>> {
        self.stages.first()?.changes()
    }

    /// Opens the chain: the documents of the collection (or of a first stage that makes them
    /// itself), then every stage.
    ///
    /// # Errors
    /// Those of the host and of the stages.
    pub fn open(&self, exec: &ExecContext<'_>) -> Result<Box<dyn BatchStream>> {
        self.stages.iter().try_for_each(|s| s.check(exec))?;
        match self.expand_views(exec)? {
            (None, missing) => self.open_whole(exec, missing),
            (Some(whole), missing) => whole.open_whole(exec, missing),
        }
    }

    /// Opens every stage over documents of the caller.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn open_over(
        &self,
        exec: &ExecContext<'_>,
        source: Box<dyn BatchStream>,
    ) -> Result<Box<dyn BatchStream>> {
        self.open_rest(exec, source, 0)
    }

    fn open_rest(
        &self,
        exec: &ExecContext<'_>,
        mut docs: Box<dyn BatchStream>,
        taken: usize,
    ) -> Result<Box<dyn BatchStream>> {
        let mut rest = self.stages.get(taken..).unwrap_or_default();
        while let Some((stage, behind)) = rest.split_first() {
            let next = behind.first().filter(|_| self.optimize);
            let fused = next.and_then(|next| stage.clone().fused_with(next.as_ref()));
            rest = match fused {
                Some(_) => behind.get(1..).unwrap_or_default(),
                None => behind,
            };
            docs = fused.unwrap_or_else(|| stage.clone()).open(docs, exec)?;
        }
        Ok(docs)
    }

    /// The pipeline with the stages of the views it reads in front (`None` if it reads no view),
    /// and whether the collection is missing. In the combined pipeline filters on a view can move
    /// to the collection.
    ///
    /// # Errors
    /// 165 ViewDepthLimitExceeded, and those of the views' stages.
    fn expand_views(&self, exec: &ExecContext<'_>) -> Result<(Option<Pipeline>, bool)> {
        let mut whole: Option<Pipeline> = None;
        for _ in 0..MAX_DEPTH {
            let top = whole.as_ref().unwrap_or(self);
            let Some(ns) = top.reads() else {
                return Ok((whole, false));
            };
            let (on, pipeline, first) = match exec.host.resolve(ns)? {
                ResolvedNamespace::View { on, pipeline } => (on, pipeline, None),
                ResolvedNamespace::Buckets { on } => {
                    let read: Arc<dyn Stage> = Arc::new(ReadBuckets { on: on.clone() });
                    (on, DocBuf::new(), Some(read))
                }
                ResolvedNamespace::Collection => return Ok((whole, false)),
                ResolvedNamespace::Missing => return Ok((whole, true)),
            };
            let mut cx = ParseCx::new(exec.env);
            let options = ParseOptions {
                inside: PipelineContext::View,
                optimize: false,
                ..ParseOptions::top(self.table, PipelineSource::Collection(on.clone()))
            };
            let mut below = Pipeline::parse(&mut cx, pipeline.doc().as_array(), &options)?;
            if !below.stages.is_empty()
                && top
                    .stages
                    .first()
                    .is_some_and(|s| s.provides_meta().contains(&"textScore"))
            {
                bail!(
                    17313,
                    "$match with $text is only allowed as the first pipeline stage, and the view \
                        {ns} has stages of its own"
                );
            }
            below.stages.extend(first);
            below.stages.extend(top.stages.iter().cloned());
            if self.optimize {
                below.stages = optimize::optimize(below.stages, &mut cx);
            }
            below.optimize = self.optimize;
            below.needs = Arc::default();
            whole = Some(below);
        }
        bail!(
            code::VIEW_DEPTH_LIMIT_EXCEEDED,
            "View depth exceeded maximum of {MAX_DEPTH} while resolving {}",
            self.target
        )
    }

    /// Opens the source and the stages; views are resolved already.
    fn open_whole(&self, exec: &ExecContext<'_>, missing: bool) -> Result<Box<dyn BatchStream>> {
        if missing || self.makes_documents() {
            return self.open_rest(exec, Box::new(EmptyStream), 0);
        }
        let PipelineSource::Collection(ns) = &self.target else {
            bail!(
                code::INVALID_NAMESPACE,
                "{{aggregate: 1}} is not valid for an empty pipeline or one whose first stage \
                    reads a collection"
            );
        };
        let (read, stages) = self.offer(ns);
        let opened = exec.host.open(exec, &read)?;
        let mut taken = usize::from(opened.filtered && read.filter.is_some());
        // The stage after the filter is done only if the filter is; a sort with a limit only if
        // sort and limit are done.
        if taken == stages.filter_stages {
            let sort_done =
                read.sort.is_some() && opened.sorted && (opened.limited || !stages.sort_has_limit);
            let limit_done = read.sort.is_none() && read.limit.is_some() && opened.limited;
            taken += usize::from(sort_done || limit_done || opened.folded);
        }
        self.open_rest(exec, opened.docs, taken)
    }

    /// The part of the leading stages that the host may do.
    fn offer<'q>(&'q self, ns: &'q Namespace) -> (ReadRequest<'q>, Pushdown) {
        let mut read = ReadRequest {
            row_metadata: self.row_metadata,
            ..ReadRequest::all(ns)
        };
        let mut offered = Pushdown {
            filter_stages: 0,
            sort_has_limit: false,
        };
        if !self.optimize {
            return (read, offered);
        }
        let mut rest = self.stages.as_slice();
        if let Some(Kind::Match(filter)) = rest.first().map(|s| s.kind()) {
            read.filter = Some(filter);
            offered.filter_stages = 1;
            rest = rest.get(1..).unwrap_or(&[]);
        }
        let needs = self.needs.get_or_init(|| Requirements {
            fields: optimize::needs(rest).map(|names| names.into_iter().collect()),
            distinct: rest
                .first()
                .and_then(|s| optimize::groups_by_alone(s.as_ref())),
            group_end: optimize::group_end(rest),
            number: rest.first().and_then(|s| optimize::number_only(s.as_ref())),
            fold: rest.first().cloned().and_then(Stage::fold),
        });
        read.fold = needs.fold.as_ref();
        read.fields = needs.fields.as_deref();
        read.distinct = needs.distinct.as_deref();
        read.group_end = needs.group_end.as_ref();
        read.number = needs.number.as_ref();
        match rest.first().map(|s| s.kind()) {
            Some(Kind::Sort { pattern, limit }) => {
                read.sort = Some(pattern);
                read.limit = limit;
                offered.sort_has_limit = limit.is_some();
            }
            Some(Kind::Limit(n)) => read.limit = Some(n),
            _ => {}
        }
        (read, offered)
    }

    /// The pipeline as it runs: on a collection, with the stages of views in front. For explain.
    /// # Errors
    /// Those of the views' stages, and of checks that only the server can make.
    pub fn resolve(&self, exec: &ExecContext<'_>) -> Result<Pipeline> {
        self.stages.iter().try_for_each(|s| s.check(exec))?;
        Ok(self.expand_views(exec)?.0.unwrap_or_else(|| self.clone()))
    }

    /// The collection it reads, unless its first stage makes documents itself.
    pub fn reads(&self) -> Option<&Namespace> {
        match &self.target {
            PipelineSource::Collection(ns) if !self.makes_documents() => Some(ns),
            _ => None,
        }
    }

    /// The fields that the stages after the filter use, if these are known.
    pub fn fields_needed(&self) -> Option<Vec<String>> {
        let after = usize::from(matches!(
            self.stages.first().map(|s| s.kind()),
            Some(Kind::Match(_))
        ));
        Some(
            optimize::needs(self.stages.get(after..)?)?
                .into_iter()
                .collect(),
        )
    }

    /// The path for each of whose values one document is enough, if the stages after the filter
    /// allow that.
    pub fn distinct_needed(&self) -> Option<String> {
        let after = usize::from(matches!(
            self.stages.first().map(|s| s.kind()),
            Some(Kind::Match(_))
        ));
        optimize::groups_by_alone(self.stages.get(after)?.as_ref())
    }

    /// The stage after the filter, if it needs only the number of documents.
    pub fn number_needed(&self) -> Option<CountOutput> {
        let after = usize::from(matches!(
            self.stages.first().map(|s| s.kind()),
            Some(Kind::Match(_))
        ));
        optimize::number_only(self.stages.get(after)?.as_ref())
    }

    /// The stage after the filter, if a read can do its work.
    pub fn fold_needed(&self) -> Option<Arc<dyn Fold>> {
        let after = usize::from(matches!(
            self.stages.first().map(|s| s.kind()),
            Some(Kind::Match(_))
        ));
        self.stages.get(after).cloned().and_then(Stage::fold)
    }

    /// The groups of which one document each is enough, if the stages after the filter allow that.
    pub fn group_end_needed(&self) -> Option<GroupEnd> {
        let after = usize::from(matches!(
            self.stages.first().map(|s| s.kind()),
            Some(Kind::Match(_))
        ));
        optimize::group_end(self.stages.get(after..)?)
    }

    /// Runs to the end and collects the documents.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn run_to_end(&self, exec: &ExecContext<'_>) -> Result<DocBatch> {
        let mut docs = self.open(exec)?;
        let mut all = DocBatch::new();
        drain(docs.as_mut(), exec, |doc, meta| {
            all.push_with_meta(doc, meta);
            Ok(())
        })?;
        Ok(all)
    }
}

struct Pushdown {
    filter_stages: usize,
    sort_has_limit: bool,
}
