//! `$slice`: `[array, n]` (from the end when negative) or `[array, position, n]`. Null for nullish
//! operands. Errors: 28724 no array, 28725 / 28726 second operand no number / no 32-bit integer,
//! 28727 / 28728 third the same, 28729 n not positive.

use crate::Cx;
use crate::expr::args::int32_exact;
use crate::expr::{Operator, nary};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$slice",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=3, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [array, second, rest @ ..] = args else {
        return Ok(Value::Null);
    };
    if array.is_nullish() || second.is_nullish() {
        return Ok(Value::Null);
    }
    let Value::Array(array) = array else {
        bail!(
            28724,
            "First argument to $slice must be an array, but is of type: {}",
            array.type_name()
        );
    };
    let second = integer(second, "Second", 28725)?;
    let len = array.len();
    let magnitude = second.unsigned_abs() as usize;
    let (start, count) = match rest.first() {
        None if second >= 0 => (0, magnitude),
        None => (len.saturating_sub(magnitude), len),
        Some(v) if v.is_nullish() => return Ok(Value::Null),
        Some(v) => {
            let n = integer(v, "Third", 28727)?;
            let Some(count) = usize::try_from(n).ok().filter(|n| *n > 0) else {
                bail!(28729, "Third argument to $slice must be positive: {n}");
            };
            (
                if second >= 0 {
                    magnitude
                } else {
                    len.saturating_sub(magnitude)
                },
                count,
            )
        }
    };
    Ok(Value::Array(Array::build_in(cx.arena, |w| {
        for e in array.elements().skip(start).take(count) {
            w.push_raw(e.tag, e.payload);
        }
    })))
}

fn integer(v: &Value<'_>, which: &str, code: i32) -> Result<i32> {
    if !v.is_number() {
        bail!(
            code,
            "{which} argument to $slice must be numeric, but is of type: {}",
            v.type_name()
        );
    }
    match int32_exact(v) {
        Some(n) => Ok(n),
        None => bail!(
            code + 1,
            "{which} argument to $slice can't be represented as a 32-bit \
            integer: {v}"
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$slice': ['$a', 2]}", "{'a': [1, 2, 3]}", "[1, 2]"),
            ("{'$slice': ['$a', -2]}", "{'a': [1, 2, 3]}", "[2, 3]"),
            ("{'$slice': ['$a', -9]}", "{'a': [1, 2, 3]}", "[1, 2, 3]"),
            ("{'$slice': ['$a', 0]}", "{'a': [1, 2, 3]}", "[]"),
            ("{'$slice': ['$a', 1, 1]}", "{'a': [1, 2, 3]}", "[2]"),
            ("{'$slice': ['$a', -2, 1]}", "{'a': [1, 2, 3]}", "[2]"),
            ("{'$slice': ['$a', 9, 1]}", "{'a': [1, 2, 3]}", "[]"),
            ("{'$slice': ['$none', 'x']}", "{}", "null"),
            ("{'$slice': [[1], 1, null]}", "{}", "null"),
            ("{'$slice': [1, 1]}", "{}", "!28724"),
            ("{'$slice': [[1], 'x']}", "{}", "!28725"),
            ("{'$slice': [[1], 3000000000]}", "{}", "!28726"),
            ("{'$slice': [[1], 1, 'x']}", "{}", "!28727"),
            ("{'$slice': [[1], 1, 0.5]}", "{}", "!28728"),
            ("{'$slice': [[1], 1, 0]}", "{}", "!28729"),
        ]);
    }
}
