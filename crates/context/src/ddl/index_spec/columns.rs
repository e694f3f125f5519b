//! Column indexes (docs/adr/0103-column-segments.md): they store values in addition to the
//! documents and have no entries, so they support no options about entries. Must not know:
//! segments.

use super::key::{IndexKind, index_error};
use model::{Doc, Result, bail, code};
use std::sync::Arc;
use store::Index;

/// Options about entries, which column indexes do not support.
const REFUSED: &[&str] = &[
    "unique",
    "sparse",
    "prepareUnique",
    "expireAfterSeconds",
    "partialFilterExpression",
    "clustering",
    "columnstoreProjection",
];

/// Checks the options of a column index.
///
/// # Errors
/// 67 CannotCreateIndex for an unsupported option and for a collation; 72 InvalidOptions on
/// collections that are capped or a time series.
pub(super) fn check(spec: Doc<'_>, options: Doc<'_>, kind: IndexKind) -> Result<()> {
    if kind != IndexKind::Columns {
        return Ok(());
    }
    let given = |name: &&&str| {
        let v = spec.field(name);
        !v.is_missing() && v.as_bool() != Some(false)
    };
    if let Some(name) = REFUSED.iter().find(given) {
        return Err(index_error(format!(
            "columnstore indexes do not support the option '{name}'"
        )));
    }
    if spec
        .field("collation")
        .as_doc()
        .is_some_and(|c| c.field("locale").as_str() != Some("simple"))
    {
        return Err(index_error(
            "columnstore indexes only support the simple collation",
        ));
    }
    for (name, what) in [("timeseries", "time-series"), ("capped", "capped")] {
        if options.field(name).truthy() {
            bail!(
                code::INVALID_OPTIONS,
                "columnstore indexes are not supported on {what} collections"
            );
        }
    }
    Ok(())
}

/// Refuses every change of a column index by `collMod` except hiding it.
///
/// # Errors
/// 72 InvalidOptions.
pub fn check_change(index: Arc<Index>, has: &dyn Fn(&str) -> bool) -> Result<Arc<Index>> {
    let of_entries = ["expireAfterSeconds", "unique", "prepareUnique"];
    if index.is_columns() && of_entries.iter().any(|name| has(name)) {
        bail!(
            code::INVALID_OPTIONS,
            "columnstore indexes can be hidden, but have none of {}",
            of_entries.join(", ")
        );
    }
    Ok(index)
}
