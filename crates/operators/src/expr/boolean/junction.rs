//! `$and` and `$or`: operands are evaluated from left to right until one decides. Without operands
//! `$and` is true and `$or` is false.

use crate::Cx;
use crate::expr::{BoxExpr, Constant, Expr, Operator, ParseCx, find_failure, parse_args};
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$and",
        parse: |cx, name, spec| parse(cx, name, spec, false),
    },
    Operator {
        name: "$or",
        parse: |cx, name, spec| parse(cx, name, spec, true),
    },
];

/// A constant operand that decides makes the whole expression constant, whatever its position: no
/// other operand is evaluated then. Constant operands that fail are reported first.
fn parse(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    decides: bool,
) -> Result<BoxExpr> {
    let args = parse_args(cx, name, spec, 0, usize::MAX)?;
    let settled = args
        .iter()
        .any(|a| a.constant().is_some_and(|v| v.truthy() == decides));
    if settled && args.iter().all(|a| find_failure(a.as_ref()).is_none()) {
        return Ok(Constant::new_boxed(Value::Bool(decides)));
    }
    Ok(Box::new(Junction { args, decides }))
}

struct Junction {
    args: Vec<BoxExpr>,
    /// The truth value of an operand that decides the result.
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
            // A deciding constant also makes the operands before it unneeded.
            (r#"{"$or": [{"$abs": "$s"}, 1]}"#, "bool true"),
            (r#"{"$and": [{"$abs": "$s"}, 0]}"#, "bool false"),
            (r#"{"$or": [{"$abs": "$s"}, 0]}"#, "error 28765"),
            (r#"{"$or": [{"$abs": "x"}, 1]}"#, "error 28765"),
            // The second operand would fail on this document, but is not evaluated.
            (r#"{"$or": ["$a", {"$abs": "$s"}]}"#, "bool true"),
            (r#"{"$and": ["$a", {"$abs": "$s"}]}"#, "error 28765"),
        ]);
    }
}
