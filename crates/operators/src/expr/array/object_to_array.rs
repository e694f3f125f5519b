//! `$objectToArray`: `{a: 1}` to `[{k: "a", v: 1}]`. Null for nullish. Errors: 40390 no document.

use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$objectToArray",
    parse: |cx, name, spec| unary(cx, name, spec, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    let doc = match v {
        Value::Document(d) => d,
        v if v.is_nullish() => return Ok(Value::Null),
        v => bail!(
            40390,
            "$objectToArray requires a document input, found: {}",
            v.type_name()
        ),
    };
    Ok(Value::Array(Array::build_in(cx.arena, |w| {
        for e in doc.elements() {
            w.doc()
                .put("k", e.name_str())
                .put_raw(b"v", e.tag, e.payload);
        }
    })))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$objectToArray': '$$ROOT'}",
                "{'a': 1, 'b': [2]}",
                "[{'k': 'a', 'v': 1}, {'k': \
                'b', 'v': [2]}]",
            ),
            ("{'$objectToArray': '$none'}", "{}", "null"),
            ("{'$objectToArray': [[1]]}", "{}", "!40390"),
        ]);
    }
}
