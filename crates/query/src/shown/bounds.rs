//! Bounds of index fields as text: `[1, 5)`, `["a", {})`, `[MinKey, MaxKey]`.

use crate::plan::{Bound, FieldBounds, ValueRange};
use model::Value;
use store::format::{decode, keys};

/// The ranges of one field in the order they are scanned.
pub(super) fn texts(b: &FieldBounds, backwards: bool) -> Vec<String> {
    let Some(ranges) = &b.ranges else {
        return vec![
            if backwards {
                "[MaxKey, MinKey]"
            } else {
                "[MinKey, MaxKey]"
            }
            .to_owned(),
        ];
    };
    let mut out: Vec<String> = ranges.iter().map(|r| text(r, backwards)).collect();
    if backwards {
        out.reverse();
    }
    out
}

fn text(r: &ValueRange, backwards: bool) -> String {
    let (low, low_in) = end(&r.low, true);
    let (high, high_in) = end(&r.high, false);
    let (a, b) = if backwards {
        ((high, high_in), (low, low_in))
    } else {
        ((low, low_in), (high, high_in))
    };
    format!(
        "{}{}, {}{}",
        if a.1 { '[' } else { '(' },
        a.0,
        b.0,
        if b.1 { ']' } else { ')' }
    )
}

/// An end of a range as text, and whether it is included.
fn end(b: &Bound, low: bool) -> (String, bool) {
    match b {
        Bound::Included(c) => (component(c), true),
        Bound::Excluded(c) => (component(c), false),
        Bound::Class(c) => class(*c, low),
        Bound::Prefix(p) => (component(&[p.as_slice(), &[0]].concat()), low),
    }
}

fn component(c: &[u8]) -> String {
    decode::component(c).map_or_else(|| "?".to_owned(), |(v, _)| v.get().to_string())
}

/// The end of all values of a type: the type's least or greatest value, or the least of the next
/// type.
fn class(c: u8, low: bool) -> (String, bool) {
    let is = |v: Value<'_>| {
        if low {
            keys::bracket(&v).0 == c
        } else {
            keys::bracket(&v).1 == c
        }
    };
    let either = |a: &str, b: &str| (if low { a } else { b }.to_owned(), true);
    if is(Value::Int32(0)) {
        return either("-inf", "inf");
    }
    if is(Value::String("")) {
        return if low {
            ("\"\"".to_owned(), true)
        } else {
            ("{}".to_owned(), false)
        };
    }
    if is(Value::Document(model::Doc::EMPTY)) {
        return if low {
            ("{}".to_owned(), true)
        } else {
            ("[]".to_owned(), false)
        };
    }
    if is(Value::Bool(false)) {
        return either("false", "true");
    }
    if is(Value::Date(0)) {
        return either(
            "new Date(-9223372036854775808)",
            "new Date(9223372036854775807)",
        );
    }
    if is(Value::ObjectId(model::ObjectId([0; 12]))) {
        return either(
            "ObjectId('000000000000000000000000')",
            "ObjectId('ffffffffffffffffffffffff')",
        );
    }
    if is(Value::Timestamp(model::Timestamp::from_u64(0))) {
        return either("Timestamp(0, 0)", "Timestamp(4294967295, 4294967295)");
    }
    if is(Value::Null) {
        return either("null", "null");
    }
    if low {
        ("MinKey".to_owned(), true)
    } else {
        ("MaxKey".to_owned(), true)
    }
}
