//! The `_id` of documents: which values are allowed, and generated ids.

use model::{Doc, DocBuf, Result, Value, bail, code};
use std::sync::atomic::{AtomicU32, Ordering};

/// Checks that a value is allowed as an `_id`.
///
/// # Errors
/// 53 InvalidIdField, 52 DollarPrefixedFieldName for an `_id` document with a field that starts
/// with a dollar sign.
pub fn check_id(id: &Value<'_>) -> Result<()> {
    match id {
        Value::Array(_) | Value::Regex(_) | Value::Undefined => {
            bail!(
                code::INVALID_ID_FIELD,
                "The '_id' value cannot be of type {}",
                id.type_name()
            )
        }
        Value::Document(d) => match d.iter().find(|(k, _)| k.starts_with('$')) {
            Some((k, _)) => bail!(
                code::DOLLAR_PREFIXED_FIELD_NAME,
                "_id fields may not contain '$'-prefixed fields: {k} is not valid for storage"
            ),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

static COUNTER: AtomicU32 = AtomicU32::new(0);
static PROCESS: std::sync::LazyLock<[u8; 5]> = std::sync::LazyLock::new(rand::random);

/// A new object id from time, process and counter.
pub fn new_object_id(now_ms: i64) -> [u8; 12] {
    let mut id = [0; 12];
    id[..4].copy_from_slice(&u32::try_from(now_ms / 1000).unwrap_or(0).to_be_bytes());
    id[4..9].copy_from_slice(&*PROCESS);
    id[9..].copy_from_slice(&COUNTER.fetch_add(1, Ordering::Relaxed).to_be_bytes()[1..]);
    id
}

/// The document with an `_id` as its first field; generated if it is missing.
///
/// # Errors
/// 53 InvalidIdField, 52 DollarPrefixedFieldName; 10334 BSONObjectTooLarge when too large.
pub fn with_id(d: Doc<'_>, now_ms: i64) -> Result<DocBuf> {
    let id = d.field("_id");
    check_id(&id)?;
    if d.len_bytes() > model::bson::MAX_DOCUMENT_BYTES {
        bail!(
            code::BSON_OBJECT_TOO_LARGE,
            "object to insert too large. size in bytes: {}",
            d.len_bytes()
        );
    }
    if d.first().is_some_and(|(name, _)| name == "_id") {
        return Ok(d.to_buf());
    }
    Ok(DocBuf::build(|w| {
        match id {
            Value::Missing => w.put("_id", model::ObjectId(new_object_id(now_ms))),
            id => w.put("_id", id),
        };
        for (name, v) in d.iter().filter(|(n, _)| *n != "_id") {
            w.put(name, v);
        }
    }))
}
