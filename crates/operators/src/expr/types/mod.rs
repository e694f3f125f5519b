//! `$type`, `$isNumber`, conversions between types (`$convert` and its short forms), and values to
//! and from extended JSON.

crate::expr_family! { convert, ejson, short, type_of }

mod binary;
mod digits;
mod json_show;
mod json_text;
mod number;
mod target;
mod text;
mod vector;

use model::bson::MAX_DOCUMENT_BYTES;
use model::{Result, Value};
use target::{Kind, Target, failure, unsupported};

/// Converts a value that is not null.
///
/// # Errors
/// 241 ConversionFailure when there is no such conversion or the value does not fit; 4341115 text
/// to binary or back without a format.
fn convert<'a>(arena: &'a model::Bump, v: Value<'a>, to: &Target<'_>) -> Result<Value<'a>> {
    match to.kind {
        Kind::Bool => Ok(Value::Bool(v.truthy())),
        Kind::Int | Kind::Long | Kind::Double | Kind::Decimal | Kind::Date => {
            number::convert(v, to)
        }
        Kind::String => text::to_string(arena, v, to),
        Kind::Binary => binary::to_binary(arena, v, to),
        Kind::ObjectId => match v {
            Value::ObjectId(_) => Ok(v),
            Value::String(s) => model::ObjectId::parse(s)
                .map(Value::ObjectId)
                .ok_or_else(|| failure(&v, to.name, "an ObjectId is 24 hexadecimal characters")),
            _ => Err(unsupported(&v, to)),
        },
        Kind::Object | Kind::Array => to_container(arena, v, to),
        Kind::Other => Err(unsupported(&v, to)),
    }
}

/// A document or an array from JSON text; an array also from a vector.
fn to_container<'a>(arena: &'a model::Bump, v: Value<'a>, to: &Target<'_>) -> Result<Value<'a>> {
    let text = match (v, to.kind) {
        (Value::Document(_), Kind::Object) | (Value::Array(_), Kind::Array) => return Ok(v),
        (Value::Binary(b), Kind::Array) => return vector::to_array(arena, b, to),
        (Value::String(text), _) => text,
        _ => return Err(unsupported(&v, to)),
    };
    let refused = |why: &str| failure(&Value::String(shorten_text(text)), to.name, why);
    let parsed = json_text::parse(text)
        .map_err(|why| refused(&format!("Input doesn't represent valid JSON: {why}")))?;
    if parsed.as_bytes().len() > MAX_DOCUMENT_BYTES {
        return Err(refused("the result would be larger than a document may be"));
    }
    let made = parsed.doc().field("");
    if matches!(made, Value::Array(_)) != (to.kind == Kind::Array) {
        let why = format!("Input doesn't match expected type '{}'", to.name);
        return Err(refused(&why));
    }
    Ok(made.copy_into(arena))
}

/// The beginning of a text, for messages.
fn shorten_text(text: &str) -> &str {
    const SHOWN_BYTES: usize = 128;
    match text.char_indices().find(|(at, _)| *at >= SHOWN_BYTES) {
        Some((at, _)) => text.get(..at).unwrap_or(text),
        None => text,
    }
}
