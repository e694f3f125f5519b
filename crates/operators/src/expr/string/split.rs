//! `$split`: the parts of a string between separators, an array. Null and missing give null. 40085
//! / 10503900 string / separator not a string, 40087 an empty separator.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$split",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, split),
}];

fn split<'a>(cx: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [text, separator] = v else {
        return Ok(Value::Null);
    };
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Value::Null);
    }
    let Value::String(text) = text else {
        bail!(
            40085,
            "$split requires an expression that evaluates to a string as a first \
            argument, found: {}",
            text.type_name()
        );
    };
    let separator = match separator {
        Value::String("") => bail!(40087, "$split requires a non-empty separator"),
        Value::String(s) => *s,
        v => bail!(
            10_503_900,
            "$split requires an expression that evaluates to a string as a second \
            argument, found: {}",
            v.type_name()
        ),
    };
    // Memory for the list of the parts and for the array made of it.
    let count = text.matches(separator).count() + 1;
    cx.spend(text.len().saturating_add(count.saturating_mul(56)))?;
    let parts: Vec<Value<'_>> = text.split(separator).map(Value::String).collect();
    cx.array(&parts)
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$split": ["a--b", "-"]}"#, r#"array [ "a", "", "b" ]"#),
            (r#"{"$split": ["", "-"]}"#, r#"array [ "" ]"#),
            (r#"{"$split": [1, "$missing"]}"#, "null null"),
            (r#"{"$split": [1, "-"]}"#, "error 40085"),
            (r#"{"$split": ["a", 1]}"#, "error 10503900"),
            (r#"{"$split": ["a", ""]}"#, "error 40087"),
        ]);
    }
}
