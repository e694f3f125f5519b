//! `$setIsSubset`: whether every element of the first array is in the second. Errors: 17046 / 17042
//! first / second no array (null too).

use super::Members;
use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$setIsSubset",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [a, b] = args else { return Ok(Value::Null) };
    let Value::Array(a) = a else {
        bail!(
            17046,
            "both operands of $setIsSubset must be arrays. First argument is of type: {}",
            a.type_name()
        );
    };
    let Value::Array(b) = b else {
        bail!(
            17042,
            "both operands of $setIsSubset must be arrays. Second argument is of type: {}",
            b.type_name()
        );
    };
    let mut whole = Members::of(*b, cx.collate());
    Ok(Value::Bool(a.iter().all(|v| whole.contains(&v))))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$setIsSubset': [[1, 1], [2, 1.0]]}", "{}", "true"),
            ("{'$setIsSubset': [[1, 3], [2, 1.0]]}", "{}", "false"),
            ("{'$setIsSubset': [[], []]}", "{}", "true"),
            ("{'$setIsSubset': [null, []]}", "{}", "!17046"),
            ("{'$setIsSubset': [[], null]}", "{}", "!17042"),
        ]);
    }
}
