//! The stored form of an index specification.

use crate::ddl::text_index::{self, TextIndex};
use model::{Doc, DocBuf, Result, Value};
use operators::collation;
use request::args::to_i32;

/// Every field that an index specification may have.
pub(super) const OPTIONS: &[&str] = &[
    "key",
    "name",
    "v",
    "ns",
    "unique",
    "sparse",
    "background",
    "hidden",
    "dropDups",
    "expireAfterSeconds",
    "collation",
    "partialFilterExpression",
    "storageEngine",
    "wildcardProjection",
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "bucketSize",
    "prepareUnique",
    "originalSpec",
    "clustered",
    "coarsestIndexedLevel",
    "finestIndexedLevel",
    "columnstoreProjection",
    "clustering",
];
/// Fields of the stored specification that are written individually.
const NORMALIZED: &[&str] = &[
    "v",
    "key",
    "name",
    "ns",
    "background",
    "dropDups",
    "unique",
    "sparse",
    "hidden",
    "collation",
];

/// A specification for `listIndexes`: the bounds of a plane are doubles there, versions and bits
/// are integers.
pub fn listed_spec(spec: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        for (name, v) in spec.iter() {
            match (name, v.as_f64(), to_i32(&v)) {
                ("min" | "max", Some(n), _) => w.put(name, n),
                ("bits" | "2dsphereIndexVersion" | "textIndexVersion", _, Some(n)) => {
                    w.put(name, n)
                }
                _ => w.put(name, v),
            };
        }
    })
}

/// Converts a specification to its stored form. The collation of the collection is already
/// complete.
pub(super) fn complete(
    spec: Doc<'_>,
    key: Doc<'_>,
    name: &str,
    options: Doc<'_>,
    text: Option<&TextIndex>,
) -> Result<DocBuf> {
    let own = spec
        .field("collation")
        .as_doc()
        .map(collation::normalize)
        .transpose()?;
    Ok(DocBuf::build(|w| {
        w.put("v", spec.field("v").as_i64_exact().unwrap_or(2) as i32);
        w.put("key", text.map_or(key, |t| t.key.doc()))
            .put("name", name);
        for flag in ["unique", "sparse", "hidden"] {
            if spec.field(flag).truthy() {
                w.put(flag, true);
            }
        }
        // The option has no effect, because builds never block; it is kept for listIndexes.
        if let v @ (Value::Bool(_)
        | Value::Int32(_)
        | Value::Int64(_)
        | Value::Double(_)
        | Value::Decimal128(_)) = spec.field("background")
        {
            w.put("background", v.truthy());
        }
        for (k, v) in spec.iter().filter(|(k, _)| {
            OPTIONS.contains(k)
                && !NORMALIZED.contains(k)
                && !(text.is_some() && text_index::FIELDS.contains(k))
        }) {
            w.put(k, v);
        }
        if let Some(t) = text {
            t.write(w);
        }
        let collation = own
            .as_ref()
            .map(DocBuf::doc)
            .or(options.field("collation").as_doc())
            .filter(|c| c.field("locale").as_str() != Some("simple"));
        if let Some(c) = collation {
            w.put("collation", c);
        }
    }))
}
