//! Conflicts between index specifications.

use super::key::index_error;
use crate::ddl::text_index;
use model::{Doc, DocBuf, Result, Value, bail, code, compare};

/// The fields that identify an index together with its key.
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

/// Whether two keys have the same fields in the same order and direction.
pub fn same_key(a: Doc<'_>, b: Doc<'_>) -> bool {
    a.count() == b.count()
        && a.iter()
            .zip(b.iter())
            .all(|((ka, va), (kb, vb))| ka == kb && same(&va, &vb))
}

/// Whether an existing index is the same as the new one.
///
/// # Errors
/// 85 IndexOptionsConflict, 86 IndexKeySpecsConflict, 67 CannotCreateIndex for a second text index.
pub fn conflicts(new: Doc<'_>, old: Doc<'_>) -> Result<bool> {
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
                {new}, existing index: {old}"
        ),
        (false, true) => bail!(
            code::INDEX_OPTIONS_CONFLICT,
            "Index already exists with a different name: {}",
            name(old)
        ),
        (true, true) => {
            let differs = |name: &&str| !same(&new.field(name), &old.field(name));
            if ["expireAfterSeconds", "clustering"]
                .iter()
                .chain(text_index::FIELDS)
                .any(differs)
            {
                bail!(
                    code::INDEX_OPTIONS_CONFLICT,
                    "An equivalent index already exists with the same name but different options. \
                        Requested index: {new}, existing index: {old}"
                );
            }
            Ok(true)
        }
        (false, false) if key(new).doc().contains("_fts") && key(old).doc().contains("_fts") => {
            Err(index_error(format!(
                "only one text index per collection allowed, found existing text index \"{}\"",
                name(old)
            )))
        }
        (false, false) => Ok(false),
    }
}
