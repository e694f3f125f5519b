//! Order-preserving keys: the bytes of two encoded values compare as the values do in BSON order,
//! and are equal exactly when the values compare equal. `docs/on-disk.md` has the table of
//! classes and the reasons.
//!
//! A component is a class byte (0x0A..=0xF0) and a payload. Descending components are complemented.
//! [`END`] follows the components of an index entry; [`BEFORE`] and [`AFTER`] make bounds that
//! sort before and after every entry with the same components.

use model::decimal::DecimalParts;
use model::{Array, Collate, Decimal128, Doc, Number, Value};

/// Ends the components of a complete entry.
pub const END: u8 = 0x04;
/// Sorts before [`END`] and before any further component.
pub const BEFORE: u8 = 0x01;
/// Sorts after [`END`] and after any further component.
pub const AFTER: u8 = 0xFE;

pub(super) const MIN_KEY: u8 = 0x0A;
pub(super) const UNDEFINED: u8 = 0x0F;
pub(super) const NULL: u8 = 0x14;
pub(super) const NAN: u8 = 0x30;
pub(super) const ZERO: u8 = 0x40;
/// Magnitude below one.
pub(super) const SMALL: u8 = 1;
/// Magnitude of 2^64 and more.
pub(super) const LARGE: u8 = 10;
pub(super) const INFINITE: u8 = 11;
pub(super) const STRING: u8 = 0x50;
pub(super) const OBJECT: u8 = 0x58;
pub(super) const ARRAY: u8 = 0x60;
pub(super) const BINARY: u8 = 0x68;
pub(super) const OBJECT_ID: u8 = 0x70;
pub(super) const FALSE: u8 = 0x78;
pub(super) const TRUE: u8 = 0x79;
pub(super) const DATE: u8 = 0x80;
pub(super) const TIMESTAMP: u8 = 0x88;
pub(super) const REGEX: u8 = 0x90;
pub(super) const DB_POINTER: u8 = 0x98;
pub(super) const CODE: u8 = 0xA0;
pub(super) const CODE_WITH_SCOPE: u8 = 0xA8;
/// The class of a hashed component; without a class its bytes could be below [`BEFORE`] or above
/// [`AFTER`].
pub const HASH: u8 = 0xB0;
pub(super) const MAX_KEY: u8 = 0xF0;

/// Appends one ascending component. Missing encodes as null.
pub fn encode(v: &Value<'_>, collate: Option<&dyn Collate>, out: &mut Vec<u8>) {
    match v {
        Value::MinKey => out.push(MIN_KEY),
        Value::Undefined => out.push(UNDEFINED),
        Value::Missing | Value::Null => out.push(NULL),
        Value::Int32(n) => integer(*n < 0, u64::from(n.unsigned_abs()), out),
        Value::Int64(n) => integer(*n < 0, n.unsigned_abs(), out),
        Value::Double(n) => double(*n, out),
        Value::Decimal128(d) => decimal(d, out),
        Value::String(s) | Value::Symbol(s) => {
            out.push(STRING);
            match collate {
                Some(c) => {
                    let mut key = Vec::with_capacity(s.len() * 2 + 4);
                    c.sort_key(s, &mut key);
                    write_escaped(&key, out);
                }
                None => write_escaped(s.as_bytes(), out),
            }
        }
        Value::Document(d) => {
            out.push(OBJECT);
            document(*d, collate, out);
        }
        Value::Array(a) => {
            out.push(ARRAY);
            array(*a, collate, out);
        }
        Value::Binary(b) => {
            out.push(BINARY);
            out.extend_from_slice(&(b.bytes.len() as u32).to_be_bytes());
            out.push(b.subtype);
            out.extend_from_slice(b.bytes);
        }
        Value::ObjectId(id) => {
            out.push(OBJECT_ID);
            out.extend_from_slice(&id.0);
        }
        Value::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        Value::Date(ms) => {
            out.push(DATE);
            out.extend_from_slice(&((*ms as u64) ^ (1 << 63)).to_be_bytes());
        }
        Value::Timestamp(t) => {
            out.push(TIMESTAMP);
            out.extend_from_slice(&t.as_u64().to_be_bytes());
        }
        Value::Regex(r) => {
            out.push(REGEX);
            write_escaped(r.pattern.as_bytes(), out);
            write_escaped(r.options.as_bytes(), out);
        }
        Value::DbPointer(ns, id) => {
            out.push(DB_POINTER);
            out.extend_from_slice(&(ns.len() as u32).to_be_bytes());
            out.extend_from_slice(ns.as_bytes());
            out.extend_from_slice(&id.0);
        }
        Value::Code(c) => {
            out.push(CODE);
            write_escaped(c.as_bytes(), out);
        }
        Value::CodeWithScope(c, scope) => {
            out.push(CODE_WITH_SCOPE);
            write_escaped(c.as_bytes(), out);
            document(Doc::from_prefix(scope), collate, out);
        }
        Value::MaxKey => out.push(MAX_KEY),
    }
}

/// Appends one component in the given direction.
pub fn encode_directed(
    v: &Value<'_>,
    descending: bool,
    collate: Option<&dyn Collate>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    encode(v, collate, out);
    if descending {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
}

/// 0x00 inside becomes 0x00 0xFF; 0x00 ends.
fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.contains(&0) {
        for &b in bytes {
            out.push(b);
            if b == 0 {
                out.push(0xFF);
            }
        }
    } else {
        out.extend_from_slice(bytes);
    }
    out.push(0);
}

/// Per field: class of the value (BSON compares types before names), name, value; 0x00 ends.
fn document(d: Doc<'_>, collate: Option<&dyn Collate>, out: &mut Vec<u8>) {
    for (name, v) in d.iter() {
        // Class numbers of the BSON order start at 0, the terminator must stay below.
        out.push(model::compare::class(&v) + 1);
        write_escaped(name.as_bytes(), out);
        encode(&v, collate, out);
    }
    out.push(0);
}

fn array(a: Array<'_>, collate: Option<&dyn Collate>, out: &mut Vec<u8>) {
    for v in a.iter() {
        encode(&v, collate, out);
    }
    out.push(0);
}

/// Class byte for a magnitude class, mirrored for negatives.
fn number_class(negative: bool, magnitude: u8) -> u8 {
    if negative {
        ZERO - magnitude
    } else {
        ZERO + magnitude
    }
}

/// Writes class and payload; a negative number's payload is complemented.
fn number(negative: bool, magnitude: u8, out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    out.push(number_class(negative, magnitude));
    let start = out.len();
    payload(out);
    if negative {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
}

/// The first class byte for values of this type, and the first one after them: the bounds of a
/// range over values of the type. NaN lies outside the bounds of numbers.
pub fn bracket(v: &Value<'_>) -> (u8, u8) {
    match v {
        Value::MinKey => (MIN_KEY, MIN_KEY + 1),
        Value::Undefined => (UNDEFINED, UNDEFINED + 1),
        Value::Missing | Value::Null => (NULL, NULL + 1),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
            (ZERO - INFINITE, ZERO + INFINITE + 1)
        }
        Value::String(_) | Value::Symbol(_) => (STRING, STRING + 1),
        Value::Document(_) => (OBJECT, OBJECT + 1),
        Value::Array(_) => (ARRAY, ARRAY + 1),
        Value::Binary(_) => (BINARY, BINARY + 1),
        Value::ObjectId(_) => (OBJECT_ID, OBJECT_ID + 1),
        Value::Bool(_) => (FALSE, TRUE + 1),
        Value::Date(_) => (DATE, DATE + 1),
        Value::Timestamp(_) => (TIMESTAMP, TIMESTAMP + 1),
        Value::Regex(_) => (REGEX, REGEX + 1),
        Value::DbPointer(..) => (DB_POINTER, DB_POINTER + 1),
        Value::Code(_) => (CODE, CODE + 1),
        Value::CodeWithScope(..) => (CODE_WITH_SCOPE, CODE_WITH_SCOPE + 1),
        Value::MaxKey => (MAX_KEY, MAX_KEY + 1),
    }
}

/// Length of a big-endian integer without leading zeros; the class depends on it (2 is one byte).
fn whole_bytes(n: u64) -> usize {
    8 - (n.leading_zeros() / 8) as usize
}

fn integer(negative: bool, magnitude: u64, out: &mut Vec<u8>) {
    if magnitude == 0 {
        out.push(ZERO);
        return;
    }
    let len = whole_bytes(magnitude);
    number(negative, 1 + len as u8, out, |out| {
        out.extend_from_slice(&magnitude.to_be_bytes()[8 - len..]);
        out.push(0);
    });
}

const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// Extra digits of a decimal that no double has: adjusted exponent and 34 digits.
type Residual = Option<[u8; 18]>;

fn residual(r: Residual, out: &mut Vec<u8>) {
    match r {
        None => out.push(0),
        Some(bytes) => {
            out.push(1);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Encodes a non-negative magnitude, given as a double truncated toward zero and the remainder of
/// the truncation.
fn magnitude(negative: bool, m: f64, rest: Residual, out: &mut Vec<u8>) {
    if m >= TWO_64 {
        number(negative, LARGE, out, |out| {
            out.extend_from_slice(&m.to_bits().to_be_bytes());
            residual(rest, out);
        });
    } else if m >= 1.0 {
        let whole = m.trunc();
        // Exact: at most 52 fraction bits, so the product with 2^64 is an integer below 2^64.
        let fraction = ((m - whole) * TWO_64) as u64;
        whole_and_fraction(negative, whole as u64, fraction, rest, out);
    } else {
        number(negative, SMALL, out, |out| {
            out.extend_from_slice(&m.to_bits().to_be_bytes());
            residual(rest, out);
        });
    }
}

fn whole_and_fraction(
    negative: bool,
    whole: u64,
    fraction: u64,
    rest: Residual,
    out: &mut Vec<u8>,
) {
    if fraction == 0 && rest.is_none() {
        return integer(negative, whole, out);
    }
    let len = whole_bytes(whole);
    number(negative, 1 + len as u8, out, |out| {
        out.extend_from_slice(&whole.to_be_bytes()[8 - len..]);
        out.push(1);
        out.extend_from_slice(&fraction.to_be_bytes());
        residual(rest, out);
    });
}

fn double(n: f64, out: &mut Vec<u8>) {
    if n.is_nan() {
        out.push(NAN);
    } else if n == 0.0 {
        out.push(ZERO);
    } else if n.is_infinite() {
        out.push(number_class(n < 0.0, INFINITE));
    } else {
        magnitude(n < 0.0, n.abs(), None, out);
    }
}

fn decimal(d: &Decimal128, out: &mut Vec<u8>) {
    let (negative, coefficient, exponent) = match d.parts() {
        DecimalParts::Nan => return out.push(NAN),
        DecimalParts::Infinite { negative } => return out.push(number_class(negative, INFINITE)),
        DecimalParts::Finite { coefficient: 0, .. } => return out.push(ZERO),
        DecimalParts::Finite {
            negative,
            coefficient,
            exponent,
        } => (negative, coefficient, exponent),
    };
    if let Some(n) = d.to_i64_exact() {
        return integer(negative, n.unsigned_abs(), out);
    }
    let abs = Decimal128::from_parts(false, coefficient, exponent).unwrap_or(*d);
    let exact = digits_residual(coefficient, exponent);
    // From 2^53 on doubles have no fraction, but not every int64 is a double: the whole part has to
    // be exact there.
    if let Some((whole, has_fraction)) = whole_part(coefficient, exponent)
        && whole >= 1 << 53
    {
        return whole_and_fraction(negative, whole, 0, has_fraction.then_some(exact), out);
    }
    let mut below = abs.to_f64();
    let mut rest = Some(exact);
    if below.is_infinite() {
        below = f64::MAX;
    } else {
        match Number::Double(below).compare(&Number::Decimal(abs)) {
            std::cmp::Ordering::Equal => rest = None,
            std::cmp::Ordering::Greater => below = below.next_down(),
            std::cmp::Ordering::Less => {}
        }
    }
    magnitude(negative, below, rest, out);
}

/// The whole part when it is below 2^64, and whether a fraction remains.
fn whole_part(coefficient: u128, exponent: i32) -> Option<(u64, bool)> {
    if exponent >= 0 {
        let scale = 10u128.checked_pow(exponent as u32)?;
        return Some((u64::try_from(coefficient.checked_mul(scale)?).ok()?, false));
    }
    match 10u128.checked_pow(exponent.unsigned_abs()) {
        None => Some((0, true)),
        Some(scale) => Some((
            u64::try_from(coefficient / scale).ok()?,
            !coefficient.is_multiple_of(scale),
        )),
    }
}

/// Biased adjusted exponent and the coefficient stretched to 34 digits: compares as the decimals
/// do.
fn digits_residual(coefficient: u128, exponent: i32) -> [u8; 18] {
    let digits = coefficient.checked_ilog10().map_or(0, |d| d as i32 + 1);
    let stretched = coefficient * 10u128.pow((34 - digits).max(0) as u32);
    let mut out = [0u8; 18];
    out[..2].copy_from_slice(&((exponent + digits + 8192) as u16).to_be_bytes());
    out[2..].copy_from_slice(&stretched.to_be_bytes());
    out
}

/// Appends the tail of a non-unique entry: [`END`], the id and its length, so the id can be cut off
/// from the end.
pub fn append_id_tail(out: &mut Vec<u8>, id_key: &[u8]) {
    out.push(END);
    out.extend_from_slice(id_key);
    if id_key.len() < 0xFF {
        out.push(id_key.len() as u8);
    } else {
        out.extend_from_slice(&(id_key.len() as u32).to_be_bytes());
        out.push(0xFF);
    }
}

/// The id in the tail of a non-unique entry.
pub fn id_of_tail(entry: &[u8]) -> Option<&[u8]> {
    let (&last, rest) = entry.split_last()?;
    if last < 0xFF {
        return rest.get(rest.len().checked_sub(last as usize)?..);
    }
    let (body, len) = rest.split_last_chunk::<4>()?;
    body.get(body.len().checked_sub(u32::from_be_bytes(*len) as usize)?..)
}

/// The part of a non-unique entry before its tail, and the id in the tail.
pub fn split_tail(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let id = id_of_tail(entry)?;
    // The end of the key, the id, and its length in one byte or five.
    let tail = id.len() + if entry.last() == Some(&0xFF) { 6 } else { 2 };
    Some((entry.get(..entry.len().checked_sub(tail)?)?, id))
}

#[cfg(test)]
mod tests;
