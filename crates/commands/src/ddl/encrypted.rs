//! `encryptedFields` of `create`: checked as MongoDB checks it. The encryption itself happens in
//! clients.

use crate::dispatch::args::{Arg, Kind, arg, check_doc, show, wrong_type};
use crate::dispatch::generic::uuid;
use model::{Array, Doc, Result, Tag, Value, bail, code};

static TOP: &[Arg] = &[
    arg("fields", Kind::Array).required(),
    arg("escCollection", Kind::Str),
    arg("eccCollection", Kind::Str),
    arg("ecocCollection", Kind::Str),
    arg("strEncodeVersion", Kind::Number),
];

static FIELD: &[Arg] = &[
    arg("path", Kind::Str).required(),
    arg("keyId", Kind::OneOf(&[Tag::BINARY])).required(),
    arg("bsonType", Kind::Str),
    arg("queries", Kind::OneOf(&[Tag::ARRAY, Tag::DOCUMENT])),
];

/// One way in which a field is queried.
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

/// Whole numbers of a query, and the least each may be.
const QUERY_NUMBERS: &[(&str, i64)] = &[
    ("contention", 0),
    ("sparsity", 1),
    ("precision", 0),
    ("trimFactor", 0),
    ("strMaxLength", 1),
    ("strMinQueryLength", 1),
    ("strMaxQueryLength", 1),
];

/// Checks `queries` of one field.
fn queries(scope: &str, v: Value<'_>) -> Result<()> {
    let list = match v {
        Value::Missing => return Ok(()),
        Value::Document(d) => return query(&format!("{scope}.queries"), d).map(|_| ()),
        v => v.as_array().unwrap_or(Array::EMPTY),
    };
    let mut types = Vec::new();
    for (i, v) in list.iter().enumerate().filter(|(_, v)| !v.is_nullish()) {
        let scope = format!("{scope}.queries.{i}");
        let Value::Document(d) = v else {
            return Err(wrong_type(&scope, &v, &[Tag::DOCUMENT]));
        };
        types.push(query(&scope, d)?);
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

/// Checks one way of querying and gives its name.
fn query<'a>(scope: &str, d: Doc<'a>) -> Result<&'a str> {
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
    Ok(kind)
}

/// Types whose values cannot be encrypted.
const UNENCRYPTABLE: &[&str] = &["minKey", "maxKey", "null", "undefined"];

/// Checks the whole document. Null among the fields counts as nothing.
///
/// # Errors
/// 40414, 40415, 14, 2, 207, 6316402 empty path, 6316403 path of `_id`, 6338402 path twice, 6338406
/// type, 9867600 null byte.
pub(crate) fn check(doc: Doc<'_>) -> Result<()> {
    let args = check_doc("create.encryptedFields", TOP, doc)?;
    let mut seen: Vec<&str> = Vec::new();
    for (i, v) in args
        .array("fields")
        .unwrap_or(Array::EMPTY)
        .iter()
        .enumerate()
        .filter(|(_, v)| !v.is_nullish())
    {
        let scope = format!("create.encryptedFields.fields.{i}");
        let d = v
            .as_doc()
            .ok_or_else(|| wrong_type(&scope, &v, &[Tag::DOCUMENT]))?;
        let field = check_doc(&scope, FIELD, d)?;
        uuid(&field.value("keyId"))?;
        queries(&scope, field.value("queries"))?;
        let path = field.str("path").unwrap_or("");
        if path.is_empty() {
            bail!(6_316_402, "Encrypted field must have a path");
        }
        if path.contains('\0') {
            bail!(9_867_600, "Encrypted field path must not hold a null byte");
        }
        if path == "_id" || path.starts_with("_id.") {
            bail!(6_316_403, "Cannot encrypt _id or its subfields");
        }
        if let Some(name) = field.str("bsonType") {
            if Tag::from_name(name).is_none() {
                bail!(code::BAD_VALUE, "Unknown type name alias: {name}");
            }
            if UNENCRYPTABLE.contains(&name) {
                bail!(
                    6_338_406,
                    "Type '{name}' is not a supported type of encrypted fields"
                );
            }
        }
        if seen.contains(&path) {
            bail!(6_338_402, "Duplicate paths are not allowed: {path}");
        }
        seen.push(path);
    }
    Ok(())
}
