//! `createUser`, `updateUser`, `dropUser`, `dropAllUsersFromDatabase`, `grantRolesToUser`,
//! `revokeRolesFromUser`.

use crate::cmd::audit::{EventFields, run_audited};
use crate::cmd::role::{
    check_roles, edit_roles, listed_roles, needs_of_grant, needs_of_restrictions, needs_of_revoke,
    needs_of_roles, replace_field, roles_of, some_roles, write_roles,
};
use access::{USERS, rounds};
use auth::scram::{Credentials, Mechanism, Secret};
use auth::{Action, Restrictions, Target, UserName, parse_restrictions};
use context::command::Command;
use context::ctx::Ctx;
use model::{Binary, Doc, DocBuf, MongoError, Result, bail, code};
use request::Outcome;
use request::args::{Arg, Kind, arg};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};

const FLAGS: u32 = flag::WRITE | flag::WRITE_CONCERN | flag::RESUMABLE;

static USER: &[Arg] = &[
    arg("pwd", Kind::Str),
    arg("customData", Kind::Object),
    arg("roles", Kind::Array),
    arg("digestPassword", Kind::Bool),
    arg("authenticationRestrictions", Kind::Array),
    arg("mechanisms", Kind::Array),
];
static ROLES: &[Arg] = &[arg("roles", Kind::Array).required()];

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "createUser",
        "makes a user",
        Privilege::Asked(needs_of_create),
        FLAGS | flag::SECRET,
        USER,
        |cx| run_audited(cx, &USER_EVENT, create),
    )
    .value(Kind::Str),
    Command::new(
        "updateUser",
        "changes a user",
        Privilege::Asked(needs_of_update),
        FLAGS | flag::SECRET,
        USER,
        |cx| run_audited(cx, &USER_EVENT, update),
    )
    .value(Kind::Str),
    Command::new(
        "dropUser",
        "removes a user",
        Privilege::Database(&[Action::DropUser]),
        FLAGS,
        &[],
        |cx| run_audited(cx, &USER_EVENT, drop_one),
    )
    .value(Kind::Str),
    Command::new(
        "dropAllUsersFromDatabase",
        "removes the users of a database",
        Privilege::Database(&[Action::DropUser]),
        FLAGS,
        &[],
        |cx| run_audited(cx, &USER_EVENT, drop_all),
    ),
    Command::new(
        "grantRolesToUser",
        "gives roles to a user",
        Privilege::Asked(needs_of_grant),
        FLAGS,
        ROLES,
        |cx| run_audited(cx, &USER_EVENT, |cx| change_roles(cx, true)),
    )
    .value(Kind::Str),
    Command::new(
        "revokeRolesFromUser",
        "takes roles from a user",
        Privilege::Asked(needs_of_revoke),
        FLAGS,
        ROLES,
        |cx| run_audited(cx, &USER_EVENT, |cx| change_roles(cx, false)),
    )
    .value(Kind::Str),
];

fn needs_of_create(asked: &RightsRequest<'_, '_>) -> Result<()> {
    asked.needs(Target::Database(asked.db), &[Action::CreateUser])?;
    needs_of_roles(asked, Action::GrantRole)?;
    needs_of_restrictions(asked)
}

/// A user with the right may change its own password and data.
fn needs_of_update(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let name = UserName::new(asked.value.as_str().unwrap_or(""), asked.db);
    let own = asked.user.is_some_and(|u| u.name == name);
    let here = Target::Database(asked.db);
    for (field, of_any, of_own) in [
        ("pwd", Action::ChangePassword, Action::ChangeOwnPassword),
        (
            "customData",
            Action::ChangeCustomData,
            Action::ChangeOwnCustomData,
        ),
    ] {
        if asked.args.has(field) {
            let may_own = own && asked.may(here, &[of_own]);
            asked.require(may_own || asked.may(here, &[of_any]))?;
        }
    }
    if asked.args.has("mechanisms") && !asked.args.has("pwd") {
        asked.needs(here, &[Action::ChangePassword])?;
    }
    if asked.args.has("roles") {
        // The current roles are revoked, whichever they are.
        asked.needs(Target::AnyNormal, &[Action::RevokeRole])?;
        needs_of_roles(asked, Action::GrantRole)?;
    }
    needs_of_restrictions(asked)
}

/// What the audit events of these commands show; never a password.
static USER_EVENT: EventFields = EventFields {
    name: "user",
    fields: &["customData", "roles", "authenticationRestrictions"],
};

/// The user that the command names.
fn read_user_name(cx: &Ctx<'_, '_>) -> UserName {
    UserName::new(cx.value().as_str().unwrap_or(""), cx.db)
}

fn not_found(name: &UserName) -> MongoError {
    MongoError::new(code::USER_NOT_FOUND, format!("User '{name}' not found"))
}

fn is_external(name: &UserName) -> bool {
    name.db == "$external"
}

/// Checks the name of a new user.
fn check_name(name: &UserName) -> Result<()> {
    if name.name.is_empty() {
        bail!(
            code::BAD_VALUE,
            "User document needs 'user' field to be non-empty"
        );
    }
    if name.name.contains('\0') {
        bail!(code::BAD_VALUE, "Username cannot contain NULL characters");
    }
    if name.db == "local" {
        bail!(code::BAD_VALUE, "Cannot create users in the local database");
    }
    Ok(())
}

/// The mechanisms for which credentials are requested; `None` when not specified.
fn mechanisms(cx: &Ctx<'_, '_>, name: &UserName) -> Result<Option<Vec<Mechanism>>> {
    let Some(list) = cx.args.array("mechanisms") else {
        return Ok(None);
    };
    if is_external(name) {
        bail!(
            code::BAD_VALUE,
            "mechanisms may not be specified for users of the '$external' database"
        );
    }
    let mut wanted = Vec::new();
    for value in list.iter() {
        let Some(m) = value.as_str().and_then(Mechanism::parse) else {
            bail!(
                code::BAD_VALUE,
                "Unknown auth mechanism '{}'",
                value.as_str().unwrap_or("")
            );
        };
        if !wanted.contains(&m) {
            wanted.push(m);
        }
    }
    if wanted.is_empty() {
        bail!(code::BAD_VALUE, "mechanisms field must not be empty");
    }
    Ok(Some(wanted))
}

/// The credentials of the password in the command; `None` when it has none.
fn credentials(cx: &Ctx<'_, '_>, name: &UserName) -> Result<Option<DocBuf>> {
    let wanted = mechanisms(cx, name)?;
    let Some(password) = cx.args.str("pwd") else {
        return Ok(None);
    };
    if is_external(name) {
        bail!(
            code::BAD_VALUE,
            "Cannot set the password for users defined on the '$external' database"
        );
    }
    if password.is_empty() {
        bail!(code::BAD_VALUE, "User passwords must not be empty");
    }
    let digested = !cx.args.bool("digestPassword", true);
    let secret = if digested {
        Secret::Digested(password)
    } else {
        Secret::Clear(password)
    };
    let wanted = wanted.unwrap_or_else(|| {
        let usable = |m: &Mechanism| !digested || *m == Mechanism::Sha1;
        Mechanism::ALL.into_iter().filter(usable).collect()
    });
    let rounds = rounds(|p| cx.service.state.parameters.int(p));
    let mut made = DocBuf::new();
    for m in [Mechanism::Sha1, Mechanism::Sha256] {
        if wanted.contains(&m) {
            let salt: [u8; 32] = rand::random();
            let salt = salt.get(..m.salt_bytes()).unwrap_or(&salt);
            let rounds = if m == Mechanism::Sha1 {
                rounds[0]
            } else {
                rounds[1]
            };
            let kept = Credentials::derive(m, &name.name, secret, rounds, salt)?;
            made.append(|w| kept.write(&mut w.doc(m.name())));
        }
    }
    Ok(Some(made))
}

fn restrictions(cx: &Ctx<'_, '_>) -> Result<Option<Restrictions>> {
    cx.args
        .array("authenticationRestrictions")
        .map(parse_restrictions)
        .transpose()
}

fn create(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name = read_user_name(cx);
    check_name(&name)?;
    if !cx.args.has("pwd") && !is_external(&name) {
        bail!(
            code::BAD_VALUE,
            "Must provide a 'pwd' field for all user documents, except those with '$external' as \
                the user's source db"
        );
    }
    let Some(roles) = listed_roles(&cx.args, cx.db)? else {
        return Err(request::args::missing_field("createUser.roles"));
    };
    let kept = credentials(cx, &name)?;
    let restrictions = restrictions(cx)?;
    check_roles(cx, &roles)?;
    let id: [u8; 16] = access::uuid::new_uuid();
    let doc = DocBuf::build(|w| {
        let uuid = Binary {
            subtype: 4,
            bytes: &id,
        };
        w.put("_id", name.id().as_str()).put("userId", uuid);
        name.write(w);
        if let Some(kept) = &kept {
            w.put("credentials", kept);
        } else {
            w.doc("credentials").put("external", true);
        }
        w.put("customData", cx.args.value("customData"));
        write_roles("roles", &roles, w);
        if let Some(r) = &restrictions {
            r.write("authenticationRestrictions", w);
        }
    });
    let access = &cx.service.access;
    access.note_format(&cx.operation)?;
    if !USERS.add(&access.writer(&cx.operation), doc.doc())? {
        bail!(51_003, "User \"{name}\" already exists");
    }
    access.note_change()?;
    Ok(Outcome::Reply)
}

fn update(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name = read_user_name(cx);
    let fields = [
        "pwd",
        "customData",
        "roles",
        "authenticationRestrictions",
        "mechanisms",
    ];
    if !fields.iter().any(|f| cx.args.has(f)) {
        bail!(
            code::BAD_VALUE,
            "Must specify at least one field to update in updateUser"
        );
    }
    let roles = listed_roles(&cx.args, cx.db)?;
    let kept = credentials(cx, &name)?;
    let wanted = mechanisms(cx, &name)?.filter(|_| kept.is_none());
    let restrictions = restrictions(cx)?;
    if let Some(roles) = &roles {
        check_roles(cx, roles)?;
    }
    let custom = cx.args.value("customData");
    let change = |old: Doc<'_>| -> Result<Option<DocBuf>> {
        let mut new = old.to_buf();
        if let Some(kept) = &kept {
            new = replace_field(new.doc(), "credentials", |w| {
                w.put("credentials", kept);
            });
        } else if let Some(wanted) = &wanted {
            let fewer = fewer_credentials(old, wanted)?;
            new = replace_field(new.doc(), "credentials", |w| {
                w.put("credentials", &fewer);
            });
        }
        if !custom.is_missing() {
            new = replace_field(new.doc(), "customData", |w| {
                w.put("customData", custom);
            });
        }
        if let Some(roles) = &roles {
            new = replace_field(new.doc(), "roles", |w| write_roles("roles", roles, w));
        }
        if let Some(r) = &restrictions {
            let field = "authenticationRestrictions";
            new = replace_field(new.doc(), field, |w| r.write(field, w));
        }
        Ok(Some(new))
    };
    edit(cx, &name, change)
}

/// The existing credentials of the mechanisms that are kept.
fn fewer_credentials(old: Doc<'_>, wanted: &[Mechanism]) -> Result<DocBuf> {
    let kept = old.field("credentials").as_doc().unwrap_or(Doc::EMPTY);
    if !wanted.iter().all(|m| kept.contains(m.name())) {
        bail!(
            code::BAD_VALUE,
            "mechanisms field must be a subset of previously set mechanisms"
        );
    }
    Ok(DocBuf::build(|w| {
        for (name, value) in kept.iter() {
            if wanted.iter().any(|m| m.name() == name) {
                w.put(name, value);
            }
        }
    }))
}

/// Changes the document of a user.
fn edit(
    cx: &Ctx<'_, '_>,
    name: &UserName,
    mut change: impl FnMut(Doc<'_>) -> Result<Option<DocBuf>>,
) -> Result<Outcome> {
    let access = &cx.service.access;
    if !USERS.change(&access.writer(&cx.operation), &name.id(), &mut change)? {
        return Err(not_found(name));
    }
    access.note_change()?;
    Ok(Outcome::Reply)
}

fn drop_one(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name = read_user_name(cx);
    edit(cx, &name, |_| Ok(None))
}

fn drop_all(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let access = &cx.service.access;
    let mut n = 0i32;
    for doc in USERS.read_all(access.store())? {
        let (db, id) = (doc.doc().field("db"), doc.doc().field("_id"));
        if db.as_str() == Some(cx.db)
            && USERS.change(
                &access.writer(&cx.operation),
                id.as_str().unwrap_or(""),
                &mut |_| Ok(None),
            )?
        {
            n += 1;
        }
    }
    access.note_change()?;
    cx.reply.put("n", n);
    Ok(Outcome::Reply)
}

fn change_roles(cx: &mut Ctx<'_, '_>, more: bool) -> Result<Outcome> {
    let name = read_user_name(cx);
    let given = some_roles(&cx.args, cx.db)?;
    if cx.service.access.user_doc(&name)?.is_none() {
        return Err(not_found(&name));
    }
    check_roles(cx, &given)?;
    edit(cx, &name, |old| {
        let roles = edit_roles(roles_of(old)?, &given, more);
        let new = replace_field(old, "roles", |w| write_roles("roles", &roles, w));
        Ok(Some(new))
    })
}
