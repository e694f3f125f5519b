//! `explain` of find, aggregate, count and distinct: the plan that would run, and with execution statistics what it does.

use crate::args::{Args, Kind, arg, missing_field, wrong_type};
use crate::crud::read::{AGGREGATE, COUNT, DISTINCT, FIND};
use crate::crud::{AggregateArgs, CountArgs, DistinctArgs, FindArgs};
use crate::ctx::Ctx;
use crate::read::{CollationArg, StoreHost, environment};
use crate::registry::{Command, flag};
use crate::request::Outcome;
use model::{Doc, DocBuf, DocWriter, Namespace, Result, Tag, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use query::find::Find;
use query::pipeline::{MatchFilter, ParseOptions, Pipeline, Rt};
use query::plan::{Hint, each_match};
use std::sync::Arc;
use store::Collection;

pub(crate) static COMMANDS: &[Command] = &[Command {
    value: Kind::Object,
    ..super::command("explain", "how a command would run", flag::API_V1 | flag::READ_CONCERN, &[arg("verbosity", Kind::Str)], run)
}];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let verbosity = cx.args.str("verbosity").unwrap_or("allPlansExecution");
    if !matches!(verbosity, "queryPlanner" | "executionStats" | "allPlansExecution") {
        bail!(code::BAD_VALUE, "Enumeration value '{verbosity}' for field 'explain.verbosity' is not a valid value.");
    }
    let inner = cx.value().as_doc().unwrap_or(Doc::EMPTY);
    let Some((name, own)) = inner.first() else { bail!(code::COMMAND_NOT_FOUND, "Explain failed due to unknown command: ") };
    if let Some(db) = inner.field("$db").as_str()
        && db != cx.db
    {
        bail!(code::INVALID_NAMESPACE, "Mismatched $db in explain command. Expected {} but got {db}", cx.db);
    }
    let execute = verbosity != "queryPlanner";
    match name {
        "find" | "count" | "distinct" => explain_find(cx, name, own, inner, execute),
        "aggregate" => explain_aggregate(cx, own, inner),
        "update" | "delete" | "findAndModify" | "findandmodify" => explain_write(cx, name, own, inner, execute),
        _ => bail!(code::COMMAND_NOT_FOUND, "Explain failed due to unknown command: {name}"),
    }
}

/// The arguments of the inner command, checked against its table.
fn arguments<'a>(cx: &Ctx<'a, '_>, name: &str, table: &'static [crate::args::Arg], inner: Doc<'a>) -> Result<Args<'a>> {
    let mut args = Args::new(cx.request.sequences);
    for (i, (field, value)) in inner.iter().enumerate() {
        if i > 0 && table.iter().any(|a| a.name == field) {
            args.take(name, table, field, value)?;
        }
    }
    for a in table.iter().filter(|a| a.required) {
        if !inner.contains(a.name) {
            return Err(missing_field(&format!("{name}.{}", a.name)));
        }
    }
    Ok(args)
}

fn own_namespace(cx: &Ctx<'_, '_>, name: &str, own: Value<'_>) -> Result<Namespace> {
    match own {
        Value::String(s) => Namespace::new(cx.db, s),
        v => Err(wrong_type(&format!("{name}.{name}"), &v, &[Tag::STRING])),
    }
}

fn explain_find<'a>(cx: &mut Ctx<'a, '_>, name: &'a str, own: Value<'a>, inner: Doc<'a>, execute: bool) -> Result<Outcome> {
    let ns = own_namespace(cx, name, own)?;
    let coll = cx.service.store.collection(&ns)?;
    let options = coll.as_ref().map(|c| c.options());
    let given = inner.field("collation").as_doc();
    let collation = CollationArg::of(given, options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let in_force = collation.document().map(|d| d.to_buf());
    let find = match name {
        "find" => {
            let args = arguments(cx, name, FIND, inner)?;
            super::find::parse(&FindArgs::of(own.as_str().unwrap_or_default(), &args)?, &env, in_force.clone())?
        }
        "count" => {
            let args = arguments(cx, name, COUNT, inner)?;
            let a = CountArgs::of(own.as_str().unwrap_or_default(), &args)?;
            plain_find(a.query, a.hint, &env, in_force.clone())?
        }
        _ => {
            let args = arguments(cx, name, DISTINCT, inner)?;
            let a = DistinctArgs::of(own.as_str().unwrap_or_default(), &args)?;
            plain_find(a.query, a.hint, &env, in_force.clone())?
        }
    };
    let host = StoreHost::new(cx.service.arc()?, in_force, None);
    let rt = Rt::new(&env, &host);
    finish(cx, &ns, &find, coll, &rt, execute)
}

fn plain_find(filter: Doc<'_>, hint: Option<Value<'_>>, env: &Env, collation: Option<DocBuf>) -> Result<Find> {
    Ok(Find {
        filter: Arc::new(MatchFilter::parse(&mut ParseCx::new(env), filter)?),
        sort: None,
        skip: 0,
        limit: None,
        projection: None,
        hint: Hint::parse(hint.unwrap_or_default())?,
        collation,
    })
}

fn finish(
    cx: &mut Ctx<'_, '_>,
    ns: &Namespace,
    find: &Find,
    coll: Option<Arc<Collection>>,
    rt: &Rt<'_>,
    execute: bool,
) -> Result<Outcome> {
    let winning = super::find::winning_plan(find, coll.as_ref(), rt)?;
    let stats = match (&coll, execute) {
        (Some(c), true) if !c.is_view() => Some(executed(find, c, rt, cx)?),
        (_, true) => Some(model::doc! { "executionSuccess": true, "nReturned": 0i32, "executionTimeMillis": 0i32, "totalKeysExamined": 0i32, "totalDocsExamined": 0i32, "executionStages": { "stage": "EOF" } }),
        _ => None,
    };
    let name = ns.to_string();
    reply(cx, |w| {
        w.put("explainVersion", "1");
        {
            let mut planner = w.doc("queryPlanner");
            planner.put("namespace", name.as_str()).put("parsedQuery", find.filter.spec.doc());
            planner.put("indexFilterSet", false).put("optimizationTimeMillis", 0i32);
            planner.put("maxIndexedOrSolutionsReached", false).put("maxIndexedAndSolutionsReached", false);
            planner.put("maxScansToExplodeReached", false).put("prunedSimilarIndexes", false);
            planner.put("winningPlan", &winning);
            planner.array("rejectedPlans");
        }
        if let Some(s) = &stats {
            w.put("executionStats", s);
        }
    });
    Ok(Outcome::Reply)
}

/// Runs the read and counts.
fn executed(find: &Find, c: &Arc<Collection>, rt: &Rt<'_>, cx: &Ctx<'_, '_>) -> Result<DocBuf> {
    let start = cx.service.clock.monotonic_us();
    let plan = find.plan(c)?;
    let (mut examined, mut matched) = (0i64, 0i64);
    let most = find.limit.map_or(i64::MAX, |n| i64::try_from(n.saturating_add(find.skip)).unwrap_or(i64::MAX));
    let arena = std::cell::RefCell::new(model::Bump::new());
    each_match(c, &plan, None, rt.env, &mut |row| {
        examined += 1;
        let mut arena = arena.borrow_mut();
        arena.reset();
        if find.filter.filter.matches(row.doc, &arena, rt.env)? {
            matched += 1;
        }
        Ok(matched < most || find.sort.is_some())
    })?;
    let returned = matched.min(most).saturating_sub(i64::try_from(find.skip).unwrap_or(i64::MAX)).max(0);
    let ms = i64::try_from((cx.service.clock.monotonic_us() - start) / 1000).unwrap_or(0);
    let keys = if plan.index.is_some() || matches!(plan.access, query::plan::Access::Ids { .. }) { examined } else { 0 };
    let fit = |n: i64| i32::try_from(n).map_or(Value::Int64(n), Value::Int32);
    let stages = query::plan::explain(&plan, Some(&find.filter));
    Ok(DocBuf::build(|w| {
        w.put("executionSuccess", true).put("nReturned", fit(returned)).put("executionTimeMillis", fit(ms));
        w.put("totalKeysExamined", fit(keys)).put("totalDocsExamined", fit(examined));
        let mut s = w.doc("executionStages");
        for (name, v) in stages.doc().iter() {
            s.put(name, v);
        }
        s.put("nReturned", fit(returned)).put("docsExamined", fit(examined));
    }))
}

fn explain_aggregate<'a>(cx: &mut Ctx<'a, '_>, own: Value<'a>, inner: Doc<'a>) -> Result<Outcome> {
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
    let host = StoreHost::new(cx.service.arc()?, collation.document().map(|d| d.to_buf()), Hint::parse(a.hint.unwrap_or_default())?);
    let stages = pipeline.explain(&Rt::new(&env, &host))?;
    reply(cx, |w| {
        w.put("explainVersion", "1").put("stages", stages.doc().as_array());
    });
    Ok(Outcome::Reply)
}

/// How a write would find its documents.
fn explain_write<'a>(cx: &mut Ctx<'a, '_>, name: &'a str, own: Value<'a>, inner: Doc<'a>, execute: bool) -> Result<Outcome> {
    let ns = own_namespace(cx, name, own)?;
    let (list, query) = match name {
        "update" => ("updates", "q"),
        "delete" => ("deletes", "q"),
        _ => ("", "query"),
    };
    let op = if list.is_empty() {
        inner
    } else {
        let ops: Vec<Doc<'_>> = match inner.field(list) {
            Value::Array(a) => a.iter().filter_map(|v| v.as_doc()).collect(),
            Value::Missing => return Err(missing_field(&format!("{name}.{list}"))),
            v => return Err(wrong_type(&format!("{name}.{list}"), &v, &[Tag::ARRAY])),
        };
        let [only] = ops.as_slice() else {
            bail!(code::INVALID_LENGTH, "explained write batches must be of size 1, given {}", ops.len());
        };
        *only
    };
    let coll = cx.service.store.collection(&ns)?;
    let env = environment(cx, &CollationArg::of(op.field("collation").as_doc(), None))?;
    let hint = crate::crud::hint(op.field("hint"))?;
    let find = plain_find(op.field(query).as_doc().unwrap_or(Doc::EMPTY), hint, &env, None)?;
    let host = StoreHost::new(cx.service.arc()?, None, None);
    finish(cx, &ns, &find, coll, &Rt::new(&env, &host), execute)
}

/// Writes what every explain ends with.
pub(crate) fn reply(cx: &mut Ctx<'_, '_>, fill: impl FnOnce(&mut DocWriter<'_>)) {
    fill(&mut cx.reply);
    cx.reply.put("queryShapeHash", Value::Missing);
    cx.reply.put("command", cx.value().as_doc().map_or(Value::Missing, Value::Document));
    let mut server = cx.reply.doc("serverInfo");
    let (host, port) = cx.service.config.host.rsplit_once(':').unwrap_or((cx.service.config.host.as_str(), "27017"));
    server.put("host", host).put("port", port.parse::<i32>().unwrap_or(27017));
    server.put("version", super::VERSION).put("gitVersion", "quarry");
    drop(server);
    cx.reply.doc("serverParameters").put("internalQueryFacetBufferSizeBytes", 104_857_600i32);
}
