//! `$first`, `$last` of one array. Null for nullish, missing for the empty array. Errors: 28689 no
//! array.

use super::array_elem_at::element;
use crate::expr::{Operator, unary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$first",
        parse: |cx, name, spec| unary(cx, name, spec, |_, v| end(v, "$first", 0)),
    },
    Operator {
        name: "$last",
        parse: |cx, name, spec| unary(cx, name, spec, |_, v| end(v, "$last", -1)),
    },
];

fn end<'a>(v: Value<'a>, name: &str, at: i32) -> Result<Value<'a>> {
    match v {
        Value::Array(a) => Ok(element(a, at)),
        v if v.is_nullish() => Ok(Value::Null),
        v => bail!(
            28689,
            "{name}'s argument must be an array, but is {}",
            v.type_name()
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$first': [[1, 2]]}", "{}", "1"),
            ("{'$last': '$a'}", "{'a': [1, 2]}", "2"),
            ("{'$last': '$a'}", "{'a': []}", "missing"),
            ("{'$first': '$a'}", "{}", "null"),
            ("{'$first': 'x'}", "{}", "!28689"),
            ("{'$first': [[1], [2]]}", "{}", "!16020"),
        ]);
    }
}
