//! Key patterns of indexes.

use model::{Doc, MongoError, Result, Value, bail, code};

const FIELDS_MAX: usize = 32;

/// 67 CannotCreateIndex.
pub(super) fn index_error(why: impl Into<String>) -> MongoError {
    MongoError::new(code::CANNOT_CREATE_INDEX, why)
}

/// The kind of index that a key pattern specifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IndexKind {
    None,
    Hashed,
    Text,
    Geo2d,
    Sphere,
    Wildcard,
    Columns,
}

impl std::fmt::Display for IndexKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            IndexKind::None => "1",
            IndexKind::Hashed => "hashed",
            IndexKind::Text => "text",
            IndexKind::Geo2d => "2d",
            IndexKind::Sphere => "2dsphere",
            IndexKind::Wildcard => "wildcard",
            IndexKind::Columns => "columnstore",
        })
    }
}

/// Checks a key pattern.
///
/// # Errors
/// 67 CannotCreateIndex, 13103 too many fields, 31303 two hashed fields, 7246202.
pub(super) fn check_key(key: Doc<'_>) -> Result<IndexKind> {
    if key.is_empty() {
        return Err(index_error("Index keys cannot be an empty object"));
    }
    if key.count() > FIELDS_MAX {
        bail!(
            13_103,
            "too many compound keys, at most {FIELDS_MAX}, given {}",
            key.count()
        );
    }
    if key.iter().any(|(_, v)| v.as_str() == Some("columnstore")) {
        return check_columns(key);
    }
    let mut kind = IndexKind::None;
    let (mut hashed, mut wildcards, mut plugins) = (0, 0, 0);
    for (field, value) in key.iter() {
        let found = match value {
            Value::String("hashed") => {
                hashed += 1;
                IndexKind::Hashed
            }
            Value::String("text") => IndexKind::Text,
            Value::String("2d") => IndexKind::Geo2d,
            Value::String("2dsphere" | "2dsphere_bucket") => IndexKind::Sphere,
            Value::String("wildcard") => bail!(
                7_246_202,
                "The key type 'wildcard' is given by a field named '$**', not by the value"
            ),
            Value::String(other) => {
                return Err(index_error(format!("Unknown index plugin '{other}'")));
            }
            v if v.is_number() => {
                if v.as_f64() == Some(0.0) || v.as_f64().is_some_and(f64::is_nan) {
                    return Err(index_error("Values in the index key pattern cannot be 0"));
                }
                IndexKind::None
            }
            v => {
                return Err(index_error(format!(
                    "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, \
                        numbers < 0, and strings are allowed",
                    v.type_name()
                )));
            }
        };
        plugins += usize::from(found != IndexKind::None);
        if field == "$**" && found == IndexKind::Text {
            kind = combine(kind, found)?;
        } else if field == "$**" || field.ends_with(".$**") {
            wildcards += 1;
            kind = IndexKind::Wildcard;
        } else {
            check_field(field)?;
            kind = combine(kind, found)?;
        }
    }
    if hashed > 1 {
        bail!(
            31_303,
            "A maximum of one index field is allowed to be hashed but found {hashed} for 'key' \
                {key}"
        );
    }
    if wildcards > 1 {
        bail!(
            7_246_201,
            "an index has at most one wildcard field, given {wildcards}"
        );
    }
    if wildcards > 0 && plugins > 0 {
        return Err(index_error(
            "a wildcard index cannot have fields of other kinds: hashed, text, 2d or 2dsphere",
        ));
    }
    check_overlap(key)?;
    Ok(kind)
}

/// Checks the key of a column index: all top-level fields, or paths.
fn check_columns(key: Doc<'_>) -> Result<IndexKind> {
    let is_all = key.count() == 1 && key.contains("$**");
    let is_path = |(field, v): (&str, Value<'_>)| {
        v.as_str() == Some("columnstore") && field != "$**" && !field.ends_with(".$**")
    };
    if !is_all && !key.iter().all(is_path) {
        return Err(index_error(format!(
            "a column index has the key {{'$**': 'columnstore'}}, or 'columnstore' for each of its \
                paths, given {key}"
        )));
    }
    match is_all {
        true => Ok(()),
        false => key.iter().try_for_each(|(field, _)| check_field(field)),
    }
    .map(|()| IndexKind::Columns)
}

/// Refuses a field that the wildcard of the same index covers, or that contains a covered path.
fn check_overlap(key: Doc<'_>) -> Result<()> {
    let Some(path) = key.iter().find_map(|(f, _)| f.strip_suffix(".$**")) else {
        return Ok(());
    };
    let within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let others = key.iter().filter(|(f, _)| !f.ends_with(".$**"));
    for (field, _) in others {
        if within(field, path) || within(path, field) {
            return Err(index_error(format!(
                "the field '{field}' and the wildcard '{path}.$**' of one index overlap"
            )));
        }
    }
    Ok(())
}

fn combine(kind: IndexKind, found: IndexKind) -> Result<IndexKind> {
    match (kind, found) {
        (k, IndexKind::None) => Ok(k),
        (IndexKind::None, f) => Ok(f),
        (k, f) if k == f => Ok(k),
        (k, f) => Err(index_error(format!(
            "Can't use more than one index plugin for a single index: {k} and {f}"
        ))),
    }
}

fn check_field(field: &str) -> Result<()> {
    if field.is_empty() || field.split('.').any(str::is_empty) {
        return Err(index_error(format!(
            "Index keys cannot contain an empty field, given '{field}'"
        )));
    }
    let dollar = field
        .split('.')
        .enumerate()
        .any(|(i, p)| p.starts_with('$') && !(i > 0 && matches!(p, "$id" | "$db" | "$ref")));
    if dollar {
        return Err(index_error(format!(
            "Index key contains an illegal field name: field name starts with '$': '{field}'"
        )));
    }
    Ok(())
}
