//! Needs of commands that read and write documents, collections and views.

use super::asked::{Asked, fields, is};
use super::pipeline::source_and_stages;
use auth::Action::{self, *};
use auth::Target;
use model::{Array, Doc, Result, Value};

/// `actions`, and the right to write what no validator has seen when that is asked for.
fn write(asked: &Asked<'_>, coll: (&str, &str), actions: &[Action]) -> Result<()> {
    let target = Target::Collection(coll.0, coll.1);
    asked.needs(target, actions)?;
    if asked.is("bypassDocumentValidation") {
        asked.needs(target, &[BypassDocumentValidation])?;
    }
    Ok(())
}

/// `insert`.
pub(crate) fn insert(asked: &Asked<'_>) -> Result<()> {
    write(asked, (asked.db, asked.own()), &[Insert])
}

/// `update`.
pub(crate) fn update(asked: &Asked<'_>) -> Result<()> {
    let upsert = asked.documents("updates").iter().any(|u| is(*u, "upsert"));
    let actions: &[Action] = if upsert { &[Update, Insert] } else { &[Update] };
    write(asked, (asked.db, asked.own()), actions)
}

/// `findAndModify`.
pub(crate) fn find_and_modify(asked: &Asked<'_>) -> Result<()> {
    let coll = (asked.db, asked.own());
    let change = if asked.is("remove") { Remove } else { Update };
    write(asked, coll, &[Find, change])?;
    if asked.is("upsert") {
        write(asked, coll, &[Insert])?;
    }
    Ok(())
}

/// `bulkWrite`: every operation on its own namespace.
pub(crate) fn bulk_write(asked: &Asked<'_>) -> Result<()> {
    let names = asked.documents("nsInfo");
    for op in asked.documents("ops") {
        for (kind, at) in op.iter() {
            let actions: &[Action] = match kind {
                "insert" => &[Insert],
                "update" if is(op, "upsert") => &[Update, Insert],
                "update" => &[Update],
                "delete" => &[Remove],
                _ => continue,
            };
            // A position that names nothing is refused by the command itself.
            let at = at.as_i64_exact().and_then(|n| usize::try_from(n).ok());
            let Some(info) = at.and_then(|n| names.get(n)) else {
                continue;
            };
            for ns in fields(*info, "ns") {
                let (db, coll) = whole(&ns);
                write(asked, (db, coll), actions)?;
            }
        }
    }
    Ok(())
}

/// Database and collection of `db.collection`.
fn whole<'a>(value: &Value<'a>) -> (&'a str, &'a str) {
    let text = value.as_str().unwrap_or("");
    text.split_once('.').unwrap_or((text, ""))
}

/// A view may show only what its maker may read; a maker that may not read the view learns nothing
/// by it.
fn view(asked: &Asked<'_>, source: &str, pipeline: Array<'_>) -> Result<()> {
    if !asked.may(Target::Collection(asked.db, asked.own()), &[Find]) {
        return Ok(());
    }
    source_and_stages(asked, Some(source), pipeline)
}

/// `create`.
pub(crate) fn create(asked: &Asked<'_>) -> Result<()> {
    let target = Target::Collection(asked.db, asked.own());
    let mut is_view = false;
    for source in asked.all("viewOn") {
        is_view = true;
        let pipelines: Vec<_> = asked.all("pipeline").filter_map(|v| v.as_array()).collect();
        view(asked, source.as_str().unwrap_or(""), Array::EMPTY)?;
        for pipeline in pipelines {
            view(asked, source.as_str().unwrap_or(""), pipeline)?;
        }
    }
    let may = asked.may(target, &[CreateCollection]);
    asked.unless(may || (!is_view && asked.may(target, &[Insert])))
}

/// `collMod`.
pub(crate) fn coll_mod(asked: &Asked<'_>) -> Result<()> {
    asked.needs_on(asked.own(), &[CollMod])?;
    for source in asked.all("viewOn") {
        view(asked, source.as_str().unwrap_or(""), Array::EMPTY)?;
    }
    let source = asked.all("viewOn").find_map(|v| v.as_str()).unwrap_or("");
    for pipeline in asked.all("pipeline").filter_map(|v| v.as_array()) {
        view(asked, source, pipeline)?;
    }
    Ok(())
}

/// `renameCollection`: within a database that is one right, as long as it does not make readable
/// what was not; anything else is a copy and a drop.
pub(crate) fn rename(asked: &Asked<'_>) -> Result<()> {
    let from = whole(&asked.value());
    let drops = asked.is("dropTarget");
    for to in asked.all("to") {
        let to = whole(&to);
        let on = |ns: (&'_ str, &'_ str), actions: &[Action]| {
            asked.may(Target::Collection(ns.0, ns.1), actions)
        };
        let system = from.1.starts_with("system.") || to.1.starts_with("system.");
        let within = from.0 == to.0
            && !system
            && asked.may(Target::Database(from.0), &[RenameCollectionSameDb])
            && (on(from, &[Find]) || !on(to, &[Find]));
        let copies =
            on(from, &[Find, DropCollection]) && on(to, &[Insert, CreateIndex, ConvertToCapped]);
        let dropped = !drops || on(to, &[DropCollection]);
        asked.unless(dropped && (within || copies))?;
    }
    Ok(())
}

/// `cloneCollectionAsCapped`.
pub(crate) fn clone_capped(asked: &Asked<'_>) -> Result<()> {
    asked.needs_on(asked.own(), &[Find])?;
    for to in asked.all("toCollection") {
        let to = to.as_str().unwrap_or("");
        asked.needs_on(to, &[Insert, CreateIndex, ConvertToCapped])?;
    }
    Ok(())
}

/// `mapReduce`.
pub(crate) fn map_reduce(asked: &Asked<'_>) -> Result<()> {
    asked.needs_on(asked.own(), &[Find])?;
    for out in asked.all("out") {
        let (mut db, mut coll) = (asked.db, out.as_str());
        let mut actions: &[Action] = &[Insert, Remove];
        if let Some(d) = out.as_doc() {
            for (name, value) in d.iter() {
                match name {
                    "db" => db = value.as_str().unwrap_or(db),
                    "merge" | "reduce" => {
                        (coll, actions) = (value.as_str(), &[Insert, Update]);
                    }
                    "replace" => coll = value.as_str(),
                    _ => {}
                }
            }
        }
        if let Some(coll) = coll {
            write(asked, (db, coll), actions)?;
        }
    }
    Ok(())
}

/// `dataSize`, whose own value is a whole namespace.
pub(crate) fn data_size(asked: &Asked<'_>) -> Result<()> {
    let (db, coll) = whole(&asked.value());
    asked.needs(Target::Collection(db, coll), &[Find])
}

/// `filemd5`.
pub(crate) fn file_md5(asked: &Asked<'_>) -> Result<()> {
    let mut roots: Vec<&str> = asked.all("root").filter_map(|v| v.as_str()).collect();
    if roots.is_empty() {
        roots.push("fs");
    }
    for root in roots {
        asked.needs_on(&format!("{root}.chunks"), &[Find])?;
    }
    Ok(())
}

/// `explain`: what the command inside needs.
pub(crate) fn explain(asked: &Asked<'_>) -> Result<()> {
    match asked.value() {
        Value::Document(inner) => {
            let name = inner.first().map_or("", |(name, _)| name);
            (asked.inner)(name, asked.db, inner)
        }
        _ => Ok(()),
    }
}

/// `applyOps`: the right to it, and to each of its operations.
pub(crate) fn apply_ops(asked: &Asked<'_>) -> Result<()> {
    asked.needs(Target::Cluster, &[ApplyOps])?;
    let ops = asked.value().as_array().unwrap_or(Array::EMPTY);
    for op in ops.iter().filter_map(|v| v.as_doc()) {
        for kind in fields(op, "op") {
            for ns in fields(op, "ns") {
                let (db, coll) = whole(&ns);
                let target = Target::Collection(db, coll);
                match kind.as_str() {
                    Some("n") => {}
                    Some("i") => asked.needs(target, &[Insert])?,
                    Some("u") => asked.needs(target, &[Update, Insert])?,
                    Some("d") => asked.needs(target, &[Remove])?,
                    Some("c") => fields(op, "o")
                        .filter_map(|v| v.as_doc())
                        .try_for_each(|o| commanded(asked, db, o))?,
                    _ => asked.needs(Target::Any, &[Internal])?,
                }
            }
        }
    }
    Ok(())
}

/// A command as an entry of a log has it.
fn commanded(asked: &Asked<'_>, db: &str, o: Doc<'_>) -> Result<()> {
    const KNOWN: &[&str] = &[
        "applyOps",
        "collMod",
        "create",
        "createIndexes",
        "drop",
        "dropDatabase",
        "dropIndexes",
        "renameCollection",
    ];
    let name = o.first().map_or("", |(name, _)| name);
    if !KNOWN.contains(&name) {
        return asked.needs(Target::Any, &[Internal]);
    }
    (asked.inner)(name, db, o)
}

/// `profile`: reading the level needs less than setting it.
pub(crate) fn profile(asked: &Asked<'_>) -> Result<()> {
    let sets = asked.value().as_f64().is_none_or(|n| n >= 0.0)
        || asked.body.contains("slowms")
        || asked.body.contains("sampleRate")
        || asked.body.contains("filter");
    let reads = asked.may(Target::Collection(asked.db, "system.profile"), &[Find]);
    if !sets && reads {
        return Ok(());
    }
    asked.needs(Target::Database(asked.db), &[EnableProfiler])
}

/// `listCollections`: who may not see all may ask for the names of those it has a right to.
pub(crate) fn list_collections(asked: &Asked<'_>) -> Result<()> {
    let own = asked.is("nameOnly") && asked.is("authorizedCollections");
    asked.unless(
        asked.may(Target::Database(asked.db), &[ListCollections])
            || own && asked.rights.any_in(asked.db),
    )
}
