//! `$setIntersection`: elements that are in every array, each once. Null when an operand is
//! nullish, empty without operands. Errors: 17047 no array.

use super::Members;
use crate::Cx;
use crate::expr::{Operator, nary_unordered};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$setIntersection",
    parse: |cx, name, spec| nary_unordered(cx, name, spec, 0..=usize::MAX, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut kept: Option<Vec<Value<'a>>> = None;
    for v in args {
        let a = match v {
            Value::Array(a) => a,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                17047,
                "All operands of $setIntersection must be arrays. One argument is of \
                type: {}",
                v.type_name()
            ),
        };
        let mut here = match kept {
            Some(_) => Members::of(*a, cx.collate()),
            None => Members::new(cx.collate()),
        };
        kept = Some(match kept {
            None => a.iter().filter(|v| here.insert(v)).collect(),
            Some(before) => before.into_iter().filter(|v| here.contains(v)).collect(),
        });
    }
    Ok(Value::Array(Array::from_values_in(
        cx.arena,
        kept.unwrap_or_default(),
    )))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$setIntersection': [[3, 1, 3, 2], [2.0, 3]]}",
                "{}",
                "[3, 2]",
            ),
            ("{'$setIntersection': []}", "{}", "[]"),
            ("{'$setIntersection': [[1], '$none']}", "{}", "null"),
            ("{'$setIntersection': [[1], 'x']}", "{}", "!17047"),
        ]);
    }
}
