//! The resource of a privilege: a collection, a database, patterns of them, the cluster.

use model::{Doc, DocWriter, Result, Value, bail, code};

/// A resource as a privilege names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Everything there is.
    Any,
    /// The server as a whole.
    Cluster,
    /// Every non-system collection of all databases except `config` and `local`, and these
    /// databases themselves.
    AnyNormal,
    /// A database and its non-system collections.
    Database(String),
    /// The collections of this name, of every database.
    Collection(String),
    /// One collection.
    Exact(String, String),
    /// The buckets of every time-series collection.
    AnyBuckets,
    /// The buckets of the time-series collections of a database.
    BucketsOf(String),
    /// The buckets of the time-series collections of this name, of every database.
    BucketsNamed(String),
    /// The buckets of one time-series collection.
    ExactBuckets(String, String),
}

/// A resource in which `{db, collection}` may be empty.
fn pair(db: &str, coll: &str) -> Resource {
    match (db, coll) {
        ("", "") => Resource::AnyNormal,
        (db, "") => Resource::Database(db.to_owned()),
        ("", coll) => Resource::Collection(coll.to_owned()),
        (db, coll) => Resource::Exact(db.to_owned(), coll.to_owned()),
    }
}

fn buckets(db: &str, coll: &str) -> Resource {
    match (db, coll) {
        ("", "") => Resource::AnyBuckets,
        (db, "") => Resource::BucketsOf(db.to_owned()),
        ("", coll) => Resource::BucketsNamed(coll.to_owned()),
        (db, coll) => Resource::ExactBuckets(db.to_owned(), coll.to_owned()),
    }
}

impl Resource {
    /// Parses the `resource` of a privilege.
    ///
    /// # Errors
    /// 9 FailedToParse.
    pub fn parse(doc: Doc<'_>) -> Result<Resource> {
        let text = |name: &str| match doc.field(name) {
            Value::Missing => Ok(None),
            Value::String(s) => Ok(Some(s)),
            other => bail!(
                code::FAILED_TO_PARSE,
                "resource.{name} must be a string, given {}",
                other.type_name()
            ),
        };
        let whole = |name: &str| match doc.field(name) {
            Value::Missing => Ok(false),
            Value::Bool(true) => Ok(true),
            _ => bail!(
                code::FAILED_TO_PARSE,
                "resource.{name} must be true when specified"
            ),
        };
        const KNOWN: &[&str] = &[
            "db",
            "collection",
            "cluster",
            "anyResource",
            "system_buckets",
        ];
        if let Some((other, _)) = doc.iter().find(|(n, _)| !KNOWN.contains(n)) {
            bail!(code::FAILED_TO_PARSE, "resource has no field '{other}'");
        }
        let (db, coll, in_buckets) = (text("db")?, text("collection")?, text("system_buckets")?);
        let found = (
            whole("cluster")?,
            whole("anyResource")?,
            db,
            coll,
            in_buckets,
        );
        Ok(match found {
            (true, false, None, None, None) => Resource::Cluster,
            (false, true, None, None, None) => Resource::Any,
            (false, false, Some(db), Some(coll), None) => pair(db, coll),
            (false, false, db, None, Some(coll)) => buckets(db.unwrap_or(""), coll),
            _ => bail!(
                code::FAILED_TO_PARSE,
                "resource must be one of cluster, anyResource, db with collection, system_buckets"
            ),
        })
    }

    /// Writes its fields.
    pub fn write(&self, w: &mut DocWriter<'_>) {
        match self {
            Resource::Any => w.put("anyResource", true),
            Resource::Cluster => w.put("cluster", true),
            Resource::AnyNormal => w.put("db", "").put("collection", ""),
            Resource::Database(db) => w.put("db", db.as_str()).put("collection", ""),
            Resource::Collection(coll) => w.put("db", "").put("collection", coll.as_str()),
            Resource::Exact(db, coll) => w.put("db", db.as_str()).put("collection", coll.as_str()),
            Resource::AnyBuckets => w.put("system_buckets", ""),
            Resource::BucketsOf(db) => w.put("db", db.as_str()).put("system_buckets", ""),
            Resource::BucketsNamed(coll) => w.put("system_buckets", coll.as_str()),
            Resource::ExactBuckets(db, coll) => w
                .put("db", db.as_str())
                .put("system_buckets", coll.as_str()),
        };
    }

    /// The database to which it is limited, if it is.
    pub fn db(&self) -> Option<&str> {
        match self {
            Resource::Database(db)
            | Resource::Exact(db, _)
            | Resource::BucketsOf(db)
            | Resource::ExactBuckets(db, _) => Some(db),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    #[test]
    fn resources_are_read_as_they_are_written() {
        let text = str::to_owned;
        for r in [
            Resource::Any,
            Resource::Cluster,
            Resource::AnyNormal,
            Resource::Database(text("d")),
            Resource::Collection(text("c")),
            Resource::Exact(text("d"), text("c")),
            Resource::AnyBuckets,
            Resource::BucketsOf(text("d")),
            Resource::BucketsNamed(text("c")),
            Resource::ExactBuckets(text("d"), text("c")),
        ] {
            let d = DocBuf::build(|w| r.write(w));
            assert_eq!(Resource::parse(d.doc()).unwrap(), r);
        }
        for bad in [
            doc! {},
            doc! { "db": "d" },
            doc! { "cluster": false },
            doc! { "cluster": true, "db": "d", "collection": "" },
            doc! { "db": "d", "collection": 1i32 },
            doc! { "anyResource": true, "other": 1i32 },
        ] {
            assert_eq!(Resource::parse(bad.doc()).unwrap_err().code(), 9, "{bad:?}");
        }
    }
}
