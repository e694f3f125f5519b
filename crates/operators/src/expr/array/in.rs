//! `$in`: `[value, array]`, whether an element compares equal. Errors: 40081 no array (also for
//! null and missing).

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Value, bail, compare_with};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$in",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [wanted, array] = args else {
        return Ok(Value::Null);
    };
    let Value::Array(array) = array else {
        bail!(
            40081,
            "$in requires an array as a second argument, found: {}",
            array.type_name()
        );
    };
    Ok(Value::Bool(
        array
            .iter()
            .any(|v| compare_with(&v, wanted, cx.collate()).is_eq()),
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$in': [1.0, [2, 1]]}", "{}", "true"),
            ("{'$in': ['$none', [null]]}", "{}", "false"),
            ("{'$in': [[1], [1]]}", "{}", "false"),
            ("{'$in': [1, '$none']}", "{}", "!40081"),
            ("{'$in': [1]}", "{}", "!16020"),
        ]);
    }
}
