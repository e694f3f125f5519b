//! Index specifications: what may stand in one, how it is completed, when two conflict.

use super::text_index::{self, TextIndex};
use super::timeseries::Series;
use crate::dispatch::args::{show, to_i64, wrong_type};
use model::{Doc, DocBuf, MongoError, Number, Result, Tag, Value, bail, code, compare, doc};
use operators::collation;

/// Every field an index specification may have.
const OPTIONS: &[&str] = &[
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
];
/// What may stand in the specification of `_id_`.
const ID_OPTIONS: &[&str] = &["key", "name", "v", "ns", "collation"];
/// Fields of the stored specification that are written by name.
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

const FIELDS_MAX: usize = 32;

fn cannot(why: impl Into<String>) -> MongoError {
    MongoError::new(code::CANNOT_CREATE_INDEX, why)
}

/// True for `{_id: 1}`.
pub(crate) fn is_id_key(key: Doc<'_>) -> bool {
    key.count() == 1 && key.field("_id").as_i64_exact() == Some(1)
}

/// Checks `idIndex` of `create`.
///
/// # Errors
/// 9 without key or name, 14, 2 for another key or collation, 67, 197, those of both collations.
pub(crate) fn check_id_index(spec: Doc<'_>, collation: Option<Doc<'_>>) -> Result<()> {
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
            "The field 'key' for an _id index must be {{_id: 1}}, but got {key:?}"
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
        return Err(cannot("index name cannot be empty"));
    }
    if name.contains('\0') {
        return Err(cannot("index names cannot contain null bytes"));
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
        Some(n) => Err(cannot(format!(
            "Invalid index specification; cannot create an index with v={n}"
        ))),
    }
}

/// Checks one specification of `createIndexes` and returns it as it is kept, with the collection's
/// collation where it has none of its own. `None`: it is `_id_`, which is always there.
///
/// # Errors
/// 9, 14, 67, 2, 197, 224, 13103, 16764, 31303, 72 on time series, those of the collation.
pub(crate) fn check(
    spec: Doc<'_>,
    options: Doc<'_>,
    ignore_unknown: bool,
) -> Result<Option<DocBuf>> {
    let (key, name) = key_and_name(spec)?;
    if let Some((unknown, _)) = spec.iter().find(|(k, _)| !OPTIONS.contains(k))
        && !ignore_unknown
    {
        bail!(
            code::INVALID_INDEX_SPECIFICATION_OPTION,
            "The field '{unknown}' is not valid for an index specification. Specification: {spec:?}"
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
                    {spec:?}"
            );
        }
        return Ok(None);
    }
    if key.count() == 1 && key.field("_id").is_number() {
        bail!(
            code::BAD_VALUE,
            "The field 'key' for an _id index must be {{_id: 1}}, but got {key:?}"
        );
    }
    if name == "_id_" {
        bail!(
            code::BAD_VALUE,
            "The index name '_id_' is reserved for the _id index, which must have key pattern \
                {{_id: 1}}, found key: {key:?}"
        );
    }
    flags(spec)?;
    ttl(spec, key)?;
    partial(spec)?;
    special(spec, kind, options)?;
    on_timeseries(spec, options, kind)?;
    let text = match kind {
        Special::Text => Some(TextIndex::parse(spec, key)?),
        _ => None,
    };
    complete(spec, key, name, options, text.as_ref()).map(Some)
}

/// What the special part of a key is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Special {
    None,
    Hashed,
    Text,
    Geo2d,
    Sphere,
    Wildcard,
}

fn check_key(key: Doc<'_>) -> Result<Special> {
    if key.is_empty() {
        return Err(cannot("Index keys cannot be an empty object"));
    }
    if key.count() > FIELDS_MAX {
        bail!(
            13_103,
            "too many compound keys, at most {FIELDS_MAX}, given {}",
            key.count()
        );
    }
    let mut kind = Special::None;
    let (mut hashed, mut wildcards) = (0, 0);
    for (field, value) in key.iter() {
        let found = match value {
            Value::String("hashed") => {
                hashed += 1;
                Special::Hashed
            }
            Value::String("text") => Special::Text,
            Value::String("2d") => Special::Geo2d,
            Value::String("2dsphere" | "2dsphere_bucket") => Special::Sphere,
            Value::String("wildcard") => bail!(
                7_246_202,
                "The key type 'wildcard' is given by a field named '$**', not by the value"
            ),
            Value::String(other) => return Err(cannot(format!("Unknown index plugin '{other}'"))),
            v if v.is_number() => {
                if v.as_f64() == Some(0.0) || v.as_f64().is_some_and(f64::is_nan) {
                    return Err(cannot("Values in the index key pattern cannot be 0"));
                }
                Special::None
            }
            v => {
                return Err(cannot(format!(
                    "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, \
                        numbers < 0, and strings are allowed",
                    v.type_name()
                )));
            }
        };
        if field == "$**" && found == Special::Text {
            kind = combine(kind, found)?;
        } else if field == "$**" || field.ends_with(".$**") {
            wildcards += 1;
            kind = Special::Wildcard;
        } else {
            check_field(field)?;
            kind = combine(kind, found)?;
        }
    }
    if hashed > 1 {
        bail!(
            31_303,
            "A maximum of one index field is allowed to be hashed but found {hashed} for 'key' \
                {key:?}"
        );
    }
    if wildcards > 1 {
        return Err(cannot("an index has at most one wildcard field"));
    }
    Ok(kind)
}

fn combine(kind: Special, found: Special) -> Result<Special> {
    match (kind, found) {
        (k, Special::None) => Ok(k),
        (Special::None, f) => Ok(f),
        (k, f) if k == f => Ok(k),
        (k, f) => Err(cannot(format!(
            "Can't use more than one index plugin for a single index: {k:?} and {f:?}"
        ))),
    }
}

fn check_field(field: &str) -> Result<()> {
    if field.is_empty() || field.split('.').any(str::is_empty) {
        return Err(cannot(format!(
            "Index keys cannot contain an empty field, given '{field}'"
        )));
    }
    let dollar = field
        .split('.')
        .enumerate()
        .any(|(i, p)| p.starts_with('$') && !(i > 0 && matches!(p, "$id" | "$db" | "$ref")));
    if dollar {
        return Err(cannot(format!(
            "Index key contains an illegal field name: field name starts with '$': '{field}'"
        )));
    }
    Ok(())
}

fn flags(spec: Doc<'_>) -> Result<()> {
    const BOOL_LIKE: &[Tag] = &[
        Tag::BOOL,
        Tag::INT64,
        Tag::INT32,
        Tag::DECIMAL128,
        Tag::DOUBLE,
    ];
    for name in ["unique", "sparse", "background", "prepareUnique"] {
        let v = spec.field(name);
        if !(v.is_missing() || v.is_number() || v.as_bool().is_some()) {
            return Err(wrong_type(&format!("indexes.{name}"), &v, BOOL_LIKE));
        }
    }
    match spec.field("hidden") {
        Value::Missing | Value::Bool(_) => {}
        v => return Err(wrong_type("indexes.hidden", &v, &[Tag::BOOL])),
    }
    match spec.field("collation") {
        Value::Missing => Ok(()),
        Value::Document(d) if d.is_empty() => bail!(
            code::BAD_VALUE,
            "The field 'collation' cannot be an empty object"
        ),
        Value::Document(_) => Ok(()),
        v => Err(wrong_type("indexes.collation", &v, &[Tag::DOCUMENT])),
    }
}

/// The age of documents a TTL index deletes. NaN, which old clients wrote for "never", is the
/// largest age there is.
pub(crate) fn ttl_seconds(v: &Value<'_>) -> Option<i64> {
    if Number::of(v).is_some_and(Number::is_nan) {
        Some(i64::from(i32::MAX))
    } else {
        to_i64(v)
    }
}

fn ttl(spec: Doc<'_>, key: Doc<'_>) -> Result<()> {
    let v = spec.field("expireAfterSeconds");
    if v.is_missing() {
        return Ok(());
    }
    match ttl_seconds(&v) {
        Some(n) if (0..=i64::from(i32::MAX)).contains(&n) => {}
        _ => {
            return Err(cannot(format!(
                "TTL index 'expireAfterSeconds' option must be a number within 0 to {}, given {}",
                i32::MAX,
                show(&v)
            )));
        }
    }
    if key.count() > 1 {
        return Err(cannot(
            "TTL indexes are single-field indexes, compound indexes do not support TTL",
        ));
    }
    Ok(())
}

fn partial(spec: Doc<'_>) -> Result<()> {
    let filter = match spec.field("partialFilterExpression") {
        Value::Missing => return Ok(()),
        Value::Document(d) => d,
        v => {
            return Err(wrong_type(
                "indexes.partialFilterExpression",
                &v,
                &[Tag::DOCUMENT],
            ));
        }
    };
    if spec.field("sparse").truthy() {
        return Err(cannot(
            "cannot mix \"partialFilterExpression\" and \"sparse\" options",
        ));
    }
    partial_filter(filter)
}

/// The part of the filter language a partial index may use.
fn partial_filter(filter: Doc<'_>) -> Result<()> {
    let refuse = |what: &str| {
        Err(cannot(format!(
            "Expression not supported in partial index: {what}"
        )))
    };
    for (name, value) in filter.iter() {
        match (name, value) {
            ("$and" | "$or", Value::Array(parts)) => {
                for d in parts.iter().filter_map(|p| p.as_doc()) {
                    partial_filter(d)?;
                }
            }
            ("$expr", _) => bail!(
                code::QUERY_FEATURE_NOT_ALLOWED,
                "$expr is not allowed in a partial index"
            ),
            ("$text" | "$where", _) => {
                bail!(code::BAD_VALUE, "{name} is not allowed in a partial index")
            }
            (op, _) if op.starts_with('$') => return refuse(op),
            (_, Value::Regex(_)) => return refuse("$regex"),
            (_, Value::Document(ops)) => {
                for (op, v) in ops.iter().filter(|(op, _)| op.starts_with('$')) {
                    let fine = match op {
                        "$exists" => v.truthy(),
                        _ => matches!(
                            op,
                            "$eq"
                                | "$gt"
                                | "$gte"
                                | "$lt"
                                | "$lte"
                                | "$type"
                                | "$in"
                                | "$geoWithin"
                                | "$geoIntersects"
                                | "$ref"
                                | "$id"
                                | "$db"
                                | "$_internalBucketGeoWithin"
                        ),
                    };
                    if !fine {
                        return refuse(op);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn special(spec: Doc<'_>, kind: Special, options: Doc<'_>) -> Result<()> {
    // Without a collation of its own an index has that of its collection.
    let collation = spec
        .field("collation")
        .as_doc()
        .or(options.field("collation").as_doc());
    let on = |name: &str| spec.field(name).truthy();
    match kind {
        Special::Hashed if on("unique") => {
            bail!(
                16_764,
                "Currently hashed indexes cannot guarantee uniqueness. Use a regular index"
            );
        }
        Special::Wildcard
            if on("unique") || on("sparse") || spec.contains("expireAfterSeconds") =>
        {
            return Err(cannot(
                "wildcard indexes do not support 'unique', 'sparse' and 'expireAfterSeconds'",
            ));
        }
        Special::Wildcard
            if spec.field("key").as_doc().is_some_and(|k| k.count() > 1)
                && !spec.contains("wildcardProjection") =>
        {
            return Err(cannot(
                "a compound wildcard index on '$**' needs a 'wildcardProjection' that excludes its \
                    other fields",
            ));
        }
        Special::Text | Special::Geo2d
            if collation.is_some_and(|c| c.field("locale").as_str() != Some("simple")) =>
        {
            return Err(cannot(
                "text and 2d indexes only support the simple collation",
            ));
        }
        _ => {}
    }
    if spec.contains("weights") && kind != Special::Text {
        return Err(cannot(
            "the field 'weights' can only be specified with text indexes",
        ));
    }
    geo(spec, kind)?;
    wildcard_projection(spec, kind)
}

fn geo(spec: Doc<'_>, kind: Special) -> Result<()> {
    if kind == Special::Sphere
        && !matches!(
            spec.field("2dsphereIndexVersion").as_i64_exact(),
            None | Some(1..=4)
        )
    {
        return Err(cannot(format!(
            "unsupported geo index version: {}",
            show(&spec.field("2dsphereIndexVersion"))
        )));
    }
    if kind != Special::Geo2d {
        return Ok(());
    }
    if let Some(bits) = to_i64(&spec.field("bits"))
        && !(1..=32).contains(&bits)
    {
        bail!(
            code::INVALID_OPTIONS,
            "bits for hash must be > 0 and <= 32, but {bits} bits were specified"
        );
    }
    let (min, max) = (
        spec.field("min").as_f64().unwrap_or(-180.0),
        spec.field("max").as_f64().unwrap_or(180.0),
    );
    if min >= max {
        bail!(
            code::INVALID_OPTIONS,
            "region for hash must be valid and have positive area, but [{min}, {max}] was specified"
        );
    }
    Ok(())
}

fn wildcard_projection(spec: Doc<'_>, kind: Special) -> Result<()> {
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
    if kind != Special::Wildcard {
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
    let truths: Vec<bool> = projection
        .iter()
        .filter(|(k, v)| *k != "_id" && (v.is_number() || v.as_bool().is_some()))
        .map(|(_, v)| v.truthy())
        .collect();
    if truths.windows(2).any(|w| w[0] != w[1]) {
        bail!(
            31_254,
            "Cannot do exclusion in an inclusion projection or the other way round: {projection:?}"
        );
    }
    Ok(())
}

fn on_timeseries(spec: Doc<'_>, options: Doc<'_>, kind: Special) -> Result<()> {
    let Value::Document(series) = options.field("timeseries") else {
        return Ok(());
    };
    let bad = |what: &str| -> Result<()> {
        bail!(
            code::INVALID_OPTIONS,
            "{what} indexes are not supported on time-series collections"
        )
    };
    if spec.field("unique").truthy() {
        return bad("unique");
    }
    let Some(series) = Series::from_options(series) else {
        return Ok(());
    };
    let key = spec.field("key").as_doc().unwrap_or(Doc::EMPTY);
    if spec.field("sparse").truthy()
        && !key
            .iter()
            .all(|(f, _)| series.is_meta(f) || series.is_time(f))
    {
        return bad("sparse");
    }
    let outside = key.iter().find(|(f, v)| {
        let special = matches!(v, Value::String("2d")) || f.ends_with("$**");
        special && !series.is_meta(f.trim_end_matches(".$**"))
    });
    match (kind, outside) {
        (Special::Text, _) => return bad("text"),
        (Special::Hashed, _) => {
            return Err(cannot(
                "hashed indexes are not supported on time-series collections",
            ));
        }
        (Special::Geo2d, Some((field, _))) => {
            return Err(cannot(format!(
                "2d indexes on measurements of time-series collections are not supported, given \
                    '{field}'"
            )));
        }
        (Special::Wildcard, Some((field, _))) => bail!(
            7_246_201,
            "wildcard indexes on measurements of time-series collections are not supported, given \
                '{field}'"
        ),
        _ => {}
    }
    let partial = spec.field("partialFilterExpression").as_doc();
    let of_time = key.count() == 1 && key.iter().all(|(f, _)| series.is_time(f));
    if spec.contains("expireAfterSeconds")
        && !(of_time && partial.is_some_and(|p| series.only_meta(p)))
    {
        return bad("TTL");
    }
    if partial.is_some()
        && spec
            .field("collation")
            .as_doc()
            .is_some_and(|c| c.field("locale").as_str() != Some("simple"))
    {
        bail!(
            code::INDEX_OPTIONS_CONFLICT,
            "a partial index on a time-series collection must have the collation of the collection"
        );
    }
    Ok(())
}

/// The stored form. The collation of the collection is complete already.
fn complete(
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
        // Builds never block; the word is kept for those who ask what they said.
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

/// Fields that, with the key, make an index another one.
const SIGNATURE: &[&str] = &[
    "unique",
    "sparse",
    "collation",
    "partialFilterExpression",
    "wildcardProjection",
];

fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    a.is_missing() == b.is_missing() && compare(a, b).is_eq()
}

/// Same fields in the same order and of the same direction.
pub(crate) fn same_key(a: Doc<'_>, b: Doc<'_>) -> bool {
    a.count() == b.count()
        && a.iter()
            .zip(b.iter())
            .all(|((ka, va), (kb, vb))| ka == kb && same(&va, &vb))
}

/// True when the index is there already.
///
/// # Errors
/// 85 IndexOptionsConflict, 86 IndexKeySpecsConflict, 67 for a second text index.
pub(crate) fn conflicts(new: Doc<'_>, old: Doc<'_>) -> Result<bool> {
    let key = |d: Doc<'_>| match d.field("key") {
        Value::Document(k) => k.to_buf(),
        _ => DocBuf::new(),
    };
    let name = |d: Doc<'_>| d.field("name").as_str().unwrap_or("").to_owned();
    let signature = same_key(key(new).doc(), key(old).doc())
        && SIGNATURE.iter().all(|f| same(&new.field(f), &old.field(f)));
    match (name(new) == name(old), signature) {
        (true, false) => bail!(
            code::INDEX_KEY_SPECS_CONFLICT,
            "An existing index has the same name as the requested index. When index names are not \
                specified, they are auto generated and can cause conflicts. Requested index: \
                {new:?}, existing index: {old:?}"
        ),
        (false, true) => bail!(
            code::INDEX_OPTIONS_CONFLICT,
            "Index already exists with a different name: {}",
            name(old)
        ),
        (true, true) => {
            let differs = |name: &&str| !same(&new.field(name), &old.field(name));
            if ["expireAfterSeconds"]
                .iter()
                .chain(text_index::FIELDS)
                .any(differs)
            {
                bail!(
                    code::INDEX_OPTIONS_CONFLICT,
                    "An equivalent index already exists with the same name but different options. \
                        Requested index: {new:?}, existing index: {old:?}"
                );
            }
            Ok(true)
        }
        (false, false) if key(new).doc().contains("_fts") && key(old).doc().contains("_fts") => {
            Err(cannot(format!(
                "only one text index per collection allowed, found existing text index \"{}\"",
                name(old)
            )))
        }
        (false, false) => Ok(false),
    }
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
            code_of(
                doc! { "key": { "a": 1i32 }, "name": "x", "partialFilterExpression": { "a": { "$ne": 1i32 } } }
            ),
            67
        );
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
