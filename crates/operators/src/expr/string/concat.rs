//! `$concat`: strings one after the other. The first null or missing operand ends with null. 16702
//! not a string.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$concat",
    parse: |cx, name, spec| nary(cx, name, spec, (0, usize::MAX), concat),
}];

fn concat<'a>(cx: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
    let mut text = String::new();
    for v in operands {
        match v {
            v if v.is_nullish() => return Ok(Value::Null),
            Value::String(s) => {
                cx.spend(text.len() + s.len())?;
                text.push_str(s);
            }
            v => bail!(
                16702,
                "$concat only supports strings, not {}",
                v.type_name()
            ),
        }
    }
    Ok(Value::String(cx.arena.alloc_str(&text)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$concat": []}"#, "string \"\""),
            (r#"{"$concat": ["a", "$s"]}"#, "string \"ax\""),
            (r#"{"$concat": ["$missing", 1]}"#, "null null"),
            (r#"{"$concat": [1, "$missing"]}"#, "error 16702"),
        ]);
    }
}
