//! `$setUnion`: elements that are in some array, each once. Null when an operand is nullish, empty
//! without operands. Errors: 17043 no array.

use super::Members;
use crate::Cx;
use crate::expr::{Operator, nary_unordered};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$setUnion",
    parse: |cx, name, spec| nary_unordered(cx, name, spec, 0..=usize::MAX, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    for v in args {
        match v {
            Value::Array(_) => {}
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                17043,
                "All operands of $setUnion must be arrays. One argument is of type: \
                {}",
                v.type_name()
            ),
        }
    }
    let mut seen = Members::new(cx.collate());
    let mut distinct = Vec::new();
    for v in args
        .iter()
        .filter_map(Value::as_array)
        .flat_map(Array::iter)
    {
        if seen.insert(&v) {
            // Counted twice: each element is stored in the result and as a key of the set.
            cx.spend(0)?;
            distinct.push(v);
        }
    }
    cx.array(&distinct)
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$setUnion': [{'$literal': 'x'}, '$missing']}",
                "{}",
                "null",
            ),
            ("{'$setUnion': [[3, 1, 3], [2, 3.0]]}", "{}", "[3, 1, 2]"),
            ("{'$setUnion': []}", "{}", "[]"),
            ("{'$setUnion': [null, 'x']}", "{}", "null"),
            ("{'$setUnion': ['x', null]}", "{}", "!17043"),
        ]);
    }
}
