//! `$sortByCount: expression`: `$group` by it with a count, then `$sort` by count, most first.
//! Errors: 40149 an object that is no expression, 40147 no field path, 40148 neither.

use super::{StageOp, find};
use crate::pipeline::{Place, StageCx};
use model::{MongoError, Result, Value, bail, doc};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$sortByCount",
    place: Place::ANYWHERE,
    parse: |scx, _, arg| {
        match arg {
            Value::Document(d) if !d.first().is_some_and(|(n, _)| n.starts_with('$')) => {
                bail!(
                    40147,
                    "the sortByCount field must be defined as a $-prefixed path or an expression \
                        inside an object, not {d:?}"
                )
            }
            Value::String(s) if !s.starts_with('$') => {
                bail!(
                    40148,
                    "the sortByCount field must be defined as a $-prefixed path or an expression \
                        inside an object, not \"{s}\""
                )
            }
            Value::Document(_) | Value::String(_) => {}
            other => bail!(
                40149,
                "the sortByCount field must be specified as a string or as an object, not {}",
                other.type_name()
            ),
        }
        let group = doc! { "_id": arg, "count": { "$sum": 1i32 } };
        let mut stages = expand(scx, "$group", (&group).into())?;
        stages.extend(expand(scx, "$sort", (&doc! { "count": -1i32 }).into())?);
        Ok(stages)
    },
}];

/// Parses a stage that another one is shorthand for.
pub(super) fn expand(
    scx: &mut StageCx<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<std::sync::Arc<dyn super::Stage>>> {
    let op = find(name).ok_or_else(|| MongoError::internal("a stage of ours"))?;
    (op.parse)(scx, op.name, arg)
}
