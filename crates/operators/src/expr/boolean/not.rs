//! `$not`: the negated truth value of the operand. 16020 unless there is exactly one operand.

use crate::expr::{Operator, unary};
use model::Value;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$not",
    parse: |cx, name, spec| unary(cx, name, spec, |_, v| Ok(Value::Bool(!v.truthy()))),
}];

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$not": "$missing"}"#, "bool true"),
            (r#"{"$not": ["$n"]}"#, "bool true"),
            (r#"{"$not": [["$n"]]}"#, "bool false"),
            (r#"{"$not": {"$numberDecimal": "0.00"}}"#, "bool true"),
            (r#"{"$not": []}"#, "error 16020"),
        ]);
    }
}
