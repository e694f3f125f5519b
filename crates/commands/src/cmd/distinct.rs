//! `distinct`: the distinct values at a path; the elements of arrays count individually.

use context::command::Command;
use context::crud::args::DistinctArgs;
use context::crud::args::read::DISTINCT;
use context::ctx::Ctx;
use context::ddl::identity::check_uuid;
use context::ddl::{names, system_views};
use context::env::{CollationArg, environment};
use context::read::{StoreHost, settings};
use model::{Result, bail};
use operators::expr::ParseCx;
use query::exec::{ExecContext, MatchFilter};
use query::find::Find;
use query::pipeline::Pipeline;
use query::plan::Hint;
use request::Outcome;
use request::args::Kind;
use request::spec::{LatencyKind, Privilege, flag};

const FLAGS: u32 = flag::READ_CONCERN
    | flag::ENDS_WITH_CLIENT
    | flag::IN_TRANSACTION
    | flag::RUNS_AGAIN
    | flag::MAY_NAME_SCRIPT;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "distinct",
    "different values of a field",
    Privilege::Collection(&[auth::Action::Find]),
    FLAGS,
    DISTINCT,
    run,
)
.value(Kind::Collection)
.kind(LatencyKind::Read)];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own_or_buckets(cx)?;
    let args = DistinctArgs::of(cx.value().as_str().unwrap_or_default(), &cx.args)?;
    if args.key.contains('\0') {
        bail!(31032, "Distinct key cannot contain a null byte");
    }
    let coll = cx.collection(&ns)?;
    check_uuid(cx, &ns, coll.as_ref().map(|c| c.uuid()))?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(args.collation, options.as_ref().map(|o| o.doc()));
    let mut env = environment(cx, &collation)?;
    env.has_now = false;
    let filter = MatchFilter::parse(&mut ParseCx::of_query(&env), args.query)?;
    let allowed = settings::allowed_indexes(cx.service, &ns, cx.request.body, &args.shape())?;
    let hint = Hint::parse(args.hint.unwrap_or_default())?;
    let (view, at) = cx.read_view()?;
    let by_pipeline = system_views::is_read_by_pipeline(cx.service, &view, &ns, coll.as_deref())?;
    // Time-series collections are views in MongoDB, and their reply has the format of a view's.
    cx.ok_int = by_pipeline || coll.as_ref().is_some_and(|c| names::is_timeseries(c));
    let in_force = collation.document().map(|d| d.to_buf());
    let find = Find {
        hint,
        collation: in_force.clone(),
        view: Some(view.clone()),
        allowed,
        remember: true,
        ..Find::all(filter)
    };
    let mut distinct = find.distinct(coll.filter(|_| !by_pipeline), args.key)?;
    if by_pipeline {
        let host = StoreHost::new(cx.service.arc()?, in_force, None).with_view(view);
        let options = query::stages::collection_options(ns);
        let pipeline = Pipeline::of_query(&mut ParseCx::new(&env), find.parts(), &options)?;
        let exec = ExecContext::new(&env, &host);
        distinct.run_over(pipeline.open(&exec)?.as_mut(), &exec)?;
    } else {
        distinct.run(&env)?;
    }
    let mut out = cx.reply.array("values");
    for v in distinct.values(&env) {
        out.push(v.get());
    }
    drop(out);
    if let Some(at) = at {
        cx.reply.put("atClusterTime", at);
    }
    Ok(Outcome::Reply)
}
