//! `wildcardProjection`: the paths that a wildcard index covers.

use super::key::IndexKind;
use model::{Doc, Result, Tag, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use operators::project::Projection;
use request::args::wrong_type;

/// Checks the field, and that it excludes the other fields of a compound index.
///
/// # Errors
/// 14 TypeMismatch, 2 BadValue without a wildcard, 9 below a path or empty, 51271 for a computed
/// field, those of projections, 7246209 when it covers another field of the key.
pub(super) fn check(spec: Doc<'_>, kind: IndexKind) -> Result<()> {
    let projection = match spec.field("wildcardProjection") {
        Value::Missing => return Ok(()),
        Value::Document(d) => d,
        v => {
            return Err(wrong_type(
                "indexes.wildcardProjection",
                &v,
                &[Tag::DOCUMENT],
            ));
        }
    };
    if kind != IndexKind::Wildcard {
        bail!(
            code::BAD_VALUE,
            "The field 'wildcardProjection' is only allowed in an index with a '$**' field"
        );
    }
    let whole = spec
        .field("key")
        .as_doc()
        .is_some_and(|k| k.contains("$**"));
    if !whole || projection.is_empty() {
        bail!(
            code::FAILED_TO_PARSE,
            "The field 'wildcardProjection' needs the key '$**' and at least one field"
        );
    }
    check_flags(projection)?;
    Projection::parse_project(
        &mut ParseCx::new(&Env::new(0, 1)),
        Value::Document(projection),
    )?;
    let key = spec.field("key").as_doc().unwrap_or(Doc::EMPTY);
    for (field, _) in key.iter().filter(|(f, _)| *f != "$**") {
        if covers(projection, field) {
            bail!(
                7_246_209,
                "the 'wildcardProjection' of a compound index must leave out its other fields, it \
                    covers '{field}'"
            );
        }
    }
    Ok(())
}

/// # Errors
/// 51271 for anything but a number, a boolean or a document of them.
fn check_flags(projection: Doc<'_>) -> Result<()> {
    for (name, v) in projection.iter() {
        match v {
            Value::Document(d) if !name.starts_with('$') => check_flags(d)?,
            v if (v.is_number() || v.as_bool().is_some()) && !name.starts_with('$') => {}
            _ => bail!(
                51_271,
                "a 'wildcardProjection' cannot compute fields: '{name}' is of type {}",
                v.type_name()
            ),
        }
    }
    Ok(())
}

/// Whether the projection has this path, a parent of it, or a path inside it.
fn covers(projection: Doc<'_>, field: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut flags = Vec::new();
    flatten("", projection, &mut flags);
    let of_id = field == "_id" || field.starts_with("_id.");
    let others = flags.iter().filter(|(p, _)| p != "_id" || of_id);
    let includes = flags.iter().any(|(p, keep)| p != "_id" && *keep);
    let named = |keep: bool| {
        others
            .clone()
            .any(|(p, k)| *k == keep && (within(field, p) || keep && within(p, field)))
    };
    match includes || of_id {
        true => named(true),
        false => !named(false),
    }
}

fn flatten(above: &str, d: Doc<'_>, out: &mut Vec<(String, bool)>) {
    for (name, v) in d.iter() {
        let path = match above {
            "" => name.to_owned(),
            above => format!("{above}.{name}"),
        };
        match v {
            Value::Document(d) => flatten(&path, d, out),
            v => out.push((path, v.truthy())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    fn code_of(key: DocBuf, projection: DocBuf) -> i32 {
        let spec = doc! { "key": &key, "wildcardProjection": &projection };
        check(spec.doc(), IndexKind::Wildcard)
            .err()
            .map_or(0, |e| e.code())
    }

    #[test]
    fn codes() {
        let all = || doc! { "$**": 1i32 };
        assert_eq!(code_of(all(), doc! { "a": 1i32, "_id": false }), 0);
        assert_eq!(code_of(all(), doc! { "a": { "b": 0i32 } }), 0);
        assert_eq!(code_of(all(), doc! { "a": 1i32, "b": 0i32 }), 31254);
        assert_eq!(code_of(all(), doc! { "a": 0i32, "b": 1i32 }), 31253);
        assert_eq!(
            code_of(all(), doc! { "a": { "b": 1i32, "c": 0i32 } }),
            31254
        );
        assert_eq!(code_of(all(), doc! { "a": [1i32] }), 51271);
        assert_eq!(code_of(all(), doc! { "a": "x" }), 51271);
        assert_eq!(code_of(all(), doc! { "a": { "$add": [1i32] } }), 51271);
        let two = || doc! { "a": 1i32, "$**": 1i32 };
        assert_eq!(code_of(two(), doc! { "a": 0i32 }), 0);
        assert_eq!(code_of(two(), doc! { "b": 0i32 }), 7_246_209);
        assert_eq!(code_of(two(), doc! { "a.b": 0i32 }), 7_246_209);
        assert_eq!(code_of(two(), doc! { "b": 1i32 }), 0);
        assert_eq!(code_of(two(), doc! { "a.b": 1i32 }), 7_246_209);
    }
}
