//! `$range`: `[start, end, step]`, 32-bit integers from start (included) to end (excluded). Errors:
//! 34443-34448 operand no number / no 32-bit integer (null too), 34449 step zero, 146 a result
//! above the memory limit.

use crate::Cx;
use crate::expr::args::int32_exact;
use crate::expr::{Operator, nary};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$range",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=3, eval),
}];

/// Most elements within MongoDB's limit of 100 MiB, at its 16 bytes per value.
const MAX_ELEMENTS: i64 = 100 * 1024 * 1024 / 16;

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [start, end, rest @ ..] = args else {
        return Ok(Value::Null);
    };
    let start = operand(start, "starting", 34443)?;
    let end = operand(end, "ending", 34445)?;
    let step = rest.first().map_or(Ok(1), |v| operand(v, "step", 34447))?;
    if step == 0 {
        bail!(34449, "$range requires a non-zero step value");
    }
    // Distance in the direction of the step; empty when `end` lies in the other direction.
    let distance = if step > 0 { end - start } else { start - end };
    let count = distance.max(0).checked_add(step.abs() - 1).unwrap_or(0) / step.abs();
    if count > MAX_ELEMENTS {
        bail!(
            146,
            "$range would use too much memory and cannot spill: {count} elements, at most \
            {MAX_ELEMENTS} are allowed"
        );
    }
    cx.spend(
        usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_mul(14),
    )?;
    Ok(Value::Array(Array::build_in(cx.arena, |w| {
        for i in 0..count {
            w.push(i32::try_from(start + i * step).unwrap_or(0));
        }
    })))
}

fn operand(v: &Value<'_>, which: &str, code: i32) -> Result<i64> {
    if !v.is_number() {
        bail!(
            code,
            "$range requires a numeric {which} value, found value of type: {}",
            v.type_name()
        );
    }
    match int32_exact(v) {
        Some(n) => Ok(i64::from(n)),
        None => bail!(
            code + 1,
            "$range requires a {which} value that can be represented as a \
            32-bit integer, found value: {v}"
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$range': [0, 5.0, 2]}", "{}", "[0, 2, 4]"),
            ("{'$range': [3, 0, -2]}", "{}", "[3, 1]"),
            ("{'$range': [0, 5, -1]}", "{}", "[]"),
            (
                "{'$range': [-2147483648, 2147483647, 2147483647]}",
                "{}",
                "[-2147483648, -1, \
                2147483646]",
            ),
            ("{'$range': [0, 2147483647]}", "{}", "!146"),
            ("{'$range': [null, 5]}", "{}", "!34443"),
            ("{'$range': [0.5, 5]}", "{}", "!34444"),
            ("{'$range': [0, 'x']}", "{}", "!34445"),
            ("{'$range': [0, 3000000000]}", "{}", "!34446"),
            ("{'$range': [0, 5, '$none']}", "{}", "!34447"),
            ("{'$range': [0, 5, 0.5]}", "{}", "!34448"),
            ("{'$range': [0, 5, 0]}", "{}", "!34449"),
            ("{'$range': [0]}", "{}", "!28667"),
        ]);
    }
}
