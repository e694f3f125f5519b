//! Values as MongoDB prints them in messages: `{ a: 1, b: "x", c: ObjectId('...') }`.

use crate::{Array, Doc, Value};
use std::fmt::{Formatter, Result, Write};

impl std::fmt::Debug for Doc<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        doc(*self, f)
    }
}

impl std::fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        array(*self, f)
    }
}

fn doc(d: Doc<'_>, f: &mut Formatter<'_>) -> Result {
    if d.is_empty() {
        return f.write_str("{}");
    }
    f.write_str("{ ")?;
    for (i, (name, v)) in d.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{name}: {}", Shown(&v))?;
    }
    f.write_str(" }")
}

fn array(a: Array<'_>, f: &mut Formatter<'_>) -> Result {
    if a.is_empty() {
        return f.write_str("[]");
    }
    f.write_str("[ ")?;
    for (i, v) in a.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{}", Shown(&v))?;
    }
    f.write_str(" ]")
}

/// Displays a value as MongoDB's messages do.
pub struct Shown<'v, 'a>(pub &'v Value<'a>);

impl std::fmt::Display for Shown<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Value::Missing => f.write_str("MISSING"),
            Value::MinKey => f.write_str("MinKey"),
            Value::MaxKey => f.write_str("MaxKey"),
            Value::Undefined => f.write_str("undefined"),
            Value::Null => f.write_str("null"),
            Value::Int32(n) => write!(f, "{n}"),
            Value::Int64(n) => write!(f, "{n}"),
            Value::Double(n) => f.write_str(&double(*n)),
            Value::Decimal128(n) => write!(f, "{n}"),
            Value::String(s) | Value::Symbol(s) => {
                f.write_char('"')?;
                for c in s.chars() {
                    match c {
                        '"' => f.write_str("\\\"")?,
                        '\\' => f.write_str("\\\\")?,
                        '\n' => f.write_str("\\n")?,
                        '\t' => f.write_str("\\t")?,
                        c => f.write_char(c)?,
                    }
                }
                f.write_char('"')
            }
            Value::Document(d) => doc(*d, f),
            Value::Array(a) => array(*a, f),
            Value::Binary(b) => {
                write!(f, "BinData({}, ", b.subtype)?;
                for byte in b.bytes {
                    write!(f, "{byte:02X}")?;
                }
                f.write_char(')')
            }
            Value::ObjectId(id) => write!(f, "ObjectId('{}')", id.to_hex()),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Date(ms) => write!(f, "new Date({ms})"),
            Value::Timestamp(t) => write!(f, "Timestamp({}, {})", t.time, t.increment),
            Value::Regex(r) => write!(f, "/{}/{}", r.pattern, r.options),
            Value::DbPointer(ns, id) => write!(f, "DBRef(\"{ns}\", {})", id.to_hex()),
            Value::Code(c) => f.write_str(c),
            Value::CodeWithScope(c, scope) => {
                write!(f, "CodeWScope({c}, {:?})", Doc::from_prefix(scope))
            }
        }
    }
}

/// A double as MongoDB prints it: shortest digits, always recognisable as a double ("1.0", "inf",
/// "nan", "1e+20").
pub fn double(n: f64) -> String {
    if n.is_nan() {
        return "nan".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let mut buf = ryu::Buffer::new();
    buf.format_finite(n).to_owned()
}

#[cfg(test)]
mod tests {
    use crate::doc;

    #[test]
    fn prints_like_the_shell_of_messages() {
        let d = doc! { "a": 1i32, "b": [1.5, "x\"y"], "c": { } };
        assert_eq!(format!("{d:?}"), r#"{ a: 1, b: [ 1.5, "x\"y" ], c: {} }"#);
    }
}
