//! Query shapes: a find, aggregate or distinct with its constants taken out. Two queries of one
//! shape have the same hash, and what is set for it counts for both.

use crate::state::plan_filters::ShapeParts;
use crate::state::query_settings::QuerySettings;
use crate::state::service::Service;
use model::{Doc, DocBuf, MongoError, Namespace, OwnedValue, Result, Value, code};
use query::plan::AllowedIndexes;
use sha2::{Digest, Sha256};

/// Arguments that make the shape, and whether constants in them count.
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

/// Names in stages whose texts are names, not constants.
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
pub(crate) fn hash(db: &str, query: Doc<'_>) -> String {
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
                v => abstracted(v, part, &mut |v| {
                    w.put(part, v);
                }),
            }
        }
    });
    let sum = Sha256::digest(shape.as_bytes());
    sum.iter().map(|b| format!("{b:02X}")).collect()
}

/// Shows a value with its constants replaced by their types.
fn abstracted(v: Value<'_>, name: &str, show: &mut dyn FnMut(Value<'_>)) {
    match v {
        Value::Document(d) => {
            let d = DocBuf::build(|w| {
                for (name, v) in d.iter() {
                    abstracted(v, name, &mut |v| {
                        w.put(name, v);
                    });
                }
            });
            show(Value::Document(d.doc()));
        }
        Value::Array(a) => {
            let items = DocBuf::build(|w| {
                let scalar = |v: &Value<'_>| v.as_doc().is_none() && v.as_array().is_none();
                // Lists of constants are one shape however long they are.
                let all_constant = a.iter().all(|v| scalar(&v));
                for (i, v) in a
                    .iter()
                    .take(if all_constant { 1 } else { usize::MAX })
                    .enumerate()
                {
                    abstracted(v, name, &mut |v| {
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

/// The indexes that settings allow for a query, or else an index filter; `None` without either.
///
/// # Errors
/// 411 QueryRejectedBySettings.
pub(crate) fn allowed_indexes(
    service: &Service,
    ns: &Namespace,
    query: Doc<'_>,
    shape: &ShapeParts<'_>,
) -> Result<Option<AllowedIndexes>> {
    let state = &service.state;
    Ok(match by_settings(&state.query_settings, ns.db(), query)? {
        Some(list) => Some(AllowedIndexes {
            list,
            filter: false,
        }),
        None => state.plan_filters.allowed(ns, shape),
    })
}

/// The indexes that settings allow for a query.
///
/// # Errors
/// 411 QueryRejectedBySettings.
pub(crate) fn by_settings(
    settings: &QuerySettings,
    db: &str,
    query: Doc<'_>,
) -> Result<Option<Vec<OwnedValue>>> {
    if !settings.any() {
        return Ok(None);
    }
    let Some(row) = settings.get(&hash(db, query)) else {
        return Ok(None);
    };
    let set = row.settings.doc();
    if set.field("reject").truthy() {
        return Err(MongoError::new(
            code::QUERY_REJECTED_BY_SETTINGS,
            "Query rejected by admin query settings",
        ));
    }
    let coll = query.first().and_then(|(_, v)| v.as_str());
    let of_here = |hint: Doc<'_>| {
        let ns = hint.field("ns").as_doc()?;
        let here = ns.field("db").as_str() == Some(db) && ns.field("coll").as_str() == coll;
        let allowed = hint.field("allowedIndexes").as_array().filter(|_| here)?;
        Some(allowed.iter().map(|v| v.to_owned_value()).collect())
    };
    Ok(match set.field("indexHints") {
        Value::Array(hints) => hints.iter().find_map(|h| of_here(h.as_doc()?)),
        Value::Document(hint) => of_here(hint),
        _ => None,
    })
}
