//! `$sum` of numbers, in the widest type seen; 0 without numbers. Other types are ignored. No
//! errors of its own.

use super::{ANY, each_value};
use crate::Cx;
use crate::expr::{Operator, nary};
use crate::sums::Sum;
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$sum",
    parse: |cx, name, spec| nary(cx, name, spec, ANY, eval),
}];

fn eval<'a>(_: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut sum = Sum::default();
    each_value(args, |v| sum.add(&v));
    Ok(sum.total())
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$sum': '$a'}", "{'a': [1, 2, 'x', null]}", "3"),
            ("{'$sum': ['$a', 1]}", "{'a': [1, 2]}", "1"),
            ("{'$sum': '$a'}", "{'a': 5}", "5"),
            (
                "{'$sum': [2147483647, 1]}",
                "{}",
                "{'$numberLong': '2147483648'}",
            ),
            ("{'$sum': ['$none', 0.5]}", "{}", "0.5"),
            ("{'$sum': []}", "{}", "0"),
        ]);
    }
}
