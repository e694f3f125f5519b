//! `$subtype` (8.3): the subtype of binary data as an int. Null for nullish values. Error: 10389300
//! for another type.

use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$subtype",
    parse: |cx, name, spec| unary(cx, name, spec, eval),
}];

fn eval<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    match v {
        Value::Binary(b) => Ok(Value::Int32(i32::from(b.subtype))),
        v if v.is_nullish() => Ok(Value::Null),
        v => bail!(
            10389300,
            "$subtype takes binary data, found {}",
            v.type_name()
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn table() {
        crate::expr::check::table_of(
            Profile::V8_2,
            &[
                (
                    "{'$subtype': '$a'}",
                    "{'a': {'$binary': {'base64': 'AA==', 'subType': '05'}}}",
                    "5",
                ),
                ("{'$subtype': '$none'}", "{}", "null"),
                ("{'$subtype': 1}", "{}", "!10389300"),
            ],
        );
    }
}
