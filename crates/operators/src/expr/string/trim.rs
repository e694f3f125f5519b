//! `$trim`, `$ltrim`, `$rtrim`: `{input, chars}`: a string without whitespace (or the code points
//! of `chars`) at its ends. Null and missing give null. 50696 no object, 50694 an unknown field,
//! 50695 no `input`, 50699 / 50700 `input` / `chars` not a string.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$trim",
        parse: |cx, name, spec| parse_trim(cx, name, spec, true, true),
    },
    Operator {
        name: "$ltrim",
        parse: |cx, name, spec| parse_trim(cx, name, spec, true, false),
    },
    Operator {
        name: "$rtrim",
        parse: |cx, name, spec| parse_trim(cx, name, spec, false, true),
    },
];

/// Characters trimmed when `chars` is absent: the null character and Unicode's spaces up to U+200A.
fn is_blank(c: char) -> bool {
    matches!(c, '\0' | '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}')
}

fn parse_trim(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    left: bool,
    right: bool,
) -> Result<BoxExpr> {
    let Value::Document(spec) = spec else {
        bail!(
            50696,
            "{name} only supports an object as an argument, found {}",
            spec.type_name()
        );
    };
    let (mut input, mut chars) = (None, None);
    for (field, v) in spec.iter() {
        match field {
            "input" => input = Some(parse(cx, v)?),
            "chars" => chars = Some(parse(cx, v)?),
            _ => bail!(
                50694,
                "{name} found an unknown argument: {field}; allowed are input and \
                chars"
            ),
        }
    }
    match input {
        Some(input) => Ok(Box::new(Trim {
            name,
            input,
            chars,
            left,
            right,
        })),
        None => bail!(50695, "{name} requires an 'input' field"),
    }
}

struct Trim {
    name: &'static str,
    input: BoxExpr,
    chars: Option<BoxExpr>,
    left: bool,
    right: bool,
}

impl Expr for Trim {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let input = match self.input.eval(cx)? {
            v if v.is_nullish() => return Ok(Value::Null),
            Value::String(s) => s,
            v => bail!(
                50699,
                "{} requires its input to be a string, got {} (of type {})",
                self.name,
                v,
                v.type_name()
            ),
        };
        let chars = match &self.chars {
            None => return Ok(Value::String(self.cut(input, is_blank))),
            Some(e) => e.eval(cx)?,
        };
        Ok(match chars {
            v if v.is_nullish() => Value::Null,
            Value::String(chars) => Value::String(self.cut(input, |c| chars.contains(c))),
            v => bail!(
                50700,
                "{} requires 'chars' to be a string, got {} (of type {})",
                self.name,
                v,
                v.type_name()
            ),
        })
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        self.chars.iter().for_each(|e| each(e.as_ref()));
    }
}

impl Trim {
    fn cut<'a>(&self, mut s: &'a str, drop: impl Fn(char) -> bool) -> &'a str {
        if self.left {
            s = s.trim_start_matches(&drop);
        }
        if self.right {
            s = s.trim_end_matches(&drop);
        }
        s
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$trim": {"input": " \u0000x\u2003 "}}"#, "string \"x\""),
            (r#"{"$trim": {"input": "\u200bx"}}"#, "string \"\u{200b}x\""),
            (
                r#"{"$ltrim": {"input": "aba", "chars": "a"}}"#,
                "string \"ba\"",
            ),
            (
                r#"{"$rtrim": {"input": "aba", "chars": "ab"}}"#,
                "string \"\"",
            ),
            (
                r#"{"$trim": {"input": "$missing", "chars": 1}}"#,
                "null null",
            ),
            (r#"{"$trim": {"input": "x", "chars": "$n"}}"#, "null null"),
            (r#"{"$trim": {"input": 1}}"#, "error 50699"),
            (r#"{"$trim": {"input": "x", "chars": 1}}"#, "error 50700"),
            (r#"{"$trim": {"chars": "x"}}"#, "error 50695"),
            (r#"{"$trim": {"input": "x", "char": "x"}}"#, "error 50694"),
            (r#"{"$trim": "x"}"#, "error 50696"),
        ]);
    }
}
