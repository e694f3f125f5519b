//! `$type`: the name of the operand's type ("missing" for none). `$isNumber`: whether it is int,
//! long, double or decimal. 16020 unless there is one operand.

use crate::expr::{Operator, unary};
use model::Value;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$type",
        parse: |cx, name, spec| unary(cx, name, spec, |_, v| Ok(Value::String(v.type_name()))),
    },
    Operator {
        name: "$isNumber",
        parse: |cx, name, spec| unary(cx, name, spec, |_, v| Ok(Value::Bool(v.is_number()))),
    },
];

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$type": "$missing"}"#, "string \"missing\""),
            (r#"{"$type": "$n"}"#, "string \"null\""),
            (r#"{"$type": [["$n"]]}"#, "string \"array\""),
            (r#"{"$type": []}"#, "error 16020"),
            (r#"{"$isNumber": "$missing"}"#, "bool false"),
            (r#"{"$isNumber": {"$numberDecimal": "1"}}"#, "bool true"),
        ]);
    }
}
