//! `$binarySize` (bytes of a string or of binary data) and `$bsonSize` (bytes of a document as
//! BSON). Null for nullish. Errors: 51276 neither string nor binary data, 31393 no document.

use crate::expr::{Operator, unary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$binarySize",
        parse: |cx, name, spec| unary(cx, name, spec, |_, v| binary_size(v)),
    },
    Operator {
        name: "$bsonSize",
        parse: |cx, name, spec| unary(cx, name, spec, |_, v| bson_size(v)),
    },
];

fn int<'a>(n: usize) -> Value<'a> {
    Value::Int32(i32::try_from(n).unwrap_or(i32::MAX))
}

fn binary_size<'a>(v: Value<'a>) -> Result<Value<'a>> {
    match v {
        Value::String(s) => Ok(int(s.len())),
        Value::Binary(b) => Ok(int(b.bytes.len())),
        v if v.is_nullish() => Ok(Value::Null),
        v => bail!(
            51276,
            "$binarySize requires a string or BinData argument, found: {}",
            v.type_name()
        ),
    }
}

fn bson_size<'a>(v: Value<'a>) -> Result<Value<'a>> {
    match v {
        Value::Document(d) => Ok(int(d.len_bytes())),
        v if v.is_nullish() => Ok(Value::Null),
        v => bail!(
            31393,
            "$bsonSize requires a document input, found: {}",
            v.type_name()
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$binarySize': 'é'}", "{}", "2"),
            (
                "{'$binarySize': '$b'}",
                "{'b': {'$binary': {'base64': 'AQID', 'subType': '00'}}}",
                "3",
            ),
            ("{'$binarySize': '$none'}", "{}", "null"),
            ("{'$binarySize': 1}", "{}", "!51276"),
            ("{'$bsonSize': '$$ROOT'}", "{'a': 1}", "12"),
            ("{'$bsonSize': null}", "{}", "null"),
            ("{'$bsonSize': [[1]]}", "{}", "!31393"),
        ]);
    }
}
