//! `$literal` (and its old name `$const`): the argument, unparsed. No errors.

use crate::expr::{Constant, Operator};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$literal",
        parse: |_, _, spec| Ok(Constant::new_boxed(spec)),
    },
    Operator {
        name: "$const",
        parse: |_, _, spec| Ok(Constant::new_boxed(spec)),
    },
];

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$literal': '$a'}", "{'a': 1}", "'$a'"),
            ("{'$const': {'$nope': [1]}}", "{}", "{'$nope': [1]}"),
            ("{'$literal': null}", "{}", "null"),
        ]);
    }
}
