//! Encoded keys compare as the values do.

use super::*;
use model::{Binary, ObjectId, Regex, Timestamp, compare, doc};
use proptest::prelude::*;
use std::cmp::Ordering;

fn key(v: &Value<'_>) -> Vec<u8> {
    let mut out = vec![];
    encode(v, None, &mut out);
    out
}

fn agree(a: &Value<'_>, b: &Value<'_>) {
    // Missing and null share a key on purpose.
    let nullish = |v: &Value<'_>| matches!(v, Value::Missing | Value::Null);
    let expected = if nullish(a) && nullish(b) {
        Ordering::Equal
    } else {
        compare(a, b)
    };
    assert_eq!(
        key(a).cmp(&key(b)),
        expected,
        "{a:?} {b:?} {:02x?} {:02x?}",
        key(a),
        key(b)
    );
    let (mut x, mut y) = (vec![], vec![]);
    encode_directed(a, true, None, &mut x);
    encode_directed(b, true, None, &mut y);
    x.push(END);
    y.push(END);
    assert_eq!(x.cmp(&y), expected.reverse(), "descending {a:?} {b:?}");
}

fn dec(t: &str) -> Value<'static> {
    Value::Decimal128(Decimal128::parse(t).unwrap())
}

/// Integers at the edges of the encodings.
const INTEGERS: &[i64] = &[
    0i64,
    1,
    -1,
    2,
    255,
    256,
    65_535,
    65_536,
    i64::MAX,
    i64::MIN,
    (1 << 53) - 1,
    1 << 53,
    (1 << 53) + 1,
    -(1 << 53) - 1,
    i32::MAX as i64,
    i64::MAX - 1,
];

/// Doubles at the edges of the encodings.
const DOUBLES: &[f64] = &[
    0.0,
    -0.0,
    0.1,
    0.5,
    1.5,
    2.5,
    -0.1,
    -1.5,
    1e300,
    -1e300,
    1e20,
    1e19,
    5e-324,
    f64::MIN_POSITIVE,
    f64::MAX,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    255.5,
    256.5,
    0.3,
    1.1,
    9_007_199_254_740_991.0,
];

/// Decimals at the edges of the encodings.
const DECIMALS: &[&str] = &[
    "0",
    "-0",
    "0.1",
    "0.10",
    "0.3",
    "1.1",
    "1.5",
    "-1.5",
    "1E+30",
    "1E-30",
    "9999999999999999999999999999999999",
    "9007199254740993.5",
    "9007199254740993",
    "9007199254740992.5",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "18446744073709551615.5",
    "1E+400",
    "1E-400",
    "-1E+400",
    "NaN",
    "Infinity",
    "-Infinity",
    "0.1000000000000000055511151231257827",
    "0.1000000000000000055511151231257828",
    "0.09999999999999999999",
    "1.000000000000000000000000000000001",
    "0.9999999999999999999999999999999999",
    "255.5",
    "1E+6144",
    "1E-6176",
];

/// Values that are neither numbers nor containers.
const SCALARS: &[Value<'static>] = &[
    Value::MinKey,
    Value::MaxKey,
    Value::Undefined,
    Value::Null,
    Value::Bool(false),
    Value::Bool(true),
    Value::String(""),
    Value::String("a"),
    Value::String("a\0"),
    Value::String("a\0b"),
    Value::String("ab"),
    Value::String("é"),
    Value::String("\u{7f}"),
    Value::Symbol("aa"),
    Value::ObjectId(ObjectId([0; 12])),
    Value::ObjectId(ObjectId([255; 12])),
    Value::Date(i64::MIN),
    Value::Date(-1),
    Value::Date(0),
    Value::Date(i64::MAX),
    Value::Timestamp(Timestamp {
        time: 0,
        increment: 0,
    }),
    Value::Timestamp(Timestamp {
        time: u32::MAX,
        increment: u32::MAX,
    }),
    Value::Binary(Binary {
        subtype: 0,
        bytes: b"",
    }),
    Value::Binary(Binary {
        subtype: 4,
        bytes: b"a",
    }),
    Value::Binary(Binary {
        subtype: 0,
        bytes: b"ab",
    }),
    Value::Binary(Binary {
        subtype: 0,
        bytes: b"b",
    }),
    Value::Regex(Regex {
        pattern: "a",
        options: "",
    }),
    Value::Regex(Regex {
        pattern: "a",
        options: "i",
    }),
    Value::Regex(Regex {
        pattern: "ab",
        options: "",
    }),
    Value::Code("f"),
    Value::Code("ff"),
    Value::DbPointer("a.b", ObjectId([1; 12])),
    Value::CodeWithScope("f", &[5, 0, 0, 0, 0]),
];

/// Values at the edges of every type; all pairs are compared.
#[test]
fn all_pairs_of_types_order_as_bson() {
    let docs = [
        doc! {},
        doc! { "a": 1i32 },
        doc! { "a": 1.5 },
        doc! { "a": "x" },
        doc! { "b": 1i32 },
        doc! { "a": 1i32, "b": 2i32 },
        doc! { "a": { } },
        doc! { "": 1i32 },
        doc! { "a": [1i32] },
    ];
    let arrays = [
        doc! {},
        doc! { "0": 1i32 },
        doc! { "0": 1i32, "1": "a" },
        doc! { "0": "a" },
        doc! { "0": { } },
    ];
    let mut all: Vec<Value<'_>> = SCALARS.to_vec();
    all.extend(docs.iter().map(|d| Value::Document(d.doc())));
    all.extend(arrays.iter().map(|d| Value::Array(d.doc().as_array())));
    for n in INTEGERS {
        all.push(Value::Int64(*n));
        all.push(Value::Double(*n as f64));
        if let Ok(m) = i32::try_from(*n) {
            all.push(Value::Int32(m));
        }
    }
    all.extend(DOUBLES.iter().map(|f| Value::Double(*f)));
    all.extend(DECIMALS.iter().map(|t| dec(t)));
    for a in &all {
        for b in &all {
            agree(a, b);
        }
    }
}

#[test]
fn id_tails_are_found() {
    for len in [0usize, 1, 13, 254, 255, 256, 70_000] {
        let id = vec![7u8; len];
        let mut entry = b"components".to_vec();
        append_id_tail(&mut entry, &id);
        assert_eq!(id_of_tail(&entry), Some(id.as_slice()));
    }
}

fn any_number() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>().prop_map(Value::Double),
        (-1e6f64..1e6).prop_map(Value::Double),
        (
            any::<bool>(),
            0u128..=model::decimal::MAX_COEFFICIENT,
            -60i32..30
        )
            .prop_map(|(n, c, e)| { Value::Decimal128(Decimal128::from_parts(n, c, e).unwrap()) }),
        (any::<i16>(), -3i32..3).prop_map(|(c, e)| {
            Value::Decimal128(
                Decimal128::from_parts(c < 0, u128::from(c.unsigned_abs()), e).unwrap(),
            )
        }),
        (any::<i16>(), 1i32..64).prop_map(|(n, d)| Value::Double(f64::from(n) / f64::from(d))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn numbers_order_across_types(a in any_number(), b in any_number()) {
        agree(&a, &b);
    }

    #[test]
    fn strings_order(a in ".{0,6}", b in ".{0,6}", c in any::<i32>()) {
        agree(&Value::String(&a), &Value::String(&b));
        let (x, y) = (doc! { "k": a.as_str(), "n": c }, doc! { "k": b.as_str(), "n": c });
        agree(&Value::Document(x.doc()), &Value::Document(y.doc()));
    }
}
