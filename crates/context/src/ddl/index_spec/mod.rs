//! Index specifications: what they may contain, how they are completed, when two conflict.

mod clustering;
mod columns;
mod conflicts;
mod key;
mod options;
mod projection;
mod stored;

pub use columns::check_change;
pub use conflicts::{conflicts, same_key};
pub use options::ttl_seconds;
pub use stored::listed_spec;

use super::text_index::TextIndex;
use key::{IndexKind, check_key, index_error};
use model::{Doc, DocBuf, Result, Tag, Value, bail, code, doc};
use operators::collation;
use options::{flags, on_timeseries, partial, special, ttl};
use request::args::{show, wrong_type};
use stored::{OPTIONS, complete};

/// Fields that the specification of `_id_` may have.
const ID_OPTIONS: &[&str] = &["key", "name", "v", "ns", "collation"];
/// True for `{_id: 1}`.
pub fn is_id_key(key: Doc<'_>) -> bool {
    key.count() == 1 && key.field("_id").as_i64_exact() == Some(1)
}

/// Checks `idIndex` of `create`.
///
/// # Errors
/// 9 FailedToParse without key or name, 14 TypeMismatch, 2 BadValue for another key or collation,
/// 67 CannotCreateIndex, 197 InvalidIndexSpecificationOption, those of both collations.
pub fn check_id_index(spec: Doc<'_>, collation: Option<Doc<'_>>) -> Result<()> {
    let (key, _) = key_and_name(spec)?;
    if let Some((name, _)) = spec.iter().find(|(k, _)| !ID_OPTIONS.contains(k)) {
        bail!(
            code::INVALID_INDEX_SPECIFICATION_OPTION,
            "The field '{name}' is not valid for an _id index specification"
        );
    }
    version(spec)?;
    if !is_id_key(key) {
        bail!(
            code::BAD_VALUE,
            "The field 'key' for an _id index must be {{_id: 1}}, but got {key}"
        );
    }
    let collection = match collation {
        Some(c) => collation::normalize_typed(c, "create.collation")?,
        None => doc! { "locale": "simple" },
    };
    if let Value::Document(d) = spec.field("collation")
        && collation::normalize(d)? != collection
    {
        bail!(
            code::BAD_VALUE,
            "'idIndex' must have the same collation as the collection"
        );
    }
    Ok(())
}

fn key_and_name<'a>(spec: Doc<'a>) -> Result<(Doc<'a>, &'a str)> {
    let key = match spec.field("key") {
        Value::Document(d) => d,
        Value::Missing => bail!(
            code::FAILED_TO_PARSE,
            "The 'key' field is a required property of an index specification"
        ),
        v => return Err(wrong_type("indexes.key", &v, &[Tag::DOCUMENT])),
    };
    let name = match spec.field("name") {
        Value::String(s) => s,
        Value::Missing => bail!(
            code::FAILED_TO_PARSE,
            "The 'name' field is a required property of an index specification"
        ),
        v => return Err(wrong_type("indexes.name", &v, &[Tag::STRING])),
    };
    if name.is_empty() {
        return Err(index_error("index name cannot be empty"));
    }
    if name.contains('\0') {
        return Err(index_error("index names cannot contain null bytes"));
    }
    Ok((key, name))
}

fn version(spec: Doc<'_>) -> Result<()> {
    let v = match spec.field("v") {
        Value::Missing => return Ok(()),
        v if v.is_number() => v,
        v => {
            return Err(wrong_type(
                "indexes.v",
                &v,
                &[Tag::INT64, Tag::INT32, Tag::DOUBLE, Tag::DECIMAL128],
            ));
        }
    };
    match v.as_i64_exact() {
        None => bail!(
            code::BAD_VALUE,
            "Index version must be representable as a 32-bit integer, but got {}",
            show(&v)
        ),
        Some(1 | 2) => Ok(()),
        Some(n) => Err(index_error(format!(
            "Invalid index specification; cannot create an index with v={n}"
        ))),
    }
}

/// Checks one specification of `createIndexes` and returns its stored form, which has the
/// collection's collation if it has none of its own. `None` for `_id_`, which always exists.
///
/// # Errors
/// 9 FailedToParse, 14 TypeMismatch, 67 CannotCreateIndex, 2 BadValue, 197
/// InvalidIndexSpecificationOption, 224 QueryFeatureNotAllowed, 13103, 16764, 31303, 72
/// InvalidOptions on time series, those of the collation.
pub fn check(spec: Doc<'_>, options: Doc<'_>, ignore_unknown: bool) -> Result<Option<DocBuf>> {
    let (key, name) = key_and_name(spec)?;
    if let Some((unknown, _)) = spec.iter().find(|(k, _)| !OPTIONS.contains(k))
        && !ignore_unknown
    {
        bail!(
            code::INVALID_INDEX_SPECIFICATION_OPTION,
            "The field '{unknown}' is not valid for an index specification. Specification: {spec}"
        );
    }
    version(spec)?;
    let kind = check_key(key)?;
    if is_id_key(key) {
        if let Some((other, _)) = spec
            .iter()
            .find(|(k, _)| OPTIONS.contains(k) && !ID_OPTIONS.contains(k))
        {
            bail!(
                code::INVALID_INDEX_SPECIFICATION_OPTION,
                "The field '{other}' is not valid for an _id index specification. Specification: \
                    {spec}"
            );
        }
        return Ok(None);
    }
    if key.count() == 1 && key.field("_id").is_number() {
        bail!(
            code::BAD_VALUE,
            "The field 'key' for an _id index must be {{_id: 1}}, but got {key}"
        );
    }
    if name == "_id_" {
        bail!(
            code::BAD_VALUE,
            "The index name '_id_' is reserved for the _id index, which must have key pattern \
                {{_id: 1}}, found key: {key}"
        );
    }
    flags(spec)?;
    ttl(spec, key)?;
    partial(spec)?;
    special(spec, kind, options)?;
    on_timeseries(spec, options, kind)?;
    columns::check(spec, options, kind)?;
    clustering::check(spec, options, kind)?;
    let text = match kind {
        IndexKind::Text => Some(TextIndex::parse(spec, key)?),
        _ => None,
    };
    // A column index has no order, so the collation does not apply.
    let options = match kind {
        IndexKind::Columns => Doc::EMPTY,
        _ => options,
    };
    complete(spec, key, name, options, text.as_ref()).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    fn code_of(d: DocBuf) -> i32 {
        check(d.doc(), Doc::EMPTY, false)
            .err()
            .map_or(0, |e| e.code())
    }

    #[test]
    fn codes() {
        assert_eq!(code_of(doc! { "name": "x" }), 9);
        assert_eq!(code_of(doc! { "key": { "a": 1i32 } }), 9);
        assert_eq!(code_of(doc! { "key": 1i32, "name": "x" }), 14);
        assert_eq!(code_of(doc! { "key": { "a": 0i32 }, "name": "x" }), 67);
        assert_eq!(code_of(doc! { "key": { "a": "abc" }, "name": "x" }), 67);
        assert_eq!(code_of(doc! { "key": { "a..b": 1i32 }, "name": "x" }), 67);
        assert_eq!(
            code_of(doc! { "key": { "a": 1i32 }, "name": "x", "nope": 1i32 }),
            197
        );
        assert_eq!(
            code_of(doc! { "key": { "a": "hashed" }, "name": "x", "unique": true }),
            16764
        );
        assert_eq!(
            code_of(doc! { "key": { "a": 1i32 }, "name": "x", "expireAfterSeconds": -1i32 }),
            67
        );
        assert_eq!(
            code_of(doc! { "key": { "a": 1i32 }, "name": "x",
            "partialFilterExpression": { "a": { "$ne": 1i32 } } }),
            67
        );
        for key in [
            doc! { "$**": "hashed" },
            doc! { "a": "2dsphere", "b.$**": 1i32 },
        ] {
            assert_eq!(code_of(doc! { "key": &key, "name": "x" }), 67);
        }
        assert_eq!(
            code_of(doc! { "key": { "_id": 1i32 }, "name": "x", "hidden": true }),
            197
        );
        assert_eq!(
            code_of(doc! { "key": { "a": 1i32, "b": -1i32 }, "name": "x" }),
            0
        );
    }

    #[test]
    fn conflict_codes() {
        let a = doc! { "key": { "a": 1i32 }, "name": "a" };
        let c = |d: DocBuf| conflicts(d.doc(), a.doc()).map_err(|e| e.code());
        assert_eq!(c(doc! { "key": { "a": 1.0 }, "name": "a" }), Ok(true));
        assert_eq!(c(doc! { "key": { "a": 1i32 }, "name": "b" }), Err(85));
        assert_eq!(c(doc! { "key": { "b": 1i32 }, "name": "a" }), Err(86));
        assert_eq!(
            c(doc! { "key": { "a": 1i32 }, "name": "a", "unique": true }),
            Err(86)
        );
        assert_eq!(
            c(doc! { "key": { "a": 1i32 }, "name": "b", "unique": true }),
            Ok(false)
        );
    }
}
