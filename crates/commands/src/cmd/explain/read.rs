//! `explain` of reads.

use super::aggregate::aggregation;
use super::arguments::{arguments, own_namespace, plain_find};
use super::explained::{Explained, Level};
use crate::crud::args::read::{COUNT, DISTINCT, FIND};
use crate::crud::args::{CountArgs, DistinctArgs, FindArgs};
use crate::ddl::names;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::read::{CollationArg, StoreHost, environment, shape};
use model::{Doc, DocBuf, Namespace, Result, Value};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::ExecContext;
use query::explain::{self, Operation, ReadStats};
use query::find::Find;
use query::pipeline::Pipeline;
use query::plan::distinct_plan;

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
    let host = StoreHost::new(cx.service.arc()?, in_force.clone(), None);
    let exec = ExecContext::new(&env, &host);
    let own = own.as_str().unwrap_or_default();
    let query = parse(cx, name, &ns, own, inner, &env, in_force)?;
    let by_pipeline = match &coll {
        None => names::series_of_buckets(cx.service, &store::ReadView::LATEST, &ns)?.is_some(),
        Some(c) => c.is_view(),
    };
    if by_pipeline {
        let pipeline = Pipeline::parse(
            &mut ParseCx::new(&env),
            query.on_view.doc().as_array(),
            &query::stages::collection_options(ns),
        )?;
        return aggregation(cx, &pipeline, None, &exec, level);
    }
    let explained = Explained {
        ns,
        coll,
        find: query.find,
        projection: query.projection,
    };
    let plan = explained.plan()?;
    if let (Some(c), Some(chosen), Some(key)) = (&explained.coll, &plan, query.key)
        && let Some(loose) = distinct_plan(c, &explained.find.plan_request(), chosen, key)
    {
        let measured = match level {
            Level::Planner => None,
            _ => Some(explain::measure_distinct(c, &loose, exec.env)?),
        };
        explained.reply(
            cx,
            Some(&loose),
            Operation::Distinct,
            measured.as_ref(),
            level,
        );
        return Ok(Outcome::Reply);
    }
    let counts = name == "count";
    // The counter of the collection answers; no document is read.
    let by_counter =
        counts && explained.find.filter.filter.is_always_true() && explained.find.hint.is_none();
    let measured = match level {
        Level::Planner => None,
        _ if by_counter => Some(ReadStats {
            matched: explained.coll.as_ref().map_or(0, |c| c.count()),
            ..ReadStats::default()
        }),
        _ => {
            let most = explained.most(plan.as_ref());
            Some(explained.measure(plan.as_ref(), &exec, cx, most, counts)?)
        }
    };
    let over = if counts {
        Operation::Count
    } else {
        Operation::Find
    };
    explained.reply(cx, plan.as_ref(), over, measured.as_ref(), level);
    Ok(Outcome::Reply)
}

/// A `find`, `count` or `distinct`.
struct Query<'a> {
    find: Find,
    projection: Doc<'a>,
    /// The path of a `distinct`.
    key: Option<&'a str>,
    /// The same as a pipeline, for views.
    on_view: DocBuf,
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
            // Rejected queries are explained.
            find.allowed =
                shape::allowed_indexes(cx.service, ns, inner, &args.shape()).unwrap_or_default();
            Query {
                find,
                projection: args.projection,
                key: None,
                on_view: crate::cmd::find::as_pipeline(&args),
            }
        }
        "count" => {
            let a = CountArgs::of(own, &arguments(name, COUNT, inner)?)?;
            let find = Find {
                skip: a.skip,
                limit: a.limit,
                allowed: cx.service.state.plan_filters.allowed(ns, &a.shape()),
                ..plain_find(a.query, a.hint, env, collation)?
            };
            Query {
                find,
                projection: Doc::EMPTY,
                key: None,
                on_view: crate::cmd::count::count_pipeline(&a),
            }
        }
        _ => {
            let a = DistinctArgs::of(own, &arguments(name, DISTINCT, inner)?)?;
            Query {
                find: Find {
                    allowed: shape::allowed_indexes(cx.service, ns, inner, &a.shape())
                        .unwrap_or_default(),
                    ..plain_find(a.query, a.hint, env, collation)?
                },
                projection: Doc::EMPTY,
                key: Some(a.key),
                on_view: model::doc! { "0": { "$match": a.query } },
            }
        }
    })
}
