//! `explain` of pipelines.

use super::arguments::arguments;
use super::explained::{Explained, Level, reply};
use crate::crud::args::AggregateArgs;
use crate::crud::args::read::AGGREGATE;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::read::{CollationArg, StoreHost, environment};
use model::{Doc, DocBuf, Namespace, Result, Value};
use operators::expr::ParseCx;
use query::explain::{self, Over, Source};
use query::pipeline::{ParseOptions, Pipeline, Rt};
use query::plan::Hint;

/// `explain` of `aggregate`.
pub(super) fn explain_aggregate<'a>(
    cx: &mut Ctx<'a, '_>,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let args = arguments(cx, "aggregate", AGGREGATE, inner)?;
    let a = AggregateArgs::of(own, &args, true, false)?;
    let options = match a.coll {
        Some(coll) => ParseOptions::collection(Namespace::new(cx.db, coll)?),
        None => ParseOptions::database(cx.db),
    };
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
    );
    let rt = Rt::new(&env, &host);
    aggregation(cx, &pipeline, hint, &rt, level)
}

/// Writes the plan of a pipeline.
///
/// # Errors
/// Those of the stages and of the planner.
pub(crate) fn aggregation(
    cx: &mut Ctx<'_, '_>,
    pipeline: &Pipeline,
    hint: Option<Hint>,
    rt: &Rt<'_>,
    level: Level,
) -> Result<Outcome> {
    let pipeline = pipeline.resolved(rt)?;
    let all = level == Level::All;
    let mut out = DocBuf::new();
    let mut failed = Ok(());
    match pipeline.reads() {
        None => {
            out.append(|w| failed = explain::aggregation(w, &pipeline, None, 0, all, rt));
        }
        Some(ns) => {
            let fields = pipeline.fields_needed();
            let (mut find, projection, taken) =
                explain::plain_prefix(pipeline.stages(), rt, fields.as_deref())?;
            find.hint = hint;
            find.collation = rt.host.collation();
            let coll = cx.service.store.collection(ns)?;
            let explained = Explained {
                ns: ns.clone(),
                coll,
                find,
                projection: projection.doc(),
            };
            let plan = explained.plan()?;
            let measured = match level {
                Level::Planner => None,
                _ => Some(explained.measure(
                    plan.as_ref(),
                    rt,
                    cx,
                    explained.most(plan.as_ref()),
                    false,
                )?),
            };
            let source = Source {
                ns: &explained.ns.to_string(),
                subject: explained.subject(plan.as_ref(), Over::Find),
                rejected: explained.rejected(plan.as_ref()),
                measured,
            };
            out.append(|w| {
                failed = explain::aggregation(w, &pipeline, Some(&source), taken, all, rt)
            });
        }
    }
    failed?;
    reply(cx, |w| {
        w.put("explainVersion", "1").put_all(out.doc());
    });
    Ok(Outcome::Reply)
}
