//! `$and` and `$or`: operands are evaluated from the left until one decides. No operands: `$and` is
//! true, `$or` false.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, parse_args};
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$and",
        parse: |cx, name, spec| {
            Ok(Box::new(Junction {
                args: parse_args(cx, name, spec, 0, usize::MAX)?,
                decides: false,
            }))
        },
    },
    Operator {
        name: "$or",
        parse: |cx, name, spec| {
            Ok(Box::new(Junction {
                args: parse_args(cx, name, spec, 0, usize::MAX)?,
                decides: true,
            }))
        },
    },
];

struct Junction {
    args: Vec<BoxExpr>,
    /// The truth of an operand that settles the result.
    decides: bool,
}

impl Expr for Junction {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        for arg in &self.args {
            if arg.eval(cx)?.truthy() == self.decides {
                return Ok(Value::Bool(self.decides));
            }
        }
        Ok(Value::Bool(!self.decides))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.args.iter().for_each(|a| each(a.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$and": []}"#, "bool true"),
            (r#"{"$or": []}"#, "bool false"),
            (r#"{"$and": ["$a", "$missing"]}"#, "bool false"),
            (r#"{"$or": ["$n", 0, "$arr"]}"#, "bool true"),
            (r#"{"$and": "$s"}"#, "bool true"),
            // The second operand would fail on this document, but is not reached.
            (r#"{"$or": ["$a", {"$abs": "$s"}]}"#, "bool true"),
            (r#"{"$and": ["$a", {"$abs": "$s"}]}"#, "error 28765"),
        ]);
    }
}
