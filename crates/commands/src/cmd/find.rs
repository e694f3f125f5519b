//! `find`. A point lookup by `_id` copies the engine's bytes directly into the reply.

use context::command::Command;
use context::crud::args::FindArgs;
use context::crud::args::read::FIND;
use context::ctx::Ctx;
use context::ddl::identity::check_uuid;
use context::ddl::{names, system_views};
use context::env::{CollationArg, environment};
use context::read::{QueryCursor, StoreHost, settings};
use model::{Doc, DocBuf, MongoError, Namespace, Result, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use operators::project::Projection;
use query::exec::{BatchStream, EmptyStream, ExecContext, MatchFilter};
use query::exec::{SortBy, SortPart, SortPattern};
use query::find::Find;
use query::physical::ProjectionSpec;
use query::pipeline::Pipeline;
use query::plan::Hint;
use request::Outcome;
use request::args::Kind;
use request::concern::ReadLevel;
use request::spec::{LatencyKind, OpClass, Privilege, flag};
use state::cursors::{BatchLimit, CursorInfo, Tail};
use std::sync::Arc;
use store::{Collection, NamespaceHash, ReadView};

const FLAGS: u32 = flag::API_V1
    | flag::READ_CONCERN
    | flag::ENDS_WITH_CLIENT
    | flag::IN_TRANSACTION
    | flag::RUNS_AGAIN
    | flag::MAY_NAME_SCRIPT;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "find",
    "documents that match a filter",
    Privilege::Collection(&[auth::Action::Find]),
    FLAGS,
    FIND,
    run,
)
.value(Kind::Collection)
.class(OpClass::Query)
.kind(LatencyKind::Read)];

/// Documents of a first batch when the client specifies no number.
const FIRST_BATCH_DOCUMENTS: i64 = 101;

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own_or_buckets(cx)?;
    let args = FindArgs::of(cx.value().as_str().unwrap_or_default(), &cx.args)?;
    if ns.coll().contains('$') {
        bail!(
            code::INVALID_NAMESPACE,
            "Invalid collection name specified '{ns}'"
        );
    }
    let coll = cx.collection(&ns)?;
    check_uuid(cx, &ns, coll.as_ref().map(|c| c.uuid()))?;
    if let Some(c) = &coll
        && find_by_id(cx, &ns, &args, c)?
    {
        return Ok(Outcome::Reply);
    }
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(args.collation, options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let in_force = collation.document().map(|d| d.to_buf());
    let tailed = coll.clone().filter(|_| args.cursor.tailable);
    let (view, at) = cx.read_view()?;
    let (docs, host) = open(cx, &ns, &args, coll, &env, in_force, &view)?;
    let spill = may_spill(cx, &args);
    let mut cursor = QueryCursor::new(docs, env, host, spill)
        .of_find(args.limit.filter(|n| *n > 0), !args.sort.is_empty())
        .at(at);
    let mut info = CursorInfo {
        ns: ns.to_string(),
        no_timeout: args.cursor.no_timeout,
        ..cx.cursor_info()
    };
    let mut single = args.single_batch;
    if args.cursor.tailable {
        cursor = cursor.with_tail();
        info.tailable = true;
        info.await_data = args.cursor.await_data;
        info.tails = tailed.as_ref().map(|c| match cx.service.store.log() {
            Some(log) if c.is_log() => Tail::Log(Arc::new(log.watch(NamespaceHash::ALL))),
            _ => Tail::Capped(c.uuid()),
        });
        // A tailing cursor has to begin at a document, so without one it ends with this batch.
        let count = tailed.map_or(Ok(0), |c| view.count_of(&c))?;
        single |= count == 0;
    }
    let limit = BatchLimit::of(Some(args.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)));
    cx.first_batch(Box::new(cursor), info, limit, single)?;
    Ok(Outcome::Reply)
}

/// Answers a query `{_id: value}` directly; false when the query is not of that form.
fn find_by_id(
    cx: &mut Ctx<'_, '_>,
    ns: &Namespace,
    args: &FindArgs<'_>,
    c: &Arc<Collection>,
) -> Result<bool> {
    let plain = !c.is_view()
        && !c.is_series()
        && cx
            .generic
            .read_concern
            .is_none_or(|r| r.level != ReadLevel::Snapshot)
        && args.projection.is_empty()
        && args.skip == 0
        && args.hint.is_none()
        && args.collation.is_none()
        && c.id_collate().is_none()
        && !args.return_key
        && !args.show_record_id
        && !args.cursor.tailable
        && args.batch_size != Some(0)
        && args.max.is_empty()
        && args.min.is_empty()
        && args.let_vars.is_empty()
        && args.sort.is_empty();
    let mut fields = args.filter.elements();
    let (Some(only), None, true) = (fields.next(), fields.next(), plain) else {
        return Ok(false);
    };
    let id = only.value();
    let simple = match id {
        Value::Document(d) => !d.first().is_some_and(|(n, _)| n.starts_with('$')),
        Value::Regex(_)
        | Value::Array(_)
        | Value::Null
        | Value::Undefined
        | Value::MinKey
        | Value::MaxKey => false,
        _ => true,
    };
    if only.name != b"_id" || !simple {
        return Ok(false);
    }
    let view = cx.fixed_view().cloned().unwrap_or_default();
    let mut cursor = cx.reply.doc("cursor");
    let mut batch = cursor.array("firstBatch");
    let mut found = false;
    c.get_with(&view, &id, &mut |doc| {
        found = true;
        batch.push(doc);
    })?;
    cx.operation.reads().add_by_id(found);
    c.id_usage().add();
    drop(batch);
    cursor.put("id", 0i64);
    // The name is written in two parts, which avoids an allocation.
    let mut name = smallvec::SmallVec::<[u8; 128]>::new();
    name.extend_from_slice(ns.db().as_bytes());
    name.push(b'.');
    name.extend_from_slice(ns.coll().as_bytes());
    cursor.put("ns", std::str::from_utf8(&name).unwrap_or_default());
    Ok(true)
}

/// The parsed find without its collection.
pub(crate) fn parse(args: &FindArgs<'_>, env: &Env, collation: Option<DocBuf>) -> Result<Find> {
    let filter = MatchFilter::parse(&mut ParseCx::of_query(env), args.filter)?;
    let provided: &[&str] = if filter.filter.text().is_some() {
        &["textScore"]
    } else {
        &[]
    };
    let projection = if args.projection.is_empty() {
        None
    } else {
        let mut cx = ParseCx::new(env);
        cx.meta.extend(provided);
        Some(ProjectionSpec {
            projection: Projection::parse_find(&mut cx, args.projection)?,
            spec: args.projection.to_buf(),
        })
    };
    let sort = match args.sort.is_empty() || args.sort.contains("$natural") {
        true => None,
        false => Some(Arc::new(SortPattern::parse(args.sort)?)),
    };
    let by_score = |p: &SortPart| matches!(&p.by, SortBy::Meta(what) if what == "textScore");
    if provided.is_empty()
        && sort
            .as_ref()
            .is_some_and(|s| s.parts().iter().any(by_score))
    {
        bail!(
            40218,
            "query requires text score metadata, but it is not available"
        );
    }
    let by_position = projection
        .as_ref()
        .is_some_and(|p| p.projection.needs_position());
    if by_position && has_expr(args.filter) {
        bail!(
            code::QUERY_FEATURE_NOT_ALLOWED,
            "$expr is not allowed in the query of a positional projection"
        );
    }
    Ok(Find {
        sort,
        skip: args.skip,
        limit: args.limit,
        projection: projection.map(Arc::new),
        // A natural sort acts as a hint.
        hint: match args.sort.get("$natural") {
            Some(n) => Hint::parse(Value::from(&model::doc! { "$natural": n }))?,
            None => Hint::parse(args.hint.unwrap_or_default())?,
        },
        min: args.min.to_buf(),
        max: args.max.to_buf(),
        return_key: args.return_key,
        show_record_id: args.show_record_id,
        tail: args.cursor.tailable,
        collation,
        ..Find::all(filter)
    })
}

/// True for a filter that contains `$expr`, directly or in a conjunction or disjunction.
fn has_expr(filter: Doc<'_>) -> bool {
    filter.iter().any(|(name, v)| match (name, v) {
        ("$expr", _) => true,
        ("$and" | "$or" | "$nor", Value::Array(parts)) => {
            parts.iter().filter_map(|p| p.as_doc()).any(has_expr)
        }
        _ => false,
    })
}

fn pipeline_option_error(option: &str) -> MongoError {
    MongoError::new(
        code::INVALID_PIPELINE_OPERATOR,
        format!("Option {option} not supported in aggregation"),
    )
}

/// Checks that a find on a view uses only options that pipelines support.
///
/// # Errors
/// 168 InvalidPipelineOperator.
fn check_view(args: &FindArgs<'_>) -> Result<()> {
    let refused = [
        (!args.min.is_empty(), "min"),
        (!args.max.is_empty(), "max"),
        (args.return_key, "returnKey"),
        (args.show_record_id, "showRecordId"),
        (args.cursor.tailable, "tailable"),
        (args.cursor.no_timeout, "noCursorTimeout"),
        (args.single_batch && args.limit != Some(1), "singleBatch"),
        (args.sort.contains("$natural"), "$natural sort"),
    ];
    refused
        .iter()
        .find(|(given, _)| *given)
        .map_or(Ok(()), |(_, option)| Err(pipeline_option_error(option)))
}

/// Whether the query may use temporary files. Only sorts do, so other queries skip the parameter.
fn may_spill(cx: &Ctx<'_, '_>, args: &FindArgs<'_>) -> bool {
    args.allow_disk_use.unwrap_or_else(|| {
        args.sort.is_empty() || cx.service.state.parameters.bool("allowDiskUseByDefault")
    })
}

fn open(
    cx: &Ctx<'_, '_>,
    ns: &Namespace,
    args: &FindArgs<'_>,
    coll: Option<Arc<Collection>>,
    env: &Env,
    collation: Option<DocBuf>,
    view: &ReadView,
) -> Result<(Box<dyn BatchStream>, StoreHost)> {
    let hint = Hint::parse(args.hint.unwrap_or_default())?;
    let host = StoreHost::new(cx.service.arc()?, collation.clone(), hint).with_view(view.clone());
    let exec = ExecContext {
        env,
        host: &host,
        vars: None,
        allow_disk_use: may_spill(cx, args),
    };
    // Errors in the query are reported even if the collection does not exist.
    let allowed = settings::allowed_indexes(cx.service, ns, cx.request.body, &args.shape())?;
    let find = Find {
        view: Some(view.clone()),
        allowed,
        remember: true,
        ..parse(args, env, collation)?
    };
    let by_pipeline = system_views::is_read_by_pipeline(cx.service, view, ns, coll.as_deref())?;
    let docs: Box<dyn BatchStream> = match coll {
        _ if by_pipeline => {
            check_view(args)?;
            let options = query::stages::collection_options(ns.clone());
            Pipeline::of_query(&mut ParseCx::new(env), find.parts(), &options)?.open(&exec)?
        }
        None => Box::new(EmptyStream),
        Some(c) if args.cursor.tailable && names::is_timeseries(&c) => {
            return Err(pipeline_option_error("tailable"));
        }
        Some(c) if args.cursor.tailable && !c.is_capped() => {
            bail!(
                code::BAD_VALUE,
                "error processing query: tailable cursor requested on non capped collection {ns}"
            )
        }
        Some(c) => find.open(c, env)?,
    };
    Ok((docs, host))
}
