//! Values as MongoDB prints them in messages: `{ a: 1, b: "x", c: ObjectId('...') }`. This form is
//! the `Display` of every type that contains a value; texts for clients use no other form.

use crate::{Array, Doc, DocBuf, ObjectId, OwnedValue, Timestamp, Value};
use std::fmt::{Debug, Display, Formatter, Result, Write};

impl Display for Doc<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        doc(*self, f)
    }
}

impl Display for Array<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        array(*self, f)
    }
}

impl Display for DocBuf {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        doc(self.doc(), f)
    }
}

impl Display for OwnedValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Display::fmt(&self.get(), f)
    }
}

impl Display for ObjectId {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "ObjectId('{}')", self.to_hex())
    }
}

impl Display for Timestamp {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "Timestamp({}, {})", self.time, self.increment)
    }
}

// The output of failed tests: containers as in messages, values with their types (derived).
impl Debug for Doc<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        doc(*self, f)
    }
}

impl Debug for Array<'_> {
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
        write!(f, "{name}: {v}")?;
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
        write!(f, "{v}")?;
    }
    f.write_str(" ]")
}

/// The text of the 16 bytes of a UUID.
pub fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Display for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Value::Missing => f.write_str("MISSING"),
            Value::MinKey => f.write_str("MinKey"),
            Value::MaxKey => f.write_str("MaxKey"),
            Value::Undefined => f.write_str("undefined"),
            Value::Null => f.write_str("null"),
            Value::Int32(n) => write!(f, "{n}"),
            Value::Int64(n) => write!(f, "{n}"),
            Value::Double(n) => f.write_str(&double(*n)),
            Value::Decimal128(n) => write!(f, "{n}"),
            Value::String(s) | Value::Symbol(s) => write_quoted(s, f),
            Value::Document(d) => doc(*d, f),
            Value::Array(a) => array(*a, f),
            Value::Binary(b) => {
                write!(f, "BinData({}, ", b.subtype)?;
                for byte in b.bytes {
                    write!(f, "{byte:02X}")?;
                }
                f.write_char(')')
            }
            Value::ObjectId(id) => Display::fmt(id, f),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Date(ms) => write!(f, "new Date({ms})"),
            Value::Timestamp(t) => Display::fmt(t, f),
            Value::Regex(r) => write!(f, "/{}/{}", r.pattern, r.options),
            Value::DbPointer(ns, id) => write!(f, "DBRef(\"{ns}\", {})", id.to_hex()),
            Value::Code(c) => f.write_str(c),
            Value::CodeWithScope(c, scope) => {
                write!(f, "CodeWScope({c}, {})", Doc::from_prefix(scope))
            }
        }
    }
}

fn write_quoted(s: &str, f: &mut Formatter<'_>) -> Result {
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

/// A double as MongoDB prints it: shortest digits, and always recognizable as a double ("1.0",
/// "inf", "nan", "1e+20").
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
    use crate::{Binary, Decimal128, ObjectId, Timestamp, Value, doc};

    #[test]
    fn prints_like_the_shell_of_messages() {
        let d = doc! { "a": 1i32, "b": [1.5, "x\"y"], "c": { } };
        assert_eq!(d.to_string(), r#"{ a: 1, b: [ 1.5, "x\"y" ], c: {} }"#);
    }

    #[test]
    fn a_value_alone_prints_as_it_does_inside_of_a_document() {
        let inner = doc! { "x": [1i32] };
        let of = |v: Value<'_>, text: &str| {
            assert_eq!(v.to_string(), text);
            assert_eq!(v.to_owned_value().to_string(), text);
            let holder = doc! { "v": v };
            assert_eq!(holder.to_string(), format!("{{ v: {text} }}"));
        };
        of(Value::Int64(7), "7");
        of(Value::Double(2.0), "2.0");
        of(Value::Decimal128(Decimal128::from_i64(3)), "3");
        of(inner.doc().field("x"), "[ 1 ]");
        of(Value::Document(inner.doc()), "{ x: [ 1 ] }");
        of(Value::String("a\"\n"), r#""a\"\n""#);
        let bytes = Binary {
            subtype: 0,
            bytes: &[1, 0xAB],
        };
        of(Value::Binary(bytes), "BinData(0, 01AB)");
        let id = ObjectId([0x11; 12]);
        of(Value::ObjectId(id), "ObjectId('111111111111111111111111')");
        let time = Timestamp::from_u64(3 << 32 | 4);
        of(Value::Timestamp(time), "Timestamp(3, 4)");
        of(Value::Date(5), "new Date(5)");
    }
}
