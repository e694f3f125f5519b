//! Vectors: binary data of subtype 9, to and from arrays of numbers. The first byte is the type of
//! the elements, the second the number of padding bits in the last byte.

use super::target::{Target, failure};
use model::{Array, Binary, Bump, Number, Result, Value, bail};

/// The subtype of vectors.
pub(super) const VECTOR: u8 = 9;

const INT8: u8 = 0x03;
const FLOAT32: u8 = 0x27;
const PACKED_BIT: u8 = 0x10;

/// The elements of a vector: ints, doubles, or booleans of packed bits.
///
/// # Errors
/// 10506600 for elements of unknown type, 10506606 for padding without bits, 10506602 for a length
/// that is no whole number of elements; 241 ConversionFailure for binary data that is no vector.
pub(super) fn to_array<'a>(arena: &'a Bump, b: Binary<'_>, to: &Target<'_>) -> Result<Value<'a>> {
    let (VECTOR, [kind, padding, bytes @ ..]) = (b.subtype, b.bytes) else {
        return Err(super::target::unsupported(&Value::Binary(b), to));
    };
    if *padding != 0 && *kind != PACKED_BIT {
        bail!(
            10506606,
            "a vector has padding only where its elements are bits, given {padding}"
        );
    }
    let array = match *kind {
        INT8 => Array::from_values_in(arena, bytes.iter().map(|n| Value::Int32((*n as i8).into()))),
        FLOAT32 => {
            let (floats, []) = bytes.as_chunks::<4>() else {
                bail!(
                    10506602,
                    "a vector of 32-bit floats has a multiple of 4 bytes, given {}",
                    bytes.len()
                );
            };
            let number = |bytes: &[u8; 4]| match to.big_endian {
                true => f32::from_be_bytes(*bytes),
                false => f32::from_le_bytes(*bytes),
            };
            Array::from_values_in(
                arena,
                floats.iter().map(|f| Value::Double(number(f).into())),
            )
        }
        PACKED_BIT => {
            let bits = (bytes.len() * 8).saturating_sub(usize::from(*padding));
            let all = bytes
                .iter()
                .flat_map(|b| (0..8).map(move |i| b & (0x80 >> i) != 0));
            Array::from_values_in(arena, all.take(bits).map(Value::Bool))
        }
        other => bail!(
            10506600,
            "a vector holds elements of kind 3, 16 or 39, given {other}"
        ),
    };
    Ok(Value::Array(array))
}

/// A vector from an array: bits if all elements are zero or one, bytes for whole numbers that fit,
/// 32-bit floats for doubles.
///
/// # Errors
/// 241 ConversionFailure for elements that fit no vector.
pub(super) fn from_array<'a>(arena: &'a Bump, a: Array<'_>, to: &Target<'_>) -> Result<Value<'a>> {
    let bytes = pack_bits(a)
        .or_else(|| int8(a))
        .or_else(|| float32(a, to.big_endian))
        .ok_or_else(|| {
            let why = "a vector holds numbers: ints of 8 bits, doubles, or zeros and ones";
            failure(&Value::Array(a), to.name, why)
        })?;
    Ok(Value::Binary(Binary {
        subtype: VECTOR,
        bytes: arena.alloc_slice_copy(&bytes),
    }))
}

fn whole_number_of(v: &Value<'_>) -> Option<i64> {
    match v {
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) => Number::of(v)?.to_i64_exact(),
        _ => None,
    }
}

fn pack_bits(a: Array<'_>) -> Option<Vec<u8>> {
    let mut bytes = vec![PACKED_BIT, 0];
    let mut count = 0usize;
    for v in a.iter() {
        let bit = match v {
            Value::Bool(b) => b,
            v => match whole_number_of(&v)? {
                0 => false,
                1 => true,
                _ => return None,
            },
        };
        if count.is_multiple_of(8) {
            bytes.push(0);
        }
        if let (true, Some(last)) = (bit, bytes.last_mut()) {
            *last |= 0x80 >> (count % 8);
        }
        count += 1;
    }
    if let Some(padding) = bytes.get_mut(1) {
        *padding = u8::try_from((8 - count % 8) % 8).ok()?;
    }
    Some(bytes)
}

fn int8(a: Array<'_>) -> Option<Vec<u8>> {
    let one = |v: Value<'_>| i8::try_from(whole_number_of(&v)?).ok().map(|n| n as u8);
    let mut bytes = vec![INT8, 0];
    for v in a.iter() {
        bytes.push(one(v)?);
    }
    Some(bytes)
}

fn float32(a: Array<'_>, big_endian: bool) -> Option<Vec<u8>> {
    let mut bytes = vec![FLOAT32, 0];
    for v in a.iter() {
        let x = match v {
            Value::Double(x) => x as f32,
            v => i8::try_from(whole_number_of(&v)?).ok()?.into(),
        };
        bytes.extend(if big_endian {
            x.to_be_bytes()
        } else {
            x.to_le_bytes()
        });
    }
    Some(bytes)
}
