//! `$size` of an array. Errors: 17124 no array (null and missing too).

use crate::expr::{Operator, unary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$size",
    parse: |cx, name, spec| unary(cx, name, spec, |_, v| size(v)),
}];

fn size<'a>(v: Value<'a>) -> Result<Value<'a>> {
    match v {
        Value::Array(a) => Ok(Value::Int32(i32::try_from(a.len()).unwrap_or(i32::MAX))),
        v => bail!(
            17124,
            "The argument to $size must be an array, but was of type: {}",
            v.type_name()
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$size': '$a'}", "{'a': [1, [2, 3]]}", "2"),
            ("{'$size': '$none'}", "{}", "!17124"),
            ("{'$size': null}", "{}", "!17124"),
        ]);
    }
}
