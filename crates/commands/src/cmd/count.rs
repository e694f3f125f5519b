//! `count`. Without a filter the result is the collection's counter, which is exact and needs no
//! read.

use context::command::Command;
use context::crud::args::CountArgs;
use context::crud::args::read::COUNT;
use context::ctx::Ctx;
use context::ddl::identity::check_uuid;
use context::ddl::names;
use context::ddl::system_views::is_read_by_pipeline;
use context::env::{CollationArg, environment};
use context::read::StoreHost;
use model::{Namespace, Result, Value};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::{ExecContext, MatchFilter};
use query::find::Find;
use query::pipeline::{Pipeline, QueryParts};
use query::plan::Hint;
use query::stages::collection_options;
use request::Outcome;
use request::args::Kind;
use request::spec::{LatencyKind, Privilege, flag};

const FLAGS: u32 = flag::API_V1
    | flag::READ_CONCERN
    | flag::ENDS_WITH_CLIENT
    | flag::RUNS_AGAIN
    | flag::MAY_NAME_SCRIPT;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "count",
    "number of documents that match",
    Privilege::Collection(&[auth::Action::Find]),
    FLAGS,
    COUNT,
    run,
)
.value(Kind::Collection)
.kind(LatencyKind::Read)];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own_or_buckets(cx)?;
    let args = CountArgs::of(cx.value().as_str().unwrap_or_default(), &cx.args)?;
    let coll = cx.collection(&ns)?;
    check_uuid(cx, &ns, coll.as_ref().map(|c| c.uuid()))?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(args.collation, options.as_ref().map(|o| o.doc()));
    let mut env = environment(cx, &collation)?;
    env.has_now = false;
    let filter = MatchFilter::parse(&mut ParseCx::of_query(&env), args.query)?;
    let hint = Hint::parse(args.hint.unwrap_or_default())?;
    let (view, _) = cx.read_view()?;
    let find = Find {
        skip: args.skip,
        limit: args.limit,
        hint,
        collation: collation.document().map(|d| d.to_buf()),
        allowed: cx.service.state.plan_filters.allowed(&ns, &args.shape()),
        view: Some(view.clone()),
        remember: true,
        ..Find::all(filter)
    };
    let found = match is_read_by_pipeline(cx.service, &view, &ns, coll.as_deref())? {
        true => count_view(cx, &find, ns, &env)?,
        false => find.count(coll)?.drop_bounds().run(&env)?,
    };
    put(cx, found);
    Ok(Outcome::Reply)
}

fn put(cx: &mut Ctx<'_, '_>, n: u64) {
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    cx.reply
        .put("n", i32::try_from(n).map_or(Value::Int64(n), Value::Int32));
}

/// The query whose documents a pipeline counts, as for a view.
pub(crate) fn count_parts(find: &Find) -> QueryParts<'_> {
    QueryParts {
        counted_in: Some("n"),
        ..find.parts()
    }
}

/// Counts the documents of a view.
fn count_view(cx: &Ctx<'_, '_>, find: &Find, ns: Namespace, env: &Env) -> Result<u64> {
    let host = StoreHost::new(cx.service.arc()?, find.collation.clone(), find.hint.clone());
    let host = host.with_view(find.view.clone().unwrap_or_default());
    let options = collection_options(ns);
    let pipeline = Pipeline::of_query(&mut ParseCx::new(env), count_parts(find), &options)?;
    let all = pipeline.run_to_end(&ExecContext::new(env, &host))?;
    let n = all.iter().next().and_then(|d| d.field("n").as_i64_exact());
    Ok(n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
}
