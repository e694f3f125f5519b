//! `$arrayElemAt`: `[array, index]`, negative indexes count from the end. Null for a nullish
//! operand, missing outside the array. Errors: 28689 no array, 28690 index no number, 28691 index
//! no 32-bit integer.

use crate::Cx;
use crate::expr::args::int32_exact;
use crate::expr::{Operator, nary};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$arrayElemAt",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, eval),
}];

fn eval<'a>(_: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [array, index] = args else {
        return Ok(Value::Null);
    };
    if array.is_nullish() || index.is_nullish() {
        return Ok(Value::Null);
    }
    let Value::Array(array) = array else {
        bail!(
            28689,
            "$arrayElemAt's first argument must be an array, but is {}",
            array.type_name()
        );
    };
    if !index.is_number() {
        bail!(
            28690,
            "$arrayElemAt's second argument must be a numeric value, but is {}",
            index.type_name()
        );
    }
    let Some(at) = int32_exact(index) else {
        bail!(
            28691,
            "$arrayElemAt's second argument must be representable as a 32-bit integer: \
            {index}"
        );
    };
    Ok(element(*array, at))
}

/// Element `at`, counted from the end when negative; missing outside the array.
pub(super) fn element(array: Array<'_>, at: i32) -> Value<'_> {
    let index = match usize::try_from(at) {
        Ok(at) => Some(at),
        Err(_) => array.len().checked_sub(at.unsigned_abs() as usize),
    };
    index.and_then(|i| array.get(i)).unwrap_or(Value::Missing)
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$arrayElemAt': [[1, 2, 3], 1]}", "{}", "2"),
            ("{'$arrayElemAt': [[1, 2, 3], -1.0]}", "{}", "3"),
            ("{'$arrayElemAt': ['$a', 3]}", "{'a': [1, 2, 3]}", "missing"),
            (
                "{'$arrayElemAt': ['$a', -4]}",
                "{'a': [1, 2, 3]}",
                "missing",
            ),
            ("{'$arrayElemAt': ['$none', 0]}", "{}", "null"),
            ("{'$arrayElemAt': [[1], null]}", "{}", "null"),
            ("{'$arrayElemAt': ['x', 0]}", "{}", "!28689"),
            ("{'$arrayElemAt': [[1], 'x']}", "{}", "!28690"),
            ("{'$arrayElemAt': [[1], 0.5]}", "{}", "!28691"),
            ("{'$arrayElemAt': [[1], 3000000000]}", "{}", "!28691"),
            ("{'$arrayElemAt': [[1]]}", "{}", "!16020"),
        ]);
    }
}
