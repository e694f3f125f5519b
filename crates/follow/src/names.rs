//! Which namespaces are followed, and their names in the target. Must not know: servers.

use crate::error::{FollowError, Result};
use std::collections::BTreeMap;
use std::fmt;

/// The database in the target that holds the state of a migration.
pub(crate) const OWN: &str = "quarry_follow";

/// A collection or view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ns {
    pub(crate) db: String,
    pub(crate) coll: String,
}

impl Ns {
    pub(crate) fn new(db: &str, coll: &str) -> Ns {
        Ns {
            db: db.to_owned(),
            coll: coll.to_owned(),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Ns> {
        let (db, coll) = text.split_once('.')?;
        (!db.is_empty() && !coll.is_empty()).then(|| Ns::new(db, coll))
    }
}

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}

/// A choice of namespaces and their new names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    include: Vec<String>,
    exclude: Vec<String>,
    databases: BTreeMap<String, String>,
    collections: BTreeMap<Ns, Ns>,
}

/// Whether a database belongs to the server itself.
fn is_internal(db: &str) -> bool {
    matches!(db, "admin" | "config" | "local" | OWN)
}

impl Names {
    /// `include` and `exclude` are databases or namespaces in which `*` stands for anything;
    /// `renames` are `db=db` or `db.coll=db.coll`.
    ///
    /// # Errors
    /// One line.
    pub fn new(include: &[String], exclude: &[String], renames: &[String]) -> Result<Names> {
        let mut names = Names {
            include: include.to_vec(),
            exclude: exclude.to_vec(),
            ..Names::default()
        };
        for text in renames {
            let wrong = || {
                FollowError::of_options(format!(
                    "a rename must be DB=DB or DB.COLLECTION=DB.COLLECTION, given {text:?}"
                ))
            };
            let (from, to) = text.split_once('=').ok_or_else(wrong)?;
            match (Ns::parse(from), Ns::parse(to)) {
                (Some(from), Some(to)) => {
                    names.collections.insert(from, to);
                }
                (None, None) if !from.is_empty() && !to.is_empty() && !text.contains('.') => {
                    names.databases.insert(from.to_owned(), to.to_owned());
                }
                _ => return Err(wrong()),
            }
        }
        let to = names.databases.values().map(String::as_str);
        let to = to.chain(names.collections.values().map(|ns| ns.db.as_str()));
        if let Some(db) = { to }.find(|db| is_internal(db)) {
            return Err(FollowError::of_options(format!(
                "a rename into the database {db} is not allowed"
            )));
        }
        Ok(names)
    }

    /// Whether something of a database may be followed.
    pub(crate) fn may_have(&self, db: &str) -> bool {
        !is_internal(db)
    }

    pub(crate) fn has(&self, ns: &Ns) -> bool {
        !is_internal(&ns.db) && !ns.coll.starts_with("system.") && self.is_chosen(ns)
    }

    /// Whether the stored functions of a database are moved.
    pub(crate) fn has_functions(&self, ns: &Ns) -> bool {
        !is_internal(&ns.db) && self.is_chosen(ns)
    }

    fn is_chosen(&self, ns: &Ns) -> bool {
        let text = ns.to_string();
        let fits = |pattern: &String| match pattern.contains('.') {
            true => glob(pattern, &text),
            false => glob(pattern, &ns.db),
        };
        (self.include.is_empty() || self.include.iter().any(fits)) && !self.exclude.iter().any(fits)
    }

    /// Its name in the target.
    pub(crate) fn target(&self, ns: &Ns) -> Ns {
        if let Some(to) = self.collections.get(ns) {
            return to.clone();
        }
        match self.databases.get(&ns.db) {
            Some(db) => Ns::new(db, &ns.coll),
            None => ns.clone(),
        }
    }

    /// The choice as stored in the state, to check that a migration continues with the same one.
    pub(crate) fn encode(&self) -> String {
        let pairs = |from: &dyn fmt::Display, to: &dyn fmt::Display| format!("{from}={to}");
        let renames = self.databases.iter().map(|(a, b)| pairs(a, b));
        let renames = renames.chain(self.collections.iter().map(|(a, b)| pairs(a, b)));
        format!(
            "include {:?} exclude {:?} rename {:?}",
            self.include,
            self.exclude,
            renames.collect::<Vec<_>>()
        )
    }
}

/// Whether a text matches a pattern, in which `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(head) else {
        return false;
    };
    let starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    { starts }.any(|at| rest.get(at..).is_some_and(|rest| glob(tail, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(include: &[&str], exclude: &[&str], renames: &[&str]) -> Result<Names> {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        Names::new(&own(include), &own(exclude), &own(renames))
    }

    #[test]
    fn namespaces_are_chosen_by_pattern() {
        let chosen = names(&["shop", "log.2026*"], &["shop.tmp*"], &[]).unwrap();
        for (ns, has) in [
            ("shop.orders", true),
            ("shop.tmp.1", false),
            ("log.2026.11", true),
            ("log.2025", false),
            ("admin.x", false),
            ("shop.system.views", false),
        ] {
            assert_eq!(chosen.has(&Ns::parse(ns).unwrap()), has, "{ns}");
        }
    }

    #[test]
    fn renames_are_of_databases_or_collections() {
        let renamed = names(&[], &[], &["a=b", "a.x=c.y"]).unwrap();
        let of = |text| renamed.target(&Ns::parse(text).unwrap()).to_string();
        assert_eq!([of("a.x"), of("a.z"), of("d.x")], ["c.y", "b.z", "d.x"]);
        for wrong in [
            "a",
            "a=b.c",
            "a.b=c",
            "=b",
            "a.b=quarry_follow.c",
            "a=admin",
        ] {
            assert!(names(&[], &[], &[wrong]).is_err(), "{wrong}");
        }
    }
}
