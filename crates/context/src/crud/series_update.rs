//! Decides which updates of a time-series collection are allowed. Must not know: how buckets store
//! measurements.

use super::args::{Mods, UpdateOp};
use crate::ddl::timeseries::Series;
use model::{Result, Value, bail, code};

/// Checks a statement of `update`: it may only change metadata, and has to select measurements by
/// metadata and change all of them.
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
    if !series.uses_only_meta(op.filter) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    #[test]
    fn updates_touch_only_metadata() {
        let options = doc! { "timeField": "t", "metaField": "m" };
        let series = Series::from_options(options.doc()).expect("options");
        let check = |d: DocBuf| {
            UpdateOp::of(0, d.doc())
                .and_then(|op| check_series_update(&series, &op))
                .map_err(|e| e.code())
        };
        assert_eq!(
            check(doc! { "q": { "m.a": 1i32 }, "u": { "$set": { "m.b": 2i32 } }, "multi": true }),
            Ok(())
        );
        assert_eq!(
            check(
                doc! { "q": { "$expr": { "$eq": ["$m", 1i32] } }, "u": { "$unset": { "m": "" } },
                "multi": true }
            ),
            Ok(())
        );
        for bad in [
            doc! { "q": {}, "u": { "$set": { "m": 2i32 } } },
            doc! { "q": { "v": 1i32 }, "u": { "$set": { "m": 2i32 } }, "multi": true },
            doc! { "q": { "$expr": { "$eq": ["$v", 1i32] } }, "u": { "$set": { "m": 2i32 } },
            "multi": true },
            doc! { "q": {}, "u": { "$set": { "metal": 2i32 } }, "multi": true },
            doc! { "q": {}, "u": { "$rename": { "m": "n" } }, "multi": true },
            doc! { "q": {}, "u": [{ "$set": { "m": 2i32 } }], "multi": true },
            doc! { "q": {}, "u": { "$set": { "m": 2i32 } }, "multi": true, "upsert": true },
        ] {
            assert_eq!(check(bad.clone()), Err(72), "{bad:?}");
        }
    }
}
