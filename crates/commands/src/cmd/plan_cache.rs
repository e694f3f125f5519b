//! `planCacheClear`, `planCacheListFilters`, `planCacheSetFilter`, `planCacheClearFilters`. Filters
//! are kept in memory only, as in MongoDB; the planner reads them.

use context::command::Command;
use context::ctx::Ctx;
use context::ddl::names;
use model::{Array, Doc, Namespace, Result, Value, bail, code};
use query::explain::Shape;
use query::plan::PlanCache;
use request::Outcome;
use request::args::{Arg, Kind, arg, collection_name};
use request::spec::{Privilege, flag};
use state::plan_filters::ShapeParts;
use store::Collection;

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

/// Removes the plan of a shape, or all plans of the collection.
fn clear(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = target(cx)?;
    // Without a collection there is nothing to remove, whatever the arguments are.
    let Some(coll) = cx.service.store.collection(&ns)? else {
        return Ok(Outcome::Reply);
    };
    if !cx.args.has("query")
        && (cx.args.has("sort") || cx.args.has("projection") || cx.args.has("collation"))
    {
        bail!(
            code::BAD_VALUE,
            "sort, projection or collation provided without query"
        );
    }
    if cx.args.has("query") {
        forget(&coll, &shape(cx)?);
    } else {
        PlanCache::of(&coll).forget(|_| true);
    }
    Ok(Outcome::Reply)
}

/// Removes the plans of a shape.
fn forget(coll: &Collection, parts: &ShapeParts<'_>) {
    let shape = Shape::of_parts(parts.query, parts.sort, parts.projection, parts.collation);
    PlanCache::of(coll).forget(|e| Shape::of_cached(e).text == shape.text);
}

fn list(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = target(cx)?;
    let mut out = cx.reply.array("filters");
    for f in cx.service.state.plan_filters.list(&ns) {
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

/// The shape in the arguments.
fn shape<'a>(cx: &Ctx<'a, '_>) -> Result<ShapeParts<'a>> {
    let part = |name: &'static str, required: bool| match cx.args.value(name) {
        Value::Document(d) => Ok(d),
        // An array is read as a document whose field names are numbers.
        Value::Array(a) => Ok(a.as_doc()),
        Value::Missing if !required => Ok(Doc::EMPTY),
        Value::Missing => bail!(code::BAD_VALUE, "required field {name} missing"),
        v => bail!(
            code::BAD_VALUE,
            "{name} must be an object, given {}",
            v.type_name()
        ),
    };
    let shape = ShapeParts {
        query: part("query", true)?,
        sort: part("sort", false)?,
        projection: part("projection", false)?,
        collation: part("collation", false)?,
    };
    if cx.args.has("collation") {
        let c = shape.collation;
        if c.is_empty() {
            bail!(
                code::BAD_VALUE,
                "optional collation object must not be empty"
            );
        }
        if !c.contains("locale") {
            return Err(request::args::missing_field("collation.locale"));
        }
        cx.service.check_collation(c)?;
    }
    Ok(shape)
}

fn set(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = target(cx)?;
    if ns.is_system() {
        bail!(
            code::BAD_VALUE,
            "index filters are not supported on system collections: {ns}"
        );
    }
    let shape = shape(cx)?;
    let Value::Array(indexes) = cx.args.value("indexes") else {
        bail!(
            code::BAD_VALUE,
            "required field indexes must be an array, given {}",
            cx.args.value("indexes").type_name()
        );
    };
    check_indexes(indexes)?;
    let Some(coll) = cx.service.store.collection(&ns)? else {
        bail!(code::BAD_VALUE, "no such collection: {ns}");
    };
    cx.service.matcher(shape.query)?;
    let indexes = indexes.iter().map(|v| v.to_owned_value()).collect();
    cx.service.state.plan_filters.set(&ns, &shape, indexes);
    forget(&coll, &shape);
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
    // Without a collection there is nothing to remove, whatever the arguments are.
    let Some(coll) = cx.service.store.collection(&ns)? else {
        return Ok(Outcome::Reply);
    };
    let filters = &cx.service.state.plan_filters;
    if cx.args.has("query") {
        let shape = shape(cx)?;
        filters.clear(&ns, Some(&shape));
        forget(&coll, &shape);
        return Ok(Outcome::Reply);
    }
    if cx.args.has("sort") || cx.args.has("projection") || cx.args.has("collation") {
        bail!(
            code::BAD_VALUE,
            "sort, projection or collation provided without query"
        );
    }
    filters.clear(&ns, None);
    PlanCache::of(&coll).forget(|_| true);
    Ok(Outcome::Reply)
}
