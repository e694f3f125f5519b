//! Resolves roles: collects privileges through all inherited roles.

use crate::builtin::builtin;
use crate::names::{RoleName, role_list};
use crate::privilege::{Grants, Privilege, merge_privileges, privilege_list};
use crate::restriction::{Restrictions, parse_restrictions};
use model::{Array, Doc, Result};
use std::collections::BTreeSet;

/// A user-defined role.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredRole {
    /// Roles it inherits.
    pub roles: Vec<RoleName>,
    /// Its own privileges.
    pub privileges: Vec<Privilege>,
    /// The addresses from which its users may log in.
    pub restrictions: Restrictions,
}

impl StoredRole {
    /// From its document in `admin.system.roles`.
    ///
    /// # Errors
    /// Those of its parts.
    pub fn of_doc(doc: Doc<'_>) -> Result<StoredRole> {
        let array = |name: &str| doc.field(name).as_array().unwrap_or(Array::EMPTY);
        Ok(StoredRole {
            roles: role_list(array("roles"), doc.field("db").as_str().unwrap_or_default())?,
            privileges: privilege_list(array("privileges"))?,
            restrictions: parse_restrictions(array("authenticationRestrictions"))?,
        })
    }
}

/// Looks up user-defined roles.
pub trait RoleSource {
    /// The role, if it exists.
    ///
    /// # Errors
    /// Those of the store.
    fn role(&mut self, name: &RoleName) -> Result<Option<StoredRole>>;
}

impl<F: FnMut(&RoleName) -> Result<Option<StoredRole>>> RoleSource for F {
    fn role(&mut self, name: &RoleName) -> Result<Option<StoredRole>> {
        self(name)
    }
}

/// The result of resolving roles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedRoles {
    /// All roles, inherited ones included, sorted by name.
    pub roles: Vec<RoleName>,
    /// All privileges, merged by resource.
    pub privileges: Vec<Privilege>,
    /// The same privileges, for authorization checks.
    pub grants: Grants,
    /// Each of these must allow the client.
    pub restrictions: Vec<Restrictions>,
    /// Roles that do not exist.
    pub unknown: Vec<RoleName>,
}

/// Resolves roles. Each is visited once, so a cycle does no harm.
///
/// # Errors
/// Those of the source.
pub fn resolve(start: &[RoleName], source: &mut dyn RoleSource) -> Result<ResolvedRoles> {
    let mut seen: BTreeSet<RoleName> = BTreeSet::new();
    let mut next: Vec<RoleName> = start.to_vec();
    let mut all = Vec::new();
    let mut found = ResolvedRoles::default();
    while let Some(name) = next.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        if let Some(role) = builtin(&name) {
            next.extend(role.roles(&name.db));
            all.extend(role.privileges(&name.db));
        } else if let Some(role) = source.role(&name)? {
            next.extend(role.roles);
            all.extend(role.privileges);
            if !role.restrictions.is_empty() {
                found.restrictions.push(role.restrictions);
            }
        } else {
            seen.remove(&name);
            found.unknown.push(name);
            continue;
        }
    }
    found.roles = seen.into_iter().collect();
    found.privileges = merge_privileges(all);
    for p in &found.privileges {
        found.grants.add(p);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::privilege::Target;
    use model::doc;

    #[test]
    fn roles_inherit_and_circles_end() {
        let role = |name: &str, db: &str| RoleName::new(name, db);
        let mut source = |n: &RoleName| {
            Ok(match n.name.as_str() {
                "a" => Some(StoredRole {
                    roles: vec![role("b", "d"), role("read", "e")],
                    ..StoredRole::default()
                }),
                "b" => Some(StoredRole {
                    roles: vec![role("a", "d"), role("gone", "d")],
                    ..StoredRole::default()
                }),
                _ => None,
            })
        };
        let r = resolve(&[role("a", "d")], &mut source).unwrap();
        assert_eq!(r.roles, [role("a", "d"), role("b", "d"), role("read", "e")]);
        assert_eq!(r.unknown, [role("gone", "d")]);
        let may = |db, action| r.grants.allows(Target::Collection(db, "c"), &[action]);
        assert!(may("e", Action::Find) && !may("e", Action::Insert) && !may("d", Action::Find));
    }

    #[test]
    fn a_stored_role_is_read() {
        let d = doc! { "_id": "d.r", "role": "r", "db": "d", "roles": [
        { "role": "read", "db": "e" } ], "privileges": [
        { "resource": { "cluster": true }, "actions": ["top"] } ],
        "authenticationRestrictions": [ { "clientSource": ["10.0.0.0/8"] } ] };
        let r = StoredRole::of_doc(d.doc()).unwrap();
        assert!(r.roles.len() == 1 && r.privileges.len() == 1 && !r.restrictions.is_empty());
    }

    #[test]
    fn root_has_what_the_others_have_and_no_direct_writes_of_users() {
        let mut none = |_: &RoleName| Ok(None);
        let root = resolve(&[RoleName::new("root", "admin")], &mut none).unwrap();
        let may = |t, a| root.grants.allows(t, &[a]);
        assert!(may(Target::Collection("d", "c"), Action::Insert));
        assert!(may(Target::Cluster, Action::Shutdown));
        assert!(may(Target::Database("d"), Action::CreateUser));
        assert!(may(
            Target::Collection("admin", "system.users"),
            Action::Find
        ));
        assert!(!may(
            Target::Collection("admin", "system.roles"),
            Action::Insert
        ));
        assert!(!may(Target::Any, Action::Find));
    }
}
