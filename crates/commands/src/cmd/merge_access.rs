//! `_mergeAuthzCollections`: mongorestore uses it to load users and roles from collections that it
//! has filled before.

use access::{ROLES, USERS};
use auth::Action::{CreateRole, CreateUser, DropRole, DropUser, Find, GrantRole, RevokeRole};
use auth::{StoredRole, Target, role_list};
use context::command::Command;
use context::ctx::Ctx;
use model::{Array, Doc, DocBuf, Namespace, Result, bail, code};
use request::Outcome;
use request::args::{Args, Kind, arg};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};
use std::collections::BTreeSet;
use store::ReadView;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "_mergeAuthzCollections",
    "takes users and roles over from other collections",
    Privilege::Asked(needs),
    flag::ADMIN | flag::WRITE | flag::WRITE_CONCERN,
    &[
        arg("tempUsersCollection", Kind::Str),
        arg("tempRolesCollection", Kind::Str),
        arg("db", Kind::Str).required(),
        arg("drop", Kind::Bool),
    ],
    run,
)];

/// The collection in an argument; an empty name means none.
fn source(args: &Args<'_>, argument: &str) -> Result<Option<Namespace>> {
    let name = args.str(argument).filter(|n| !n.is_empty());
    name.map(Namespace::parse).transpose()
}

/// Needs all rights on users and roles, because the loaded documents may contain anything.
fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let all = [
        CreateUser, CreateRole, GrantRole, DropUser, DropRole, RevokeRole,
    ];
    asked.needs(Target::AnyNormal, &all)?;
    for argument in ["tempUsersCollection", "tempRolesCollection"] {
        if let Some(ns) = source(asked.args, argument)? {
            asked.needs_at(&ns, &[Find])?;
        }
    }
    Ok(())
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let users = source(&cx.args, "tempUsersCollection")?;
    let roles = source(&cx.args, "tempRolesCollection")?;
    if users.is_none() && roles.is_none() {
        bail!(
            code::BAD_VALUE,
            "Must provide at least one of \"tempUsersCollection\" and \"tempRolesCollection\""
        );
    }
    if let Some(from) = users {
        merge(cx, &from, "user")?;
    }
    if let Some(from) = roles {
        merge(cx, &from, "role")?;
    }
    cx.service.access.note_format(&cx.operation)?;
    cx.service.access.note_change()?;
    Ok(Outcome::Reply)
}

/// Checks the document of a user or role, so that an error appears here instead of at a login.
fn check(field: &str, doc: Doc<'_>) -> Result<()> {
    let db = doc.field("db").as_str().unwrap_or("");
    let (name, id) = (doc.field(field).as_str(), doc.field("_id").as_str());
    if name.is_none_or(|n| id != Some(format!("{db}.{n}").as_str())) {
        bail!(
            code::BAD_VALUE,
            "the document of a {field} needs '{field}', 'db' and an '_id' made of both, given {}",
            doc.field("_id")
        );
    }
    if field == "role" {
        return StoredRole::of_doc(doc).map(|_| ());
    }
    role_list(doc.field("roles").as_array().unwrap_or(Array::EMPTY), db).map(|_| ())
}

fn merge(cx: &Ctx<'_, '_>, from: &Namespace, field: &str) -> Result<()> {
    let kept = if field == "user" { USERS } else { ROLES };
    let store = &cx.service.access.writer(&cx.operation);
    let only = cx.args.str("db").filter(|db| !db.is_empty());
    let wanted = |d: Doc<'_>| only.is_none_or(|db| d.field("db").as_str() == Some(db));
    let mut given: Vec<DocBuf> = Vec::new();
    if let Some(coll) = store.collection(from)? {
        let mut scan = coll.scan_keys(&ReadView::LATEST, None, None, false);
        while scan.visit(64, &mut |row| {
            given.push(row.doc.to_buf());
            true
        })? {}
    }
    given.retain(|d| wanted(d.doc()));
    let mut ids = BTreeSet::new();
    let drop = cx.args.bool("drop", false);
    for doc in &given {
        check(field, doc.doc())?;
        let id = doc.doc().field("_id").as_str().unwrap_or("").to_owned();
        // Without `drop`, existing users and roles stay unchanged: mongorestore only inserts.
        if !drop || !kept.change(store, &id, &mut |_| Ok(Some(doc.clone())))? {
            kept.add(store, doc.doc())?;
        }
        ids.insert(id);
    }
    if drop {
        for doc in kept.read_all(store)?.iter().filter(|d| wanted(d.doc())) {
            let id = doc.doc().field("_id").as_str().unwrap_or("");
            if !ids.contains(id) {
                kept.change(store, id, &mut |_| Ok(None))?;
            }
        }
    }
    Ok(())
}
