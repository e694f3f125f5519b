//! Query shapes: a find, aggregate or distinct without its constants. Queries of one shape have the
//! same hash and the same settings.

use model::{Doc, DocBuf, Value};
use sha2::{Digest, Sha256};

/// The arguments that determine the shape, and whether their constants count.
const PARTS: &[(&str, bool)] = &[
    ("filter", false),
    ("query", false),
    ("pipeline", false),
    ("key", true),
    ("sort", true),
    ("projection", true),
    ("hint", true),
    ("collation", true),
    ("let", false),
    ("min", false),
    ("max", false),
    ("skip", false),
    ("limit", false),
    ("singleBatch", true),
    ("allowDiskUse", true),
    ("returnKey", true),
    ("showRecordId", true),
    ("tailable", true),
    ("awaitData", true),
];

/// Fields of stages whose text values are names instead of constants.
const NAMES: &[&str] = &[
    "from",
    "as",
    "coll",
    "db",
    "into",
    "localField",
    "foreignField",
    "connectFromField",
    "connectToField",
];

/// The hash of a query's shape: 64 hexadecimal digits. `query` begins with the command.
pub fn hash(db: &str, query: Doc<'_>) -> String {
    let (name, own) = query.first().unwrap_or(("", Value::Missing));
    let shape = DocBuf::build(|w| {
        w.put("db", db).put("command", name).put("collection", own);
        for (part, constants_count) in PARTS {
            match query.field(part) {
                Value::Missing | Value::Null => {}
                Value::Document(d) if d.is_empty() => {}
                v if *constants_count => {
                    w.put(part, v);
                }
                v => abstract_value(v, part, &mut |v| {
                    w.put(part, v);
                }),
            }
        }
    });
    let sum = Sha256::digest(shape.as_bytes());
    sum.iter().map(|b| format!("{b:02X}")).collect()
}

/// Passes a value to `show` with its constants replaced by their types.
fn abstract_value(v: Value<'_>, name: &str, show: &mut dyn FnMut(Value<'_>)) {
    match v {
        Value::Document(d) => {
            let d = DocBuf::build(|w| {
                for (name, v) in d.iter() {
                    abstract_value(v, name, &mut |v| {
                        w.put(name, v);
                    });
                }
            });
            show(Value::Document(d.doc()));
        }
        Value::Array(a) => {
            let items = DocBuf::build(|w| {
                let scalar = |v: &Value<'_>| v.as_doc().is_none() && v.as_array().is_none();
                // Lists of constants have one shape, whatever their length.
                let all_constant = a.iter().all(|v| scalar(&v));
                for (i, v) in a
                    .iter()
                    .take(if all_constant { 1 } else { usize::MAX })
                    .enumerate()
                {
                    abstract_value(v, name, &mut |v| {
                        w.put(&i.to_string(), v);
                    });
                }
            });
            show(Value::Array(items.doc().as_array()));
        }
        Value::String(s) if s.starts_with('$') || NAMES.contains(&name) => show(v),
        v if v.is_number() => show(Value::String("?number")),
        v => show(Value::String(&format!("?{}", v.type_name()))),
    }
}
