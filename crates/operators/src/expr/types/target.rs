//! The target of a conversion, and the errors of conversions.

use model::{MongoError, Value};

/// The kind of value to convert to, and the options.
#[derive(Clone, Copy)]
pub(super) struct Target<'f> {
    pub(super) kind: Kind,
    /// Subtype of binary results.
    pub(super) subtype: u8,
    /// `format` of text from or to binary; `None` when none was given.
    pub(super) format: Option<Format>,
    /// Byte order of numbers from or to binary.
    pub(super) big_endian: bool,
    /// Base of whole numbers from or to text (8.3); `None` for the ordinary texts of numbers.
    pub(super) base: Option<u32>,
    /// All types convert to text, and text and vectors convert to documents and arrays (8.3).
    pub(super) wide: bool,
    /// Numbers in text may lose digits because they are small (8.3).
    pub(super) subnormal: bool,
    /// For messages.
    pub(super) name: &'f str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Double,
    String,
    Binary,
    ObjectId,
    Bool,
    Date,
    Int,
    Long,
    Decimal,
    Object,
    Array,
    /// A type that no value converts to.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

/// Binary subtype of RFC UUIDs.
pub(super) const UUID: u8 = 4;

/// 241 ConversionFailure.
pub(super) fn failure(v: &Value<'_>, target: &str, why: &str) -> MongoError {
    let shown = v;
    MongoError::new(
        model::code::CONVERSION_FAILURE,
        format!(
            "Failed to convert {} {shown} to {target} in $convert with no onError value: {why}",
            v.type_name()
        ),
    )
}

pub(super) fn unsupported(v: &Value<'_>, to: &Target<'_>) -> MongoError {
    failure(v, to.name, "Unsupported conversion between these types")
}
