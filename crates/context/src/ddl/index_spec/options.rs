//! Options of index specifications.

use super::key::{IndexKind, index_error};
use super::projection;
use crate::ddl::timeseries::Series;
use model::{Doc, Number, Result, Tag, Value, bail, code};
use request::args::{BOOL_LIKE, show, to_i64, wrong_type};

pub(super) fn flags(spec: Doc<'_>) -> Result<()> {
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

/// The age in seconds at which a TTL index deletes documents. NaN, which old clients wrote for
/// "never", gives the largest age.
pub fn ttl_seconds(v: &Value<'_>) -> Option<i64> {
    if Number::of(v).is_some_and(Number::is_nan) {
        Some(i64::from(i32::MAX))
    } else {
        to_i64(v)
    }
}

pub(super) fn ttl(spec: Doc<'_>, key: Doc<'_>) -> Result<()> {
    let v = spec.field("expireAfterSeconds");
    if v.is_missing() {
        return Ok(());
    }
    match ttl_seconds(&v) {
        Some(n) if (0..=i64::from(i32::MAX)).contains(&n) => {}
        _ => {
            return Err(index_error(format!(
                "TTL index 'expireAfterSeconds' option must be a number within 0 to {}, given {}",
                i32::MAX,
                show(&v)
            )));
        }
    }
    if key.count() > 1 {
        return Err(index_error(
            "TTL indexes are single-field indexes, compound indexes do not support TTL",
        ));
    }
    Ok(())
}

pub(super) fn partial(spec: Doc<'_>) -> Result<()> {
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
        return Err(index_error(
            "cannot mix \"partialFilterExpression\" and \"sparse\" options",
        ));
    }
    partial_filter(filter)
}

/// Checks that a partial index uses only the supported part of the filter language.
fn partial_filter(filter: Doc<'_>) -> Result<()> {
    let refuse = |what: &str| {
        Err(index_error(format!(
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
                        // `$all` is allowed if all its elements are equalities.
                        "$all" => v.as_array().is_some_and(|a| {
                            a.iter()
                                .all(|v| !matches!(v, Value::Regex(_) | Value::Document(_)))
                        }),
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

pub(super) fn special(spec: Doc<'_>, kind: IndexKind, options: Doc<'_>) -> Result<()> {
    // An index without a collation has the collation of its collection.
    let collation = spec
        .field("collation")
        .as_doc()
        .or(options.field("collation").as_doc());
    let on = |name: &str| spec.field(name).truthy();
    match kind {
        IndexKind::Hashed if on("unique") => {
            bail!(
                16_764,
                "Currently hashed indexes cannot guarantee uniqueness. Use a regular index"
            );
        }
        IndexKind::Wildcard
            if on("unique") || on("sparse") || spec.contains("expireAfterSeconds") =>
        {
            return Err(index_error(
                "wildcard indexes do not support 'unique', 'sparse' and 'expireAfterSeconds'",
            ));
        }
        IndexKind::Wildcard
            if spec
                .field("key")
                .as_doc()
                .is_some_and(|k| k.count() > 1 && k.contains("$**"))
                && !spec.contains("wildcardProjection") =>
        {
            return Err(index_error(
                "a compound wildcard index on '$**' needs a 'wildcardProjection' that excludes its \
                    other fields",
            ));
        }
        IndexKind::Text | IndexKind::Geo2d
            if collation.is_some_and(|c| c.field("locale").as_str() != Some("simple")) =>
        {
            return Err(index_error(
                "text and 2d indexes only support the simple collation",
            ));
        }
        _ => {}
    }
    if spec.contains("weights") && kind != IndexKind::Text {
        return Err(index_error(
            "the field 'weights' can only be specified with text indexes",
        ));
    }
    geo(spec, kind)?;
    projection::check(spec, kind)
}

/// Numeric options of geospatial indexes; they are checked for every kind of index.
const GEO_NUMBERS: &[&str] = &["2dsphereIndexVersion", "bits", "min", "max", "bucketSize"];

fn geo(spec: Doc<'_>, kind: IndexKind) -> Result<()> {
    for name in GEO_NUMBERS {
        let v = spec.field(name);
        if !(v.is_missing() || v.is_number()) {
            const NUMBER: &[Tag] = &[Tag::INT64, Tag::INT32, Tag::DECIMAL128, Tag::DOUBLE];
            return Err(wrong_type(&format!("indexes.{name}"), &v, NUMBER));
        }
    }
    let version = spec.field("2dsphereIndexVersion");
    if kind == IndexKind::Sphere
        && !version.is_missing()
        && !matches!(version.as_i64_exact(), Some(1..=3))
    {
        return Err(index_error(format!(
            "unsupported geo index version: {}",
            show(&spec.field("2dsphereIndexVersion"))
        )));
    }
    if kind != IndexKind::Geo2d {
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

pub(super) fn on_timeseries(spec: Doc<'_>, options: Doc<'_>, kind: IndexKind) -> Result<()> {
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
        (IndexKind::Text, _) => return bad("text"),
        (IndexKind::Hashed, _) => {
            return Err(index_error(
                "hashed indexes are not supported on time-series collections",
            ));
        }
        (IndexKind::Geo2d, Some((field, _))) => {
            return Err(index_error(format!(
                "2d indexes on measurements of time-series collections are not supported, given \
                    '{field}'"
            )));
        }
        (IndexKind::Wildcard, Some((field, _))) => bail!(
            7_246_201,
            "wildcard indexes on measurements of time-series collections are not supported, given \
                '{field}'"
        ),
        _ => {}
    }
    let partial = spec.field("partialFilterExpression").as_doc();
    let of_time = key.count() == 1 && key.iter().all(|(f, _)| series.is_time(f));
    if spec.contains("expireAfterSeconds")
        && !(of_time && partial.is_some_and(|p| series.uses_only_meta(p)))
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
