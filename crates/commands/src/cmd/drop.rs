//! `drop`, `dropDatabase`, `renameCollection`.

use auth::{Action, Target};
use context::command::Command;
use context::ctx::Ctx;
use context::ddl::identity::check_uuid;
use context::ddl::{names, system_views};
use model::{MongoError, Namespace, Result, Tag, Value, bail, code};
use request::Outcome;
use request::args::{Args, Kind, arg, wrong_type};
use request::asked::RightsRequest;
use request::generic;
use request::spec::{Privilege, flag};
use store::ReadView;

const WRITES: u32 = flag::WRITE_CONCERN | flag::WRITE | flag::RESUMABLE;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "drop",
        "drops a collection or view",
        Privilege::Collection(&[Action::DropCollection]),
        flag::API_V1 | WRITES,
        &[
            arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
            arg("encryptedFields", Kind::Object),
        ],
        drop_collection,
    )
    .value(Kind::Collection),
    Command::new(
        "dropDatabase",
        "drops a database",
        Privilege::Database(&[Action::DropDatabase]),
        flag::API_V1 | WRITES,
        &[],
        drop_database,
    )
    .value(Kind::Number),
    Command::new(
        "renameCollection",
        "renames a collection",
        Privilege::Asked(needs_of_rename),
        flag::ADMIN | WRITES,
        &[
            arg("to", Kind::Str).required(),
            arg("dropTarget", Kind::OneOf(&[Tag::BOOL, Tag::BINARY])).strict_null(),
            arg("stayTemp", Kind::Bool),
            arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
        ],
        rename,
    )
    .value(Kind::Str),
];

/// Within a database a rename needs one right, unless it would make documents readable that were
/// not before; any other rename needs the rights of a copy and a drop.
fn needs_of_rename(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let (from, to) = parse_names(asked.value, asked.args)?;
    let drops = asked.args.value("dropTarget").truthy();
    rename_needs(asked, &from, &to, drops)
}

/// Checks the rights to rename a collection. With `drops`, an existing target is dropped.
pub(crate) fn rename_needs(
    asked: &RightsRequest<'_, '_>,
    from: &Namespace,
    to: &Namespace,
    drops: bool,
) -> Result<()> {
    let on = |ns: &Namespace, actions: &[Action]| {
        asked.may(Target::Collection(ns.db(), ns.coll()), actions)
    };
    let within = from.db() == to.db()
        && !from.is_system()
        && !to.is_system()
        && asked.may(
            Target::Database(from.db()),
            &[Action::RenameCollectionSameDb],
        )
        && (on(from, &[Action::Find]) || !on(to, &[Action::Find]));
    let copies = on(from, &[Action::Find, Action::DropCollection])
        && on(
            to,
            &[Action::Insert, Action::CreateIndex, Action::ConvertToCapped],
        );
    let dropped = !drops || on(to, &[Action::DropCollection]);
    asked.require(dropped && (within || copies))
}

/// The names in `renameCollection`.
///
/// # Errors
/// 20 IllegalOperation for a '$' in one of them, 73 InvalidNamespace.
fn parse_names(from: Value<'_>, args: &Args<'_>) -> Result<(Namespace, Namespace)> {
    let (from, to) = (from.as_str().unwrap_or(""), args.str("to").unwrap_or(""));
    if let Some(name) = [from, to].iter().find(|name| name.contains('$')) {
        bail!(
            code::ILLEGAL_OPERATION,
            "renaming from or to a namespace with a '$' is not allowed: {name}"
        );
    }
    Ok((Namespace::parse(from)?, Namespace::parse(to)?))
}

fn killed_error(what: &str) -> MongoError {
    MongoError::new(code::QUERY_PLAN_KILLED, what)
}

fn drop_collection(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let named = names::read_collection(cx)?;
    // The name of buckets refers to their collection.
    let ns = names::of_buckets(cx.service, named.clone())?;
    let there = cx.service.store.collection(&ns)?;
    check_uuid(cx, &ns, there.as_ref().map(|c| c.uuid()))?;
    if there.is_some_and(|c| c.is_log()) {
        bail!(
            code::ILLEGAL_OPERATION,
            "can't drop live oplog while replicating"
        );
    }
    let (profile, _) = cx.service.state.profile.of(cx.db);
    if ns.coll() == "system.profile" && profile.level > 0 {
        bail!(
            code::ILLEGAL_OPERATION,
            "turn off profiling before dropping system.profile collection"
        );
    }
    if system_views::is_there(cx.service, &ReadView::LATEST, &ns)? {
        return drop_views(cx, &ns);
    }
    if let Some(indexes) = cx
        .service
        .store
        .writer(&cx.operation)
        .drop_collection(&ns)?
    {
        cx.service.log_dropped(cx.operation.connection(), &ns);
        cx.service
            .forget(&ns, &killed_error(&format!("collection dropped: {ns}")));
        let shown = i32::try_from(indexes).unwrap_or(i32::MAX);
        if shown > 0 {
            cx.reply.put("nIndexesWas", shown);
        }
        cx.reply.put("ns", named.to_string().as_str());
    }
    Ok(Outcome::Reply)
}

/// Drops `system.views`, that is, all views of the database.
///
/// # Errors
/// 20 IllegalOperation if the database also has a time series, because its measurements would be
/// lost.
fn drop_views(cx: &mut Ctx<'_, '_>, named: &Namespace) -> Result<Outcome> {
    let mut views = cx.service.store.list_collections(named.db())?;
    views.retain(|e| names::is_view_row(&e.row));
    if let Some(e) = views
        .iter()
        .find(|e| e.row.options.doc().contains("timeseries"))
    {
        bail!(
            code::ILLEGAL_OPERATION,
            "cannot drop {named}: it defines the time series '{}', which is dropped by its name",
            e.name
        );
    }
    for e in &views {
        let ns = Namespace::new(named.db(), &e.name)?;
        cx.service
            .store
            .writer(&cx.operation)
            .drop_collection(&ns)?;
        cx.service.log_dropped(cx.operation.connection(), &ns);
        cx.service
            .forget(&ns, &killed_error(&format!("collection dropped: {ns}")));
        cx.operation.writes().checkpoint();
    }
    cx.reply
        .put("nIndexesWas", 1i32)
        .put("ns", named.to_string().as_str());
    Ok(Outcome::Reply)
}

fn drop_database(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    if cx.value().as_i64_exact() != Some(1) {
        bail!(
            5_255_100,
            "Expected 1 as the value of dropDatabase, given {}",
            request::args::show(&cx.value())
        );
    }
    if matches!(cx.db, "admin" | "config" | "local") {
        bail!(
            code::ILLEGAL_OPERATION,
            "Dropping the '{}' database is prohibited",
            cx.db
        );
    }
    if !cx.request.waited {
        cx.service
            .drops_database(cx.operation.connection(), cx.db, None);
    }
    let mut dropped = cx.progress.take_or_default::<usize>();
    let result = drop_all(cx, &mut dropped);
    let (dropped, ()) = cx.progress.settle(dropped, result)?;
    cx.service
        .drops_database(cx.operation.connection(), cx.db, Some(dropped));
    Ok(Outcome::Reply)
}

/// Drops the collections of the database and adds their number to `dropped`.
fn drop_all(cx: &Ctx<'_, '_>, dropped: &mut usize) -> Result<()> {
    for e in cx.service.store.list_collections(cx.db)? {
        let ns = Namespace::new(cx.db, &e.name)?;
        cx.service
            .store
            .writer(&cx.operation)
            .drop_collection(&ns)?;
        cx.service.audit_dropped(cx.operation.connection(), &ns);
        cx.service
            .forget(&ns, &killed_error(&format!("database dropped: {}", cx.db)));
        *dropped += 1;
        cx.operation.writes().checkpoint();
    }
    if *dropped > 0 {
        cx.service
            .store
            .writer(&cx.operation)
            .note_database_dropped(cx.db)?;
    }
    Ok(())
}

fn rename(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let (from, to) = parse_names(cx.value(), &cx.args)?;
    let drop_target = drop_target(cx, &from, &to)?;
    for ns in [&from, &to] {
        if ns.is_system() && ns.coll() != "system.js" || ns.db() == "local" {
            bail!(
                code::ILLEGAL_OPERATION,
                "renaming system collections is not allowed: {ns}"
            );
        }
    }
    names::check_may_create(&to)?;
    if from == to {
        bail!(
            code::ILLEGAL_OPERATION,
            "Can't rename a collection to itself: {from}"
        );
    }
    if from.db() != to.db() && from.db().eq_ignore_ascii_case(to.db()) {
        bail!(
            13_297,
            "db already exists with different case, already have: [{}] trying to create [{}]",
            from.db(),
            to.db()
        );
    }
    let source = cx.service.store.collection(&from)?.ok_or_else(|| {
        MongoError::new(
            code::NAMESPACE_NOT_FOUND,
            format!("Source collection {from} does not exist"),
        )
    })?;
    check_uuid(cx, &from, Some(source.uuid()))?;
    if source.is_view() || names::is_timeseries(&source) {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "cannot rename view or time-series collection: {from}"
        );
    }
    if let Some(target) = cx.service.store.collection(&to)?
        && (target.is_view() || names::is_timeseries(&target))
    {
        bail!(
            code::NAMESPACE_EXISTS,
            "a view or time-series collection already exists: {to}"
        );
    }
    cx.service
        .store
        .writer(&cx.operation)
        .rename_collection(&from, &to, drop_target)?;
    cx.service
        .log_renamed(cx.operation.connection(), &from, &to, drop_target);
    if let Some(c) = cx.service.store.collection(&to)? {
        cx.service.ttl.track(&c);
    }
    for ns in [&from, &to] {
        cx.service
            .forget(ns, &killed_error(&format!("collection renamed: {ns}")));
    }
    Ok(Outcome::Reply)
}

/// The value of `dropTarget`: true, false, or the identity of the collection that may be replaced.
fn drop_target(cx: &Ctx<'_, '_>, from: &Namespace, to: &Namespace) -> Result<bool> {
    match cx.args.value("dropTarget") {
        Value::Missing => Ok(false),
        Value::Bool(b) => Ok(b),
        v @ Value::Binary(b) => {
            if b.subtype != 4 {
                bail!(
                    code::INVALID_UUID,
                    "dropTarget must be a UUID of subtype 4, given subtype {}",
                    b.subtype
                );
            }
            let wanted = generic::uuid(&v)?;
            if from.db() != to.db() {
                bail!(
                    code::INVALID_OPTIONS,
                    "dropTarget as a UUID is not supported across databases"
                );
            }
            let there = cx.service.store.collection(to)?.map(|c| c.uuid());
            if there != Some(wanted) {
                return Err(MongoError::new(
                    361,
                    format!("dropTarget does not match the UUID of {to}"),
                ));
            }
            Ok(true)
        }
        v => Err(wrong_type(
            "renameCollection.dropTarget",
            &v,
            &[Tag::BOOL, Tag::BINARY],
        )),
    }
}
