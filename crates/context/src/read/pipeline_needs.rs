//! The rights that pipelines need. The parsers of the stages determine what a pipeline reads,
//! writes and lists.

use auth::Action::{self, *};
use auth::Target;
use model::{Array, Namespace, Result};
use query::stage::{ParseOptions, PipelineSource, Report, RequiredPrivilege, SessionUser, Subject};
use query::stages::{collection_options, database_options};
use request::asked::RightsRequest;

/// Checks a pipeline over a collection of the request's database (`None`: over the database).
///
/// # Errors
/// 13 Unauthorized, and the codes of invalid arguments.
pub fn needs_of_pipeline(
    asked: &RightsRequest<'_, '_>,
    coll: Option<&str>,
    pipeline: Array<'_>,
) -> Result<()> {
    let options = match coll {
        Some(coll) => collection_options(Namespace::new(asked.db, coll)?),
        None => database_options(asked.db),
    };
    check(asked, pipeline, &options)
}

/// The definition of a view.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The collection or view that it reads, in the same database.
    pub source: &'a str,
    /// The stages; null elements are ignored.
    pub pipeline: Array<'a>,
}

/// Checks that a user who defines a view may read what the view shows. A user without the right to
/// read the view needs no check, because the view shows it nothing.
///
/// # Errors
/// 13 Unauthorized, and the codes of invalid arguments.
pub fn needs_of_view(asked: &RightsRequest<'_, '_>, view: &Namespace, of: View<'_>) -> Result<()> {
    if !asked.may(Target::Collection(view.db(), view.coll()), &[Find]) {
        return Ok(());
    }
    let source = crate::ddl::view::check_source(view.db(), of.source)?;
    let stages = crate::ddl::view::write_stages(of.pipeline);
    let pipeline = stages.doc().field("p").as_array().unwrap_or(Array::EMPTY);
    check(asked, pipeline, &collection_options(source))
}

fn check(asked: &RightsRequest<'_, '_>, pipeline: Array<'_>, options: &ParseOptions) -> Result<()> {
    let needs = query::stage::pipeline_needs(pipeline, options)?;
    needs.iter().try_for_each(|need| check_need(asked, need))
}

fn check_need(asked: &RightsRequest<'_, '_>, need: &RequiredPrivilege) -> Result<()> {
    match need {
        RequiredPrivilege::Read(ns) => asked.needs_at(ns, &[Find]),
        RequiredPrivilege::Search => Ok(()),
        RequiredPrivilege::Write {
            ns,
            inserts,
            updates,
            removes,
        } => {
            let kinds = [(*inserts, Insert), (*updates, Update), (*removes, Remove)];
            let actions: Vec<Action> = kinds.iter().filter(|k| k.0).map(|k| k.1).collect();
            asked.needs_to_write(Target::Collection(ns.db(), ns.coll()), &actions)
        }
        RequiredPrivilege::Changes(None) => asked.needs(Target::AnyNormal, &[ChangeStream, Find]),
        RequiredPrivilege::Changes(Some(source)) => {
            asked.needs(target(source), &[ChangeStream, Find])
        }
        RequiredPrivilege::Told(subject, source) => check_told(asked, *subject, source),
        RequiredPrivilege::Server(report) => check_report(asked, report),
    }
}

/// The target of a pipeline: the collection, or the database.
fn target(source: &PipelineSource) -> Target<'_> {
    match source {
        PipelineSource::Collection(ns) => Target::Collection(ns.db(), ns.coll()),
        PipelineSource::Database(db) => Target::Database(db),
    }
}

fn check_told(
    asked: &RightsRequest<'_, '_>,
    subject: Subject,
    source: &PipelineSource,
) -> Result<()> {
    let here = target(source);
    match subject {
        Subject::CollectionStatistics => asked.needs(here, &[CollStats]),
        Subject::IndexStatistics => asked.needs(here, &[IndexStats]),
        Subject::CachedPlans => asked.needs(here, &[PlanCacheRead]),
        Subject::SearchIndexes => asked.needs(here, &[ListSearchIndexes]),
        Subject::Collections if source.db() == "admin" => {
            asked.needs(Target::Any, &[ListCollections])
        }
        Subject::Collections => asked.needs(Target::Database(source.db()), &[ListCollections]),
    }
}

fn check_report(asked: &RightsRequest<'_, '_>, report: &Report) -> Result<()> {
    match report {
        Report::Operations { of_all: false } => Ok(()),
        Report::Operations { of_all: true } => asked.needs(Target::Cluster, &[Inprog]),
        // Every user may list its own sessions.
        Report::Sessions { of_all, users } => {
            let own = !of_all && users.iter().all(|user| is_asking(asked, user));
            asked.require(own || asked.may(Target::Cluster, &[ListSessions]))
        }
        Report::Files => asked.needs(Target::Cluster, &[Fsync]),
        Report::SampledQueries => asked.needs(Target::Cluster, &[ListSampledQueries]),
        Report::QuerySettings => asked.needs(Target::Cluster, &[QuerySettings]),
        Report::QueryStatistics => asked.needs(Target::Cluster, &[QueryStatsRead]),
    }
}

/// Whether it is the requesting user.
fn is_asking(asked: &RightsRequest<'_, '_>, user: &SessionUser) -> bool {
    let name = asked.user.map(|u| &u.name);
    name.is_some_and(|own| own.name == user.name && own.db == user.db)
}
