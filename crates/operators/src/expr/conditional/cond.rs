//! `$cond`: `[if, then, else]` or `{if, then, else}`. 16020 another number of operands, 17083 an
//! unknown field, 17080 / 17081 / 17082 no `if` / `then` / `else`.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse, parse_args};
use model::{MongoError, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$cond",
    parse: parse_cond,
}];

fn parse_cond(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let args = match spec {
        Value::Document(d) => {
            let mut found: [Option<BoxExpr>; 3] = [None, None, None];
            for (field, v) in d.iter() {
                let slot = match field {
                    "if" => 0,
                    "then" => 1,
                    "else" => 2,
                    _ => bail!(
                        17083,
                        "Unrecognized parameter to $cond: {field}; allowed are if, \
                        then, else"
                    ),
                };
                found[slot] = Some(parse(cx, v)?);
            }
            let missing = |code: i32, field: &str| {
                MongoError::new(code, format!("Missing '{field}' parameter to $cond"))
            };
            let [test, then, other] = found;
            [
                test.ok_or_else(|| missing(17080, "if"))?,
                then.ok_or_else(|| missing(17081, "then"))?,
                other.ok_or_else(|| missing(17082, "else"))?,
            ]
        }
        spec => match <[BoxExpr; 3]>::try_from(parse_args(cx, name, spec, 3, 3)?) {
            Ok(args) => args,
            Err(_) => return Err(MongoError::internal("three operands were checked")),
        },
    };
    Ok(Box::new(Cond(args)))
}

struct Cond([BoxExpr; 3]);

impl Expr for Cond {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let [test, then, other] = &self.0;
        if test.eval(cx)?.truthy() {
            then.eval(cx)
        } else {
            other.eval(cx)
        }
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.0.iter().for_each(|e| each(e.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$cond": ["$a", "$s", {"$abs": "$s"}]}"#, "string \"x\""),
            (
                r#"{"$cond": {"if": "$missing", "then": 1, "else": "$missing"}}"#,
                "missing MISSING",
            ),
            (r#"{"$cond": [1, 2]}"#, "error 16020"),
            (r#"{"$cond": {}}"#, "error 17080"),
            (r#"{"$cond": {"if": 1}}"#, "error 17081"),
            (r#"{"$cond": {"if": 1, "then": 2}}"#, "error 17082"),
            (r#"{"$cond": {"if": 1, "than": 2}}"#, "error 17083"),
        ]);
    }
}
