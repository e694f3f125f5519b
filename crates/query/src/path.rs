//! Field paths in stage arguments, and writing a value at a path.

use model::path::PathPart;
use model::{Doc, DocWriter, FieldPath, Result, Value, bail, code};

/// Most components of a path.
const MAX_PARTS: usize = 200;

/// A field path without dollar signs, empty parts or null bytes. Names of database references are
/// allowed.
///
/// # Errors
/// 40352 empty, 40353 trailing dot, 15998 empty part, 16410 dollar, 16411 null byte, 15 too deep.
pub(crate) fn checked_path(text: &str) -> Result<FieldPath> {
    if text.is_empty() {
        bail!(40352, "FieldPath cannot be constructed with empty string");
    }
    if text.ends_with('.') {
        bail!(40353, "FieldPath must not end with a '.': {text}");
    }
    let path = FieldPath::new(text);
    if path.parts().len() > MAX_PARTS {
        bail!(
            code::OVERFLOW,
            "FieldPath is too long: {} parts, at most {MAX_PARTS} allowed",
            path.parts().len()
        );
    }
    for part in path.parts() {
        if part.name.is_empty() {
            bail!(
                15998,
                "FieldPath field names may not be empty strings: {text}"
            );
        }
        if part.name.starts_with('$') && !matches!(part.name.as_str(), "$id" | "$ref" | "$db") {
            bail!(
                16410,
                "FieldPath field names may not start with '$': {text}"
            );
        }
        if part.name.contains('\0') {
            bail!(16411, "FieldPath field names may not contain a null byte");
        }
    }
    Ok(path)
}

/// Copies a document with the value at a path set, or removed for `Missing`. A value on the path
/// that is not a document is replaced by one, except when removing.
pub(crate) fn write_with(w: &mut DocWriter<'_>, doc: Doc<'_>, path: &[PathPart], v: Value<'_>) {
    let Some((head, rest)) = path.split_first() else {
        return;
    };
    let mut found = false;
    for e in doc.elements() {
        if found || e.name != head.name.as_bytes() {
            w.put_element(&e);
            continue;
        }
        found = true;
        match (rest.is_empty(), e.value()) {
            (true, _) => {
                w.put(&head.name, v);
            }
            (false, Value::Document(inner)) => write_with(&mut w.doc(&head.name), inner, rest, v),
            (false, _) if v.is_missing() => {
                w.put_element(&e);
            }
            (false, _) => write_with(&mut w.doc(&head.name), Doc::EMPTY, rest, v),
        }
    }
    if !found && !v.is_missing() {
        match rest.is_empty() {
            true => {
                w.put(&head.name, v);
            }
            false => write_with(&mut w.doc(&head.name), Doc::EMPTY, rest, v),
        }
    }
}

/// The value at a path of documents only: it does not descend into arrays.
pub(crate) fn plain_at<'a>(doc: Doc<'a>, path: &FieldPath) -> Value<'a> {
    path.parts()
        .iter()
        .fold(Value::Document(doc), |at, part| match at {
            Value::Document(d) => d.field(&part.name),
            _ => Value::Missing,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    #[test]
    fn values_are_set_created_and_removed() {
        let set = |d: &DocBuf, path: &str, v: Value<'_>| {
            format!(
                "{:?}",
                DocBuf::build(|w| write_with(w, d.doc(), FieldPath::new(path).parts(), v))
            )
        };
        let d = doc! { "a": { "b": 1i32, "c": 2i32 }, "s": 5i32 };
        assert_eq!(
            set(&d, "a.b", Value::Int32(9)),
            "{ a: { b: 9, c: 2 }, s: 5 }"
        );
        assert_eq!(
            set(&d, "x.y", Value::Int32(9)),
            "{ a: { b: 1, c: 2 }, s: 5, x: { y: 9 } }"
        );
        assert_eq!(
            set(&d, "s.t", Value::Int32(9)),
            "{ a: { b: 1, c: 2 }, s: { t: 9 } }"
        );
        assert_eq!(set(&d, "a.b", Value::Missing), "{ a: { c: 2 }, s: 5 }");
        assert_eq!(
            set(&d, "s.t", Value::Missing),
            "{ a: { b: 1, c: 2 }, s: 5 }"
        );
    }
}
