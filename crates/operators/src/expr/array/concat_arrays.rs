//! `$concatArrays`: all elements of all arrays. The first nullish operand makes it null. Errors:
//! 28664 no array.

use crate::Cx;
use crate::cx::bytes_of;
use crate::expr::{Operator, nary};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$concatArrays",
    parse: |cx, name, spec| nary(cx, name, spec, 0..=usize::MAX, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    for v in args {
        match v {
            Value::Array(_) => {}
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                28664,
                "$concatArrays only supports arrays, not {}",
                v.type_name()
            ),
        }
    }
    cx.spend(args.iter().map(bytes_of).sum())?;
    Ok(Value::Array(Array::build_in(cx.arena, |w| {
        for e in args
            .iter()
            .filter_map(Value::as_array)
            .flat_map(Array::elements)
        {
            w.push_raw(e.tag, e.payload);
        }
    })))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$concatArrays': ['$a', [3], []]}",
                "{'a': [1, 2]}",
                "[1, 2, 3]",
            ),
            ("{'$concatArrays': []}", "{}", "[]"),
            ("{'$concatArrays': ['$a', 1]}", "{}", "null"),
            ("{'$concatArrays': [1, '$a']}", "{}", "!28664"),
        ]);
    }
}
