//! The index option `clustering`, which is specific to Quarry: the index entries contain documents
//! (docs/adr/0096-clustering-indexes.md). Must not know: entries.

use super::key::{IndexKind, index_error};
use model::{Doc, Result, Tag, Value, bail, code};
use request::args::{show, wrong_type};

/// Checks the option.
///
/// # Errors
/// 14 TypeMismatch for another type, 67 CannotCreateIndex for names that are not top-level fields
/// and for kinds of indexes without the option, 72 InvalidOptions on time series.
pub(super) fn check(spec: Doc<'_>, options: Doc<'_>, kind: IndexKind) -> Result<()> {
    let asked = spec.field("clustering");
    match &asked {
        Value::Missing | Value::Bool(false) => return Ok(()),
        Value::Bool(true) => {}
        Value::Array(names) if names.is_empty() => {
            return Err(index_error(
                "'clustering' must be true or name at least one top-level field",
            ));
        }
        Value::Array(names) => names.iter().try_for_each(|v| check_name(&v))?,
        v => {
            return Err(wrong_type(
                "indexes.clustering",
                v,
                &[Tag::BOOL, Tag::ARRAY],
            ));
        }
    }
    if !matches!(kind, IndexKind::None | IndexKind::Hashed) {
        return Err(index_error(format!(
            "'clustering' is for ascending, descending and hashed indexes, not for {kind}"
        )));
    }
    if options.contains("timeseries") {
        bail!(
            code::INVALID_OPTIONS,
            "clustering indexes are not supported on time-series collections"
        );
    }
    Ok(())
}

fn check_name(v: &Value<'_>) -> Result<()> {
    match v {
        Value::String(name)
            if !name.is_empty() && !name.contains(['.', '\0']) && !name.starts_with('$') =>
        {
            Ok(())
        }
        v => Err(index_error(format!(
            "'clustering' must be true or name top-level fields, but has {}",
            show(v)
        ))),
    }
}
