//! `$type`, `$isNumber`, and conversions between types: `$convert` and its short forms.

crate::expr_family! { convert, short, type_of }

mod binary;
mod number;
mod target;
mod text;

use model::{Result, Value};
use target::{Kind, Target, failure, unsupported};

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
