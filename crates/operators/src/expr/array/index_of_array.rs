//! `$indexOfArray`: `[array, value, start, end]`, the first equal element's index or -1. Null for a
//! nullish array. Errors: 40090 no array, 9711600 start/end no 32-bit integer, 9711601 negative
//! start/end.

use crate::Cx;
use crate::expr::args::int32_exact;
use crate::expr::{Operator, nary};
use model::{Result, Value, bail, compare_with};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$indexOfArray",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=4, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [array, wanted, bounds @ ..] = args else {
        return Ok(Value::Null);
    };
    let array = match array {
        Value::Array(a) => a,
        v if v.is_nullish() => return Ok(Value::Null),
        v => bail!(
            40090,
            "$indexOfArray requires an array as a first argument, found: {}",
            v.type_name()
        ),
    };
    let start = bounds.first().map_or(Ok(0), |v| bound(v, "starting"))?;
    let end = bounds
        .get(1)
        .map_or(Ok(usize::MAX), |v| bound(v, "ending"))?;
    let found = array
        .iter()
        .enumerate()
        .take(end)
        .skip(start)
        .find(|(_, v)| compare_with(v, wanted, cx.collate()).is_eq())
        .and_then(|(i, _)| i32::try_from(i).ok());
    Ok(Value::Int32(found.unwrap_or(-1)))
}

fn bound(v: &Value<'_>, which: &str) -> Result<usize> {
    let Some(n) = int32_exact(v) else {
        bail!(
            9711600,
            "$indexOfArray requires an integral {which} index, found a value of type: \
            {}, with value: {v}",
            v.type_name()
        );
    };
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => bail!(
            9711601,
            "$indexOfArray requires a nonnegative {which} index, found: {n}"
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$indexOfArray': [[1, 2, 1], 1.0]}", "{}", "0"),
            ("{'$indexOfArray': [[1, 2, 1], 1, 1]}", "{}", "2"),
            ("{'$indexOfArray': [[1, 2, 1], 1, 1, 2]}", "{}", "-1"),
            ("{'$indexOfArray': [[1, 2, 1], 1, 9, 2]}", "{}", "-1"),
            ("{'$indexOfArray': ['$none', 1]}", "{}", "null"),
            ("{'$indexOfArray': [1, 1]}", "{}", "!40090"),
            ("{'$indexOfArray': [[1], 1, 0.5]}", "{}", "!9711600"),
            ("{'$indexOfArray': [[1], 1, -1]}", "{}", "!9711601"),
            ("{'$indexOfArray': [[1]]}", "{}", "!28667"),
        ]);
    }
}
