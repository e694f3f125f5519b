//! `aggregate`.

use context::command::Command;
use context::crud::args::AggregateArgs;
use context::crud::args::read::AGGREGATE;
use context::ctx::Ctx;
use context::ddl::identity::check_uuid;
use context::ddl::names;
use context::env::{CollationArg, environment};
use context::read::needs_of_pipeline;
use context::read::{QueryCursor, StoreHost, WritingCursor, settings};
use model::{Array, Namespace, Result, bail, code};
use operators::expr::ParseCx;
use query::exec::{ChangeProgress, ExecContext};
use query::pipeline::Pipeline;
use query::plan::Hint;
use query::stage::{ParseOptions, PipelineSource};
use request::Outcome;
use request::args::Kind;
use request::asked::RightsRequest;
use request::concern::{ReadLevel, check_level};
use request::spec::{Durability, LatencyKind, Privilege, flag};
use state::cursors::{BatchLimit, CursorInfo, Tail};
use store::ReadView;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "aggregate",
    "documents that go through a pipeline",
    Privilege::Asked(needs),
    flag::API_V1
        | flag::READ_CONCERN
        | flag::WRITE_CONCERN
        | flag::LONG
        | flag::ENDS_WITH_CLIENT
        | flag::IN_TRANSACTION
        | flag::RUNS_AGAIN
        | flag::RESUMABLE
        | flag::CHECKS_READ_LEVEL,
    AGGREGATE,
    run,
)
.value(Kind::Any)
.durability(Durability::Reads)
.no_collection("$cmd.aggregate")
.kind(LatencyKind::Read)];

fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let a = AggregateArgs::of(asked.value, asked.args, true, false)?;
    needs_of_pipeline(asked, a.coll, a.pipeline)
}

/// Documents of a first batch when the client specifies no number.
const FIRST_BATCH_DOCUMENTS: i64 = 101;

/// Stages that report the current state of the server, so they only support read concern local.
/// Only the first stage of a pipeline can be one of them.
const LOCAL_ONLY: &[&str] = &[
    "$backupCursor",
    "$currentOp",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$planCacheStats",
];

/// Checks the read concern against the stages, then against the kind of server.
///
/// # Errors
/// 72 InvalidOptions, 123 NotAReplicaSet.
fn check_read_concern(cx: &mut Ctx<'_, '_>, pipeline: Array<'_>) -> Result<()> {
    let concern = cx.generic.read_concern;
    let mut level = concern.map_or(ReadLevel::Local, |c| c.level);
    // The default concern only applies to pipelines that support it.
    let by_default = concern.is_some_and(|c| !c.level_given);
    let first = pipeline.get(0).and_then(|s| s.as_doc()?.first());
    let local_only = first.is_some_and(|(name, _)| LOCAL_ONLY.contains(&name));
    if let (true, true, Some(concern)) = (by_default, local_only, &mut cx.generic.read_concern) {
        concern.level = ReadLevel::Local;
        level = ReadLevel::Local;
    }
    for (name, _) in pipeline.iter().filter_map(|s| s.as_doc()?.first()) {
        let fits = match name {
            _ if LOCAL_ONLY.contains(&name) => level == ReadLevel::Local,
            "$changeStream" => {
                let given = cx.request.body.field("readConcern").as_doc();
                level == ReadLevel::Majority || given.is_none_or(|c| !c.contains("level"))
            }
            "$out" | "$merge" => level != ReadLevel::Linearizable,
            _ => true,
        };
        if !fits {
            bail!(
                code::INVALID_OPTIONS,
                "Aggregation stage {name} does not support read concern level {level}"
            );
        }
    }
    check_level(level, cx.service.config.replica_set.is_none())
}

/// Refuses a hint with `$geoNear`, which always reads its geospatial index.
///
/// # Errors
/// 2 BadValue.
fn check_hint(hint: Option<&Hint>, pipeline: Array<'_>) -> Result<()> {
    let near = pipeline
        .get(0)
        .and_then(|s| s.as_doc())
        .is_some_and(|d| d.contains("$geoNear"));
    if near && matches!(hint, Some(Hint::Natural { .. })) {
        bail!(
            code::BAD_VALUE,
            "$geoNear needs a geospatial index, a hint of $natural does not allow any"
        );
    }
    Ok(())
}

/// The namespace of the cursor, and the options for parsing the pipeline.
fn target(cx: &Ctx<'_, '_>, coll: Option<&str>) -> Result<(String, ParseOptions)> {
    let (ns, mut options) = match coll {
        Some(coll) => {
            let ns = names::raw(cx, Namespace::new(cx.db, coll)?)?;
            (ns.to_string(), query::stages::collection_options(ns))
        }
        None => (
            format!("{}.$cmd.aggregate", cx.db),
            query::stages::database_options(cx.db),
        ),
    };
    options.optimize = cx.service.config.optimize_pipelines;
    options.search = cx.service.has_search();
    Ok((ns, options))
}

/// The properties of the cursor. A change stream only returns changes that a majority has, which
/// are the durable ones.
fn info(cx: &mut Ctx<'_, '_>, ns: String, changes: Option<&ChangeProgress>) -> CursorInfo {
    let mut info = CursorInfo {
        ns,
        ..cx.cursor_info()
    };
    if let Some(changes) = changes {
        cx.reported.durable_reads(true);
        (info.durable_reads, info.tailable, info.await_data) = (true, true, true);
        info.tails = changes.watch().map(Tail::Log);
    }
    info
}

/// Refuses pipelines that cannot run in a transaction.
///
/// # Errors
/// 263 OperationNotSupportedInTransaction.
fn check_transaction(cx: &Ctx<'_, '_>, pipeline: &Pipeline) -> Result<()> {
    let what = match cx.transaction {
        Some(_) if pipeline.writes() => "$out and $merge",
        Some(_) if pipeline.changes().is_some() => "$changeStream",
        Some(_) if pipeline.holds_open() => "$backupCursor",
        _ => return Ok(()),
    };
    bail!(
        code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
        "{what} cannot be used in a transaction"
    )
}

/// Refuses `$rankFusion` and `$scoreFusion` over a time series or its buckets.
///
/// # Errors
/// 10557301.
fn check_fusion(cx: &Ctx<'_, '_>, pipeline: Array<'_>, ns: &Namespace) -> Result<()> {
    let first = pipeline.get(0).and_then(|s| s.as_doc());
    let fusions = ["$rankFusion", "$scoreFusion"];
    let fusion = first.and_then(|d| fusions.into_iter().find(|name| d.contains(name)));
    let Some(fusion) = fusion else {
        return Ok(());
    };
    let (view, service) = (ReadView::LATEST, cx.service);
    let own = service.store.collection(ns)?;
    let is_series = own.is_some_and(|c| names::is_timeseries(&c))
        || names::series_of_buckets(service, &view, ns)?.is_some();
    if is_series {
        bail!(
            10557301,
            "{fusion} is not supported on time-series collections, {ns} is one"
        );
    }
    Ok(())
}

/// The host of the pipeline.
fn create_host(
    cx: &Ctx<'_, '_>,
    args: &AggregateArgs<'_>,
    collation: &CollationArg<'_>,
    hint: Option<Hint>,
    source: &PipelineSource,
) -> Result<StoreHost> {
    let ns = match source {
        PipelineSource::Collection(ns) => Some(ns),
        PipelineSource::Database(_) => None,
    };
    if let Some(ns) = ns {
        check_fusion(cx, args.pipeline, ns)?;
    }
    let allowed = match ns {
        None => None,
        Some(ns) => {
            match settings::allowed_indexes(cx.service, ns, cx.request.body, &args.shape()) {
                // Queries that settings reject can still be explained.
                Err(_) if args.explain => None,
                allowed => allowed?,
            }
        }
    };
    let collation = collation.document().map(|d| d.to_buf());
    let host = StoreHost::new(cx.service.arc()?, collation, hint)
        .bypassing_validation(args.bypass_validation)
        .with_allowed_indexes(ns, allowed)
        .with_viewer(cx.owner());
    Ok(if args.explain {
        host.leaving_no_trace()
    } else {
        host
    })
}

/// Runs a writing pipeline to its end, whatever the batch size.
fn write(cx: &mut Ctx<'_, '_>, mut writing: WritingCursor) -> Result<Outcome> {
    let result = writing.run(&cx.operation);
    let (writing, ()) = cx.progress.settle(writing, result)?;
    let WritingCursor { cursor, ns, .. } = writing;
    let info = info(cx, ns, None);
    cx.first_batch(Box::new(cursor), info, BatchLimit::of(None), false)?;
    Ok(Outcome::Reply)
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    if let Some(writing) = cx.progress.take::<WritingCursor>() {
        return write(cx, writing);
    }
    let args = AggregateArgs::of(
        cx.value(),
        &cx.args,
        false,
        cx.generic
            .write_concern
            .as_ref()
            .is_some_and(|c| !c.is_default),
    )?;
    if cx.generic.api_strict {
        dispatch::api::check_pipeline(args.pipeline)?;
    }
    check_read_concern(cx, args.pipeline)?;
    let (ns, options) = target(cx, args.coll)?;
    let coll = match &options.target {
        PipelineSource::Collection(ns) => cx.collection(ns)?,
        PipelineSource::Database(_) => None,
    };
    if let PipelineSource::Collection(ns) = &options.target {
        check_uuid(cx, ns, coll.as_ref().map(|c| c.uuid()))?;
    }
    let coll_options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(args.collation, coll_options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let pipeline = Pipeline::parse(&mut ParseCx::new(&env), args.pipeline, &options)?;
    let hint = Hint::parse(args.hint.unwrap_or_default())?;
    check_hint(hint.as_ref(), args.pipeline)?;
    let host = create_host(cx, &args, &collation, hint, &options.target)?;
    let (view, at) = cx.read_view()?;
    let host = host.with_view(view);
    let allow_disk_use = args
        .allow_disk_use
        .unwrap_or_else(|| cx.service.state.parameters.bool("allowDiskUseByDefault"));
    let exec = ExecContext {
        env: &env,
        host: &host,
        vars: None,
        allow_disk_use,
    };
    if args.explain {
        let hint = Hint::parse(args.hint.unwrap_or_default())?;
        return super::explain::aggregate::aggregation(
            cx,
            &pipeline,
            hint,
            &exec,
            super::explain::explained::Level::Planner,
        );
    }
    let writes = pipeline.writes();
    check_transaction(cx, &pipeline)?;
    cx.operation.ends_with_client(!writes);
    if writes {
        cx.reported.writes_somewhere();
    }
    let docs = pipeline.open(&exec)?;
    let changes = pipeline.changes().cloned();
    let mut cursor = QueryCursor::new(docs, env, host, allow_disk_use).at(at);
    if pipeline.holds_open() {
        cursor = cursor.with_tail();
    }
    if writes {
        return write(cx, WritingCursor::new(cursor, ns));
    }
    let batch = args.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS);
    let info = info(cx, ns, changes.as_deref());
    let cursor = Box::new(cursor.with_changes(changes));
    cx.first_batch(cursor, info, BatchLimit::of(Some(batch)), false)?;
    Ok(Outcome::Reply)
}
