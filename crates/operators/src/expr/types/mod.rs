//! `$type`, `$isNumber`, and conversions between types: `$convert` and its short forms.

crate::expr_family! { convert, short, type_of }

mod binary;
mod number;
mod text;

use model::{MongoError, Result, Value};

/// What kind of value to convert to, and how.
#[derive(Clone, Copy)]
struct Target<'f> {
    kind: Kind,
    /// Subtype of binary results.
    subtype: u8,
    /// `format` of text from or to binary; `None` when none was given.
    format: Option<Format>,
    /// Byte order of numbers from or to binary.
    big_endian: bool,
    /// For messages.
    name: &'f str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Double,
    String,
    Binary,
    ObjectId,
    Bool,
    Date,
    Int,
    Long,
    Decimal,
    /// A type that nothing converts to.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

/// Binary subtype of RFC UUIDs.
const UUID: u8 = 4;

/// 241 ConversionFailure.
fn failure(v: &Value<'_>, target: &str, why: &str) -> MongoError {
    let shown = model::show::Shown(v);
    MongoError::new(
        model::code::CONVERSION_FAILURE,
        format!(
            "Failed to convert {} {shown} to {target} in $convert with no onError value: {why}",
            v.type_name()
        ),
    )
}

/// Converts a value that is not null.
///
/// # Errors
/// 241 when there is no such conversion or the value does not fit; 4341115 text to binary or back
/// without a format.
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
        Kind::Other => Err(unsupported(&v, to)),
    }
}

fn unsupported(v: &Value<'_>, to: &Target<'_>) -> MongoError {
    failure(v, to.name, "Unsupported conversion between these types")
}
