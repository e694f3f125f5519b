//! Privileges: actions on a resource. A user's privileges are merged once, at login, into
//! [`Grants`], which answers a question with a few hash lookups.

use crate::action::{Action, ActionSet};
use crate::resource::Resource;
use model::{Array, Doc, DocWriter, Result, Tag, Value, bail, code};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Actions on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// The resource.
    pub resource: Resource,
    /// The actions.
    pub actions: ActionSet,
}

impl Privilege {
    /// Parses a privilege document.
    ///
    /// # Errors
    /// 9 FailedToParse, 2 BadValue for an unknown action.
    pub fn parse(doc: Doc<'_>) -> Result<Privilege> {
        let Some(resource) = doc.field("resource").as_doc() else {
            bail!(
                code::FAILED_TO_PARSE,
                "a privilege needs the document 'resource'"
            );
        };
        let Some(names) = doc.field("actions").as_array() else {
            bail!(
                code::FAILED_TO_PARSE,
                "a privilege needs the array 'actions'"
            );
        };
        if let Some((other, _)) = doc
            .iter()
            .find(|(n, _)| !matches!(*n, "resource" | "actions"))
        {
            bail!(code::FAILED_TO_PARSE, "a privilege has no field '{other}'");
        }
        let mut actions = ActionSet::NONE;
        let mut unknown = Vec::new();
        for name in names.iter() {
            match name.as_str().map(|n| (n, Action::parse(n))) {
                Some((_, Some(action))) => actions.add(action),
                Some((name, None)) => unknown.push(name),
                None => bail!(
                    code::FAILED_TO_PARSE,
                    "actions are strings, given {}",
                    name.type_name()
                ),
            }
        }
        if !unknown.is_empty() {
            bail!(
                code::BAD_VALUE,
                "Unrecognized action privilege strings: {}",
                unknown.join(",")
            );
        }
        if actions.is_empty() {
            bail!(
                code::FAILED_TO_PARSE,
                "the actions of a privilege must not be empty"
            );
        }
        Ok(Privilege {
            resource: Resource::parse(resource)?,
            actions,
        })
    }

    /// Writes both fields.
    pub fn write(&self, w: &mut DocWriter<'_>) {
        self.resource.write(&mut w.doc("resource"));
        let mut list = w.array("actions");
        for action in self.actions.iter() {
            list.push(action.name());
        }
    }
}

/// Privileges in a command's argument. Those on the same resource are merged.
///
/// # Errors
/// 14 TypeMismatch for an element that is no document, and those of [`Privilege::parse`].
pub fn privilege_list(list: Array<'_>) -> Result<Vec<Privilege>> {
    let mut all: Vec<Privilege> = Vec::new();
    for (i, value) in list.iter().enumerate() {
        let Value::Document(doc) = value else {
            bail!(
                code::TYPE_MISMATCH,
                "BSON field 'privileges.{i}' is the wrong type '{}', expected type '{}'",
                value.type_name(),
                Tag::DOCUMENT.name()
            );
        };
        let one = Privilege::parse(doc)?;
        match all.iter_mut().find(|p| p.resource == one.resource) {
            Some(p) => p.actions = p.actions.union(one.actions),
            None => all.push(one),
        }
    }
    Ok(all)
}

/// The target of an authorization check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The server.
    Cluster,
    /// A database.
    Database(&'a str),
    /// A collection.
    Collection(&'a str, &'a str),
    /// Everything.
    Any,
    /// All non-system collections of all databases.
    AnyNormal,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct DatabaseGrants {
    all: ActionSet,
    buckets: ActionSet,
    named: FxHashMap<Box<str>, ActionSet>,
    buckets_named: FxHashMap<Box<str>, ActionSet>,
}

/// All privileges of one user, merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grants {
    any: ActionSet,
    cluster: ActionSet,
    any_normal: ActionSet,
    any_buckets: ActionSet,
    databases: FxHashMap<Box<str>, DatabaseGrants>,
    named: FxHashMap<Box<str>, ActionSet>,
    buckets_named: FxHashMap<Box<str>, ActionSet>,
}

/// Whether a privilege on a whole database does not include the collection.
fn is_system(db: &str, coll: &str) -> bool {
    coll.starts_with("system.") || (db == "local" && coll.starts_with("replset."))
}

fn is_internal(db: &str) -> bool {
    matches!(db, "local" | "config")
}

fn of(map: &FxHashMap<Box<str>, ActionSet>, name: &str) -> ActionSet {
    if map.is_empty() {
        return ActionSet::NONE;
    }
    map.get(name).copied().unwrap_or_default()
}

impl Grants {
    /// Adds the actions of a privilege.
    pub fn add(&mut self, p: &Privilege) {
        fn put(map: &mut FxHashMap<Box<str>, ActionSet>, name: &str, actions: ActionSet) {
            let entry = map.entry(name.into()).or_default();
            *entry = entry.union(actions);
        }
        let actions = p.actions;
        let within = |set: &mut ActionSet| *set = set.union(actions);
        match &p.resource {
            Resource::Any => within(&mut self.any),
            Resource::Cluster => within(&mut self.cluster),
            Resource::AnyNormal => within(&mut self.any_normal),
            Resource::AnyBuckets => within(&mut self.any_buckets),
            Resource::Collection(coll) => put(&mut self.named, coll, actions),
            Resource::BucketsNamed(coll) => put(&mut self.buckets_named, coll, actions),
            Resource::Database(db) => within(&mut self.database(db).all),
            Resource::BucketsOf(db) => within(&mut self.database(db).buckets),
            Resource::Exact(db, coll) => put(&mut self.database(db).named, coll, actions),
            Resource::ExactBuckets(db, coll) => {
                put(&mut self.database(db).buckets_named, coll, actions);
            }
        }
    }

    fn database(&mut self, db: &str) -> &mut DatabaseGrants {
        self.databases.entry(db.into()).or_default()
    }

    /// The actions allowed on a target.
    ///
    /// # Cost
    /// At most four lookups by hash, no allocation.
    pub fn allowed_actions(&self, target: Target<'_>) -> ActionSet {
        let mut set = self.any;
        let mut add = |more: ActionSet| set = set.union(more);
        match target {
            Target::Any => {}
            Target::Cluster => add(self.cluster),
            Target::AnyNormal => add(self.any_normal),
            Target::Database(db) => {
                if !is_internal(db) {
                    add(self.any_normal);
                }
                add(self.databases.get(db).map(|d| d.all).unwrap_or_default());
            }
            Target::Collection(db, coll) => {
                let within = self.databases.get(db);
                add(of(&self.named, coll));
                if let Some(d) = within {
                    add(of(&d.named, coll));
                }
                if !is_system(db, coll) {
                    if !is_internal(db) {
                        add(self.any_normal);
                    }
                    add(within.map(|d| d.all).unwrap_or_default());
                } else if let Some(series) = coll.strip_prefix("system.buckets.") {
                    add(self.any_buckets);
                    add(of(&self.buckets_named, series));
                    if let Some(d) = within {
                        add(d.buckets);
                        add(of(&d.buckets_named, series));
                    }
                }
            }
        }
        set
    }

    /// Whether all these actions are allowed on the target.
    pub fn allows(&self, target: Target<'_>, actions: &[Action]) -> bool {
        let on = self.allowed_actions(target);
        actions.iter().all(|a| on.has(*a))
    }

    /// Whether everything that a privilege allows is allowed here.
    pub fn covers(&self, p: &Privilege) -> bool {
        let target = match &p.resource {
            Resource::Any => Target::Any,
            Resource::Cluster => Target::Cluster,
            Resource::AnyNormal => Target::AnyNormal,
            Resource::Database(db) => Target::Database(db),
            Resource::Exact(db, coll) => Target::Collection(db, coll),
            Resource::Collection(coll) => {
                return self.any.union(of(&self.named, coll)).covers(p.actions);
            }
            Resource::AnyBuckets => return self.any.union(self.any_buckets).covers(p.actions),
            Resource::BucketsOf(db) => {
                let own = self.databases.get(db.as_str()).map(|d| d.buckets);
                let set = self
                    .any
                    .union(self.any_buckets)
                    .union(own.unwrap_or_default());
                return set.covers(p.actions);
            }
            Resource::BucketsNamed(coll) => {
                let set = self.any.union(self.any_buckets);
                return set.union(of(&self.buckets_named, coll)).covers(p.actions);
            }
            Resource::ExactBuckets(db, coll) => {
                let name = format!("system.buckets.{coll}");
                return self
                    .allowed_actions(Target::Collection(db, &name))
                    .covers(p.actions);
            }
        };
        self.allowed_actions(target).covers(p.actions)
    }

    /// Whether anything at all is allowed on this collection.
    pub fn allows_any_on(&self, db: &str, coll: &str) -> bool {
        !self
            .allowed_actions(Target::Collection(db, coll))
            .is_empty()
    }

    /// Whether anything at all is allowed on this database or one of its collections.
    pub fn allows_any_in(&self, db: &str) -> bool {
        let named = !self.named.is_empty() || !self.buckets_named.is_empty();
        let own = self
            .databases
            .get(db)
            .is_some_and(|d| *d != DatabaseGrants::default());
        named
            || own
            || !self.any_buckets.is_empty()
            || !self.allowed_actions(Target::Database(db)).is_empty()
    }
}

/// Privileges merged and sorted by resource, as they are shown.
pub(crate) fn merge_privileges(all: impl IntoIterator<Item = Privilege>) -> Vec<Privilege> {
    let mut by: BTreeMap<Resource, ActionSet> = BTreeMap::new();
    for p in all {
        let set = by.entry(p.resource).or_default();
        *set = set.union(p.actions);
    }
    by.into_iter()
        .map(|(resource, actions)| Privilege { resource, actions })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    fn grants(list: &[(Resource, &[Action])]) -> Grants {
        let mut g = Grants::default();
        for (resource, actions) in list {
            g.add(&Privilege {
                resource: resource.clone(),
                actions: ActionSet::of(actions),
            });
        }
        g
    }

    #[test]
    fn patterns_match_what_they_name() {
        let text = str::to_owned;
        let find = &[Action::Find][..];
        let may = |r: Resource, db, coll| grants(&[(r, find)]).allows_any_on(db, coll);
        assert!(may(Resource::AnyNormal, "d", "c"));
        assert!(!may(Resource::AnyNormal, "d", "system.js"));
        assert!(!may(Resource::AnyNormal, "config", "c"));
        assert!(!may(Resource::AnyNormal, "local", "oplog.rs"));
        assert!(may(Resource::Database(text("local")), "local", "oplog.rs"));
        assert!(!may(
            Resource::Database(text("local")),
            "local",
            "replset.election"
        ));
        assert!(!may(Resource::Database(text("d")), "d", "system.users"));
        assert!(!may(Resource::Database(text("d")), "e", "c"));
        assert!(may(Resource::Collection(text("c")), "e", "c"));
        assert!(may(
            Resource::Exact(text("d"), text("system.js")),
            "d",
            "system.js"
        ));
        assert!(!may(Resource::Exact(text("d"), text("c")), "d", "c2"));
        assert!(may(Resource::AnyBuckets, "d", "system.buckets.c"));
        assert!(!may(Resource::AnyBuckets, "d", "c"));
        assert!(!may(
            Resource::BucketsOf(text("d")),
            "e",
            "system.buckets.c"
        ));
        assert!(may(
            Resource::BucketsNamed(text("c")),
            "e",
            "system.buckets.c"
        ));
        assert!(may(Resource::Any, "local", "system.replset"));
        assert!(!may(Resource::Cluster, "d", "c"));
        let g = grants(&[(Resource::Exact(text("d"), text("c")), find)]);
        assert!(g.allows_any_in("d") && !g.allows_any_in("e"));
        assert!(!g.allows(Target::Database("d"), find));
    }

    #[test]
    fn a_grant_covers_no_more_than_it_has() {
        let g = grants(&[(
            Resource::Database("d".into()),
            &[Action::Find, Action::Insert],
        )]);
        let p = |resource, actions: &[Action]| Privilege {
            resource,
            actions: ActionSet::of(actions),
        };
        assert!(g.covers(&p(Resource::Database("d".into()), &[Action::Find])));
        assert!(g.covers(&p(
            Resource::Exact("d".into(), "c".into()),
            &[Action::Insert]
        )));
        assert!(!g.covers(&p(
            Resource::Exact("d".into(), "system.js".into()),
            &[Action::Find]
        )));
        assert!(!g.covers(&p(Resource::AnyNormal, &[Action::Find])));
        assert!(!g.covers(&p(Resource::Any, &[Action::Find])));
        assert!(!g.covers(&p(Resource::Collection("c".into()), &[Action::Find])));
        assert!(!g.covers(&p(Resource::Database("d".into()), &[Action::Remove])));
    }

    #[test]
    fn privileges_are_checked_and_merged() {
        let d = doc! { "p": [
            { "resource": { "db": "d", "collection": "" }, "actions": ["find"] },
            { "resource": { "db": "d", "collection": "" }, "actions": ["insert", "find"] },
        ] };
        let list = privilege_list(d.doc().field("p").as_array().unwrap()).unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].actions.iter().count(), 2);
        for (bad, code) in [
            (doc! { "actions": ["find"] }, 9),
            (doc! { "resource": { "cluster": true } }, 9),
            (doc! { "resource": { "cluster": true }, "actions": [] }, 9),
            (
                doc! { "resource": { "cluster": true }, "actions": ["fly"] },
                2,
            ),
            (
                doc! { "resource": { "cluster": true }, "actions": [1i32] },
                9,
            ),
        ] {
            assert_eq!(
                Privilege::parse(bad.doc()).unwrap_err().code(),
                code,
                "{bad:?}"
            );
        }
    }
}
