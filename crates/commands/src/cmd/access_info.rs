//! Lists users and roles: `usersInfo`, `rolesInfo`, `connectionStatus`.

use crate::cmd::role::{roles_of, write_privileges, write_roles};
use access::{ROLES, USERS};
use auth::{
    Action, ResolvedRoles, Restrictions, RoleName, Target, UserName, builtin, builtin_of,
    parse_restrictions, privilege_list,
};
use context::command::Command;
use context::ctx::Ctx;
use model::{Array, Doc, DocBuf, DocWriter, Result, Value, bail, code};
use request::Outcome;
use request::args::{Arg, Kind, arg};
use request::asked::RightsRequest;
use request::spec::{Privilege as Row, flag};

static USERS_INFO: &[Arg] = &[
    arg("showPrivileges", Kind::Bool),
    arg("showCredentials", Kind::Bool),
    arg("showCustomData", Kind::Bool),
    arg("showAuthenticationRestrictions", Kind::Bool),
    arg("filter", Kind::Object),
];
static ROLES_INFO: &[Arg] = &[
    arg("showPrivileges", Kind::Any),
    arg("showBuiltinRoles", Kind::Bool),
    arg("showAuthenticationRestrictions", Kind::Bool),
];

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "usersInfo",
        "users that exist",
        Row::Asked(needs_of_users_info),
        flag::READ_CONCERN,
        USERS_INFO,
        users_info,
    ),
    Command::new(
        "rolesInfo",
        "roles that exist",
        Row::Asked(needs_of_roles_info),
        flag::READ_CONCERN,
        ROLES_INFO,
        roles_info,
    ),
    Command::new(
        "connectionStatus",
        "who is logged in on this connection",
        Row::Any,
        flag::NO_AUTH,
        &[arg("showPrivileges", Kind::BoolLike)],
        connection_status,
    ),
];

fn connection_status(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    // Show the current rights, which may have been changed since the login.
    cx.conn.identity.grants(&cx.service.access)?;
    let show = cx.args.bool("showPrivileges", false);
    let user = cx.conn.identity.user().cloned();
    let mut info = cx.reply.doc("authInfo");
    let mut users = info.array("authenticatedUsers");
    if let Some(user) = &user {
        user.name.write(&mut users.doc());
    }
    drop(users);
    let resolved = user.as_ref().map(|u| &u.resolved);
    write_roles(
        "authenticatedUserRoles",
        resolved.map_or(&[], |r| &r.roles),
        &mut info,
    );
    if show {
        let all = resolved.map_or(&[][..], |r| &r.privileges);
        write_privileges("authenticatedUserPrivileges", all, &mut info);
    }
    Ok(Outcome::Reply)
}

/// The users or roles that the value of a command's first field selects.
enum Selection<T> {
    /// Those of all databases.
    Everywhere,
    /// Those of this database.
    Here,
    /// The named ones.
    Named(Vec<T>),
}

fn select<T>(
    value: Value<'_>,
    everywhere: bool,
    parse: impl Fn(&Value<'_>) -> Result<T>,
) -> Result<Selection<T>> {
    match value {
        Value::Document(d) if everywhere && d.contains("forAllDBs") => {
            if d.count() != 1 || d.field("forAllDBs").as_bool() != Some(true) {
                bail!(
                    code::BAD_VALUE,
                    "'forAllDBs' must be the only field, and true"
                );
            }
            Ok(Selection::Everywhere)
        }
        Value::String(_) | Value::Document(_) => Ok(Selection::Named(vec![parse(&value)?])),
        Value::Array(list) => {
            let names = list.iter().map(|v| parse(&v)).collect::<Result<_>>()?;
            Ok(Selection::Named(names))
        }
        v if v.as_i64_exact() == Some(1) => Ok(Selection::Here),
        v => bail!(
            code::BAD_VALUE,
            "what to list must be 1, a name, a document, or an array of these, given {}",
            v.type_name()
        ),
    }
}

/// The restrictions of a document.
fn restrictions_of(doc: Doc<'_>) -> Result<Restrictions> {
    let list = doc.field("authenticationRestrictions").as_array();
    parse_restrictions(list.unwrap_or(Array::EMPTY))
}

/// Writes the resolved roles and privileges.
fn write_resolved(
    resolved: &ResolvedRoles,
    privileges: bool,
    restricted: bool,
    w: &mut DocWriter<'_>,
) {
    write_roles("inheritedRoles", &resolved.roles, w);
    if privileges {
        write_privileges("inheritedPrivileges", &resolved.privileges, w);
    }
    if restricted {
        let mut list = w.array("inheritedAuthenticationRestrictions");
        for r in &resolved.restrictions {
            let one = DocBuf::build(|w| r.write("r", w));
            list.push(one.doc().field("r"));
        }
    }
}

/// The users that `usersInfo` selects.
fn select_users(value: Value<'_>, db: &str) -> Result<Selection<UserName>> {
    select(value, true, |v| UserName::parse(v, db))
}

/// The roles that `rolesInfo` selects.
fn select_roles(value: Value<'_>, db: &str) -> Result<Selection<RoleName>> {
    select(value, false, |v| RoleName::parse(v, db))
}

/// Every user may read its own information.
fn needs_of_users_info(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let names = match select_users(asked.value, asked.db)? {
        Selection::Everywhere => return asked.needs(Target::Cluster, &[Action::ViewUser]),
        Selection::Here => return asked.needs(Target::Database(asked.db), &[Action::ViewUser]),
        Selection::Named(names) => names,
    };
    let own = asked.user.map(|u| &u.name);
    let others = names.iter().filter(|name| own != Some(*name));
    for name in others {
        asked.needs(Target::Database(&name.db), &[Action::ViewUser])?;
    }
    Ok(())
}

/// Every user may read the information of its own roles.
fn needs_of_roles_info(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let names = match select_roles(asked.value, asked.db)? {
        Selection::Named(names) => names,
        _ => return asked.needs(Target::Database(asked.db), &[Action::ViewRole]),
    };
    let own = asked.user.map_or(&[][..], |u| &u.resolved.roles);
    for name in names.iter().filter(|name| !own.contains(name)) {
        asked.needs(Target::Database(&name.db), &[Action::ViewRole])?;
    }
    Ok(())
}

fn users_info(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let access = &cx.service.access;
    let wanted = select_users(cx.value(), cx.db)?;
    let details = ["showPrivileges", "showAuthenticationRestrictions"];
    let details = details.iter().any(|name| cx.args.bool(name, false));
    if details && !matches!(wanted, Selection::Named(_)) {
        bail!(
            code::ILLEGAL_OPERATION,
            "Privilege or restriction details require exact-match usersInfo queries."
        );
    }
    let filter = cx
        .args
        .doc("filter")
        .map(|f| cx.service.matcher(f))
        .transpose()?;
    let found = match &wanted {
        Selection::Named(names) => {
            let mut found = Vec::new();
            for name in names {
                found.extend(access.user_doc(name)?);
            }
            found
        }
        _ => USERS.read_all(access.store())?,
    };
    let here = matches!(wanted, Selection::Here);
    let mut shown = Vec::new();
    for doc in &found {
        let d = doc.doc();
        if here && d.field("db").as_str() != Some(cx.db) {
            continue;
        }
        let one = show_user(cx, d)?;
        let now_ms = cx.now_ms();
        if filter
            .as_ref()
            .map_or(Ok(true), |f| f.matches(one.doc(), now_ms))?
        {
            shown.push(one);
        }
    }
    let mut list = cx.reply.array("users");
    for one in &shown {
        list.push(one);
    }
    Ok(Outcome::Reply)
}

fn show_user(cx: &Ctx<'_, '_>, doc: Doc<'_>) -> Result<DocBuf> {
    let shows = |name: &str, default| cx.args.bool(name, default);
    let privileges = shows("showPrivileges", false);
    let restricted = shows("showAuthenticationRestrictions", false);
    let resolved = match privileges || restricted {
        true => Some(cx.service.access.resolve(&roles_of(doc)?)?),
        false => None,
    };
    let own = restrictions_of(doc)?;
    Ok(DocBuf::build(|w| {
        for (name, value) in doc.iter() {
            match name {
                "credentials" if !shows("showCredentials", false) => {}
                "customData" if !shows("showCustomData", true) => {}
                "authenticationRestrictions" => {}
                _ => {
                    w.put(name, value);
                }
            }
        }
        let credentials = doc.field("credentials").as_doc().unwrap_or(Doc::EMPTY);
        let mut mechanisms = w.array("mechanisms");
        for (name, _) in credentials.iter() {
            mechanisms.push(name);
        }
        drop(mechanisms);
        if restricted {
            own.write("authenticationRestrictions", w);
        }
        if let Some(resolved) = &resolved {
            write_resolved(resolved, true, true, w);
        }
    }))
}

/// The format in which `rolesInfo` shows privileges.
#[derive(Clone, Copy, PartialEq)]
enum PrivilegeFormat {
    No,
    Yes,
    /// The authentication restrictions and privileges of a user with these roles.
    Fragment,
}

fn roles_info(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let show = match cx.args.value("showPrivileges") {
        Value::Missing => PrivilegeFormat::No,
        Value::Bool(b) => [PrivilegeFormat::No, PrivilegeFormat::Yes][usize::from(b)],
        Value::String("asUserFragment") => PrivilegeFormat::Fragment,
        v => bail!(
            code::FAILED_TO_PARSE,
            "showPrivileges must be true, false or \"asUserFragment\", given {}",
            request::args::show(&v)
        ),
    };
    let named = match select_roles(cx.value(), cx.db)? {
        Selection::Named(names) => names,
        _ if show == PrivilegeFormat::Fragment => bail!(
            code::ILLEGAL_OPERATION,
            "Cannot get user fragment for all roles in a database"
        ),
        _ => list_roles(cx)?,
    };
    if show == PrivilegeFormat::Fragment {
        let resolved = cx.service.access.resolve(&named)?;
        let mut out = cx.reply.doc("userFragment");
        write_roles("roles", &named, &mut out);
        write_resolved(&resolved, true, true, &mut out);
        return Ok(Outcome::Reply);
    }
    let mut shown = Vec::new();
    for name in &named {
        shown.extend(show_role(cx, name, show == PrivilegeFormat::Yes)?);
    }
    let mut list = cx.reply.array("roles");
    for one in &shown {
        list.push(one);
    }
    Ok(Outcome::Reply)
}

/// The roles of the database; with the built-in ones, these come first.
fn list_roles(cx: &Ctx<'_, '_>) -> Result<Vec<RoleName>> {
    let mut names = Vec::new();
    if cx.args.bool("showBuiltinRoles", false) {
        names.extend(builtin_of(cx.db).map(|r| RoleName::new(r.name, cx.db)));
    }
    for doc in ROLES.read_all(cx.service.access.store())? {
        let d = doc.doc();
        if d.field("db").as_str() == Some(cx.db) {
            names.push(RoleName::new(d.field("role").as_str().unwrap_or(""), cx.db));
        }
    }
    Ok(names)
}

fn show_role(cx: &Ctx<'_, '_>, name: &RoleName, privileges: bool) -> Result<Option<DocBuf>> {
    let access = &cx.service.access;
    let restricted = cx.args.bool("showAuthenticationRestrictions", false);
    let stored = ROLES.get(access.store(), &name.id())?;
    let stored = stored.as_ref().map(|d| d.doc());
    let (roles, own) = match (builtin(name), stored) {
        (Some(r), _) => (r.roles(&name.db), r.privileges(&name.db)),
        (None, Some(d)) => {
            let list = d.field("privileges").as_array().unwrap_or(Array::EMPTY);
            (roles_of(d)?, privilege_list(list)?)
        }
        (None, None) => return Ok(None),
    };
    let own_restrictions = stored.map(restrictions_of).transpose()?.unwrap_or_default();
    let mut all = access.resolve(std::slice::from_ref(name))?;
    all.roles.retain(|r| r != name);
    Ok(Some(DocBuf::build(|w| {
        if stored.is_some() {
            w.put("_id", name.id().as_str());
        }
        name.write(w);
        if privileges {
            write_privileges("privileges", &own, w);
        }
        write_roles("roles", &roles, w);
        if restricted {
            own_restrictions.write("authenticationRestrictions", w);
        }
        w.put("isBuiltin", stored.is_none());
        write_resolved(&all, privileges, restricted, w);
    })))
}
