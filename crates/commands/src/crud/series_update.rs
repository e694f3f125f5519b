//! Which updates of a time-series collection are allowed. Must not know: how measurements lie in
//! buckets.

use super::args::{Mods, UpdateOp};
use crate::ddl::timeseries::Series;
use model::{Result, Value, bail, code};

/// Checks a statement of `update`: only the metadata of all measurements with some metadata may
/// change.
///
/// # Errors
/// 72 InvalidOptions.
pub(super) fn check_series_update(series: &Series, op: &UpdateOp<'_>) -> Result<()> {
    let refuse = |why: &str| -> Result<()> {
        bail!(
            code::INVALID_OPTIONS,
            "Cannot perform an update on a time-series collection {why}"
        )
    };
    if op.upsert {
        return refuse("with upsert: true");
    }
    if !op.multi {
        return refuse("that is not a multi update");
    }
    if !series.has_meta() {
        return refuse("that has no metaField");
    }
    if !series.only_meta(op.filter) {
        return refuse("when querying on a field that is not the metaField");
    }
    let Mods::Update { doc, .. } = &op.mods else {
        return refuse("with an aggregation pipeline");
    };
    for (name, fields) in doc.iter() {
        let Value::Document(fields) = fields else {
            return refuse("with a replacement document");
        };
        if !name.starts_with('$') {
            return refuse("with a replacement document");
        }
        let to_meta =
            |v: Value<'_>| name != "$rename" || v.as_str().is_some_and(|to| series.is_meta(to));
        if !fields
            .iter()
            .all(|(path, v)| series.is_meta(path) && to_meta(v))
        {
            return refuse("that modifies a field other than the metaField");
        }
    }
    Ok(())
}
