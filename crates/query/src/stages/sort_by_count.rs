//! `$sortByCount: expression`: `$group` by it with a count, then `$sort` by count, most first.
//! Errors: 40149 an object that is no expression, 40147 no field path, 40148 neither.

use crate::stage::{ApiClass, Placement, StageNeeds, StageOp};
use model::{Value, bail, doc};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$sortByCount",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |scx, _, arg| {
        match arg {
            Value::Document(d) if !d.first().is_some_and(|(n, _)| n.starts_with('$')) => {
                bail!(
                    40147,
                    "the sortByCount field must be defined as a $-prefixed path or an expression \
                        inside an object, not {d}"
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
        let mut stages = scx.expand("$group", (&group).into())?;
        stages.extend(scx.expand("$sort", (&doc! { "count": -1i32 }).into())?);
        Ok(stages)
    },
}];
