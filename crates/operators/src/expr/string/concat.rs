//! `$concat`: the concatenation of strings. Evaluation stops at the first null or missing operand
//! and gives null. 16702 not a string.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$concat",
    parse: |cx, name, spec| nary(cx, name, spec, 0..=usize::MAX, concat),
}];

fn concat<'a>(cx: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
    let mut text = String::new();
    for v in operands {
        match v {
            v if v.is_nullish() => return Ok(Value::Null),
            Value::String(s) => {
                super::check_buffer(text.len() + s.len())?;
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
    super::check_length(cx.arena, &text)
}

#[cfg(test)]
mod tests {
    use crate::{Cx, Env};
    use model::{Bump, Value};

    /// The limits are MongoDB's: a string is shorter than a document, a buffer than 64 MiB.
    #[test]
    fn long_strings() {
        let (arena, env) = (Bump::new(), Env::new(0, 1));
        let cx = Cx::new(&arena, Value::Missing, &env);
        let half = "x".repeat(8 << 20);
        let made = |operands: &[Value<'_>]| {
            let operands: Vec<Value<'_>> = operands.to_vec();
            super::concat(
                &Cx {
                    arena: &arena,
                    ..cx
                },
                &operands,
            )
            .map(|v| v.as_str().map(str::len))
            .map_err(|e| e.code())
        };
        let (half, less) = (Value::String(&half), Value::String(&half[1..]));
        assert_eq!(made(&[half, less]), Ok(Some((16 << 20) - 1)));
        assert_eq!(made(&[half, half]), Err(16493));
        assert_eq!(made(&[half, half, Value::Int32(1)]), Err(16702));
        assert_eq!(made(&[half, half, Value::Null]), Ok(None));
        assert_eq!(made(&[half; 9]), Err(13548));
    }

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
