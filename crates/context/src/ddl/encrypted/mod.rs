//! The `encryptedFields` of `create`, checked as MongoDB checks them. Clients do the encryption.

mod queries;

use model::{Array, Doc, Result, Tag, bail, code};
use request::args::{Arg, Kind, arg, check_doc, wrong_type};
use request::generic::uuid;

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

/// Types whose values cannot be encrypted.
const UNENCRYPTABLE: &[&str] = &["minKey", "maxKey", "null", "undefined"];

/// Checks the whole document. Null elements in the list of fields are ignored.
///
/// # Errors
/// 40414 IDLMissingField, 40415 IDLFailedToParse, 14 TypeMismatch, 2 BadValue, 207 InvalidUUID,
/// 6316402 empty path, 6316403 path of `_id`, 6338402 path twice, 6338406 type, 9867600 null byte,
/// those of [`queries::check`].
pub fn check(doc: Doc<'_>) -> Result<()> {
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
        queries::check(&scope, field.value("queries"), field.str("bsonType"))?;
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
