//! `$toHashedIndexKey`: the 64-bit number that a hashed index stores for a value (the first bytes
//! of an MD5 over type and content; all numbers with the same integer part have the same hash).
//! Missing is hashed as null. No errors of its own.

use crate::Cx;
use crate::expr::{Operator, unary};
use md5::{Digest, Md5};
use model::{Doc, Number, OwnedValue, Result, Value, compare};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$toHashedIndexKey",
    parse: |cx, name, spec| unary(cx, name, spec, eval),
}];

fn eval<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    Ok(Value::Int64(hashed_index_key(v)))
}

/// The number that a hashed index stores for a value.
pub fn hashed_index_key(v: Value<'_>) -> i64 {
    let mut hasher = Md5::new();
    // The seed.
    hasher.update(0i32.to_le_bytes());
    add(
        &mut hasher,
        if v.is_missing() { Value::Null } else { v },
        None,
    );
    let digest = hasher.finalize();
    digest
        .first_chunk::<8>()
        .map_or(0, |head| i64::from_le_bytes(*head))
}

fn canonical_type(v: &Value<'_>) -> i32 {
    match v {
        Value::MinKey => -1,
        Value::Undefined | Value::Missing => 0,
        v => i32::from(compare::class(v)),
    }
}

fn add(hasher: &mut Md5, v: Value<'_>, name: Option<&str>) {
    hasher.update(canonical_type(&v).to_le_bytes());
    if let Some(name) = name {
        hasher.update(name.as_bytes());
        hasher.update([0]);
    }
    match v {
        Value::Document(d) => add_fields(hasher, d),
        Value::Array(a) => add_fields(hasher, a.as_doc()),
        Value::CodeWithScope(code, scope) => {
            hasher.update(code.as_bytes());
            hasher.update([0]);
            add_fields(hasher, Doc::from_prefix(scope));
        }
        v => match Number::of(&v) {
            Some(n) => hasher.update(integer_part(n).to_le_bytes()),
            None => hasher.update(payload(&v.to_owned_value())),
        },
    }
}

/// Hashes the fields and the terminator, which counts as an element without name.
fn add_fields(hasher: &mut Md5, d: Doc<'_>) {
    for (name, v) in d.iter() {
        add(hasher, v, Some(name));
    }
    hasher.update([0; 4]);
}

/// The bytes of a value as BSON stores it.
fn payload(v: &OwnedValue) -> Vec<u8> {
    let holder = model::DocBuf::build(|w| {
        w.put("", v.get());
    });
    holder
        .doc()
        .elements()
        .next()
        .map_or(Vec::new(), |e| e.payload.to_vec())
}

/// Truncated and clamped; NaN is 0.
fn integer_part(n: Number) -> i64 {
    match n {
        Number::Int32(n) => i64::from(n),
        Number::Int64(n) => n,
        Number::Double(n) => n as i64,
        Number::Decimal(d) => match d.to_i64(model::Rounding::Trunc) {
            Some(n) => n,
            None if d.is_nan() => 0,
            None if d.is_negative() => i64::MIN,
            None => i64::MAX,
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::check::{evaluate, table};

    #[test]
    fn known_values() {
        let rows = [
            ("'string to hash'", "763543691661428748"),
            ("'abc'", "8478485326885698097"),
            ("42.123", "-944302157085130861"),
            ("{'$numberDouble': 'NaN'}", "4854801880128277513"),
            ("1e300", "921523596458303250"),
            ("-1e300", "4532067210535695462"),
            ("{'$minKey': 1}", "7961148599568647290"),
            ("{'$maxKey': 1}", "5504842513779440750"),
            ("null", "2338878944348059895"),
            (
                "{'a': 'abc', 'b': {'$numberLong': '123'}}",
                "4771603801758380216",
            ),
            ("{}", "7980500913326740417"),
            ("['bar', 'baz', 'qux']", "-2938911267422831539"),
            ("[]", "8849948234993459283"),
            (
                "{'$binary': {'base64': 'AAECAwQG', 'subType': '00'}}",
                "7252465090394235301",
            ),
            (
                "{'$oid': '010203040506070809101112'}",
                "-5588663249627035708",
            ),
            ("true", "6405873908747105701"),
            (
                "{'$regularExpression': {'pattern': '.*', 'options': 'i'}}",
                "7095855029187981886",
            ),
        ];
        for (value, hash) in rows {
            let doc = format!("{{'v': {value}}}");
            table(&[(
                "{'$toHashedIndexKey': '$v'}",
                &doc,
                &format!("{{'$numberLong': '{hash}'}}"),
            )]);
        }
    }

    #[test]
    fn numbers_hash_by_their_integer_part() {
        let hash = |text: &str| {
            format!(
                "{:?}",
                evaluate(
                    &format!("{{'$toHashedIndexKey': {text}}}"),
                    "{'d': {'a': [1]}}"
                )
                .unwrap()
            )
        };
        assert_eq!(hash("1"), hash("1.9"));
        assert_eq!(hash("1"), hash("{'$numberDecimal': '1.5'}"));
        assert_eq!(hash("null"), hash("'$none'"));
        assert_ne!(hash("1"), hash("2"));
        assert_ne!(hash("'$d'"), hash("{}"));
        assert_ne!(hash("'$d.a'"), hash("'$d'"));
    }
}
