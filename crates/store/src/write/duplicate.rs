//! E11000: the errors for documents whose key is taken; only `$merge` makes its own
//! (`crates/query/src/stages/merge.rs`). Must not know: how the duplicate was found.

use crate::catalog::Collection;
use crate::index::Index;
use model::{Doc, DocBuf, MongoError, Value, code};

/// The error for a duplicate `_id`; `options` are the collection's.
pub(crate) fn duplicate_id(c: &Collection, options: Doc<'_>, doc: Doc<'_>) -> MongoError {
    let id = doc.field("_id");
    if options.contains("clusteredIndex") {
        // The key of a clustered collection is shown from its record id, and MongoDB cannot decode
        // these values from one.
        let odd = |code, what| {
            MongoError::new(
                code,
                format!(
                    "E11000 duplicate key error collection: {}: its key is {what}",
                    c.ns()
                ),
            )
        };
        match id.as_f64() {
            Some(n) if n.is_nan() => return odd(50819, "NaN"),
            Some(n) if n.is_infinite() => return odd(50826, "infinite"),
            _ => {}
        }
    }
    let value = DocBuf::build(|w| {
        w.put("_id", id);
    });
    duplicate(c, "_id_", &model::doc! { "_id": 1i32 }, &value)
}

/// The error for a duplicate key of a secondary index.
pub(crate) fn duplicate_key(c: &Collection, index: &Index, doc: Doc<'_>) -> MongoError {
    let value = DocBuf::build(|w| {
        for f in index.fields() {
            let mut v = Value::Document(doc);
            for p in f.path.parts() {
                v = match v {
                    Value::Document(d) => d.field(&p.name),
                    _ => Value::Missing,
                };
            }
            // An array is shown as the element that collided; the first element is assumed to be
            // that one.
            if let Value::Array(a) = v {
                v = a.get(0).unwrap_or(Value::Undefined);
            }
            w.put(
                f.path.as_str(),
                if v.is_missing() { Value::Null } else { v },
            );
        }
    });
    duplicate(c, index.name(), &index.key_pattern().to_buf(), &value)
}

fn duplicate(c: &Collection, index: &str, pattern: &DocBuf, value: &DocBuf) -> MongoError {
    MongoError::new(
        code::DUPLICATE_KEY,
        format!(
            "E11000 duplicate key error collection: {} index: {index} dup key: {value}",
            c.ns()
        ),
    )
    .extra(model::doc! { "keyPattern": pattern, "keyValue": value })
}
