//! `$max`, `$min` of values in BSON order (by the operation's collation), the first of equal ones;
//! nullish values are ignored, null without values. No errors of its own.

use super::{ANY, each_value};
use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Value, compare_with};
use std::cmp::Ordering;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$max",
        parse: |cx, name, spec| {
            nary(cx, name, spec, ANY, |cx, args| {
                best(cx, args, Ordering::Greater)
            })
        },
    },
    Operator {
        name: "$min",
        parse: |cx, name, spec| {
            nary(cx, name, spec, ANY, |cx, args| {
                best(cx, args, Ordering::Less)
            })
        },
    },
];

fn best<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>], better: Ordering) -> Result<Value<'a>> {
    let mut best: Option<Value<'a>> = None;
    each_value(args, |v| {
        if !v.is_nullish() && best.is_none_or(|b| compare_with(&v, &b, cx.collate()) == better) {
            best = Some(v);
        }
    });
    Ok(best.unwrap_or(Value::Null))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$max': '$a'}", "{'a': [1, 2, null]}", "2"),
            ("{'$max': ['$a', 'x']}", "{'a': [1, 2]}", "[1, 2]"),
            ("{'$min': [2, 2.0, 'x', '$none']}", "{}", "2"),
            ("{'$min': [null, '$none']}", "{}", "null"),
        ]);
    }
}
