//! What a pipeline needs of whoever asks: the collections that it reads and writes, and the lists
//! of the server that it shows. Found by the functions that parse the stages, before anything of
//! the pipeline is opened; the stages of a view are not among them, because who may read a view may
//! read what it shows.
//!
//! Must not know: users, roles, which stages there are.

use super::parse::{Inside, ParseOptions, PipelineSource, stage_of};
use model::{Array, Namespace, Result, Value};

/// One thing that a pipeline needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The documents of a collection or view.
    Read(Namespace),
    /// To write to a collection.
    Write {
        /// The collection.
        ns: Namespace,
        /// Adds documents.
        inserts: bool,
        /// Changes documents.
        updates: bool,
        /// Takes documents away.
        removes: bool,
    },
    /// The changes of a collection or database; of everything where none is named.
    Changes(Option<PipelineSource>),
    /// What the server tells of the collection or database that the stage runs on.
    Told(Subject, PipelineSource),
    /// What the server tells of itself.
    Server(Report),
}

/// What the server tells of a collection or database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Subject {
    CollectionStatistics,
    IndexStatistics,
    CachedPlans,
    SearchIndexes,
    /// The collections of the database; on `admin` those of all.
    Collections,
}

/// What the server tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Report {
    /// Running operations, of everybody or of the user.
    Operations {
        of_all: bool,
    },
    /// Sessions of everybody, or of these users (name and database); of the user where none is
    /// named.
    Sessions {
        of_all: bool,
        users: Vec<SessionUser>,
    },
    SampledQueries,
    QuerySettings,
    QueryStatistics,
}

/// A user whose sessions are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUser {
    /// Its name.
    pub name: String,
    /// Its database.
    pub db: String,
}

/// Finds the needs of a stage by its argument.
///
/// # Errors
/// Those of its parser, for what it reads of the argument.
pub type FindNeeds = fn(&mut NeedsContext<'_>, &'static str, Value<'_>) -> Result<()>;

/// What a stage needs, as its row says it.
#[derive(Clone, Copy)]
pub enum StageNeeds {
    /// Nothing: it sees only the documents that come to it.
    Nothing,
    /// What its argument says.
    Of(FindNeeds),
    /// The same of a stage that makes documents itself, so that a pipeline that begins with it
    /// reads no collection.
    OfSource(FindNeeds),
}

/// What finding the needs of a stage works with.
pub struct NeedsContext<'c> {
    /// The pipeline around the stage.
    pub(crate) options: &'c ParseOptions,
    found: &'c mut Vec<Need>,
}

impl NeedsContext<'_> {
    /// Notes a need.
    pub(crate) fn add(&mut self, need: Need) {
        self.found.push(need);
    }

    /// Notes what the server tells of what the stage runs on.
    pub(crate) fn told(&mut self, subject: Subject) {
        let target = self.options.target.clone();
        self.add(Need::Told(subject, target));
    }

    /// Adds the needs of a pipeline inside the stage, which reads `target`.
    ///
    /// # Errors
    /// 232 MaxSubPipelineDepthExceeded, and those of [`pipeline_needs`].
    pub(crate) fn inner(
        &mut self,
        inside: Inside,
        target: PipelineSource,
        pipeline: Array<'_>,
    ) -> Result<()> {
        let options = self.options.inner(inside, target)?;
        each_stage(pipeline, &options, self.found)
    }
}

/// What a pipeline needs.
///
/// # Errors
/// 14, 40323, 40324 for what is no stage, and those of the stages for what is read of their
/// arguments.
pub fn pipeline_needs(pipeline: Array<'_>, options: &ParseOptions) -> Result<Vec<Need>> {
    let mut found = Vec::new();
    let first = pipeline.get(0).map(|item| stage_of(item, options.stages));
    let makes_documents = match first.transpose()? {
        Some((op, _)) => matches!(op.needs, StageNeeds::OfSource(_)),
        None => false,
    };
    if let (PipelineSource::Collection(ns), false) = (&options.target, makes_documents) {
        found.push(Need::Read(ns.clone()));
    }
    each_stage(pipeline, options, &mut found)?;
    Ok(found)
}

fn each_stage(pipeline: Array<'_>, options: &ParseOptions, found: &mut Vec<Need>) -> Result<()> {
    for item in pipeline.iter() {
        let (op, arg) = stage_of(item, options.stages)?;
        if let StageNeeds::Of(find) | StageNeeds::OfSource(find) = op.needs {
            find(&mut NeedsContext { options, found }, op.name, arg)?;
        }
    }
    Ok(())
}
