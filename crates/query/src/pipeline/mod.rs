//! Pipelines: parsed once into stages, opened into a chain of pull operators, pulled batch by batch.

mod ahead;
mod batch;
mod docs;
mod host;
mod match_filter;
mod optimize;
mod parse;
mod place;

pub(crate) use ahead::drain_ahead;
pub use batch::Batch;
pub use docs::{Docs, NoDocs, Ready, Rt, drain};
pub use host::{
    GeoIndex, Host, MergeWrite, NotMatched, OnMatch, Opened, OutTarget, OutWriter, Read, Resolved,
};
pub use match_filter::MatchFilter;
pub use parse::{Inside, ParseOptions, StageCx, Target};
pub(crate) use parse::single_field;
pub use place::Place;

use crate::stages::{Kind, Stage};
use model::{ArrayWriter, DocBuf, MongoError, Namespace, Result, bail, code};
use std::sync::Arc;

/// A parsed, optimized pipeline. Cheap to clone; holds no data.
#[derive(Clone)]
pub struct Pipeline {
    /// Where it reads.
    target: Target,
    stages: Vec<Arc<dyn Stage>>,
}

/// Deepest chain of views, and of pipelines inside pipelines.
const MAX_DEPTH: usize = 20;

impl Pipeline {
    /// A pipeline of ready stages.
    pub(crate) fn from_stages(target: Target, stages: Vec<Arc<dyn Stage>>) -> Pipeline {
        Pipeline { target, stages: optimize::optimize(stages) }
    }

    /// The first stage alone, and the others over documents of the caller.
    pub(crate) fn split_first(mut self) -> (Pipeline, Pipeline) {
        let rest = self.stages.split_off(self.stages.len().min(1));
        let rest = Pipeline { target: self.target.clone(), stages: rest };
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
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// True when it ends in `$out` or `$merge`.
    pub fn writes(&self) -> bool {
        self.stages.last().is_some_and(|s| s.is_writer())
    }

    /// Opens the chain: the collection's documents (or what the first stage makes itself), then every stage.
    ///
    /// # Errors
    /// Those of the host and of the stages.
    pub fn open(&self, rt: &Rt<'_>) -> Result<Box<dyn Docs>> {
        self.stages.iter().try_for_each(|s| s.check(rt))?;
        let (source, taken) = self.open_source(rt)?;
        self.open_rest(rt, source, taken)
    }

    /// Opens every stage over documents of the caller.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn open_over(&self, rt: &Rt<'_>, source: Box<dyn Docs>) -> Result<Box<dyn Docs>> {
        self.open_rest(rt, source, 0)
    }

    fn open_rest(&self, rt: &Rt<'_>, mut docs: Box<dyn Docs>, taken: usize) -> Result<Box<dyn Docs>> {
        for stage in self.stages.iter().skip(taken) {
            docs = stage.clone().open(docs, rt)?;
        }
        Ok(docs)
    }

    /// The source, and how many leading stages it makes superfluous.
    fn open_source(&self, rt: &Rt<'_>) -> Result<(Box<dyn Docs>, usize)> {
        if self.makes_documents() {
            return Ok((Box::new(NoDocs), 0));
        }
        let Target::Collection(ns) = &self.target else {
            bail!(code::INVALID_NAMESPACE, "{{aggregate: 1}} is not valid for an empty pipeline or one whose first stage reads a collection");
        };
        self.open_namespace(rt, ns, 0)
    }

    fn open_namespace(&self, rt: &Rt<'_>, ns: &Namespace, depth: usize) -> Result<(Box<dyn Docs>, usize)> {
        if depth >= MAX_DEPTH {
            bail!(code::VIEW_DEPTH_LIMIT_EXCEEDED, "View depth exceeded maximum of {MAX_DEPTH} while resolving {ns}");
        }
        match rt.host.resolve(ns)? {
            Resolved::Missing => Ok((Box::new(NoDocs), 0)),
            Resolved::Collection => {
                let (read, stages) = self.offer(ns);
                let opened = rt.host.open(rt, &read)?;
                let mut taken = 0;
                if opened.filtered && read.filter.is_some() {
                    taken += 1;
                }
                // The sort stage goes only when everything before it went, and it carries no limit of its own.
                let sort_done = opened.sorted && read.sort.is_some() && taken == stages.filter_stages;
                if sort_done && !stages.sort_has_limit {
                    taken += 1;
                }
                Ok((opened.docs, taken))
            }
            Resolved::View { on, pipeline } => {
                let mut cx = operators::expr::ParseCx::new(rt.env);
                let options = ParseOptions { inside: Inside::View, ..ParseOptions::collection(on.clone()) };
                let below = Pipeline::parse(&mut cx, pipeline.doc().as_array(), &options)?;
                let (docs, taken) = if below.makes_documents() {
                    (Box::new(NoDocs) as Box<dyn Docs>, 0)
                } else {
                    below.open_namespace(rt, &on, depth + 1)?
                };
                Ok((below.open_rest(rt, docs, taken)?, 0))
            }
        }
    }

    /// What the leading stages let the host do already.
    fn offer<'q>(&'q self, ns: &'q Namespace) -> (Read<'q>, Offered) {
        let mut read = Read { ns, filter: None, sort: None, limit: None };
        let mut offered = Offered { filter_stages: 0, sort_has_limit: false };
        let mut rest = self.stages.iter();
        let mut next = rest.next();
        if let Some(Kind::Match(filter)) = next.map(|s| s.kind()) {
            read.filter = Some(filter);
            offered.filter_stages = 1;
            next = rest.next();
        }
        match next.map(|s| s.kind()) {
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

    /// The stages as explain shows them, the source's plan first.
    ///
    /// # Errors
    /// Those of the host's planner.
    pub fn explain(&self, rt: &Rt<'_>) -> Result<DocBuf> {
        self.stages.iter().try_for_each(|s| s.check(rt))?;
        let mut out = Vec::new();
        {
            let mut w = ArrayWriter::new(&mut out);
            if let (Target::Collection(ns), false) = (&self.target, self.makes_documents()) {
                let plan = rt.host.explain(rt, &self.offer(ns).0)?;
                w.doc().put("$cursor", &plan);
            }
            for stage in &self.stages {
                w.push(&stage.describe());
            }
        }
        DocBuf::from_bytes(out).ok_or_else(|| MongoError::internal("explain is a document"))
    }

    /// Runs to the end and collects the documents.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn run_to_end(&self, rt: &Rt<'_>) -> Result<Batch> {
        let mut docs = self.open(rt)?;
        let mut all = Batch::new();
        drain(docs.as_mut(), rt, |doc, meta| {
            all.push_with_meta(doc, meta);
            Ok(())
        })?;
        Ok(all)
    }
}

struct Offered {
    filter_stages: usize,
    sort_has_limit: bool,
}
