//! `find`, `count`, `distinct`.

use crate::args::Kind;
use crate::crud::read::{COUNT, DISTINCT, FIND};
use crate::crud::{CountArgs, DistinctArgs, FindArgs};
use crate::ctx::Ctx;
use crate::cursors::{BatchLimit, CursorInfo};
use crate::exec::cursor::{PipelineCursor, Shape};
use crate::exec::host::StoreHost;
use crate::exec::{self, Used};
use crate::registry::{Command, OpClass, flag};
use crate::request::Outcome;
use model::{Array, Doc, DocBuf, Namespace, Result, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::project::Projection;
use query::pipeline::{MatchFilter, ParseOptions, Pipeline, Rt, drain};
use query::plan::{Hint, Want, choose, each_match};

const READS: u32 = flag::API_V1 | flag::READ_CONCERN;

pub(crate) static COMMANDS: &[Command] = &[
    Command { value: Kind::Collection, class: OpClass::Query, ..super::command("find", "documents that match a filter", READS, FIND, find) },
    Command { value: Kind::Collection, ..super::command("count", "number of documents that match a filter", READS, COUNT, count) },
    Command { value: Kind::Collection, ..super::command("distinct", "different values of a field", flag::READ_CONCERN, DISTINCT, distinct) },
];

/// Documents of a first batch without a wish.
pub(crate) const FIRST_BATCH: i64 = 101;

/// The stages a read amounts to.
fn stages(filter: Doc<'_>, sort: Doc<'_>, skip: u64, limit: Option<u64>) -> DocBuf {
    DocBuf::build(|w| {
        let mut a = w.array("stages");
        if !filter.is_empty() {
            a.doc().put("$match", filter);
        }
        if !sort.is_empty() && !sort.contains("$natural") {
            a.doc().put("$sort", sort);
        }
        if skip > 0 {
            a.doc().put("$skip", i64::try_from(skip).unwrap_or(i64::MAX));
        }
        if let Some(n) = limit {
            a.doc().put("$limit", i64::try_from(n).unwrap_or(i64::MAX));
        }
    })
}

/// `$natural` in the sort is a way of reading.
fn natural(sort: Doc<'_>) -> Result<Option<Hint>> {
    match sort.get("$natural").map(|v| v.as_i64_exact()) {
        None => Ok(None),
        Some(Some(1)) => Ok(Some(Hint::Natural { reverse: false })),
        Some(Some(-1)) => Ok(Some(Hint::Natural { reverse: true })),
        Some(_) => bail!(code::BAD_VALUE, "$natural sort must be 1 or -1, given {sort:?}"),
    }
}

pub(crate) fn hint(v: Option<Value<'_>>) -> Result<Option<Hint>> {
    v.map_or(Ok(None), Hint::parse)
}

/// A hint must name an index of the collection.
fn pipeline(env: &Env, ns: &Namespace, stages: &DocBuf) -> Result<Pipeline> {
    let list = stages.doc().field("stages").as_array().unwrap_or(Array::EMPTY);
    Pipeline::parse(&mut ParseCx::new(env), list, &ParseOptions::collection(ns.clone()))
}

fn not_built(a: &FindArgs<'_>) -> Result<()> {
    let unbuilt = [("min", !a.min.is_empty()), ("max", !a.max.is_empty()), ("returnKey", a.return_key), ("showRecordId", a.show_record_id)];
    match unbuilt.iter().find(|(_, asked)| *asked) {
        Some((name, _)) => bail!(code::NOT_IMPLEMENTED, "the option '{name}' of find is not built yet"),
        None => Ok(()),
    }
}

fn find(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let a = FindArgs::of(cx.value().as_str().unwrap_or(""), &cx.args)?;
    let ns = Namespace::new(cx.db, a.coll)?;
    let _used = Used::start(cx, &ns);
    not_built(&a)?;
    tailing(cx, &ns, &a)?;
    let env = exec::env(cx, a.let_vars, a.collation)?;
    // The filter is parsed first, so that its errors are those of find and not of a stage.
    let filter = Filter::parse(&mut ParseCx::new(&env), a.filter)?;
    let shape = if a.projection.is_empty() {
        None
    } else {
        // Over a view the projection becomes a stage, with a stage's rules.
        let view = cx.service.store.collection(&ns)?.is_some_and(|c| c.is_view());
        let mut parse = ParseCx::new(&env);
        let projection = if view {
            Projection::parse_project(&mut parse, Value::Document(a.projection))?
        } else {
            Projection::parse_find(&mut parse, a.projection)?
        };
        let filter = projection.needs_position().then_some(filter);
        Some(Shape { projection, filter })
    };
    let pipeline = pipeline(&env, &ns, &stages(a.filter, a.sort, a.skip, a.limit))?;
    let by = match natural(a.sort)? {
        Some(h) => Some(h),
        None => hint(a.hint)?,
    };
    let host = StoreHost { store: cx.service.store.clone(), service: Some(cx.service), hint: by };
    let docs = pipeline.open(&Rt::new(&env, &host))?;
    let cursor = PipelineCursor::new(docs, env, cx.service.store.clone(), shape, a.allow_disk_use.unwrap_or(true));
    let info = CursorInfo { ns: ns.to_string(), no_timeout: a.cursor.no_timeout, ..cx.cursor_info() };
    let size = a.batch_size.unwrap_or(FIRST_BATCH);
    cx.first_batch(Box::new(cursor), info, BatchLimit::of(Some(size)), a.single_batch)?;
    Ok(Outcome::Reply)
}

fn tailing(cx: &Ctx<'_, '_>, ns: &Namespace, a: &FindArgs<'_>) -> Result<()> {
    if !a.cursor.tailable {
        return Ok(());
    }
    match cx.service.store.collection(ns)? {
        None => Ok(()),
        Some(c) if c.is_view() || crate::ddl::names::is_timeseries(&c) => {
            bail!(code::INVALID_PIPELINE_OPERATOR, "tailable cursors are not supported on views and time-series collections: {ns}")
        }
        Some(c) if !crate::ddl::names::is_capped(&c) => {
            bail!(code::BAD_VALUE, "error processing query: ns={ns}: tailable cursor requested on non capped collection")
        }
        Some(_) => bail!(code::NOT_IMPLEMENTED, "tailable cursors are not built yet"),
    }
}

fn count(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let a = CountArgs::of(cx.value().as_str().unwrap_or(""), &cx.args)?;
    let ns = Namespace::new(cx.db, a.coll)?;
    let _used = Used::start(cx, &ns);
    let env = exec::env(cx, Doc::EMPTY, a.collation)?;
    let filter = MatchFilter::parse(&mut ParseCx::new(&env), a.query)?;
    let by = hint(a.hint)?;
    let all = match cx.service.store.collection(&ns)? {
        None => 0,
        Some(c) if c.is_view() => {
            let pipeline = pipeline(&env, &ns, &stages(a.query, Doc::EMPTY, 0, None))?;
            let host = StoreHost { store: cx.service.store.clone(), service: Some(cx.service), hint: by };
            let rt = Rt::new(&env, &host);
            let mut n = 0u64;
            drain(pipeline.open(&rt)?.as_mut(), &rt, |_, _| {
                n += 1;
                Ok(())
            })?;
            n
        }
        Some(c) if a.query.is_empty() && by.is_none() => c.count(),
        Some(c) => {
            let plan = choose(&c, &Want { filter: Some(&filter), hint: by.as_ref(), ..Want::default() }, env.collate())?;
            let enough = a.limit.map_or(u64::MAX, |l| l.saturating_add(a.skip));
            let mut n = 0u64;
            each_match(&c, &plan, Some(&filter), &env, &mut |_| {
                n += 1;
                Ok(n < enough)
            })?;
            n
        }
    };
    let n = all.saturating_sub(a.skip).min(a.limit.unwrap_or(u64::MAX));
    match i32::try_from(n) {
        Ok(n) => cx.reply.put("n", n),
        Err(_) => cx.reply.put("n", i64::try_from(n).unwrap_or(i64::MAX)),
    };
    Ok(Outcome::Reply)
}

fn distinct(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let a = DistinctArgs::of(cx.value().as_str().unwrap_or(""), &cx.args)?;
    let ns = Namespace::new(cx.db, a.coll)?;
    let _used = Used::start(cx, &ns);
    if a.key.contains('\0') {
        bail!(code::BAD_VALUE, "the key of distinct must not hold a null byte");
    }
    let env = exec::env(cx, Doc::EMPTY, a.collation)?;
    Filter::parse(&mut ParseCx::new(&env), a.query)?;
    let pipeline = pipeline(&env, &ns, &stages(a.query, Doc::EMPTY, 0, None))?;
    let host = StoreHost { store: cx.service.store.clone(), service: Some(cx.service), hint: hint(a.hint)? };
    let rt = Rt::new(&env, &host);
    let parts: Vec<&str> = a.key.split('.').collect();
    let mut seen = rustc_hash::FxHashSet::default();
    let mut found: Vec<model::OwnedValue> = Vec::new();
    let mut bytes = 0usize;
    drain(pipeline.open(&rt)?.as_mut(), &rt, |d, _| {
        each_value(Value::Document(d), &parts, &mut |v| {
            let mut key = Vec::new();
            model::compare::equality_key(&v, env.collate(), &mut key);
            if seen.insert(key) {
                bytes += v.payload_bytes() + 8;
                found.push(v.to_owned_value());
            }
        });
        if bytes > model::bson::MAX_DOCUMENT_BYTES {
            bail!(17_217, "distinct too big, 16mb cap");
        }
        Ok(())
    })?;
    found.sort_by(|x, y| model::compare_with(&x.get(), &y.get(), env.collate()));
    cx.ok_int = cx.service.store.collection(&ns)?.is_some_and(|c| c.is_view());
    let mut values = cx.reply.array("values");
    for v in &found {
        values.push(v.get());
    }
    Ok(Outcome::Reply)
}

/// Shows the values at a path: arrays on the way and at the end are gone through.
fn each_value<'a>(v: Value<'a>, path: &[&str], visit: &mut dyn FnMut(Value<'a>)) {
    match (v, path.split_first()) {
        (Value::Missing, _) => {}
        (Value::Array(a), None) => a.iter().for_each(visit),
        (v, None) => visit(v),
        (Value::Document(d), Some((head, rest))) => each_value(d.field(head), rest, visit),
        (Value::Array(a), Some((head, rest))) => {
            if let Some(at) = head.parse().ok().and_then(|i| a.get(i)) {
                each_value(at, rest, visit);
            }
            for e in a.iter().filter(|e| e.as_doc().is_some()) {
                each_value(e, path, visit);
            }
        }
        _ => {}
    }
}
