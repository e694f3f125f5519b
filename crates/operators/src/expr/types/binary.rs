//! Conversions to and from binary data.

use super::target::{Format, Kind, Target, UUID, failure, unsupported};
use super::vector::{self, VECTOR};
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use model::{Binary, Bump, Doc, Result, Value, bail};

/// Accepts text with and without padding.
const LENIENT_URL_SAFE: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// To binary data of the wanted subtype.
///
/// # Errors
/// 241 ConversionFailure when there is no such conversion, the text is not what the format wants,
/// or binary data has another subtype; 4341115 a string without a format.
pub(super) fn to_binary<'a>(arena: &'a Bump, v: Value<'a>, to: &Target<'_>) -> Result<Value<'a>> {
    let bytes = match v {
        Value::Binary(b) if b.subtype == to.subtype => return Ok(v),
        Value::Binary(b) => {
            let why = format!(
                "Conversions between different binData subtypes are not supported, from {}",
                b.subtype
            );
            return Err(failure(&v, to.name, &why));
        }
        Value::Int32(n) => arena.alloc_slice_copy(&if to.big_endian {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }),
        Value::Int64(n) => arena.alloc_slice_copy(&if to.big_endian {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }),
        Value::Double(n) => arena.alloc_slice_copy(&if to.big_endian {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }),
        Value::String(s) => {
            let Some(format) = to.format else {
                bail!(
                    4341115,
                    "Format must be specified when converting from string to binData; \
                     allowed are auto, base64, base64url, hex, utf8, uuid"
                );
            };
            match decode(s, format, to.subtype) {
                Some(bytes) => arena.alloc_slice_copy(&bytes),
                None => {
                    return Err(failure(
                        &v,
                        to.name,
                        "the string does not have the given format and subtype",
                    ));
                }
            }
        }
        Value::Array(a) if to.wide && to.subtype == VECTOR => {
            return vector::from_array(arena, a, to);
        }
        Value::Document(d) if to.wide => arena.alloc_slice_copy(whole_document(d, to)?),
        _ => return Err(unsupported(&v, to)),
    };
    Ok(Value::Binary(Binary {
        subtype: to.subtype,
        bytes,
    }))
}

/// The bytes of a document; a subtype with a fixed length refuses other lengths.
fn whole_document<'d>(d: Doc<'d>, to: &Target<'_>) -> Result<&'d [u8]> {
    const OF_16_BYTES: [u8; 3] = [3, UUID, 5];
    if OF_16_BYTES.contains(&to.subtype) && d.len_bytes() != 16 {
        bail!(
            13016802,
            "binary data of subtype {} has 16 bytes, the document has {}",
            to.subtype,
            d.len_bytes()
        );
    }
    Ok(d.as_bytes())
}

/// UUIDs need the format `uuid` (or `auto`) and subtype 4, and both are for UUIDs only.
fn decode(s: &str, format: Format, subtype: u8) -> Option<Vec<u8>> {
    let uuid = matches!(format, Format::Uuid | Format::Auto);
    if uuid != (subtype == UUID) {
        return None;
    }
    match format {
        Format::Uuid | Format::Auto => parse_uuid(s),
        Format::Base64 => STANDARD.decode(s).ok(),
        Format::Base64Url => LENIENT_URL_SAFE.decode(s).ok(),
        Format::Hex => parse_hex(s.as_bytes()),
        Format::Utf8 => Some(s.as_bytes().to_vec()),
    }
}

fn parse_hex(s: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16);
    let (pairs, rest) = s.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[hi, lo]| u8::try_from(digit(*hi)? * 16 + digit(*lo)?).ok())
        .collect()
}

/// 8-4-4-4-12 hexadecimal digits.
pub(super) fn parse_uuid(s: &str) -> Option<Vec<u8>> {
    let b = s.as_bytes();
    let dashes = b
        .iter()
        .enumerate()
        .filter(|(_, c)| **c == b'-')
        .map(|(i, _)| i);
    if b.len() != 36 || !dashes.eq([8, 13, 18, 23]) {
        return None;
    }
    parse_hex(
        &b.iter()
            .copied()
            .filter(|c| *c != b'-')
            .collect::<Vec<u8>>(),
    )
}

/// Integers of 1, 2, 4 and (long) 8 bytes, doubles of 4 and 8.
///
/// # Errors
/// 241 ConversionFailure for another length.
pub(super) fn to_number<'a>(bytes: &[u8], v: &Value<'_>, to: &Target<'_>) -> Result<Value<'a>> {
    let mut little = [0u8; 8];
    let length = bytes.len();
    let wrong = || failure(v, to.name, "the binary data has no length of such a number");
    let Some(slot) = little.get_mut(..length) else {
        return Err(wrong());
    };
    slot.copy_from_slice(bytes);
    if to.big_endian {
        slot.reverse();
    }
    let bits = i64::from_le_bytes(little);
    Ok(match (to.kind, length) {
        (Kind::Double, 8) => Value::Double(f64::from_le_bytes(little)),
        (Kind::Double, 4) => Value::Double(f32::from_bits(bits as u32).into()),
        (Kind::Int, 1) => Value::Int32((bits as i8).into()),
        (Kind::Int, 2) => Value::Int32((bits as i16).into()),
        (Kind::Int, 4) => Value::Int32(bits as i32),
        (Kind::Long, 1) => Value::Int64((bits as i8).into()),
        (Kind::Long, 2) => Value::Int64((bits as i16).into()),
        (Kind::Long, 4) => Value::Int64((bits as i32).into()),
        (Kind::Long, 8) => Value::Int64(bits),
        _ => return Err(wrong()),
    })
}
