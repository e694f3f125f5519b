//! The queries that an encrypted field supports: equality, range, parts of its text. Types and
//! limits follow the manual ("Encrypted Fields and Enabled Queries").

use model::{Array, Doc, Result, Tag, Value, bail, code, compare};
use request::args::{Arg, Args, Kind, arg, check_doc, show, wrong_type};

/// The fields of one supported query.
static QUERY: &[Arg] = &[
    arg("queryType", Kind::Str).required(),
    arg("contention", Kind::Number),
    arg("min", Kind::Any),
    arg("max", Kind::Any),
    arg("sparsity", Kind::Number),
    arg("precision", Kind::Number),
    arg("trimFactor", Kind::Number),
    arg("strMaxLength", Kind::Number),
    arg("strMinQueryLength", Kind::Number),
    arg("strMaxQueryLength", Kind::Number),
    arg("caseSensitive", Kind::Bool),
    arg("diacriticSensitive", Kind::Bool),
];

const QUERY_TYPES: &[&str] = &[
    "equality",
    "range",
    "rangePreview",
    "substringPreview",
    "suffixPreview",
    "prefixPreview",
];

/// Integer fields of a query, with their smallest values.
const QUERY_NUMBERS: &[(&str, i64)] = &[
    ("contention", 0),
    ("sparsity", 1),
    ("precision", 0),
    ("trimFactor", 0),
    ("strMaxLength", 1),
    ("strMinQueryLength", 1),
    ("strMaxQueryLength", 1),
];

/// Checks the `queries` of one field whose values have this type.
///
/// # Errors
/// 14 TypeMismatch, 40414 IDLMissingField, 40415 IDLFailedToParse, 2 BadValue, 9 FailedToParse;
/// 9783412, 9783413, 9783414 for the number of queries; 6338405, 6775201, 9783400 for a type that
/// does not support the query; those of bounds and lengths.
pub(super) fn check(scope: &str, v: Value<'_>, bson_type: Option<&str>) -> Result<()> {
    let list = match v {
        Value::Missing => return Ok(()),
        Value::Document(d) => {
            let scope = format!("{scope}.queries");
            return query(&scope, d, bson_type).map(|_| ());
        }
        v => v.as_array().unwrap_or(Array::EMPTY),
    };
    let mut types = Vec::new();
    for (i, v) in list.iter().enumerate().filter(|(_, v)| !v.is_nullish()) {
        let scope = format!("{scope}.queries.{i}");
        let Value::Document(d) = v else {
            return Err(wrong_type(&scope, &v, &[Tag::DOCUMENT]));
        };
        types.push(query(&scope, d, bson_type)?);
    }
    let of_ends = |t: &&str| matches!(*t, "suffixPreview" | "prefixPreview");
    match types.as_slice() {
        [] => bail!(9_783_412, "At least one query type must be given"),
        [_] => Ok(()),
        [a, b] if of_ends(a) && of_ends(b) && a != b => Ok(()),
        [_, _] => bail!(
            9_783_414,
            "Two query types of one field must be suffixPreview and prefixPreview"
        ),
        _ => bail!(
            9_783_413,
            "At most two query types of one field are allowed"
        ),
    }
}

/// Checks one supported query and returns its type.
fn query<'a>(scope: &str, d: Doc<'a>, bson_type: Option<&str>) -> Result<&'a str> {
    let q = check_doc(scope, QUERY, d)?;
    let kind = q.str("queryType").unwrap_or("");
    if !QUERY_TYPES.contains(&kind) {
        bail!(
            code::BAD_VALUE,
            "Enumeration value '{kind}' for field '{scope}.queryType' is not a valid value"
        );
    }
    for (name, least) in QUERY_NUMBERS {
        let v = q.value(name);
        if v.is_missing() {
            continue;
        }
        match v.as_i64_exact() {
            Some(n) if n >= *least => {}
            Some(n) => bail!(
                code::BAD_VALUE,
                "BSON field '{scope}.{name}' value must be >= {least}, actual value '{n}'"
            ),
            None => bail!(
                code::FAILED_TO_PARSE,
                "Expected an integer: {name}: {}",
                show(&v)
            ),
        }
    }
    let Some(bson_type) = bson_type else {
        return Ok(kind);
    };
    match kind {
        "equality" if NOT_EQUAL.contains(&bson_type) => bail!(
            6_338_405,
            "Type '{bson_type}' is not a supported type of fields queried for equality"
        ),
        "equality" => {}
        "range" | "rangePreview" => range(&q, bson_type)?,
        _ => text(&q, kind, bson_type)?,
    }
    Ok(kind)
}

/// Types that do not support equality queries while encrypted.
const NOT_EQUAL: &[&str] = &["double", "decimal", "object", "array"];
/// Types that support range queries, with the size of their values in bits.
const RANGED: &[(&str, i64)] = &[
    ("int", 32),
    ("long", 64),
    ("date", 64),
    ("double", 64),
    ("decimal", 128),
];
const SPARSITY_MAX: i64 = 8;

/// Checks a range query.
///
/// # Errors
/// 6775201 a type without ranges, 6775214 sparsity, 7018200 and 7018201 a bound of another type,
/// 6720005 bounds in the wrong order, 6967100 one fractional bound without the other and the
/// precision, 8574000 `trimFactor`.
fn range(q: &Args<'_>, bson_type: &str) -> Result<()> {
    let Some((_, bits)) = RANGED.iter().find(|(name, _)| *name == bson_type) else {
        bail!(
            6_775_201,
            "Type '{bson_type}' is not a supported type of fields queried by range"
        );
    };
    if q.int("sparsity").is_some_and(|n| n > SPARSITY_MAX) {
        bail!(
            6_775_214,
            "The field 'sparsity' must be 1 to {SPARSITY_MAX}, given {}",
            show(&q.value("sparsity"))
        );
    }
    if matches!(bson_type, "double" | "decimal")
        && (q.has("min") != q.has("max") || q.has("min") != q.has("precision"))
    {
        bail!(
            6_967_100,
            "'min', 'max' and 'precision' of a field of type '{bson_type}' are given together"
        );
    }
    for (name, number) in [("min", 7_018_200), ("max", 7_018_201)] {
        let v = q.value(name);
        if !v.is_missing() && v.type_name() != bson_type {
            bail!(
                number,
                "'{name}' must be of the type of the field, '{bson_type}', not '{}'",
                v.type_name()
            );
        }
    }
    let (min, max) = (q.value("min"), q.value("max"));
    let bounded = !min.is_missing() && !max.is_missing();
    if bounded && compare(&min, &max).is_ge() {
        bail!(
            6_720_005,
            "'min' must be less than 'max', given {} and {}",
            show(&min),
            show(&max)
        );
    }
    let bits = match (read_integer(&min), read_integer(&max)) {
        (Some(min), Some(max)) => i64::from(128 - (max - min).unsigned_abs().leading_zeros()),
        _ => *bits,
    };
    if q.int("trimFactor").is_some_and(|n| n > 0 && n >= bits) {
        bail!(
            8_574_000,
            "'trimFactor' must be less than {bits}, the bits of a value, given {}",
            show(&q.value("trimFactor"))
        );
    }
    Ok(())
}

/// A bound as an integer, for types with integer values.
fn read_integer(v: &Value<'_>) -> Option<i128> {
    match v {
        Value::Int32(n) => Some(i128::from(*n)),
        Value::Int64(n) => Some(i128::from(*n)),
        Value::Date(ms) => Some(i128::from(*ms)),
        _ => None,
    }
}

/// Checks a query for parts of a text.
///
/// # Errors
/// 9783400 a type other than text, 9783402 to 9783405 and 9783407 a missing field, 9783406 and
/// 9783408 lengths in the wrong order.
fn text(q: &Args<'_>, kind: &str, bson_type: &str) -> Result<()> {
    if bson_type != "string" {
        bail!(
            9_783_400,
            "Type '{bson_type}' is not a supported type of fields queried by text"
        );
    }
    let needs = |name: &str, number: i32| match q.has(name) {
        true => Ok(()),
        false => bail!(number, "'{name}' is required for the query type '{kind}'"),
    };
    for (name, number) in [
        ("strMinQueryLength", 9_783_402),
        ("strMaxQueryLength", 9_783_403),
        ("caseSensitive", 9_783_404),
        ("diacriticSensitive", 9_783_405),
    ] {
        needs(name, number)?;
    }
    let int = |name: &str| q.int(name).unwrap_or(0);
    if int("strMinQueryLength") > int("strMaxQueryLength") {
        bail!(
            9_783_406,
            "'strMinQueryLength' cannot be greater than 'strMaxQueryLength'"
        );
    }
    if kind != "substringPreview" {
        return Ok(());
    }
    needs("strMaxLength", 9_783_407)?;
    if int("strMaxQueryLength") > int("strMaxLength") {
        bail!(
            9_783_408,
            "'strMaxQueryLength' cannot be greater than 'strMaxLength'"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    fn code_of(bson_type: &str, query: DocBuf) -> i32 {
        check("f", Value::Document(query.doc()), Some(bson_type))
            .err()
            .map_or(0, |e| e.code())
    }

    #[test]
    fn ranges() {
        let range = |t: &str, min: Value<'_>, max: Value<'_>| {
            code_of(t, doc! { "queryType": "range", "min": min, "max": max })
        };
        let (low, high) = (Value::Int32(0), Value::Int32(100));
        assert_eq!(range("int", low, high), 0);
        assert_eq!(range("int", high, high), 6_720_005);
        assert_eq!(range("int", high, low), 6_720_005);
        assert_eq!(range("int", Value::Int64(0), high), 7_018_200);
        assert_eq!(range("int", low, Value::Int64(100)), 7_018_201);
        assert_eq!(range("date", Value::Date(0), Value::Date(9)), 0);
        assert_eq!(
            range("double", Value::Double(0.0), Value::Double(9.0)),
            6_967_100
        );
        assert_eq!(code_of("string", doc! { "queryType": "range" }), 6_775_201);
        let trimmed = |n: i32| doc! { "queryType": "range", "trimFactor": n };
        assert_eq!(code_of("int", trimmed(31)), 0);
        assert_eq!(code_of("int", trimmed(32)), 8_574_000);
        assert_eq!(code_of("int", trimmed(-1)), 2);
        let wide = doc! { "queryType": "range", "trimFactor": 6i32, "min": 0i32, "max": 100i32 };
        assert_eq!(code_of("int", wide), 0);
        let narrow = doc! { "queryType": "range", "trimFactor": 7i32, "min": 0i32, "max": 100i32 };
        assert_eq!(code_of("int", narrow), 8_574_000);
        let sparse = doc! { "queryType": "range", "sparsity": 9i32 };
        assert_eq!(code_of("int", sparse), 6_775_214);
    }

    #[test]
    fn texts_and_equality() {
        let whole = doc! { "queryType": "suffixPreview", "strMinQueryLength": 1i32,
        "strMaxQueryLength": 10i32, "caseSensitive": true, "diacriticSensitive": true };
        assert_eq!(code_of("string", whole.clone()), 0);
        assert_eq!(code_of("int", whole.clone()), 9_783_400);
        let without = |name: &str| {
            DocBuf::build(|w| {
                for (k, v) in whole.doc().iter().filter(|(k, _)| *k != name) {
                    w.put(k, v);
                }
            })
        };
        for (name, number) in [
            ("strMinQueryLength", 9_783_402),
            ("strMaxQueryLength", 9_783_403),
            ("caseSensitive", 9_783_404),
            ("diacriticSensitive", 9_783_405),
        ] {
            assert_eq!(code_of("string", without(name)), number, "{name}");
        }
        let mut part = without("queryType");
        part.put("queryType", "substringPreview");
        assert_eq!(code_of("string", part.clone()), 9_783_407);
        part.put("strMaxLength", 9i32);
        assert_eq!(code_of("string", part), 9_783_408);
        let mut wrong = without("strMinQueryLength");
        wrong.put("strMinQueryLength", 11i32);
        assert_eq!(code_of("string", wrong), 9_783_406);
        assert_eq!(
            code_of("double", doc! { "queryType": "equality" }),
            6_338_405
        );
        assert_eq!(code_of("string", doc! { "queryType": "equality" }), 0);
    }
}
