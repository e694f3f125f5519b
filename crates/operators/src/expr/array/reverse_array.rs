//! `$reverseArray`. Null for nullish. Errors: 34435 no array.

use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$reverseArray",
    parse: |cx, name, spec| unary(cx, name, spec, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    match v {
        Value::Array(a) => {
            let items: smallvec::SmallVec<[Value<'a>; 16]> = a.iter().collect();
            Ok(Value::Array(Array::from_values_in(
                cx.arena,
                items.into_iter().rev(),
            )))
        }
        v if v.is_nullish() => Ok(Value::Null),
        v => bail!(
            34435,
            "The argument to $reverseArray must be an array, but was of type: {}",
            v.type_name()
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$reverseArray': '$a'}",
                "{'a': [1, [2, 3]]}",
                "[[2, 3], 1]",
            ),
            ("{'$reverseArray': '$none'}", "{}", "null"),
            ("{'$reverseArray': 'x'}", "{}", "!34435"),
        ]);
    }
}
