//! `$allElementsTrue`: whether all elements of an array are true; true for the empty array. Errors:
//! 17040 no array (null too).

use crate::expr::{Operator, unary};
use model::{Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$allElementsTrue",
    parse: |cx, name, spec| {
        unary(cx, name, spec, |_, v| match v {
            Value::Array(a) => Ok(Value::Bool(a.iter().all(|v| v.truthy()))),
            v => bail!(
                17040,
                "$allElementsTrue's argument must be an array, but is {}",
                v.type_name()
            ),
        })
    },
}];

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$allElementsTrue': [[1, 'x', []]]}", "{}", "true"),
            ("{'$allElementsTrue': [[1, 0.0]]}", "{}", "false"),
            ("{'$allElementsTrue': ['$a']}", "{'a': []}", "true"),
            ("{'$allElementsTrue': ['$a']}", "{}", "!17040"),
            ("{'$allElementsTrue': [1, 2]}", "{}", "!16020"),
        ]);
    }
}
