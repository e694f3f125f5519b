//! Conversions to strings.

use super::target::{Format, Target, UUID, failure, unsupported};
use crate::expr::date;
use crate::expr::string::computed;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use model::{Binary, Bump, Result, Value, bail};
use std::fmt::Write;

/// To a string.
///
/// # Errors
/// 241 when there is no such conversion, or binary data is not what the format wants; 4341115
/// binary data without a format.
pub(super) fn to_string<'a>(arena: &'a Bump, v: Value<'a>, to: &Target<'_>) -> Result<Value<'a>> {
    let text = match v {
        Value::String(_) => return Ok(v),
        Value::Bool(b) => return Ok(Value::String(if b { "true" } else { "false" })),
        Value::Int32(n) => n.to_string(),
        Value::Int64(n) => n.to_string(),
        Value::Double(n) => double_text(n),
        Value::Decimal128(n) => n.to_string(),
        Value::ObjectId(id) => id.to_hex(),
        Value::Date(ms) => date::text_of_moment(ms)?,
        Value::Binary(b) => binary_text(b, &v, to)?,
        _ => return Err(unsupported(&v, to)),
    };
    computed(arena, &text)
}

fn binary_text(b: Binary<'_>, v: &Value<'_>, to: &Target<'_>) -> Result<String> {
    let is_uuid = b.subtype == UUID && b.bytes.len() == 16;
    let Some(format) = to.format else {
        bail!(
            4341115,
            "Format must be specified when converting from binData to string; \
             allowed are auto, base64, base64url, hex, utf8, uuid"
        );
    };
    Ok(match format {
        Format::Auto if is_uuid => uuid_text(b.bytes),
        Format::Uuid if is_uuid => uuid_text(b.bytes),
        Format::Uuid => {
            return Err(failure(
                v,
                to.name,
                "the uuid format needs binary data of subtype 4 and 16 bytes",
            ));
        }
        Format::Auto | Format::Base64 => STANDARD.encode(b.bytes),
        Format::Base64Url => URL_SAFE_NO_PAD.encode(b.bytes),
        Format::Hex => b.bytes.iter().fold(
            String::with_capacity(b.bytes.len() * 2),
            |mut text, byte| {
                let _ = write!(text, "{byte:02X}");
                text
            },
        ),
        Format::Utf8 => match std::str::from_utf8(b.bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(failure(v, to.name, "the data is not valid UTF-8")),
        },
    })
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A double in its shortest exact digits, as C++ and Python format it: no ".0", an exponent (of two
/// digits or more) below 1e-4 and from 1e16 on.
fn double_text(n: f64) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{n:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(e) if n != 0.0 && !(-4..16).contains(&e) => {
            format!(
                "{mantissa}e{}{:02}",
                if e < 0 { '-' } else { '+' },
                e.unsigned_abs()
            )
        }
        _ => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn doubles_look_as_in_mongodb() {
        for (n, text) in [
            (3.0, "3"),
            (-0.0, "-0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (9e-5, "9e-05"),
            (0.0001, "0.0001"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(super::double_text(n), text);
        }
    }
}
