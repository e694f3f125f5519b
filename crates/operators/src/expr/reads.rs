//! The fields of the document that an expression reads, from its tree.

use super::node::Expr;
use crate::RequiredFields;

impl dyn Expr + '_ {
    /// Adds the fields that the expression reads.
    pub fn reads(&self, reads: &mut RequiredFields) {
        match self.field_path() {
            Some(path) => reads.add_path(path),
            None if self.reads_more() => reads.add_everything(),
            None => {}
        }
        self.visit(&mut |operand| operand.reads(reads));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Env;
    use crate::expr::check::json;
    use crate::expr::{ParseCx, parse};

    /// The names, separated by spaces; `all` when any field may be read.
    fn names(reads: RequiredFields) -> String {
        let names = reads.names();
        names.map_or("all".to_owned(), |n| {
            n.into_iter().collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn fields_of_expressions() {
        for (text, wanted) in [
            ("1", ""),
            ("'$a.b'", "a"),
            ("{'$add': ['$a', '$b.c']}", "a b"),
            ("{'$literal': '$a'}", ""),
            (
                "{'$let': {'vars': {'x': '$a'}, 'in': {'$add': ['$$x', '$b']}}}",
                "a b",
            ),
            (
                "{'$map': {'input': '$l', 'as': 'i', 'in': ['$$i.n', '$s']}}",
                "l s",
            ),
            ("{'$cond': ['$a', '$b', '$c']}", "a b c"),
            ("{'x': '$a', 'y': ['$b']}", "a b"),
            ("{'$getField': {'field': 'x', 'input': '$a'}}", "a"),
            ("{'$sortArray': {'input': '$l', 'sortBy': {'x': 1}}}", "l"),
            // The field is read from the whole document.
            ("{'$getField': 'a.b'}", "all"),
            ("'$$ROOT'", "all"),
            ("{'$mergeObjects': ['$$CURRENT', '$a']}", "all"),
            ("{'$rand': {}}", "all"),
        ] {
            let env = Env::new(0, 1);
            let e = parse(&mut ParseCx::new(&env), json(text).get()).expect(text);
            let mut reads = RequiredFields::default();
            e.reads(&mut reads);
            assert_eq!(names(reads), wanted, "{text}");
        }
    }
}
