//! `$ifNull`: the first operand that is neither null, undefined nor missing, else the last operand
//! unchanged. 1257300 fewer than two operands.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, parse_args};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$ifNull",
    parse: |cx, name, spec| {
        let mut args = parse_args(cx, name, spec, 0, usize::MAX)?;
        if args.len() < 2 {
            bail!(
                1257300,
                "$ifNull needs at least two arguments, had: {}",
                args.len()
            );
        }
        // Operands after a constant are never evaluated, so they cannot fail.
        if let Some(end) = args
            .iter()
            .position(|e| e.constant().is_some_and(|v| !v.is_nullish()))
        {
            args.truncate(end + 1);
        }
        Ok(Box::new(IfNull(args)))
    },
}];

struct IfNull(Vec<BoxExpr>);

impl Expr for IfNull {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut last = Value::Missing;
        for arg in &self.0 {
            last = arg.eval(cx)?;
            if !last.is_nullish() {
                break;
            }
        }
        Ok(last)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.0.iter().for_each(|a| each(a.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$ifNull": ["$missing", "$n", "$a"]}"#, "int 5"),
            (r#"{"$ifNull": ["$n", "$missing"]}"#, "missing MISSING"),
            (r#"{"$ifNull": ["$a", {"$abs": "$s"}]}"#, "int 5"),
            (r#"{"$ifNull": [1, {"$divide": [1, 0]}]}"#, "int 1"),
            (r#"{"$ifNull": ["$a", {"$divide": [1, 0]}]}"#, "error 2"),
            (r#"{"$ifNull": [1]}"#, "error 1257300"),
        ]);
    }
}
