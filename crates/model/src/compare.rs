//! The BSON comparison order over all types, with an optional collation for strings.

use crate::{Array, Doc, Value};
use std::cmp::Ordering;

/// A string order other than bytewise order. Implemented with ICU elsewhere; `model` only calls it.
pub trait Collate: Send + Sync {
    /// Compares two strings.
    fn compare(&self, a: &str, b: &str) -> Ordering;
    /// Appends the sort key of `s`: bytewise order of keys is the order of the strings.
    fn sort_key(&self, s: &str, out: &mut Vec<u8>);
}

/// Compares two values in BSON order.
pub fn compare(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    compare_with(a, b, None)
}

/// The position of a value's type in the BSON order. Types with equal class compare by value.
pub fn class(v: &Value<'_>) -> u8 {
    match v {
        Value::MinKey => 0,
        Value::Missing | Value::Undefined => 1,
        Value::Null => 5,
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => 10,
        Value::String(_) | Value::Symbol(_) => 15,
        Value::Document(_) => 20,
        Value::Array(_) => 25,
        Value::Binary(_) => 30,
        Value::ObjectId(_) => 35,
        Value::Bool(_) => 40,
        Value::Date(_) => 45,
        Value::Timestamp(_) => 47,
        Value::Regex(_) => 50,
        Value::DbPointer(..) => 55,
        Value::Code(_) => 60,
        Value::CodeWithScope(..) => 65,
        Value::MaxKey => 127,
    }
}

/// Compares two values in BSON order, strings by `collate` when given.
pub fn compare_with(a: &Value<'_>, b: &Value<'_>, collate: Option<&dyn Collate>) -> Ordering {
    let by_class = class(a).cmp(&class(b));
    if by_class != Ordering::Equal {
        return by_class;
    }
    match (a, b) {
        (Value::Missing, Value::Undefined) => Ordering::Less,
        (Value::Undefined, Value::Missing) => Ordering::Greater,
        (Value::String(x) | Value::Symbol(x), Value::String(y) | Value::Symbol(y)) => match collate
        {
            Some(c) => c.compare(x, y),
            None => x.as_bytes().cmp(y.as_bytes()),
        },
        (Value::Document(x), Value::Document(y)) => compare_docs(*x, *y, collate),
        (Value::Array(x), Value::Array(y)) => compare_arrays(*x, *y, collate),
        (Value::Binary(x), Value::Binary(y)) => x
            .bytes
            .len()
            .cmp(&y.bytes.len())
            .then(x.subtype.cmp(&y.subtype))
            .then_with(|| x.bytes.cmp(y.bytes)),
        (Value::ObjectId(x), Value::ObjectId(y)) => x.cmp(y),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Date(x), Value::Date(y)) => x.cmp(y),
        (Value::Timestamp(x), Value::Timestamp(y)) => x.cmp(y),
        (Value::Regex(x), Value::Regex(y)) => x
            .pattern
            .cmp(y.pattern)
            .then_with(|| x.options.cmp(y.options)),
        (Value::DbPointer(n, i), Value::DbPointer(m, j)) => n
            .len()
            .cmp(&m.len())
            .then_with(|| n.cmp(m))
            .then_with(|| i.cmp(j)),
        (Value::Code(x), Value::Code(y)) => x.cmp(y),
        (Value::CodeWithScope(x, s), Value::CodeWithScope(y, t)) => x
            .cmp(y)
            .then_with(|| compare_docs(Doc::from_prefix(s), Doc::from_prefix(t), collate)),
        _ => match (crate::Number::of(a), crate::Number::of(b)) {
            (Some(x), Some(y)) => x.compare(&y),
            _ => Ordering::Equal,
        },
    }
}

/// Field by field: type class, then name, then value; a prefix is less.
pub fn compare_docs(a: Doc<'_>, b: Doc<'_>, collate: Option<&dyn Collate>) -> Ordering {
    let (mut x, mut y) = (a.elements(), b.elements());
    loop {
        match (x.next(), y.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(e), Some(f)) => {
                let (v, w) = (e.value(), f.value());
                let order = class(&v)
                    .cmp(&class(&w))
                    .then_with(|| e.name.cmp(f.name))
                    .then_with(|| compare_with(&v, &w, collate));
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

/// Element by element; a prefix is less.
pub fn compare_arrays(a: Array<'_>, b: Array<'_>, collate: Option<&dyn Collate>) -> Ordering {
    let (mut x, mut y) = (a.iter(), b.iter());
    loop {
        match (x.next(), y.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(v), Some(w)) => {
                let order = compare_with(&v, &w, collate);
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

/// Appends bytes that are equal exactly when the values compare equal (numbers by value across
/// types): a key for hashing and grouping, without an order.
pub fn equality_key(v: &Value<'_>, collate: Option<&dyn Collate>, out: &mut Vec<u8>) {
    out.push(class(v));
    match v {
        Value::Missing => out.push(0),
        Value::Undefined => out.push(6),
        Value::String(s) | Value::Symbol(s) => match collate {
            Some(c) => {
                let at = out.len();
                out.extend_from_slice(&[0; 4]);
                c.sort_key(s, out);
                let len = (out.len() - at - 4) as u32;
                out[at..at + 4].copy_from_slice(&len.to_le_bytes());
            }
            None => {
                out.extend_from_slice(&(s.len() as u32).to_le_bytes());
                out.extend_from_slice(s.as_bytes());
            }
        },
        Value::Document(d) => {
            for (name, v) in d.iter() {
                out.push(1);
                out.extend_from_slice(&(name.len() as u32).to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                equality_key(&v, collate, out);
            }
            out.push(0);
        }
        Value::Array(a) => {
            for v in a.iter() {
                out.push(1);
                equality_key(&v, collate, out);
            }
            out.push(0);
        }
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
            if let Some(n) = crate::Number::of(v) {
                n.equality_key(out);
            }
        }
        other => {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            crate::bson::write_payload(out, other);
            let len = (out.len() - at - 4) as u32;
            out[at..at + 4].copy_from_slice(&len.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn classes_order_types() {
        let d = doc! { "a": 1i32, "b": "x", "c": { "z": 1i32 }, "d": [1i32], "e": true };
        let values: Vec<_> = d.doc().iter().map(|(_, v)| v).collect();
        for w in values.windows(2) {
            assert_eq!(
                compare(&w[0], &w[1]),
                Ordering::Less,
                "{:?} {:?}",
                w[0],
                w[1]
            );
        }
        assert_eq!(
            compare(&Value::Int32(1), &Value::Double(1.0)),
            Ordering::Equal
        );
        assert_eq!(
            compare(&Value::Double(f64::NAN), &Value::Int64(i64::MIN)),
            Ordering::Less
        );
        assert_eq!(compare(&Value::Missing, &Value::Null), Ordering::Less);
    }

    #[test]
    fn documents_compare_type_then_name_then_value() {
        let (a, b) = (doc! { "a": 5i32 }, doc! { "b": 1i32 });
        assert_eq!(compare_docs(a.doc(), b.doc(), None), Ordering::Less);
        let c = doc! { "a": "x" };
        assert_eq!(compare_docs(b.doc(), c.doc(), None), Ordering::Less);
    }
}
