//! Database and collection names and their rules.

use crate::{MongoError, Result, code};

/// `db.collection`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    db: String,
    coll: String,
}

/// Longest `db.collection` in bytes.
pub const MAX_NAMESPACE_BYTES: usize = 255;

impl Namespace {
    /// Checks both names.
    ///
    /// # Errors
    /// 73 InvalidNamespace.
    pub fn new(db: &str, coll: &str) -> Result<Namespace> {
        check_db(db)?;
        let invalid = |why: &str| {
            Err(MongoError::new(
                code::INVALID_NAMESPACE,
                format!("Invalid namespace specified '{db}.{coll}': {why}"),
            ))
        };
        if coll.is_empty() {
            return invalid("the collection name is empty");
        }
        if coll.contains('\0') {
            return invalid("the collection name holds a null byte");
        }
        if coll.starts_with('.') || coll.ends_with('.') && !coll.ends_with("..") && coll.len() == 1
        {
            return invalid("the collection name starts with a dot");
        }
        if db.len() + 1 + coll.len() > MAX_NAMESPACE_BYTES {
            return Err(MongoError::new(
                code::INVALID_NAMESPACE,
                format!(
                    "Fully qualified namespace is too long. Namespace: {db}.{coll} Max: \
                        {MAX_NAMESPACE_BYTES}"
                ),
            ));
        }
        Ok(Namespace {
            db: db.to_owned(),
            coll: coll.to_owned(),
        })
    }
    /// A namespace for reading: a name that is too long is accepted, because no such collection can
    /// exist.
    ///
    /// # Errors
    /// 73 InvalidNamespace.
    pub fn to_read(db: &str, coll: &str) -> Result<Namespace> {
        if db.len() + 1 + coll.len() <= MAX_NAMESPACE_BYTES {
            return Namespace::new(db, coll);
        }
        Namespace::new(db, "x")?;
        if coll.starts_with('.') || coll.contains('\0') {
            return Err(MongoError::new(
                code::INVALID_NAMESPACE,
                format!("Invalid namespace specified '{db}.{coll}'"),
            ));
        }
        Ok(Namespace {
            db: db.to_owned(),
            coll: coll.to_owned(),
        })
    }
    /// Splits `db.collection` at the first dot.
    ///
    /// # Errors
    /// 73 InvalidNamespace.
    pub fn parse(text: &str) -> Result<Namespace> {
        match text.split_once('.') {
            Some((db, coll)) => Namespace::new(db, coll),
            None => Err(MongoError::new(
                code::INVALID_NAMESPACE,
                format!("Invalid namespace specified '{text}'"),
            )),
        }
    }
    /// The database.
    pub fn db(&self) -> &str {
        &self.db
    }
    /// The collection.
    pub fn coll(&self) -> &str {
        &self.coll
    }
    /// True for `system.*` collections.
    pub fn is_system(&self) -> bool {
        self.coll.starts_with("system.")
    }
}

/// Checks a database name.
///
/// # Errors
/// 73 InvalidNamespace.
pub fn check_db(db: &str) -> Result<()> {
    let bad = db.is_empty() || db.len() > 63 || db.contains(['/', '\\', '.', ' ', '"', '$', '\0']);
    if bad && db != "$external" {
        return Err(MongoError::new(
            code::INVALID_NAMESPACE,
            format!("Invalid database name: '{db}'"),
        ));
    }
    Ok(())
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}
impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        assert!(Namespace::new("db", "a.b").is_ok());
        for (db, coll) in [
            ("", "a"),
            ("a.b", "c"),
            ("a b", "c"),
            ("db", ""),
            ("db", ".a"),
            ("db", "a\0b"),
        ] {
            assert_eq!(
                Namespace::new(db, coll).unwrap_err().code(),
                code::INVALID_NAMESPACE,
                "{db:?} {coll:?}"
            );
        }
        assert!(Namespace::to_read("db", &"x".repeat(260)).is_ok());
        assert!(
            Namespace::to_read("db", &"\0".repeat(260)).is_err()
                && Namespace::to_read("", "a").is_err()
        );
        assert_eq!(
            Namespace::new("db", &"x".repeat(260)).unwrap_err().code(),
            code::INVALID_NAMESPACE
        );
    }
}
