//! Which database and collection an entry concerns, as two small numbers. Must not know: entries,
//! readers.

use std::hash::Hasher;

/// A database and a collection as hashed numbers. Different names may share a number; then a reader
/// looks for entries without finding any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NamespaceHash {
    /// The database; `None` for all.
    pub db: Option<u32>,
    /// The collection; `None` for all of the database.
    pub coll: Option<u32>,
}

impl NamespaceHash {
    /// All databases.
    pub const ALL: NamespaceHash = NamespaceHash {
        db: None,
        coll: None,
    };

    /// A database, or one of its collections.
    pub fn hash(db: &str, coll: Option<&str>) -> NamespaceHash {
        let number = |name: &str| {
            let mut hasher = rustc_hash::FxHasher::default();
            hasher.write(name.as_bytes());
            (hasher.finish() >> 32) as u32
        };
        NamespaceHash {
            db: Some(number(db)),
            coll: coll.map(number),
        }
    }

    /// Whether both include a common collection.
    pub fn meets(&self, other: &NamespaceHash) -> bool {
        let common = |a: Option<u32>, b: Option<u32>| a.zip(b).is_none_or(|(a, b)| a == b);
        common(self.db, other.db) && common(self.coll, other.coll)
    }
}
