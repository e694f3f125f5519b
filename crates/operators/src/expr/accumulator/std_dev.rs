//! `$stdDevPop`, `$stdDevSamp` of numbers, a double; null of too few numbers. Other types are
//! ignored. No errors of its own.

use super::{ANY, each_value};
use crate::expr::{Operator, nary};
use crate::sums::Deviation;
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$stdDevPop",
        parse: |cx, name, spec| nary(cx, name, spec, ANY, |_, args| deviation(args, false)),
    },
    Operator {
        name: "$stdDevSamp",
        parse: |cx, name, spec| nary(cx, name, spec, ANY, |_, args| deviation(args, true)),
    },
];

fn deviation<'a>(args: &[Value<'a>], sample: bool) -> Result<Value<'a>> {
    let mut d = Deviation::default();
    each_value(args, |v| d.add(&v));
    Ok(d.result(sample))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$stdDevPop': '$a'}", "{'a': [1, 3, 'x']}", "1.0"),
            ("{'$stdDevSamp': [5]}", "{}", "null"),
            ("{'$stdDevPop': []}", "{}", "null"),
        ]);
    }
}
