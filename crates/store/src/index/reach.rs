//! Follows the path of an index field into a document, up to the array in which it continues.

use model::path::PathPart;
use model::{Array, MongoError, Result, Value};

/// Where a path ends.
pub(super) enum PathEnd<'a> {
    /// At a value (or `Missing`).
    At(Value<'a>),
    /// At an array, with the remaining part of the path.
    Blocked(Array<'a>, &'a [PathPart]),
}

/// Follows a path.
///
/// # Errors
/// 16746 for a numeric part that is a position and a field name at once.
pub(super) fn reach<'a>(mut v: Value<'a>, path: &'a [PathPart]) -> Result<PathEnd<'a>> {
    let mut rest = path;
    loop {
        match (v, rest.split_first()) {
            (Value::Array(a), Some((head, tail))) => {
                let Some(position) = head.index else {
                    return Ok(PathEnd::Blocked(a, rest));
                };
                let named = a
                    .iter()
                    .any(|e| matches!(e, Value::Document(d) if d.contains(&head.name)));
                match (a.get(position), named) {
                    (_, false) => {}
                    (None, true) => return Ok(PathEnd::Blocked(a, rest)),
                    (Some(_), true) => {
                        return Err(MongoError::new(
                            16746,
                            format!(
                                "Ambiguous field name found in array (do not use numeric field \
                                    names in embedded elements in an array), field: '{}' for \
                                    array: {a}",
                                head.name
                            ),
                        ));
                    }
                }
                v = a.get(position).unwrap_or(Value::Missing);
                rest = tail;
                if let (Value::Array(inner), true) = (v, tail.is_empty()) {
                    return Ok(PathEnd::Blocked(inner, tail));
                }
            }
            (Value::Array(a), None) => return Ok(PathEnd::Blocked(a, rest)),
            (v, None) => return Ok(PathEnd::At(v)),
            (Value::Document(d), Some((head, tail))) => {
                v = d.field(&head.name);
                rest = tail;
            }
            (_, Some(_)) => return Ok(PathEnd::At(Value::Missing)),
        }
    }
}
