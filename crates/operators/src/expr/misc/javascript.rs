//! `$function` (and `$accumulator`, its sibling in `$group`): this server runs no JavaScript and
//! answers as MongoDB does with its engine switched off. Errors: 31264 always.

use crate::expr::Operator;
use model::bail;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$function",
    parse: |_, name, _| {
        bail!(
            31264,
            "{name} cannot run without the javascript engine enabled"
        )
    },
}];

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::table::table(&[(
            "{'$function': {'body': 'x', 'args': [], 'lang': 'js'}}",
            "{}",
            "!31264",
        )]);
    }
}
