//! `$trunc`: a number truncated to a decimal place (default 0, negative left of the point), towards
//! zero. The type does not change. Null and missing give null. Errors as `$round`: 51081, 16004,
//! 31109, 51082, 51083.

use super::round::round_number;
use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Rounding, Value};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$trunc",
    parse: |cx, name, spec| nary(cx, name, spec, 1..=2, trunc),
}];

fn trunc<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    round_number("$trunc", v, Rounding::Trunc)
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$trunc": "$missing"}"#, "null null"),
            (r#"{"$trunc": "$s"}"#, "error 51081"),
            (r#"{"$trunc": []}"#, "error 28667"),
            (r#"{"$trunc": -1.9}"#, "double -1.0"),
            (r#"{"$trunc": [0.29, 2]}"#, "double 0.28"),
            (r#"{"$trunc": [1999, -3]}"#, "int 1000"),
            (r#"{"$trunc": [-1234.5, -20]}"#, "double -0.0"),
            (
                r#"{"$trunc": [{"$numberDecimal": "1.1"}, 3]}"#,
                "decimal 1.100",
            ),
            (
                r#"{"$trunc": [{"$numberDecimal": "1.1"}, 100]}"#,
                "decimal 1.1",
            ),
        ]);
    }
}
