//! `$replaceOne` and `$replaceAll`: `{input, find, replacement}`: replaces the first or every
//! occurrence of a string. Null if any of them is null or missing. 51751 no object, 51750 an
//! unknown field, 51749 / 51748 / 51747 no `input` / `find` / `replacement`, 10503904 / 10503901 /
//! 10503902 `input` / `find` / `replacement` not a string.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{MongoError, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$replaceOne",
        parse: |cx, name, spec| parse_replace(cx, name, spec, false),
    },
    Operator {
        name: "$replaceAll",
        parse: |cx, name, spec| parse_replace(cx, name, spec, true),
    },
];

const FIELDS: [&str; 3] = ["input", "find", "replacement"];

fn parse_replace(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    all: bool,
) -> Result<BoxExpr> {
    let Value::Document(spec) = spec else {
        bail!(
            51751,
            "{name} requires an object as an argument, found: {}",
            spec.type_name()
        );
    };
    let mut found: [Option<BoxExpr>; 3] = [None, None, None];
    for (field, v) in spec.iter() {
        let Some(slot) = FIELDS.iter().position(|f| *f == field) else {
            bail!(
                51750,
                "{name} found an unknown argument: {field}; allowed are input, find, \
                replacement"
            );
        };
        found[slot] = Some(parse(cx, v)?);
    }
    let missing = |code: i32, field: &str| {
        MongoError::new(
            code,
            format!(
                "{name} requires \
        '{field}' to be specified"
            ),
        )
    };
    let [input, find, replacement] = found;
    Ok(Box::new(Replace {
        name,
        args: [
            input.ok_or_else(|| missing(51749, "input"))?,
            find.ok_or_else(|| missing(51748, "find"))?,
            replacement.ok_or_else(|| missing(51747, "replacement"))?,
        ],
        all,
    }))
}

struct Replace {
    name: &'static str,
    args: [BoxExpr; 3],
    all: bool,
}

impl Expr for Replace {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut values = [Some(""); 3];
        for (i, (slot, arg)) in values.iter_mut().zip(&self.args).enumerate() {
            *slot = match arg.eval(cx)? {
                v if v.is_nullish() => None,
                Value::String(s) => Some(s),
                v => {
                    let code = [10503904, 10503901, 10503902]
                        .get(i)
                        .copied()
                        .unwrap_or_default();
                    let field = FIELDS.get(i).copied().unwrap_or_default();
                    bail!(
                        code,
                        "{} requires that '{field}' be a string, found: {}",
                        self.name,
                        v
                    );
                }
            };
        }
        let [Some(input), Some(find), Some(replacement)] = values else {
            return Ok(Value::Null);
        };
        let count = if self.all { usize::MAX } else { 1 };
        let found = input.matches(find).take(count).count();
        if found == 0 {
            return Ok(Value::String(input));
        }
        let replaced = found.saturating_mul(find.len());
        let bytes = (input.len().saturating_sub(replaced))
            .saturating_add(found.saturating_mul(replacement.len()));
        super::check_buffer(bytes)?;
        cx.spend(bytes)?;
        super::check_length(cx.arena, &input.replacen(find, replacement, count))
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
            (
                r#"{"$replaceOne": {"input": "aaa", "find": "a", "replacement": "b"}}"#,
                "string \"baa\"",
            ),
            (
                r#"{"$replaceAll": {"input": "aaa", "find": "aa", "replacement": "b"}}"#,
                "string \"ba\"",
            ),
            (
                r#"{"$replaceOne": {"input": "aa", "find": "", "replacement": "b"}}"#,
                "string \"baa\"",
            ),
            (
                r#"{"$replaceAll": {"input": "x", "find": "$missing", "replacement": "b"}}"#,
                "null null",
            ),
            (
                r#"{"$replaceAll": {"input": "$n", "find": 1, "replacement": "b"}}"#,
                "error 10503901",
            ),
            (
                r#"{"$replaceAll": {"input": 1, "find": 1, "replacement": "b"}}"#,
                "error 10503904",
            ),
            (
                r#"{"$replaceAll": {"input": "x", "find": "x", "replacement": 1}}"#,
                "error 10503902",
            ),
            (
                r#"{"$replaceAll": {"input": "x", "find": "x"}}"#,
                "error 51747",
            ),
            (r#"{"$replaceAll": {"input": "x"}}"#, "error 51748"),
            (r#"{"$replaceAll": {}}"#, "error 51749"),
            (r#"{"$replaceAll": {"in": 1}}"#, "error 51750"),
            (r#"{"$replaceAll": 1}"#, "error 51751"),
        ]);
    }
}
