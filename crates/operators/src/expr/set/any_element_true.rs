//! `$anyElementTrue`: whether some element of an array is true; false for the empty array. Errors:
//! 17041 no array (null too).

use crate::expr::{Operator, unary};
use model::{Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$anyElementTrue",
    parse: |cx, name, spec| {
        unary(cx, name, spec, |_, v| match v {
            Value::Array(a) => Ok(Value::Bool(a.iter().any(|v| v.truthy()))),
            v => bail!(
                17041,
                "$anyElementTrue's argument must be an array, but is {}",
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
            ("{'$anyElementTrue': [[0, null, '']]}", "{}", "true"),
            ("{'$anyElementTrue': [[0, null, false]]}", "{}", "false"),
            ("{'$anyElementTrue': ['$a']}", "{'a': []}", "false"),
            ("{'$anyElementTrue': [null]}", "{}", "!17041"),
        ]);
    }
}
