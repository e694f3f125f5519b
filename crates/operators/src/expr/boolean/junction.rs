//! `$and` and `$or`: operands are evaluated from the left until one decides. No operands: `$and` is
//! true, `$or` false.

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

/// A constant operand that decides makes the whole constant, wherever it is: no other operand is
/// evaluated then. Constant operands that fail do so first.
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
        return Ok(Constant::boxed(Value::Bool(decides)));
    }
    Ok(Box::new(Junction { args, decides }))
}

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
            // A constant that decides spares the operands before it, too.
            (r#"{"$or": [{"$abs": "$s"}, 1]}"#, "bool true"),
            (r#"{"$and": [{"$abs": "$s"}, 0]}"#, "bool false"),
            (r#"{"$or": [{"$abs": "$s"}, 0]}"#, "error 28765"),
            (r#"{"$or": [{"$abs": "x"}, 1]}"#, "error 28765"),
            // The second operand would fail on this document, but is not reached.
            (r#"{"$or": ["$a", {"$abs": "$s"}]}"#, "bool true"),
            (r#"{"$and": ["$a", {"$abs": "$s"}]}"#, "error 28765"),
        ]);
    }
}
