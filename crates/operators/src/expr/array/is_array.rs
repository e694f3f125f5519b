//! `$isArray`: whether the operand is an array; false for missing. No errors of its own.

use crate::expr::{Operator, unary};
use model::Value;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$isArray",
    parse: |cx, name, spec| {
        unary(cx, name, spec, |_, v| {
            Ok(Value::Bool(matches!(v, Value::Array(_))))
        })
    },
}];

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$isArray': '$a'}", "{'a': []}", "true"),
            ("{'$isArray': [[1]]}", "{}", "true"),
            ("{'$isArray': [1]}", "{}", "false"),
            ("{'$isArray': '$none'}", "{}", "false"),
            ("{'$isArray': [1, 2]}", "{}", "!16020"),
        ]);
    }
}
