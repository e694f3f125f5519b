//! `createIndexes`, `listIndexes`, `dropIndexes`.

use super::list::batch_size;
use access::uuid::new_uuid;
use context::command::Command;
use context::ctx::Ctx;
use context::ddl::describe::id_index;
use context::ddl::{index_spec, names, system_views, timeseries};
use context::read::listing::Listing;
use context::read::stats::to_signed;
use model::{Array, Doc, DocBuf, MongoError, Namespace, Result, Tag, Value, bail, code};
use operation::{Progress, split_set_aside};
use request::Outcome;
use request::args::{Kind, arg, wrong_type};
use request::spec::{Privilege, flag};
use state::cursors::{BatchLimit, CursorInfo};
use std::cell::Cell;
use std::sync::Arc;
use store::{CatalogWriter, Collection, Index, IndexBuild, ReadView, Transaction};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "createIndexes",
        "builds indexes",
        Privilege::Collection(&[auth::Action::CreateIndex]),
        flag::API_V1
            | flag::WRITE_CONCERN
            | flag::WRITE
            | flag::LONG
            | flag::IN_TRANSACTION
            | flag::RESUMABLE,
        &[
            arg("indexes", Kind::Array).required(),
            arg("ignoreUnknownIndexOptions", Kind::Bool),
            arg(
                "commitQuorum",
                Kind::OneOf(&[
                    Tag::STRING,
                    Tag::INT64,
                    Tag::INT32,
                    Tag::DECIMAL128,
                    Tag::DOUBLE,
                ]),
            ),
            arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
        ],
        create,
    )
    .value(Kind::Collection),
    Command::new(
        "listIndexes",
        "indexes of a collection",
        Privilege::Collection(&[auth::Action::ListIndexes]),
        flag::API_V1,
        &[
            arg("cursor", Kind::Object),
            arg("includeBuildUUIDs", Kind::BoolLike),
            arg("includeIndexBuildInfo", Kind::BoolLike),
        ],
        list,
    )
    .value(Kind::Any),
    Command::new(
        "dropIndexes",
        "drops indexes",
        Privilege::Collection(&[auth::Action::DropIndex]),
        flag::API_V1 | flag::WRITE_CONCERN | flag::WRITE | flag::RESUMABLE,
        &[
            arg(
                "index",
                Kind::OneOf(&[Tag::STRING, Tag::ARRAY, Tag::DOCUMENT]),
            )
            .required()
            .strict_null(),
            arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
        ],
        drop_indexes,
    )
    .aliases(&["deleteIndexes"])
    .value(Kind::Collection),
];

const INDEXES_MAX: usize = 64;
/// Interval in microseconds at which the log reports the progress of a build.
const PROGRESS_US: u64 = 10_000_000;

/// The number of indexes including `_id_`, which clustered collections and time series do not have.
fn count(c: &Collection) -> usize {
    let options = c.options();
    let default = match c.is_series() {
        true => timeseries::listed_index(c).is_some(),
        false => !options.doc().contains("clusteredIndex"),
    };
    c.indexes().len() + usize::from(default)
}

fn clamp_count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// The progress of a `createIndexes` over its runs.
struct CreateProgress {
    /// The number of indexes before the command, and whether it has created the collection.
    before: usize,
    created: bool,
    /// How many specifications are done, and the names of the indexes that were built.
    done: usize,
    built: Vec<String>,
    /// The index that is being built, and the time of its start in monotonic microseconds.
    building: Option<IndexBuild>,
    began_us: Option<u64>,
    /// The error of a failed index: the other new indexes have to be removed.
    failed: Option<MongoError>,
}

impl CreateProgress {
    fn new(before: usize, created: bool) -> CreateProgress {
        CreateProgress {
            before,
            created,
            done: 0,
            built: Vec::new(),
            building: None,
            began_us: None,
            failed: None,
        }
    }
}

fn create(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::read_collection(cx)?;
    names::check_may_create(&ns)?;
    let documents = cx.args.documents("createIndexes", "indexes")?;
    if documents.is_empty() {
        bail!(code::BAD_VALUE, "Must specify at least one index to create");
    }
    let there = cx.collection(&ns)?;
    if there.as_ref().is_some_and(|c| c.is_view()) {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Cannot create indexes on view {ns}"
        );
    }
    let options = there
        .as_ref()
        .map_or_else(DocBuf::new, |c| c.options().as_ref().clone());
    let wanted = check_specs(cx, documents, there.is_some(), options.doc())?;
    let (c, created) = match there {
        Some(c) => (c, false),
        None => {
            let (uuid, made_in) = (new_uuid(), cx.transaction.as_deref());
            (
                cx.service
                    .create(&cx.operation, &ns, DocBuf::new(), uuid, made_in)?,
                true,
            )
        }
    };
    let mut made = match cx.progress.take::<CreateProgress>() {
        Some(made) => made,
        None => {
            let (before, missing) = (count(&c), count_missing(&c, &wanted)?);
            if before + missing > INDEXES_MAX {
                bail!(
                    code::CANNOT_CREATE_INDEX,
                    "add index fails, too many indexes for {ns}: {before} there, {missing} wanted, \
                        {INDEXES_MAX} allowed"
                );
            }
            CreateProgress::new(before, created)
        }
    };
    let (before, created) = (made.before, made.created);
    let none = match &cx.transaction {
        Some(t) => add(cx.service.store.writer(&cx.operation), &c, wanted, t)? == 0,
        None => {
            let result = build(cx, &c, wanted, &mut made);
            let (made, ()) = cx.progress.settle(made, result)?;
            cx.service.ttl.track(&c);
            made.built.is_empty()
        }
    };
    cx.reply
        .put("numIndexesBefore", clamp_count(before))
        .put("numIndexesAfter", clamp_count(count(&c)));
    cx.reply.put("createdCollectionAutomatically", created);
    if none {
        cx.reply.put("note", "all indexes already exist");
    }
    Ok(Outcome::Reply)
}

/// The complete and checked specifications of a `createIndexes`.
fn check_specs(
    cx: &Ctx<'_, '_>,
    documents: Vec<Doc<'_>>,
    there: bool,
    options: Doc<'_>,
) -> Result<Vec<DocBuf>> {
    let ignore = cx.args.bool("ignoreUnknownIndexOptions", false);
    let mut wanted: Vec<DocBuf> = Vec::new();
    for d in documents {
        let Some(spec) = index_spec::check(d, options, ignore)? else {
            continue;
        };
        if spec.doc().field("clustered").truthy() {
            check_clustered(there, options, spec.doc())?;
        }
        if let Some(f) = spec.doc().field("partialFilterExpression").as_doc() {
            cx.service.matcher(f)?;
        }
        if is_own_index(options, spec.doc())? {
            continue;
        }
        let mut twice = false;
        for other in &wanted {
            twice |= index_spec::conflicts(spec.doc(), other.doc())?;
        }
        if twice {
            bail!(
                code::INDEX_OPTIONS_CONFLICT,
                "Identical index already exists in the same command: {}",
                spec.doc()
            );
        }
        wanted.push(spec);
    }
    Ok(wanted)
}

/// True for the index of metadata and time that is created together with a time-series collection.
///
/// # Errors
/// 85 IndexOptionsConflict, 86 IndexKeySpecsConflict for an index that conflicts with it.
fn is_own_index(options: Doc<'_>, spec: Doc<'_>) -> Result<bool> {
    timeseries::own_index(options).map_or(Ok(false), |own| index_spec::conflicts(spec, own.doc()))
}

/// Adds the missing indexes to a collection of the transaction; returns their number.
fn add(
    catalog: CatalogWriter<'_>,
    c: &Arc<Collection>,
    specs: Vec<DocBuf>,
    transaction: &Transaction,
) -> Result<usize> {
    let mut added = 0;
    for spec in specs {
        let wanted = spec.clone();
        let same = |old: Doc<'_>| index_spec::conflicts(wanted.doc(), old);
        let new = catalog.create_index_in(c, spec, &same, transaction)?;
        added += usize::from(new);
    }
    Ok(added)
}

/// A clustered index is created together with its collection; afterwards it may only be specified
/// again unchanged.
fn check_clustered(there: bool, options: Doc<'_>, spec: Doc<'_>) -> Result<()> {
    if !there {
        bail!(
            6_100_900,
            "Cannot implicitly create a new collection with createIndex 'clustered' option"
        );
    }
    let of_id = spec
        .field("key")
        .as_doc()
        .is_some_and(index_spec::is_id_key);
    if !of_id || !options.contains("clusteredIndex") {
        bail!(
            6_243_700,
            "Cannot create index with option 'clustered' on a collection that exists: {spec}"
        );
    }
    Ok(())
}

/// How many of `wanted` neither exist nor are being built.
fn count_missing(c: &Collection, wanted: &[DocBuf]) -> Result<usize> {
    let indexes = c.indexes();
    let mut missing = 0;
    for spec in wanted {
        let mut there = false;
        for old in indexes.iter() {
            there |= index_spec::conflicts(spec.doc(), old.spec())?;
        }
        missing += usize::from(!there);
    }
    Ok(missing)
}

/// Builds the missing indexes, all or none. It waits for an index that another command is building,
/// which only counts as existing if that build succeeds.
fn build(
    cx: &Ctx<'_, '_>,
    c: &Arc<Collection>,
    specs: Vec<DocBuf>,
    made: &mut CreateProgress,
) -> Result<()> {
    for spec in specs.into_iter().skip(made.done) {
        if made.failed.is_some() {
            break;
        }
        let name = spec.doc().field("name").as_str().unwrap_or("").to_owned();
        let result = split_set_aside(build_one(cx, c, spec, made))?;
        (made.began_us, made.done) = (None, made.done + 1);
        match result {
            Ok(true) => made.built.push(name),
            Ok(false) => {}
            Err(e) => made.failed = Some(e),
        }
    }
    let Some(e) = made.failed.clone() else {
        return Ok(());
    };
    while let Some(name) = made.built.last() {
        // The next run drops the remaining ones.
        cx.operation.writes().checkpoint();
        let c = cx.service.store.renew(c)?;
        c.writer(&cx.operation).drop_index(name)?;
        made.built.pop();
    }
    Err(e)
}

/// Reports the progress of an index build: always to the operation, and at intervals to the log.
fn tell_progress(cx: &Ctx<'_, '_>, c: &Collection, name: &str, told_us: &Cell<u64>) {
    let indexes = c.indexes();
    let Some(index) = indexes.iter().find(|i| i.name() == name) else {
        return;
    };
    let done = index.documents_read();
    let progress = Progress {
        message: "Index Build: scanning collection",
        done,
        total: c.count().max(done),
    };
    cx.operation.set_progress(Some(progress));
    let now_us = cx.service.clock.monotonic_us();
    if now_us.saturating_sub(told_us.get()) >= PROGRESS_US {
        told_us.set(now_us);
        let service = cx.service;
        service.index_goes_on(cx.operation.connection(), c.ns(), index.spec(), &progress);
    }
}

/// Builds one index; false when it already existed.
fn build_one(
    cx: &Ctx<'_, '_>,
    c: &Arc<Collection>,
    spec: DocBuf,
    made: &mut CreateProgress,
) -> Result<bool> {
    let (service, wanted) = (cx.service, spec.clone());
    let same = |old: Doc<'_>| index_spec::conflicts(wanted.doc(), old);
    let other = |i: &Arc<Index>| matches!(same(i.spec()), Ok(false));
    // The start is logged once, even when the command is run several times.
    if made.began_us.is_none() && c.indexes().iter().all(other) {
        service.index_starts(cx.operation.connection(), c.ns(), wanted.doc());
        made.began_us = Some(service.clock.monotonic_us());
    }
    let name = wanted.doc().field("name").as_str().unwrap_or_default();
    let told_us = Cell::new(service.clock.monotonic_us());
    let go_on = || {
        tell_progress(cx, c, name, &told_us);
        cx.operation.check()
    };
    let on_progress = || cx.operation.writes().checkpoint();
    let writer = c.writer(&cx.operation);
    let building = &mut made.building;
    let result = writer.create_index_with_progress(spec, &same, building, &on_progress, &go_on);
    cx.operation.set_progress(None);
    let result = split_set_aside(result)?;
    if let Some(began_us) = made.began_us
        && !matches!(&result, Ok(false))
    {
        let took_ms = to_signed(service.clock.monotonic_us().saturating_sub(began_us) / 1000);
        let told = result.as_ref().map(|_| ());
        service.log_index_end(
            cx.operation.connection(),
            c.ns(),
            wanted.doc(),
            took_ms,
            told,
        );
    }
    result
}

/// The collection of a `listIndexes`, by name or UUID.
fn resolve_collection(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    match cx.value() {
        Value::String(s) => Namespace::new(cx.db, s),
        v => {
            let wanted = request::generic::uuid(&v).map_err(|_| {
                MongoError::new(
                    code::INVALID_NAMESPACE,
                    "collection name has invalid type, expected a string or a UUID",
                )
            })?;
            let entry = cx
                .service
                .store
                .list_collections(cx.db)?
                .into_iter()
                .find(|e| e.row.uuid == wanted);
            let entry = entry.ok_or_else(|| {
                MongoError::new(
                    code::NAMESPACE_NOT_FOUND,
                    "Unable to resolve the UUID to a collection",
                )
            })?;
            Namespace::new(cx.db, &entry.name)
        }
    }
}

fn list(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::of_buckets(cx.service, resolve_collection(cx)?)?;
    names::refuse_raw(cx, &ns)?;
    let size = batch_size(cx)?;
    if system_views::is_there(cx.service, &ReadView::LATEST, &ns)? {
        let specs = vec![id_index(Doc::EMPTY)];
        return answer(cx, &ns, specs, size);
    }
    let c = names::find_collection(cx, &ns).map_err(|_| {
        MongoError::new(
            code::NAMESPACE_NOT_FOUND,
            format!("ns does not exist: {ns}"),
        )
    })?;
    if c.is_view() {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        );
    }
    if cx.args.bool("includeBuildUUIDs", false) && cx.args.bool("includeIndexBuildInfo", false) {
        bail!(
            code::INVALID_OPTIONS,
            "includeBuildUUIDs and includeIndexBuildInfo cannot both be set to true"
        );
    }
    let options = c.options();
    let mut specs = Vec::new();
    match options.doc().field("clusteredIndex") {
        Value::Document(d) => {
            let mut d = d.to_buf();
            d.put("clustered", true);
            specs.push(d);
        }
        // MongoDB creates this collection without `_id_`.
        _ if ns.coll() == "system.profile" => {}
        _ if names::is_timeseries(&c) => specs.extend(timeseries::listed_index(&c)),
        _ => specs.push(id_index(options.doc())),
    }
    specs.extend(
        c.indexes()
            .iter()
            .filter(|i| i.is_ready())
            .map(|i| index_spec::listed_spec(i.spec())),
    );
    if cx.args.bool("includeIndexBuildInfo", false) {
        specs = specs.iter().map(|s| model::doc! { "spec": s }).collect();
    }
    answer(cx, &ns, specs, size)
}

fn answer(
    cx: &mut Ctx<'_, '_>,
    ns: &Namespace,
    specs: Vec<DocBuf>,
    size: Option<i64>,
) -> Result<Outcome> {
    let info = CursorInfo {
        ns: ns.to_string(),
        ..cx.cursor_info()
    };
    cx.first_batch(
        Box::new(Listing::new(specs)),
        info,
        BatchLimit::of(size),
        false,
    )?;
    Ok(Outcome::Reply)
}

fn drop_indexes(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::of_buckets(cx.service, names::read_collection(cx)?)?;
    let c = names::find_non_view(cx, &ns)?;
    let before = count(&c);
    let chosen = select_indexes(&c, cx.args.value("index"))?;
    let all = matches!(cx.args.value("index"), Value::String("*"));
    for index in &chosen {
        let c = cx.service.store.renew(&c)?;
        c.writer(&cx.operation).drop_index(index.name())?;
    }
    let names: Vec<&str> = chosen.iter().map(|i| i.name()).collect();
    cx.service
        .log_dropped_indexes(cx.operation.connection(), &ns, &names);
    let why = MongoError::new(code::QUERY_PLAN_KILLED, format!("index dropped on {ns}"));
    if !chosen.is_empty() {
        cx.service
            .cursors
            .invalidate(ns.db(), Some(ns.coll()), &why);
    }
    cx.reply.put("nIndexesWas", clamp_count(before));
    if all {
        cx.reply
            .put("msg", "non-_id indexes dropped for collection");
    }
    Ok(Outcome::Reply)
}

fn select_indexes(c: &Collection, wanted: Value<'_>) -> Result<Vec<Arc<Index>>> {
    let indexes = c.indexes();
    let of_id = match wanted {
        Value::Document(key) => index_spec::is_id_key(key),
        Value::String(name) => name == "_id_",
        _ => false,
    };
    if of_id && c.options().doc().contains("clusteredIndex") {
        bail!(5979800, "It is illegal to drop the clusteredIndex");
    }
    match wanted {
        Value::String("*") => Ok(indexes.as_ref().clone()),
        Value::String(name) => find_by_name(&indexes, name).map(|i| vec![i]),
        Value::Document(key) => find_by_key(&indexes, key).map(|i| vec![i]),
        Value::Array(names) => several(&indexes, names),
        v => Err(wrong_type(
            "dropIndexes.index",
            &v,
            &[Tag::STRING, Tag::ARRAY, Tag::DOCUMENT],
        )),
    }
}

fn several(indexes: &[Arc<Index>], names: Array<'_>) -> Result<Vec<Arc<Index>>> {
    let mut out: Vec<Arc<Index>> = Vec::new();
    for v in names.iter() {
        let name = v
            .as_str()
            .ok_or_else(|| wrong_type("dropIndexes.index", &v, &[Tag::STRING]))?;
        if name == "*" {
            if names.len() == 1 {
                return Ok(indexes.to_vec());
            }
            bail!(code::INDEX_NOT_FOUND, "index not found with name [*]");
        }
        let found = find_by_name(indexes, name)?;
        if out.iter().any(|o| o.name() == found.name()) {
            bail!(
                code::INDEX_NOT_FOUND,
                "index not found with name [{name}], which is given twice"
            );
        }
        out.push(found);
    }
    Ok(out)
}

fn find_by_name(indexes: &[Arc<Index>], name: &str) -> Result<Arc<Index>> {
    if name == "_id_" {
        bail!(code::INVALID_OPTIONS, "cannot drop _id index");
    }
    let found = indexes.iter().find(|i| i.name() == name).cloned();
    found.ok_or_else(|| {
        MongoError::new(
            code::INDEX_NOT_FOUND,
            format!("index not found with name [{name}]"),
        )
    })
}

fn find_by_key(indexes: &[Arc<Index>], key: Doc<'_>) -> Result<Arc<Index>> {
    if index_spec::is_id_key(key) {
        bail!(code::INVALID_OPTIONS, "cannot drop _id index");
    }
    let mut found = indexes
        .iter()
        .filter(|i| index_spec::same_key(i.key_pattern(), key));
    match (found.next(), found.next()) {
        (None, _) => bail!(code::INDEX_NOT_FOUND, "can't find index with key: {key}"),
        (Some(_), Some(_)) => bail!(
            181,
            "{} indexes found for key: {key}, identify by name instead",
            2 + found.count()
        ),
        (Some(one), None) => Ok(one.clone()),
    }
}
