//! `explain`: how a read or write would run, and with `executionStats` how many documents it looks at.

use super::find::hint;
use super::{VERSION, command};
use crate::args::{Args, Kind, arg};
use crate::crud::AggregateArgs;
use crate::ctx::Ctx;
use crate::exec;
use crate::exec::host::StoreHost;
use crate::generic::Generic;
use crate::registry::{self, Command, flag};
use crate::request::{Outcome, Request};
use model::{Array, Bump, Doc, DocBuf, MongoError, Namespace, Result, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use query::pipeline::{MatchFilter, ParseOptions, Pipeline, Rt};
use query::plan::{Access, Hint, Want, choose, each_match, explain};
use query::stages::sort_pattern::SortPattern;

pub(crate) static COMMANDS: &[Command] = &[Command {
    value: Kind::Object,
    ..command("explain", "shows how a command would run", flag::API_V1 | flag::READ_CONCERN, &[arg("verbosity", Kind::Str)], run)
}];

/// What the explained command reads.
struct Read<'a> {
    ns: Namespace,
    filter: Doc<'a>,
    sort: Doc<'a>,
    hint: Option<Hint>,
    skip: u64,
    limit: Option<u64>,
    /// The command, when it writes.
    write: Option<&'static str>,
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let inner = cx.value().as_doc().unwrap_or(Doc::EMPTY);
    let stats = match cx.args.str("verbosity") {
        None | Some("allPlansExecution" | "executionStats") => true,
        Some("queryPlanner") => false,
        Some(other) => bail!(code::BAD_VALUE, "Enumeration value '{other}' for field 'explain.verbosity' is not a valid value, allowed are queryPlanner, executionStats, allPlansExecution"),
    };
    let name = inner.first().map_or("", |(n, _)| n);
    let Some((_, command)) = registry::find(name) else {
        return Err(MongoError::new(code::COMMAND_NOT_FOUND, format!("Explain failed due to unknown command: {name}")));
    };
    if let Some(db) = inner.field("$db").as_str().filter(|db| *db != cx.db) {
        bail!(code::INVALID_NAMESPACE, "Mismatched $db in explain command. Expected {} but got {db}", cx.db);
    }
    let request = Request::new(inner);
    let mut generic = Generic { db: cx.db, ..Generic::default() };
    let args = cx.service.check(&request, command, &mut generic)?;
    if command.name == "aggregate" {
        aggregate(cx, &args, command, stats)?;
    } else {
        let read = read_of(cx, command, &args)?;
        planned(cx, &read, stats)?;
    }
    cx.reply.put("command", inner);
    let host = cx.service.config.host.clone();
    let (name, port) = host.rsplit_once(':').unwrap_or((&host, "27017"));
    let mut info = cx.reply.doc("serverInfo");
    info.put("host", name).put("port", port.parse::<i32>().unwrap_or(27017)).put("version", VERSION).put("gitVersion", "unknown");
    drop(info);
    cx.reply.doc("serverParameters");
    Ok(Outcome::Reply)
}

/// A name that may stand in place of the filter, by command.
fn read_of<'a>(cx: &Ctx<'_, '_>, command: &Command, args: &Args<'a>) -> Result<Read<'a>> {
    let coll = args.value(command.name);
    let ns = Namespace::new(cx.db, coll.as_str().unwrap_or(""))?;
    let first = |list: &'static str| args.array(list).and_then(|a| a.get(0)).and_then(|v| v.as_doc()).unwrap_or(Doc::EMPTY);
    let doc = |v: Value<'a>| v.as_doc().unwrap_or(Doc::EMPTY);
    let some = |v: Value<'a>| if v.is_missing() { None } else { Some(v) };
    let positive = |name: &str| args.int(name).map(i64::unsigned_abs);
    let (filter, sort, by) = match command.name {
        "find" => (doc(args.value("filter")), doc(args.value("sort")), args.value("hint")),
        "count" | "distinct" => (doc(args.value("query")), Doc::EMPTY, args.value("hint")),
        "findAndModify" => (doc(args.value("query")), doc(args.value("sort")), args.value("hint")),
        "update" => (doc(first("updates").field("q")), doc(first("updates").field("sort")), first("updates").field("hint")),
        "delete" => (doc(first("deletes").field("q")), Doc::EMPTY, first("deletes").field("hint")),
        other => bail!(code::COMMAND_NOT_SUPPORTED, "explain is not supported for the command {other}"),
    };
    let write = matches!(command.name, "update" | "delete" | "findAndModify").then_some(command.name);
    Ok(Read { write, ns, filter, sort, hint: hint(some(by))?, skip: positive("skip").unwrap_or(0), limit: positive("limit").filter(|n| *n > 0) })
}

fn aggregate(cx: &mut Ctx<'_, '_>, args: &Args<'_>, command: &Command, stats: bool) -> Result<()> {
    let a = AggregateArgs::of(args.value(command.name), args, true, false)?;
    let options = match a.coll {
        Some(c) => ParseOptions::collection(Namespace::new(cx.db, c)?),
        None => ParseOptions::database(cx.db),
    };
    let env = exec::env(cx, a.let_vars, a.collation)?;
    let pipeline = Pipeline::parse(&mut ParseCx::new(&env), a.pipeline, &options)?;
    let host = StoreHost { store: cx.service.store.clone(), service: Some(cx.service), hint: hint(a.hint)? };
    let rt = Rt::new(&env, &host);
    let plan = pipeline.explain(&rt)?;
    cx.reply.put("explainVersion", "1").put_all(plan.doc());
    if stats && !pipeline.writes() {
        let start_us = cx.service.clock.monotonic_us();
        let n = pipeline.run_to_end(&rt)?.len();
        let ms = (cx.service.clock.monotonic_us() - start_us) / 1000;
        let mut s = cx.reply.doc("executionStats");
        s.put("executionSuccess", true).put("nReturned", i32::try_from(n).unwrap_or(i32::MAX)).put("executionTimeMillis", i32::try_from(ms).unwrap_or(i32::MAX));
    }
    Ok(())
}

fn planned(cx: &mut Ctx<'_, '_>, read: &Read<'_>, stats: bool) -> Result<()> {
    let env = exec::env(cx, Doc::EMPTY, None)?;
    let filter = MatchFilter::parse(&mut ParseCx::new(&env), read.filter)?;
    let sort = match read.sort.is_empty() || read.sort.contains("$natural") {
        true => None,
        false => Some(SortPattern::parse(read.sort)?),
    };
    let coll = cx.service.store.collection(&read.ns)?;
    if coll.as_ref().is_some_and(|c| c.is_view()) {
        return over_view(cx, &env, read);
    }
    let want = Want { filter: Some(&filter), sort: sort.as_ref(), hint: read.hint.as_ref(), collation: None };
    let plan = coll.as_ref().map(|c| choose(c, &want, env.collate())).transpose()?;
    let winning = match &plan {
        Some(p) => {
            let access = explain(p, Some(&filter));
            if p.sorted || sort.is_none() {
                access
            } else {
                model::doc! { "isCached": false, "stage": "SORT", "sortPattern": read.sort, "type": "simple", "inputStage": &access }
            }
        }
        None => model::doc! { "isCached": false, "stage": "EOF" },
    };
    cx.reply.put("explainVersion", "1");
    let mut p = cx.reply.doc("queryPlanner");
    p.put("namespace", read.ns.to_string().as_str()).put("parsedQuery", read.filter).put("indexFilterSet", false);
    p.put("optimizationTimeMillis", 0i32).put("maxIndexedOrSolutionsReached", false).put("maxIndexedAndSolutionsReached", false);
    p.put("maxScansToExplodeReached", false).put("prunedSimilarIndexes", false).put("winningPlan", &winning);
    p.array("rejectedPlans");
    drop(p);
    if !stats {
        return Ok(());
    }
    let start_us = cx.service.clock.monotonic_us();
    let (mut examined, mut matched) = (0i64, 0i64);
    let by_index = plan.as_ref().is_some_and(|p| matches!(p.access, Access::Index { .. }));
    if let (Some(c), Some(plan)) = (&coll, &plan) {
        let enough = read.limit.map_or(u64::MAX, |l| l.saturating_add(read.skip));
        let sorting = sort.is_some() && !plan.sorted;
        let mut arena = Bump::new();
        each_match(c, plan, None, &env, &mut |row| {
            examined += 1;
            arena.reset();
            matched += i64::from(filter.filter.matches(row.doc, &arena, &env)?);
            Ok(sorting || u64::try_from(matched).unwrap_or(0) < enough)
        })?;
    }
    let skip = i64::try_from(read.skip).unwrap_or(i64::MAX);
    let returned = (matched - skip).max(0).min(read.limit.map_or(i64::MAX, |l| i64::try_from(l).unwrap_or(i64::MAX)));
    let ms = (cx.service.clock.monotonic_us() - start_us) / 1000;
    let small = |n: i64| i32::try_from(n).map_or(Value::Int64(n), Value::Int32);
    let mut s = cx.reply.doc("executionStats");
    s.put("executionSuccess", true).put("nReturned", small(returned)).put("executionTimeMillis", i32::try_from(ms).unwrap_or(i32::MAX));
    s.put("totalKeysExamined", small(if by_index { examined } else { 0 })).put("totalDocsExamined", small(examined));
    let mut stages = s.doc("executionStages");
    stages.put_all(winning.doc()).put("nReturned", small(returned)).put("docsExamined", small(examined));
    match read.write {
        Some("delete") => {
            stages.put("nWouldDelete", small(returned));
        }
        Some(_) => {
            stages.put("nMatched", small(returned)).put("nWouldModify", small(returned)).put("nWouldUpsert", 0i32);
        }
        None => {}
    }
    drop(stages);
    s.array("allPlansExecution");
    Ok(())
}

/// A read of a view is explained as the pipeline it becomes.
fn over_view(cx: &mut Ctx<'_, '_>, env: &Env, read: &Read<'_>) -> Result<()> {
    let spec = DocBuf::build(|w| {
        let mut a = w.array("p");
        if !read.filter.is_empty() {
            a.doc().put("$match", read.filter);
        }
    });
    let stages = spec.doc().field("p").as_array().unwrap_or(Array::EMPTY);
    let pipeline = Pipeline::parse(&mut ParseCx::new(env), stages, &ParseOptions::collection(read.ns.clone()))?;
    let host = StoreHost { store: cx.service.store.clone(), service: Some(cx.service), hint: None };
    let plan = pipeline.explain(&Rt::new(env, &host))?;
    cx.reply.put("explainVersion", "1").put_all(plan.doc());
    Ok(())
}
