//! `$rename: {from: "to"}`: moves a value; without a value nothing changes. Neither path may lead
//! through an array. Errors: 2 (not a string, same path, positional paths, arrays on the way), 40
//! conflicts, 9867600 a null byte in the new name.

use super::array_filters::ArrayFilters;
use super::modifier::{Modifier, Outcome, Site, identical};
use super::path::Part;
use model::{Doc, FieldPath, Result, Value, bail, code};

/// Inserts a modifier at a path.
type Insert<'i> = dyn FnMut(&[Part], &str, Box<dyn Modifier>) -> Result<()> + 'i;

pub(super) fn parse(
    from: &str,
    v: Value<'_>,
    filters: &mut ArrayFilters,
    insert: &mut Insert<'_>,
) -> Result<()> {
    let Value::String(to) = v else {
        bail!(
            code::BAD_VALUE,
            "The 'to' field for $rename must be a string: {from}: {}",
            v
        )
    };
    if to.contains('\0') {
        bail!(
            9867600,
            "The 'to' field for $rename cannot contain an embedded null byte"
        );
    }
    let (source, target) = (filters.checked_path(from)?, filters.checked_path(to)?);
    for (what, parts, path) in [("source", &source, from), ("destination", &target, to)] {
        if parts.iter().any(|p| !matches!(p, Part::Name(_))) {
            bail!(
                code::BAD_VALUE,
                "The {what} field for $rename may not be dynamic: {path}"
            );
        }
    }
    let (source_path, target_path) = (FieldPath::new(from), FieldPath::new(to));
    if source_path == target_path {
        bail!(
            code::BAD_VALUE,
            "The source and target field for $rename must differ: {from}: \"{to}\""
        );
    }
    if source_path.is_at_or_below(&target_path) || target_path.is_at_or_below(&source_path) {
        bail!(
            code::BAD_VALUE,
            "The source and target field for $rename must not be on the same path: {from}: \"{to}\""
        );
    }
    insert(
        &source,
        from,
        Box::new(Source {
            path: source_path.clone(),
        }),
    )?;
    insert(
        &target,
        to,
        Box::new(Target {
            source: source_path,
            path: target_path,
        }),
    )
}

/// The value at a path through documents.
fn lookup<'a>(root: Doc<'a>, path: &FieldPath, what: &str) -> Result<Value<'a>> {
    let mut v = Value::Document(root);
    for part in path.parts() {
        v = match v {
            Value::Document(d) => d.field(&part.name),
            Value::Array(_) => bail!(
                code::BAD_VALUE,
                "The {what} field cannot be an array element, '{}' in doc with _id: {} has an \
                    array on its path",
                path.as_str(),
                root.field("_id")
            ),
            _ => Value::Missing,
        };
    }
    Ok(v)
}

struct Source {
    path: FieldPath,
}

impl Modifier for Source {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        lookup(at.root, &self.path, "source")?;
        Ok(if current.is_missing() {
            Outcome::Keep
        } else {
            Outcome::Remove
        })
    }
}

struct Target {
    source: FieldPath,
    path: FieldPath,
}

impl Modifier for Target {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let v = lookup(at.root, &self.source, "source")?;
        if v.is_missing() {
            return Ok(Outcome::Keep);
        }
        lookup(at.root, &self.path, "destination")?;
        if self.path.as_str() == "_id" {
            // A rename of `_id` is an error even when the value is the same.
            bail!(
                code::IMMUTABLE_FIELD,
                "Performing an update on the path '_id' would modify the immutable field '_id'"
            );
        }
        Ok(if identical(&current, &v) {
            Outcome::Keep
        } else {
            Outcome::Set(v)
        })
    }
}
