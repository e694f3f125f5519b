//! `$sample: {size: n}`: n random documents. Errors: 28745 no object, 28746 size no number, 28747
//! size not positive, 28748 unknown field, 28749 no size.

use super::sort::Sort;
use crate::exec::SortPattern;
use crate::stage::{ApiClass, Placement, Stage, StageNeeds, StageOp};
use model::{Number, Result, Value, bail, doc};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$sample",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |_, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                28745,
                "the {name} stage specification must be an object, not {}",
                arg.type_name()
            );
        };
        let mut size = None;
        for (field, v) in spec.iter() {
            if field != "size" {
                bail!(28748, "unrecognized option to {name}: {field}");
            }
            let Some(n) = Number::of(&v) else {
                bail!(
                    28746,
                    "size argument to {name} must be a number, not {}",
                    v.type_name()
                )
            };
            let n = u64::try_from(n.to_i64_lenient()).unwrap_or(0);
            if n == 0 {
                bail!(
                    28747,
                    "size argument to {name} must be a positive integer, not {v}"
                );
            }
            size = Some(n);
        }
        let Some(size) = size else {
            bail!(28749, "{name} stage must specify a size")
        };
        sample(size)
    },
}];

/// A sort by random numbers that keeps the first n: every document has the same probability, and so
/// has every order.
fn sample(size: u64) -> Result<Vec<Arc<dyn Stage>>> {
    let by_chance = SortPattern::parse(doc! { "$rand": { "$meta": "randVal" } }.doc())?;
    Ok(Sort::new(by_chance).with_limit(size).into_iter().collect())
}
