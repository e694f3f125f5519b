//! `planCacheClear`, `planCacheListFilters`, `planCacheSetFilter`, `planCacheClearFilters`. Filters
//! are kept in memory only, as in MongoDB; the planner asks for them.

use crate::ddl::names;
use crate::dispatch::args::{Arg, Kind, arg, collection_name};
use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use crate::state::PlanFilter;
use model::{Array, Doc, DocBuf, Namespace, Result, Value, bail, code};

static SHAPE: &[Arg] = &[
    arg("query", Kind::Any),
    arg("sort", Kind::Any),
    arg("projection", Kind::Any),
    arg("collation", Kind::Any),
    arg("indexes", Kind::Any),
];

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "planCacheClear",
        "forgets cached plans",
        Privilege::Collection(&[auth::Action::PlanCacheWrite]),
        flag::LENIENT,
        SHAPE,
        clear,
    ),
    Command::new(
        "planCacheListFilters",
        "index filters of a collection",
        Privilege::Collection(&[auth::Action::PlanCacheIndexFilter]),
        flag::LENIENT,
        &[],
        list,
    ),
    Command::new(
        "planCacheSetFilter",
        "allows only some indexes for a query shape",
        Privilege::Collection(&[auth::Action::PlanCacheIndexFilter]),
        flag::LENIENT,
        SHAPE,
        set,
    ),
    Command::new(
        "planCacheClearFilters",
        "removes index filters",
        Privilege::Collection(&[auth::Action::PlanCacheIndexFilter]),
        flag::LENIENT,
        SHAPE,
        clear_filters,
    ),
];

/// The collection; views have no plans of their own.
fn target(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    let ns = Namespace::new(cx.db, collection_name(&cx.value())?)?;
    if let Some(c) = cx.service.store.collection(&ns)?
        && (c.is_view() || names::is_timeseries(&c))
    {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        );
    }
    Ok(ns)
}

/// Plans are chosen anew for every query; there is nothing to forget but the arguments are checked.
fn clear(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = target(cx)?;
    // Without a collection there is nothing to forget, whatever the arguments name.
    if cx.service.store.collection(&ns)?.is_none() {
        return Ok(Outcome::Reply);
    }
    if !cx.args.has("query")
        && (cx.args.has("sort") || cx.args.has("projection") || cx.args.has("collation"))
    {
        bail!(
            code::BAD_VALUE,
            "sort, projection or collation provided without query"
        );
    }
    if cx.args.has("query") {
        shape(cx)?;
    }
    Ok(Outcome::Reply)
}

fn list(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = target(cx)?;
    let all = cx.service.state.plan_filters.lock();
    let mut out = cx.reply.array("filters");
    for f in all.get(&ns.to_string()).into_iter().flatten() {
        let mut one = out.doc();
        one.put("query", &f.query)
            .put("sort", &f.sort)
            .put("projection", &f.projection);
        if !f.collation.doc().is_empty() {
            one.put("collation", &f.collation);
        }
        let mut indexes = one.array("indexes");
        for i in &f.indexes {
            indexes.push(i.get());
        }
    }
    Ok(Outcome::Reply)
}

/// The shape the arguments name.
fn shape(cx: &Ctx<'_, '_>) -> Result<PlanFilter> {
    let part = |name: &'static str, required: bool| match cx.args.value(name) {
        Value::Document(d) => Ok(d.to_buf()),
        Value::Missing if !required => Ok(DocBuf::new()),
        Value::Missing => bail!(code::BAD_VALUE, "required field {name} missing"),
        v => bail!(
            code::BAD_VALUE,
            "{name} must be an object, given {}",
            v.type_name()
        ),
    };
    let filter = PlanFilter {
        query: part("query", true)?,
        sort: part("sort", false)?,
        projection: part("projection", false)?,
        collation: part("collation", false)?,
        indexes: Vec::new(),
    };
    if cx.args.has("collation") {
        let c = filter.collation.doc();
        if c.is_empty() {
            bail!(
                code::BAD_VALUE,
                "optional collation object must not be empty"
            );
        }
        if !c.contains("locale") {
            return Err(crate::dispatch::args::missing_field("collation.locale"));
        }
        cx.service.check_collation(c)?;
    }
    Ok(filter)
}

/// A query with its constants taken out: what makes two queries one shape.
fn skeleton(d: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        for (name, v) in d.iter() {
            match v {
                Value::Document(inner)
                    if inner.first().is_some_and(|(k, _)| k.starts_with('$'))
                        || name.starts_with('$') =>
                {
                    w.put(name, &skeleton(inner));
                }
                Value::Array(a) if name.starts_with('$') => {
                    let mut out = w.array(name);
                    for v in a.iter() {
                        match v.as_doc() {
                            Some(d) => out.push(&skeleton(d)),
                            None => out.push(Value::Null),
                        };
                    }
                }
                _ => {
                    w.put(name, Value::Null);
                }
            }
        }
    })
}

fn same_shape(a: &PlanFilter, b: &PlanFilter) -> bool {
    skeleton(a.query.doc()) == skeleton(b.query.doc())
        && a.sort == b.sort
        && a.projection == b.projection
        && a.collation == b.collation
}

fn set(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = target(cx)?;
    if ns.is_system() {
        bail!(
            code::BAD_VALUE,
            "index filters are not supported on system collections: {ns}"
        );
    }
    let mut filter = shape(cx)?;
    let Value::Array(indexes) = cx.args.value("indexes") else {
        bail!(
            code::BAD_VALUE,
            "required field indexes must be an array, given {}",
            cx.args.value("indexes").type_name()
        );
    };
    check_indexes(indexes)?;
    if cx.service.store.collection(&ns)?.is_none() {
        bail!(code::BAD_VALUE, "no such collection: {ns}");
    }
    cx.service.matcher(filter.query.doc())?;
    filter.indexes = indexes.iter().map(|v| v.to_owned_value()).collect();
    let mut all = cx.service.state.plan_filters.lock();
    let list = all.entry(ns.to_string()).or_default();
    list.retain(|f| !same_shape(f, &filter));
    list.push(filter);
    Ok(Outcome::Reply)
}

fn check_indexes(indexes: Array<'_>) -> Result<()> {
    if indexes.is_empty() {
        bail!(
            code::BAD_VALUE,
            "required field indexes must contain at least one index"
        );
    }
    for v in indexes.iter() {
        match v {
            Value::String(_) => {}
            Value::Document(d) if d.is_empty() => {
                bail!(code::BAD_VALUE, "index specification cannot be empty")
            }
            Value::Document(_) => {}
            v => bail!(
                code::BAD_VALUE,
                "each item in indexes must be an object or a string, given {}",
                v.type_name()
            ),
        }
    }
    Ok(())
}

fn clear_filters(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = target(cx)?;
    let mut all = cx.service.state.plan_filters.lock();
    let Some(list) = all.get_mut(&ns.to_string()) else {
        return Ok(Outcome::Reply);
    };
    if !cx.args.has("query") {
        if cx.args.has("sort") || cx.args.has("projection") || cx.args.has("collation") {
            bail!(
                code::BAD_VALUE,
                "sort, projection or collation provided without query"
            );
        }
        list.clear();
        return Ok(Outcome::Reply);
    }
    let wanted = shape(cx)?;
    list.retain(|f| !same_shape(f, &wanted));
    Ok(Outcome::Reply)
}
