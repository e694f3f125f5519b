//! `$setDifference`: elements of the first array that are not in the second, each once. Null for a
//! nullish operand. Errors: 17048 / 17049 first / second no array.

use super::Members;
use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$setDifference",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [a, b] = args else { return Ok(Value::Null) };
    if a.is_nullish() || b.is_nullish() {
        return Ok(Value::Null);
    }
    let Value::Array(a) = a else {
        bail!(
            17048,
            "both operands of $setDifference must be arrays. First argument is of type: \
            {}",
            a.type_name()
        );
    };
    let Value::Array(b) = b else {
        bail!(
            17049,
            "both operands of $setDifference must be arrays. Second argument is of type: \
            {}",
            b.type_name()
        );
    };
    let mut seen = Members::of(*b, cx.collate());
    Ok(Value::Array(Array::from_values_in(
        cx.arena,
        a.iter().filter(|v| seen.insert(v)),
    )))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$setDifference': [[3, 1, 3, 2], [2.0]]}", "{}", "[3, 1]"),
            ("{'$setDifference': [null, 'x']}", "{}", "null"),
            ("{'$setDifference': ['x', []]}", "{}", "!17048"),
            ("{'$setDifference': [[], 'x']}", "{}", "!17049"),
            ("{'$setDifference': [[]]}", "{}", "!16020"),
        ]);
    }
}
