//! Values to JSON text: the result of `$toString` for documents and arrays since 8.3. Plain JSON: a
//! value of a type that JSON lacks is a string, as `$toString` converts that type alone.

use super::digits::double_text;
use crate::expr::date;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Result, Value, show};
use std::fmt::Write;

/// Appends the text of a value.
///
/// # Errors
/// 18537 for a date outside the years 0 to 9999.
pub(super) fn append(v: &Value<'_>, out: &mut String) -> Result<()> {
    match v {
        Value::Missing | Value::Null | Value::Undefined => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int32(n) => _ = write!(out, "{n}"),
        Value::Int64(n) => _ = write!(out, "{n}"),
        Value::Double(n) if n.is_finite() => out.push_str(&double_text(*n)),
        Value::Double(n) => write_quoted(&double_text(*n), out),
        Value::Decimal128(n) if n.is_finite() => _ = write!(out, "{n}"),
        Value::Decimal128(n) => write_quoted(&n.to_string(), out),
        Value::String(s) | Value::Symbol(s) | Value::Code(s) => write_quoted(s, out),
        Value::ObjectId(id) => write_quoted(&id.to_hex(), out),
        Value::Date(ms) => write_quoted(&date::text_of_moment(*ms)?, out),
        Value::Binary(b) if b.subtype == super::target::UUID && b.bytes.len() == 16 => {
            write_quoted(&show::uuid(b.bytes), out);
        }
        Value::Binary(b) => write_quoted(&STANDARD.encode(b.bytes), out),
        Value::Document(d) => {
            out.push('{');
            for (i, (name, v)) in d.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_quoted(name, out);
                out.push(':');
                append(&v, out)?;
            }
            out.push('}');
        }
        Value::Array(a) => {
            out.push('[');
            for (i, v) in a.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                append(&v, out)?;
            }
            out.push(']');
        }
        v => write_quoted(&v.to_string(), out),
    }
    Ok(())
}

fn write_quoted(s: &str, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
}
