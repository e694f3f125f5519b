//! `convertToCapped` and `cloneCollectionAsCapped`.

use access::uuid::new_uuid;
use auth::Action::{ConvertToCapped, CreateIndex, Find, Insert};
use context::command::Command;
use context::ctx::Ctx;
use context::ddl::{names, system_views};
use model::{Doc, DocBuf, MongoError, Namespace, Result, Tag, Value, bail, code};
use request::Outcome;
use request::args::{Args, Kind, arg, collection_name, show, to_i64, wrong_type};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};
use std::sync::Arc;
use store::{Collection, ReadView, Writer};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "convertToCapped",
        "makes a collection capped; its indexes go",
        Privilege::Collection(&[ConvertToCapped]),
        flag::WRITE_CONCERN | flag::WRITE | flag::LONG | flag::LENIENT | flag::RESUMABLE,
        &[arg("size", Kind::Any), arg("collectionUUID", Kind::Any)],
        convert,
    )
    .value(Kind::Collection),
    Command::new(
        "cloneCollectionAsCapped",
        "copies a collection into a new capped one",
        Privilege::Asked(needs_of_clone),
        flag::WRITE_CONCERN | flag::WRITE | flag::LONG | flag::LENIENT | flag::RESUMABLE,
        &[
            arg("toCollection", Kind::Any),
            arg("size", Kind::Any),
            arg("temp", Kind::Any),
        ],
        clone,
    ),
];

const BYTES_MAX: i64 = 1 << 50;

fn options(size: i64) -> DocBuf {
    model::doc! { "capped": true, "size": size }
}

fn convert(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::read_collection(cx)?;
    // MongoDB parses the size by hand: a wrong type gets the same error as a size of zero.
    let size = to_i64(&cx.args.value("size")).unwrap_or(0);
    if size < 1 {
        bail!(
            code::INVALID_OPTIONS,
            "Capped collection size must be greater than zero, given {}",
            show(&cx.args.value("size"))
        );
    }
    if size > BYTES_MAX {
        bail!(
            code::BAD_VALUE,
            "Capped collection size must be 1 to {BYTES_MAX} bytes, given {}",
            show(&cx.args.value("size"))
        );
    }
    if ns.coll().starts_with("system.buckets.") {
        bail!(
            code::ILLEGAL_OPERATION,
            "Cannot convert a time-series buckets collection to capped: {ns}"
        );
    }
    if system_views::is_there(cx.service, &ReadView::LATEST, &ns)? {
        bail!(
            code::BAD_VALUE,
            "Cannot convert a system collection to capped: {ns}"
        );
    }
    let c = names::find_non_view(cx, &ns)?;
    if names::is_timeseries(&c) {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Cannot convert a time-series collection to capped: {ns}"
        );
    }
    for index in c.indexes().iter() {
        let c = cx.service.store.renew(&c)?;
        c.writer(&cx.operation).drop_index(index.name())?;
        // When the command is run again there is one index less.
        cx.operation.writes().checkpoint();
    }
    let mut new = options(size);
    let old = c.options();
    for name in [
        "validator",
        "validationLevel",
        "validationAction",
        "collation",
    ] {
        new.put(name, old.doc().field(name));
    }
    let command = model::doc! { "convertToCapped": ns.coll(), "size": size };
    let c = cx.service.store.renew(&c)?;
    c.writer(&cx.operation).set_options(new, Some(command))?;
    let c = cx.service.store.renew(&c)?;
    c.writer(&cx.operation).trim()?;
    cx.service.forget(
        &ns,
        &MongoError::new(
            code::QUERY_PLAN_KILLED,
            format!("collection converted to capped: {ns}"),
        ),
    );
    Ok(Outcome::Reply)
}

/// The name of a collection in an argument.
fn string<'a>(v: &Value<'a>, argument: &str) -> Result<&'a str> {
    if !matches!(v, Value::String(_)) {
        return Err(wrong_type(
            &format!("cloneCollectionAsCapped.{argument}"),
            v,
            &[Tag::STRING],
        ));
    }
    collection_name(v)
}

/// The names in `cloneCollectionAsCapped`: of the source and of the copy.
fn parse_clone_names(db: &str, from: Value<'_>, args: &Args<'_>) -> Result<(Namespace, Namespace)> {
    let from = Namespace::new(db, string(&from, "cloneCollectionAsCapped")?)?;
    let to = string(&args.value("toCollection"), "toCollection")?;
    Ok((from, Namespace::new(db, to)?))
}

fn needs_of_clone(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let (from, to) = parse_clone_names(asked.db, asked.value, asked.args)?;
    asked.needs_at(&from, &[Find])?;
    asked.needs_at(&to, &[Insert, CreateIndex, ConvertToCapped])
}

fn clone(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let (from, to) = parse_clone_names(cx.db, cx.value(), &cx.args)?;
    if from.coll().contains('$') {
        bail!(
            code::INVALID_NAMESPACE,
            "Invalid source collection name: {}",
            from.coll()
        );
    }
    names::check_may_create(&to)?;
    let size = to_i64(&cx.args.value("size")).unwrap_or(0);
    if size < 1 {
        bail!(
            code::INVALID_OPTIONS,
            "Capped collection size must be greater than zero, given {}",
            show(&cx.args.value("size"))
        );
    }
    if to.coll().starts_with("system.buckets.") {
        bail!(
            code::ILLEGAL_OPERATION,
            "a time-series buckets collection cannot be the target: {to}"
        );
    }
    let source = cx.service.store.collection(&from)?;
    if source
        .as_ref()
        .is_some_and(|c| c.is_view() || names::is_timeseries(c))
    {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "cloneCollectionAsCapped not supported for views: {from}"
        );
    }
    let source = source.ok_or_else(|| {
        MongoError::new(
            code::NAMESPACE_NOT_FOUND,
            format!("source collection {from} does not exist"),
        )
    })?;
    if size > BYTES_MAX {
        bail!(
            code::BAD_VALUE,
            "Capped collection size must be at most {BYTES_MAX} bytes, given {}",
            show(&cx.args.value("size"))
        );
    }
    if let Some(there) = cx.service.store.collection(&to)? {
        if there.is_view() {
            bail!(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "cloneCollectionAsCapped not supported for views: {to}"
            );
        }
        bail!(
            code::NAMESPACE_EXISTS,
            "cloneCollectionAsCapped failed - destination collection {to} already exists. source \
                collection: {from}"
        );
    }
    let target =
        cx.service
            .store
            .writer(&cx.operation)
            .create_collection(&to, options(size), new_uuid())?;
    // Beside other servers the counts that the handle keeps may be old.
    cx.read_view()?.0.count_of(&source)?;
    copy(&source, target.writer(&cx.operation), size, &|| {
        cx.operation.check()
    })?;
    Ok(Outcome::Reply)
}

/// Copies as many of the newest documents as fit.
fn copy(
    from: &Arc<Collection>,
    to: Writer<'_>,
    size: i64,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let mut excess = i64::try_from(from.size_bytes())
        .unwrap_or(i64::MAX)
        .saturating_sub(size);
    let mut scan = from.scan(&ReadView::LATEST, false);
    loop {
        go_on()?;
        let mut batch: Vec<DocBuf> = Vec::new();
        let more = scan.visit(256, &mut |row| {
            if excess > 0 {
                excess -= i64::try_from(row.doc.len_bytes()).unwrap_or(i64::MAX);
            } else {
                batch.push(row.doc.to_buf());
            }
            true
        })?;
        let docs: Vec<Doc<'_>> = batch.iter().map(DocBuf::doc).collect();
        if let Some((_, e)) = to.insert(&docs, true)?.errors.into_iter().next() {
            return Err(e);
        }
        if !more {
            return Ok(());
        }
    }
}
