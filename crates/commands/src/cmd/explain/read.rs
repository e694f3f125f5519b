//! `explain` of reads.

use super::aggregate::aggregation;
use super::arguments::{arguments, own_namespace, plain_find};
use super::explained::{ExplainTarget, Level};
use crate::cmd::count::count_parts;
use context::crud::args::read::{COUNT, DISTINCT, FIND};
use context::crud::args::{CountArgs, DistinctArgs, FindArgs};
use context::ctx::Ctx;
use context::ddl::names;
use context::env::{CollationArg, environment};
use context::read::{StoreHost, settings};
use model::{Doc, DocBuf, Namespace, Result, Value};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::ExecContext;
use query::find::Find;
use query::pipeline::Pipeline;
use request::Outcome;

/// `explain` of `find`, `count` and `distinct`.
pub(super) fn explain_read<'a>(
    cx: &mut Ctx<'a, '_>,
    name: &'a str,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let ns = own_namespace(cx, name, own)?;
    let coll = cx.service.store.collection(&ns)?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(
        inner.field("collation").as_doc(),
        options.as_ref().map(|o| o.doc()),
    );
    let env = environment(cx, &collation)?;
    let in_force = collation.document().map(|d| d.to_buf());
    let (view, _) = cx.read_view()?;
    let host = StoreHost::new(cx.service.arc()?, in_force.clone(), None)
        .with_view(view.clone())
        .leaving_no_trace();
    let exec = ExecContext::new(&env, &host);
    let own = own.as_str().unwrap_or_default();
    let query = parse(cx, name, &ns, own, inner, &env, in_force)?;
    let by_pipeline = match &coll {
        None => names::series_of_buckets(cx.service, &store::ReadView::LATEST, &ns)?.is_some(),
        Some(c) => c.is_view(),
    };
    if by_pipeline {
        let options = query::stages::collection_options(ns);
        let parts = match name {
            "count" => count_parts(&query.find),
            _ => query.find.parts(),
        };
        let pipeline = Pipeline::of_query(&mut ParseCx::new(&env), parts, &options)?;
        return aggregation(cx, &pipeline, None, &exec, level);
    }
    let find = Find {
        view: Some(view),
        ..query.find
    };
    let explained = ExplainTarget::new(ns, coll, find);
    let (find, coll) = (&explained.find, explained.coll.clone());
    let planned = match (name, query.key) {
        ("count", _) => find.count(coll)?.into(),
        (_, Some(key)) => find.distinct(coll, key)?.into(),
        _ => find.plan_operators(coll)?,
    };
    explained.reply(cx, planned, &exec, level)
}

/// A `find`, `count` or `distinct`.
struct Query<'a> {
    find: Find,
    /// The path of a `distinct`.
    key: Option<&'a str>,
}

fn parse<'a>(
    cx: &Ctx<'a, '_>,
    name: &'a str,
    ns: &Namespace,
    own: &'a str,
    inner: Doc<'a>,
    env: &Env,
    collation: Option<DocBuf>,
) -> Result<Query<'a>> {
    Ok(match name {
        "find" => {
            let args = FindArgs::of(own, &arguments(name, FIND, inner)?)?;
            let mut find = crate::cmd::find::parse(&args, env, collation)?;
            // Queries that settings reject can still be explained.
            find.allowed =
                settings::allowed_indexes(cx.service, ns, inner, &args.shape()).unwrap_or_default();
            Query { find, key: None }
        }
        "count" => {
            let a = CountArgs::of(own, &arguments(name, COUNT, inner)?)?;
            let find = Find {
                skip: a.skip,
                limit: a.limit,
                allowed: cx.service.state.plan_filters.allowed(ns, &a.shape()),
                ..plain_find(a.query, a.hint, env, collation)?
            };
            Query { find, key: None }
        }
        _ => {
            let a = DistinctArgs::of(own, &arguments(name, DISTINCT, inner)?)?;
            Query {
                find: Find {
                    allowed: settings::allowed_indexes(cx.service, ns, inner, &a.shape())
                        .unwrap_or_default(),
                    ..plain_find(a.query, a.hint, env, collation)?
                },
                key: Some(a.key),
            }
        }
    })
}
