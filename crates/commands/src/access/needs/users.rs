//! Needs of the commands about users and roles.

use super::asked::Asked;
use auth::Action::{self, *};
use auth::{Privilege, RoleName, Target, UserName};
use model::{Result, Value};

/// The right to give or take every role that a field lists, each on its own database.
fn roles(asked: &Asked<'_>, action: Action) -> Result<()> {
    for list in asked.all("roles").filter_map(|v| v.as_array()) {
        for value in list.iter() {
            // What is no role is refused by the command itself.
            if let Ok(role) = RoleName::parse(&value, asked.db) {
                asked.needs(Target::Database(&role.db), &[action])?;
            }
        }
    }
    Ok(())
}

/// The right to give or take what every privilege that a field lists is about.
fn privileges(asked: &Asked<'_>, action: Action) -> Result<()> {
    for list in asked.all("privileges").filter_map(|v| v.as_array()) {
        for value in list.iter() {
            let Some(Ok(p)) = value.as_doc().map(Privilege::parse) else {
                continue;
            };
            let db = p.resource.db().unwrap_or("admin");
            asked.needs(Target::Database(db), &[action])?;
        }
    }
    Ok(())
}

fn restrictions(asked: &Asked<'_>) -> Result<()> {
    if asked.body.contains("authenticationRestrictions") {
        asked.needs(Target::Database(asked.db), &[SetAuthenticationRestriction])?;
    }
    Ok(())
}

/// `createUser`.
pub(crate) fn create_user(asked: &Asked<'_>) -> Result<()> {
    asked.needs(Target::Database(asked.db), &[CreateUser])?;
    roles(asked, GrantRole)?;
    restrictions(asked)
}

/// `updateUser`: everybody with the right may change its own password and data.
pub(crate) fn update_user(asked: &Asked<'_>) -> Result<()> {
    let name = UserName::new(asked.own(), asked.db);
    let own = asked.user.is_some_and(|u| u.name == name);
    let here = Target::Database(asked.db);
    for (field, of_any, of_own) in [
        ("pwd", ChangePassword, ChangeOwnPassword),
        ("customData", ChangeCustomData, ChangeOwnCustomData),
    ] {
        if asked.body.contains(field) {
            let may_own = own && asked.may(here, &[of_own]);
            asked.unless(may_own || asked.may(here, &[of_any]))?;
        }
    }
    if asked.body.contains("mechanisms") && !asked.body.contains("pwd") {
        asked.needs(here, &[ChangePassword])?;
    }
    if asked.body.contains("roles") {
        // The roles it has now are taken from it, whichever these are.
        asked.needs(Target::AnyNormal, &[RevokeRole])?;
        roles(asked, GrantRole)?;
    }
    restrictions(asked)
}

/// `grantRolesToUser`, `grantRolesToRole`.
pub(crate) fn grant_roles(asked: &Asked<'_>) -> Result<()> {
    roles(asked, GrantRole)
}

/// `revokeRolesFromUser`, `revokeRolesFromRole`.
pub(crate) fn revoke_roles(asked: &Asked<'_>) -> Result<()> {
    roles(asked, RevokeRole)
}

/// `createRole`.
pub(crate) fn create_role(asked: &Asked<'_>) -> Result<()> {
    asked.needs(Target::Database(asked.db), &[CreateRole])?;
    roles(asked, GrantRole)?;
    privileges(asked, GrantRole)?;
    restrictions(asked)
}

/// `updateRole`.
pub(crate) fn update_role(asked: &Asked<'_>) -> Result<()> {
    if asked.body.contains("roles") || asked.body.contains("privileges") {
        asked.needs(Target::AnyNormal, &[RevokeRole])?;
    }
    roles(asked, GrantRole)?;
    privileges(asked, GrantRole)?;
    restrictions(asked)
}

/// `grantPrivilegesToRole`.
pub(crate) fn grant_privileges(asked: &Asked<'_>) -> Result<()> {
    privileges(asked, GrantRole)
}

/// `revokePrivilegesFromRole`.
pub(crate) fn revoke_privileges(asked: &Asked<'_>) -> Result<()> {
    privileges(asked, RevokeRole)
}

/// Elements of a list, or the value alone.
fn each<'a>(value: Value<'a>) -> Vec<Value<'a>> {
    match value {
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    }
}

/// `usersInfo`: everybody may ask about itself.
pub(crate) fn users_info(asked: &Asked<'_>) -> Result<()> {
    for value in each(asked.value()) {
        if value.as_doc().is_some_and(|d| d.contains("forAllDBs")) {
            asked.needs(Target::Cluster, &[ViewUser])?;
            continue;
        }
        let name = UserName::parse(&value, asked.db).ok();
        let own = name.is_some() && asked.user.map(|u| &u.name) == name.as_ref();
        let db = name.as_ref().map_or(asked.db, |n| n.db.as_str());
        if !own {
            asked.needs(Target::Database(db), &[ViewUser])?;
        }
    }
    Ok(())
}

/// `rolesInfo`: everybody may ask about the roles it has.
pub(crate) fn roles_info(asked: &Asked<'_>) -> Result<()> {
    for value in each(asked.value()) {
        let name = RoleName::parse(&value, asked.db).ok();
        let own = name
            .as_ref()
            .is_some_and(|n| asked.user.is_some_and(|u| u.resolved.roles.contains(n)));
        let db = name.as_ref().map_or(asked.db, |n| n.db.as_str());
        if !own {
            asked.needs(Target::Database(db), &[ViewRole])?;
        }
    }
    Ok(())
}

/// `_mergeAuthzCollections`: what is loaded may hold anything.
pub(crate) fn merge_access(asked: &Asked<'_>) -> Result<()> {
    let all = [
        CreateUser, CreateRole, GrantRole, DropUser, DropRole, RevokeRole,
    ];
    asked.needs(Target::AnyNormal, &all)?;
    for field in ["tempUsersCollection", "tempRolesCollection"] {
        for name in asked.all(field).filter_map(|v| v.as_str()) {
            let (db, coll) = name.split_once('.').unwrap_or((name, ""));
            asked.needs(Target::Collection(db, coll), &[Find])?;
        }
    }
    Ok(())
}
