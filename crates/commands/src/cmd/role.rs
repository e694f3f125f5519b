//! `createRole`, `updateRole`, `dropRole`, `dropAllRolesFromDatabase`, `grantPrivilegesToRole`,
//! `revokePrivilegesFromRole`, `grantRolesToRole`, `revokeRolesFromRole`.

use crate::cmd::audit::{EventFields, run_audited};
use access::{ROLES, USERS};
use auth::{
    Action, Privilege, Restrictions, RoleName, Target, builtin, parse_restrictions, privilege_list,
    role_list,
};
use context::command::Command;
use context::ctx::Ctx;
use model::{Array, Doc, DocBuf, DocWriter, MongoError, Result, bail, code};
use request::Outcome;
use request::args::{Arg, Args, Kind, arg};
use request::asked::RightsRequest;
use request::spec::{Privilege as Row, flag};

const FLAGS: u32 = flag::WRITE | flag::WRITE_CONCERN | flag::RESUMABLE;

static CREATE: &[Arg] = &[
    arg("privileges", Kind::Array).required(),
    arg("roles", Kind::Array).required(),
    arg("authenticationRestrictions", Kind::Array),
];
static UPDATE: &[Arg] = &[
    arg("privileges", Kind::Array),
    arg("roles", Kind::Array),
    arg("authenticationRestrictions", Kind::Array),
];
static PRIVILEGES: &[Arg] = &[arg("privileges", Kind::Array).required()];
static OF_ROLES: &[Arg] = &[arg("roles", Kind::Array).required()];

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "createRole",
        "makes a role",
        Row::Asked(needs_of_create),
        FLAGS,
        CREATE,
        |cx| run_audited(cx, &ROLE_EVENT, create),
    )
    .value(Kind::Str),
    Command::new(
        "updateRole",
        "changes a role",
        Row::Asked(needs_of_update),
        FLAGS,
        UPDATE,
        |cx| run_audited(cx, &ROLE_EVENT, update),
    )
    .value(Kind::Str),
    Command::new(
        "dropRole",
        "removes a role",
        Row::Database(&[Action::DropRole]),
        FLAGS,
        &[],
        |cx| run_audited(cx, &ROLE_EVENT, drop_one),
    )
    .value(Kind::Str),
    Command::new(
        "dropAllRolesFromDatabase",
        "removes the roles of a database",
        Row::Database(&[Action::DropRole]),
        FLAGS,
        &[],
        |cx| run_audited(cx, &ROLE_EVENT, drop_all),
    ),
    Command::new(
        "grantPrivilegesToRole",
        "gives privileges to a role",
        Row::Asked(needs_of_grant_privileges),
        FLAGS,
        PRIVILEGES,
        |cx| run_audited(cx, &ROLE_EVENT, |cx| change_privileges(cx, true)),
    )
    .value(Kind::Str),
    Command::new(
        "revokePrivilegesFromRole",
        "takes privileges from a role",
        Row::Asked(needs_of_revoke_privileges),
        FLAGS,
        PRIVILEGES,
        |cx| run_audited(cx, &ROLE_EVENT, |cx| change_privileges(cx, false)),
    )
    .value(Kind::Str),
    Command::new(
        "grantRolesToRole",
        "gives roles to a role",
        Row::Asked(needs_of_grant),
        FLAGS,
        OF_ROLES,
        |cx| run_audited(cx, &ROLE_EVENT, |cx| change_roles(cx, true)),
    )
    .value(Kind::Str),
    Command::new(
        "revokeRolesFromRole",
        "takes roles from a role",
        Row::Asked(needs_of_revoke),
        FLAGS,
        OF_ROLES,
        |cx| run_audited(cx, &ROLE_EVENT, |cx| change_roles(cx, false)),
    )
    .value(Kind::Str),
];

/// The roles in the argument `roles`; `None` if it is not given.
///
/// # Errors
/// 2 BadValue.
pub(crate) fn listed_roles(args: &Args<'_>, db: &str) -> Result<Option<Vec<RoleName>>> {
    let list = args.array("roles");
    list.map(|list| role_list(list, db)).transpose()
}

/// The same for a command that grants or revokes roles; at least one is required.
///
/// # Errors
/// 2 BadValue.
pub(crate) fn some_roles(args: &Args<'_>, db: &str) -> Result<Vec<RoleName>> {
    let roles = listed_roles(args, db)?.unwrap_or_default();
    if roles.is_empty() {
        bail!(code::BAD_VALUE, "The array 'roles' must not be empty");
    }
    Ok(roles)
}

/// The privileges in the argument `privileges`; `None` if it is not given.
fn listed_privileges(args: &Args<'_>) -> Result<Option<Vec<Privilege>>> {
    args.array("privileges").map(privilege_list).transpose()
}

/// The same for a command that grants or revokes privileges; at least one is required.
fn some_privileges(args: &Args<'_>) -> Result<Vec<Privilege>> {
    let privileges = listed_privileges(args)?.unwrap_or_default();
    if privileges.is_empty() {
        bail!(code::BAD_VALUE, "The array 'privileges' must not be empty");
    }
    Ok(privileges)
}

/// Checks the right to grant or revoke each listed role on its own database.
fn needs_each_role(
    asked: &RightsRequest<'_, '_>,
    roles: &[RoleName],
    action: Action,
) -> Result<()> {
    let on = |role: &RoleName| asked.needs(Target::Database(&role.db), &[action]);
    roles.iter().try_for_each(on)
}

/// Checks the right to grant or revoke privileges on each listed resource.
fn needs_each_privilege(
    asked: &RightsRequest<'_, '_>,
    privileges: &[Privilege],
    action: Action,
) -> Result<()> {
    privileges.iter().try_for_each(|p| {
        let db = p.resource.db().unwrap_or("admin");
        asked.needs(Target::Database(db), &[action])
    })
}

/// Checks the right to grant or revoke the roles in the argument `roles`.
pub(crate) fn needs_of_roles(asked: &RightsRequest<'_, '_>, action: Action) -> Result<()> {
    let roles = listed_roles(asked.args, asked.db)?.unwrap_or_default();
    needs_each_role(asked, &roles, action)
}

/// Checks the right to restrict a user's addresses, if the command does so.
pub(crate) fn needs_of_restrictions(asked: &RightsRequest<'_, '_>) -> Result<()> {
    if asked.args.has("authenticationRestrictions") {
        let action = Action::SetAuthenticationRestriction;
        asked.needs(Target::Database(asked.db), &[action])?;
    }
    Ok(())
}

/// The rights that `grantRolesToUser` and `grantRolesToRole` need.
pub(crate) fn needs_of_grant(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let roles = some_roles(asked.args, asked.db)?;
    needs_each_role(asked, &roles, Action::GrantRole)
}

/// The rights that `revokeRolesFromUser` and `revokeRolesFromRole` need.
pub(crate) fn needs_of_revoke(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let roles = some_roles(asked.args, asked.db)?;
    needs_each_role(asked, &roles, Action::RevokeRole)
}

fn needs_of_grant_privileges(asked: &RightsRequest<'_, '_>) -> Result<()> {
    needs_each_privilege(asked, &some_privileges(asked.args)?, Action::GrantRole)
}

fn needs_of_revoke_privileges(asked: &RightsRequest<'_, '_>) -> Result<()> {
    needs_each_privilege(asked, &some_privileges(asked.args)?, Action::RevokeRole)
}

/// Checks the right to grant the roles and privileges of a new or changed role.
fn needs_of_contents(asked: &RightsRequest<'_, '_>) -> Result<()> {
    needs_of_roles(asked, Action::GrantRole)?;
    let privileges = listed_privileges(asked.args)?.unwrap_or_default();
    needs_each_privilege(asked, &privileges, Action::GrantRole)?;
    needs_of_restrictions(asked)
}

fn needs_of_create(asked: &RightsRequest<'_, '_>) -> Result<()> {
    asked.needs(Target::Database(asked.db), &[Action::CreateRole])?;
    needs_of_contents(asked)
}

fn needs_of_update(asked: &RightsRequest<'_, '_>) -> Result<()> {
    if asked.args.has("roles") || asked.args.has("privileges") {
        asked.needs(Target::AnyNormal, &[Action::RevokeRole])?;
    }
    needs_of_contents(asked)
}

/// What the audit events of these commands show.
static ROLE_EVENT: EventFields = EventFields {
    name: "role",
    fields: &["roles", "privileges", "authenticationRestrictions"],
};

/// A document with one field replaced in place, or appended.
pub(crate) fn replace_field(
    doc: Doc<'_>,
    field: &str,
    write: impl Fn(&mut DocWriter<'_>),
) -> DocBuf {
    DocBuf::build(|w| {
        let mut written = false;
        for (name, value) in doc.iter() {
            if name == field {
                if !std::mem::replace(&mut written, true) {
                    write(w);
                }
            } else {
                w.put(name, value);
            }
        }
        if !written {
            write(w);
        }
    })
}

/// Writes role names into an array.
pub(crate) fn write_roles(field: &str, roles: &[RoleName], w: &mut DocWriter<'_>) {
    let mut list = w.array(field);
    for role in roles {
        role.write(&mut list.doc());
    }
}

/// Writes privileges into an array.
pub(crate) fn write_privileges(field: &str, all: &[Privilege], w: &mut DocWriter<'_>) {
    let mut list = w.array(field);
    for p in all {
        p.write(&mut list.doc());
    }
}

/// Checks that roles exist.
///
/// # Errors
/// 31 RoleNotFound.
pub(crate) fn check_roles(cx: &Ctx<'_, '_>, roles: &[RoleName]) -> Result<()> {
    for role in roles {
        if builtin(role).is_none() && cx.service.access.role(role)?.is_none() {
            bail!(code::ROLE_NOT_FOUND, "Could not find role: {role}");
        }
    }
    Ok(())
}

/// The role that the command names; it must be user-defined.
fn read_role_name(cx: &Ctx<'_, '_>) -> Result<RoleName> {
    let name = RoleName::new(cx.value().as_str().unwrap_or(""), cx.db);
    if builtin(&name).is_some() {
        bail!(
            code::INVALID_ROLE_MODIFICATION,
            "{name} is a built-in role and cannot be modified"
        );
    }
    Ok(name)
}

fn not_found(name: &RoleName) -> MongoError {
    MongoError::new(code::ROLE_NOT_FOUND, format!("Role '{name}' not found"))
}

/// Checks that a role of a database other than `admin` only refers to its own database.
fn check_reach(name: &RoleName, roles: &[RoleName], privileges: &[Privilege]) -> Result<()> {
    if name.db == "admin" {
        return Ok(());
    }
    if roles.iter().any(|r| r.db != name.db) {
        bail!(
            code::INVALID_ROLE_MODIFICATION,
            "Roles on the '{}' database cannot be granted roles from other databases",
            name.db
        );
    }
    if privileges.iter().any(|p| p.resource.db() != Some(&name.db)) {
        bail!(
            code::INVALID_ROLE_MODIFICATION,
            "Roles on the '{}' database cannot be granted privileges that target other databases \
                or the cluster",
            name.db
        );
    }
    Ok(())
}

/// Checks that a role does not inherit from itself, directly or through other roles.
fn check_circle(cx: &Ctx<'_, '_>, name: &RoleName, roles: &[RoleName]) -> Result<()> {
    for role in roles {
        if role == name {
            bail!(
                code::INVALID_ROLE_MODIFICATION,
                "Cannot grant role {name} to itself."
            );
        }
        let all = cx.service.access.resolve(std::slice::from_ref(role))?;
        if all.roles.contains(name) {
            bail!(
                code::INVALID_ROLE_MODIFICATION,
                "Granting {role} to {name} would introduce a cycle in the role graph."
            );
        }
    }
    Ok(())
}

/// The fields of a role that a command sets; `None` for fields that it does not set.
struct RoleChange {
    roles: Option<Vec<RoleName>>,
    privileges: Option<Vec<Privilege>>,
    restrictions: Option<Restrictions>,
}

fn parse_change(cx: &Ctx<'_, '_>) -> Result<RoleChange> {
    let restrictions = cx.args.array("authenticationRestrictions");
    Ok(RoleChange {
        roles: listed_roles(&cx.args, cx.db)?,
        privileges: listed_privileges(&cx.args)?,
        restrictions: restrictions.map(parse_restrictions).transpose()?,
    })
}

fn create(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name = RoleName::new(cx.value().as_str().unwrap_or(""), cx.db);
    if name.name.is_empty() {
        bail!(code::BAD_VALUE, "Role name must be non-empty");
    }
    if matches!(cx.db, "local" | "$external") {
        bail!(
            code::BAD_VALUE,
            "Cannot create roles in the {} database",
            cx.db
        );
    }
    if builtin(&name).is_some() {
        bail!(
            code::BAD_VALUE,
            "Cannot create roles with the same name as a built-in role"
        );
    }
    let change = parse_change(cx)?;
    let (roles, privileges) = (
        change.roles.unwrap_or_default(),
        change.privileges.unwrap_or_default(),
    );
    check_reach(&name, &roles, &privileges)?;
    check_circle(cx, &name, &roles)?;
    check_roles(cx, &roles)?;
    let doc = DocBuf::build(|w| {
        w.put("_id", name.id().as_str());
        name.write(w);
        write_privileges("privileges", &privileges, w);
        write_roles("roles", &roles, w);
        if let Some(r) = &change.restrictions {
            r.write("authenticationRestrictions", w);
        }
    });
    let access = &cx.service.access;
    if !ROLES.add(&access.writer(&cx.operation), doc.doc())? {
        bail!(51_002, "Role \"{name}\" already exists");
    }
    access.note_change()?;
    Ok(Outcome::Reply)
}

fn edit(
    cx: &Ctx<'_, '_>,
    name: &RoleName,
    mut change: impl FnMut(Doc<'_>) -> Result<Option<DocBuf>>,
) -> Result<Outcome> {
    let access = &cx.service.access;
    if !ROLES.change(&access.writer(&cx.operation), &name.id(), &mut change)? {
        return Err(not_found(name));
    }
    access.note_change()?;
    Ok(Outcome::Reply)
}

fn update(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name = read_role_name(cx)?;
    let change = parse_change(cx)?;
    if change.roles.is_none() && change.privileges.is_none() && change.restrictions.is_none() {
        bail!(
            code::BAD_VALUE,
            "updateRole command has no fields to update"
        );
    }
    let roles = change.roles.as_deref().unwrap_or_default();
    check_reach(
        &name,
        roles,
        change.privileges.as_deref().unwrap_or_default(),
    )?;
    check_roles(cx, roles)?;
    check_circle(cx, &name, roles)?;
    edit(cx, &name, |old| {
        let mut new = old.to_buf();
        if let Some(p) = &change.privileges {
            new = replace_field(new.doc(), "privileges", |w| {
                write_privileges("privileges", p, w)
            });
        }
        if let Some(r) = &change.roles {
            new = replace_field(new.doc(), "roles", |w| write_roles("roles", r, w));
        }
        if let Some(r) = &change.restrictions {
            let field = "authenticationRestrictions";
            new = replace_field(new.doc(), field, |w| r.write(field, w));
        }
        Ok(Some(new))
    })
}

/// Removes dropped roles from the users and roles that have them.
fn forget(cx: &Ctx<'_, '_>, gone: &[RoleName]) -> Result<()> {
    let store = &cx.service.access.writer(&cx.operation);
    for kept in [USERS, ROLES] {
        for doc in kept.read_all(store)? {
            if !roles_of(doc.doc())?.iter().any(|r| gone.contains(r)) {
                continue;
            }
            let id = doc.doc().field("_id").as_str().unwrap_or("").to_owned();
            kept.change(store, &id, &mut |old| {
                let roles = edit_roles(roles_of(old)?, gone, false);
                Ok(Some(replace_field(old, "roles", |w| {
                    write_roles("roles", &roles, w)
                })))
            })?;
        }
    }
    Ok(())
}

fn drop_one(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name = read_role_name(cx)?;
    if cx.service.access.role(&name)?.is_none() {
        return Err(not_found(&name));
    }
    forget(cx, std::slice::from_ref(&name))?;
    edit(cx, &name, |_| Ok(None))
}

fn drop_all(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let access = &cx.service.access;
    let mut gone = Vec::new();
    for doc in ROLES.read_all(access.store())? {
        let d = doc.doc();
        if let (Some(name), Some(db)) = (d.field("role").as_str(), d.field("db").as_str())
            && db == cx.db
        {
            gone.push(RoleName::new(name, db));
        }
    }
    forget(cx, &gone)?;
    for name in &gone {
        ROLES.change(&access.writer(&cx.operation), &name.id(), &mut |_| Ok(None))?;
    }
    access.note_change()?;
    cx.reply
        .put("n", i32::try_from(gone.len()).unwrap_or(i32::MAX));
    Ok(Outcome::Reply)
}

fn change_privileges(cx: &mut Ctx<'_, '_>, more: bool) -> Result<Outcome> {
    let name = read_role_name(cx)?;
    let given = some_privileges(&cx.args)?;
    if more {
        check_reach(&name, &[], &given)?;
    }
    edit(cx, &name, |old| {
        let mut now = privilege_list(old.field("privileges").as_array().unwrap_or(Array::EMPTY))?;
        for p in &given {
            match now.iter_mut().find(|n| n.resource == p.resource) {
                Some(n) if more => n.actions = n.actions.union(p.actions),
                Some(n) => n.actions = n.actions.minus(p.actions),
                None if more => now.push(p.clone()),
                None => {}
            }
        }
        now.retain(|p| !p.actions.is_empty());
        let new = replace_field(old, "privileges", |w| {
            write_privileges("privileges", &now, w)
        });
        Ok(Some(new))
    })
}

/// The roles in the document of a user or role.
pub(crate) fn roles_of(doc: Doc<'_>) -> Result<Vec<RoleName>> {
    let list = doc.field("roles").as_array().unwrap_or(Array::EMPTY);
    role_list(list, doc.field("db").as_str().unwrap_or(""))
}

/// A list of roles with some roles added or removed.
pub(crate) fn edit_roles(
    mut roles: Vec<RoleName>,
    given: &[RoleName],
    more: bool,
) -> Vec<RoleName> {
    roles.retain(|r| more || !given.contains(r));
    for role in given.iter().filter(|_| more) {
        if !roles.contains(role) {
            roles.push(role.clone());
        }
    }
    roles
}

fn change_roles(cx: &mut Ctx<'_, '_>, more: bool) -> Result<Outcome> {
    let name = read_role_name(cx)?;
    let given = some_roles(&cx.args, cx.db)?;
    if cx.service.access.role(&name)?.is_none() {
        return Err(not_found(&name));
    }
    if more {
        check_reach(&name, &given, &[])?;
        check_roles(cx, &given)?;
        check_circle(cx, &name, &given)?;
    }
    edit(cx, &name, |old| {
        let roles = edit_roles(roles_of(old)?, &given, more);
        Ok(Some(replace_field(old, "roles", |w| {
            write_roles("roles", &roles, w)
        })))
    })
}
