//! Conversions to strings.

use super::digits::double_text;
use super::target::{Format, Target, UUID, failure, unsupported};
use crate::expr::date;
use crate::expr::string::check_length;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use model::bson::MAX_DOCUMENT_BYTES;
use model::{Binary, Bump, Result, Value, bail};
use std::fmt::Write;

/// To a string.
///
/// # Errors
/// 241 ConversionFailure when there is no such conversion, or binary data is not what the format
/// wants; 4341115 binary data without a format.
pub(super) fn to_string<'a>(arena: &'a Bump, v: Value<'a>, to: &Target<'_>) -> Result<Value<'a>> {
    if let (Some(base), true) = (to.base, v.is_number()) {
        return check_length(arena, &super::number::text_in_base(&v, base, to)?);
    }
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
        _ if !to.wide => return Err(unsupported(&v, to)),
        Value::Document(_) | Value::Array(_) => {
            let mut text = String::new();
            super::json_show::append(&v, &mut text)?;
            if text.len() >= MAX_DOCUMENT_BYTES {
                let why = "the text would be longer than a document may be";
                return Err(failure(&Value::Missing, to.name, why));
            }
            text
        }
        Value::Symbol(s) => s.to_owned(),
        _ => v.to_string(),
    };
    check_length(arena, &text)
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
        Format::Auto if is_uuid => model::show::uuid(b.bytes),
        Format::Uuid if is_uuid => model::show::uuid(b.bytes),
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
