//! `explain` of pipelines.

use super::arguments::arguments;
use super::explained::{ExplainTarget, Level, reply};
use crate::cmd::map_reduce::{self, MAP_REDUCE};
use context::crud::args::AggregateArgs;
use context::crud::args::read::AGGREGATE;
use context::ctx::Ctx;
use context::env::{CollationArg, environment};
use context::read::StoreHost;
use context::read::settings;
use model::{Doc, DocBuf, Namespace, Result, Value};
use operators::expr::ParseCx;
use query::exec::ExecContext;
use query::explain;
use query::pipeline::Pipeline;
use query::plan::Hint;
use request::Outcome;
use request::args::collection_name;

/// `explain` of `aggregate`.
pub(super) fn explain_aggregate<'a>(
    cx: &mut Ctx<'a, '_>,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let args = arguments("aggregate", AGGREGATE, inner)?;
    let a = AggregateArgs::of(own, &args, true, false)?;
    let mut options = match a.coll {
        Some(coll) => query::stages::collection_options(Namespace::new(cx.db, coll)?),
        None => query::stages::database_options(cx.db),
    };
    options.search = cx.service.has_search();
    let coll = match a.coll {
        Some(coll) => cx.service.store.collection(&Namespace::new(cx.db, coll)?)?,
        None => None,
    };
    let coll_options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(a.collation, coll_options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let pipeline = Pipeline::parse(&mut ParseCx::new(&env), a.pipeline, &options)?;
    let hint = Hint::parse(a.hint.unwrap_or_default())?;
    let host = StoreHost::new(
        cx.service.arc()?,
        collation.document().map(|d| d.to_buf()),
        hint.clone(),
    )
    .with_viewer(cx.owner())
    .leaving_no_trace();
    let ns = coll.as_ref().map(|c| c.ns());
    let allowed = ns.map(|ns| settings::allowed_indexes(cx.service, ns, inner, &a.shape()));
    // Queries that settings reject can still be explained.
    let host = host.with_allowed_indexes(ns, allowed.and_then(Result::unwrap_or_default));
    let exec = ExecContext::new(&env, &host);
    aggregation(cx, &pipeline, hint, &exec, level)
}

/// `explain` of `mapReduce`.
pub(super) fn explain_map_reduce<'a>(
    cx: &mut Ctx<'a, '_>,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let args = arguments("mapReduce", MAP_REDUCE, inner)?;
    let ns = Namespace::new(cx.db, collection_name(&own)?)?;
    let (env, pipeline, host) = map_reduce::pipeline(cx, &ns, &args)?;
    aggregation(cx, &pipeline, None, &ExecContext::new(&env, &host), level)
}

/// Writes the plan of a pipeline.
///
/// # Errors
/// Those of the stages and of the planner.
pub(crate) fn aggregation(
    cx: &mut Ctx<'_, '_>,
    pipeline: &Pipeline,
    hint: Option<Hint>,
    exec: &ExecContext<'_>,
    level: Level,
) -> Result<Outcome> {
    let pipeline = pipeline.resolve(exec)?;
    let all = level == Level::All;
    let mut out = DocBuf::new();
    match pipeline.reads() {
        None => {
            let ran = level.run(cx, || explain::run_scored(&pipeline, exec))?;
            let meters = ran.map_or_else(Vec::new, |(_, meters)| meters);
            out.append(|w| explain::aggregation(w, &pipeline, None, 0, &meters, all, exec));
        }
        Some(ns) => {
            let (mut find, taken) = explain::plain_prefix(&pipeline, exec)?;
            find.hint = hint;
            find.collation = exec.host.collation();
            find.allowed = exec.host.allowed_indexes(ns);
            let coll = cx.service.store.collection(ns)?;
            let explained = ExplainTarget::new(ns.clone(), coll, find);
            let mut planned = explained.find.plan_operators(explained.coll.clone())?;
            let counted = usize::from(planned.counted);
            let ran = level.run(cx, || {
                explain::run(&pipeline, taken + counted, &mut planned.root, exec)
            })?;
            let (ran_ms, mut meters) = ran.map_or((None, Vec::new()), |(ms, m)| (Some(ms), m));
            if let Some(first) = meters.first().cloned().filter(|_| planned.counted) {
                // The stage that the read has replaced returns as many documents as the read.
                meters.insert(0, first);
            }
            let name = explained.ns.to_string();
            let source = explained.query(&name, &planned, ran_ms);
            out.append(|w| {
                explain::aggregation(w, &pipeline, Some(&source), taken, &meters, all, exec);
            });
        }
    }
    reply(cx, |w| {
        w.put("explainVersion", "1").put_all(out.doc());
    });
    Ok(Outcome::Reply)
}
