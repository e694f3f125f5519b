//! `$avg` of numbers, a double or a decimal; null without numbers. Other types are ignored. No
//! errors of its own.

use super::{ANY, each_value};
use crate::Cx;
use crate::expr::{Operator, nary};
use crate::sums::Mean;
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$avg",
    parse: |cx, name, spec| nary(cx, name, spec, ANY, eval),
}];

fn eval<'a>(_: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut mean = Mean::<false>::default();
    each_value(args, |v| mean.add(&v));
    Ok(mean.result())
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$avg': '$a'}", "{'a': [1, 2, 'x', null]}", "1.5"),
            (
                "{'$avg': [{'$numberDecimal': '6.0'}, 4.0]}",
                "{}",
                "{'$numberDecimal': '5.0'}",
            ),
            ("{'$avg': ['x', '$none']}", "{}", "null"),
        ]);
    }
}
