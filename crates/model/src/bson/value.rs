//! `Value`: one BSON value, borrowed from a document or from an arena. Copy, 40 bytes at most,
//! never owns.

use super::{Array, Doc};
use crate::Decimal128;

/// BSON element type byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Tag(pub u8);

#[allow(missing_docs)]
impl Tag {
    pub const DOUBLE: Tag = Tag(0x01);
    pub const STRING: Tag = Tag(0x02);
    pub const DOCUMENT: Tag = Tag(0x03);
    pub const ARRAY: Tag = Tag(0x04);
    pub const BINARY: Tag = Tag(0x05);
    pub const UNDEFINED: Tag = Tag(0x06);
    pub const OBJECT_ID: Tag = Tag(0x07);
    pub const BOOL: Tag = Tag(0x08);
    pub const DATE: Tag = Tag(0x09);
    pub const NULL: Tag = Tag(0x0A);
    pub const REGEX: Tag = Tag(0x0B);
    pub const DB_POINTER: Tag = Tag(0x0C);
    pub const CODE: Tag = Tag(0x0D);
    pub const SYMBOL: Tag = Tag(0x0E);
    pub const CODE_WITH_SCOPE: Tag = Tag(0x0F);
    pub const INT32: Tag = Tag(0x10);
    pub const TIMESTAMP: Tag = Tag(0x11);
    pub const INT64: Tag = Tag(0x12);
    pub const DECIMAL128: Tag = Tag(0x13);
    pub const MIN_KEY: Tag = Tag(0xFF);
    pub const MAX_KEY: Tag = Tag(0x7F);
    /// Not a BSON type: the absence of a value.
    pub const MISSING: Tag = Tag(0x00);
}

/// 12-byte object identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub [u8; 12]);

impl ObjectId {
    /// Lower-case hexadecimal, 24 characters.
    pub fn to_hex(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|b| {
                [
                    DIGITS[(b >> 4) as usize] as char,
                    DIGITS[(b & 15) as usize] as char,
                ]
            })
            .collect()
    }

    /// Parses 24 hexadecimal characters.
    pub fn parse(text: &str) -> Option<ObjectId> {
        let b = text.as_bytes();
        if b.len() != 24 {
            return None;
        }
        let mut out = [0u8; 12];
        for (slot, pair) in out.iter_mut().zip(b.chunks(2)) {
            let hi = (pair[0] as char).to_digit(16)?;
            let lo = (pair[1] as char).to_digit(16)?;
            *slot = (hi * 16 + lo) as u8;
        }
        Some(ObjectId(out))
    }

    /// Milliseconds since the epoch of the embedded creation time.
    pub fn timestamp_ms(self) -> i64 {
        i64::from(u32::from_be_bytes([
            self.0[0], self.0[1], self.0[2], self.0[3],
        ])) * 1000
    }
}

/// Replication timestamp: seconds and an ordinal within the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timestamp {
    /// Seconds since the epoch.
    pub time: u32,
    /// Ordinal within the second.
    pub increment: u32,
}

impl Timestamp {
    /// As the 64-bit number BSON stores.
    pub fn as_u64(self) -> u64 {
        (u64::from(self.time) << 32) | u64::from(self.increment)
    }
    /// From the 64-bit number BSON stores.
    pub fn from_u64(v: u64) -> Timestamp {
        Timestamp {
            time: (v >> 32) as u32,
            increment: v as u32,
        }
    }
}

/// Binary data with its subtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Binary<'a> {
    /// 0 generic, 2 old binary, 3/4 UUID, 5 MD5, 6 encrypted, 7 column, 8 sensitive, 9 vector, 128+
    /// user.
    pub subtype: u8,
    /// Payload. For subtype 2 this includes the inner length, as stored.
    pub bytes: &'a [u8],
}

/// Regular expression as BSON stores it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Regex<'a> {
    /// Pattern, PCRE syntax.
    pub pattern: &'a str,
    /// Option letters.
    pub options: &'a str,
}

/// One BSON value. `Missing` is the absence of a value (a field that is not there); it is never
/// written.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub enum Value<'a> {
    #[default]
    Missing,
    MinKey,
    Undefined,
    Null,
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal128(Decimal128),
    String(&'a str),
    Symbol(&'a str),
    Document(Doc<'a>),
    Array(Array<'a>),
    Binary(Binary<'a>),
    ObjectId(ObjectId),
    Bool(bool),
    /// Milliseconds since the epoch.
    Date(i64),
    Timestamp(Timestamp),
    Regex(Regex<'a>),
    DbPointer(&'a str, ObjectId),
    Code(&'a str),
    CodeWithScope(&'a str, &'a [u8]),
    MaxKey,
}

impl<'a> Value<'a> {
    /// BSON type byte; `Tag::MISSING` for `Missing`.
    pub fn tag(&self) -> Tag {
        match self {
            Value::Missing => Tag::MISSING,
            Value::MinKey => Tag::MIN_KEY,
            Value::Undefined => Tag::UNDEFINED,
            Value::Null => Tag::NULL,
            Value::Int32(_) => Tag::INT32,
            Value::Int64(_) => Tag::INT64,
            Value::Double(_) => Tag::DOUBLE,
            Value::Decimal128(_) => Tag::DECIMAL128,
            Value::String(_) => Tag::STRING,
            Value::Symbol(_) => Tag::SYMBOL,
            Value::Document(_) => Tag::DOCUMENT,
            Value::Array(_) => Tag::ARRAY,
            Value::Binary(_) => Tag::BINARY,
            Value::ObjectId(_) => Tag::OBJECT_ID,
            Value::Bool(_) => Tag::BOOL,
            Value::Date(_) => Tag::DATE,
            Value::Timestamp(_) => Tag::TIMESTAMP,
            Value::Regex(_) => Tag::REGEX,
            Value::DbPointer(..) => Tag::DB_POINTER,
            Value::Code(_) => Tag::CODE,
            Value::CodeWithScope(..) => Tag::CODE_WITH_SCOPE,
            Value::MaxKey => Tag::MAX_KEY,
        }
    }

    /// The name MongoDB gives the type in messages and `$type` ("int", "objectId", "missing", ...).
    pub fn type_name(&self) -> &'static str {
        self.tag().name()
    }

    /// Null, undefined or missing.
    pub fn is_nullish(&self) -> bool {
        matches!(self, Value::Missing | Value::Null | Value::Undefined)
    }
    /// True when there is no value.
    pub fn is_missing(&self) -> bool {
        matches!(self, Value::Missing)
    }
    /// int, long, double or decimal.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_)
        )
    }
    /// MongoDB's truth: false, null, undefined, missing and numeric zero are false, all else is
    /// true.
    pub fn truthy(&self) -> bool {
        match self {
            Value::Missing | Value::Null | Value::Undefined => false,
            Value::Bool(b) => *b,
            Value::Int32(n) => *n != 0,
            Value::Int64(n) => *n != 0,
            Value::Double(n) => *n != 0.0,
            Value::Decimal128(d) => !d.is_zero(),
            _ => true,
        }
    }
    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }
    /// The document, if it is one.
    pub fn as_doc(&self) -> Option<Doc<'a>> {
        match self {
            Value::Document(d) => Some(*d),
            _ => None,
        }
    }
    /// The array, if it is one.
    pub fn as_array(&self) -> Option<Array<'a>> {
        match self {
            Value::Array(a) => Some(*a),
            _ => None,
        }
    }
    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
    /// The number as an `i64` when it has exactly that value (any numeric type).
    pub fn as_i64_exact(&self) -> Option<i64> {
        crate::Number::of(self)?.to_i64_exact()
    }
    /// The number as the nearest double (any numeric type).
    pub fn as_f64(&self) -> Option<f64> {
        Some(crate::Number::of(self)?.to_f64())
    }
}

impl Tag {
    /// MongoDB's name of the type.
    pub fn name(self) -> &'static str {
        match self.0 {
            0x00 => "missing",
            0x01 => "double",
            0x02 => "string",
            0x03 => "object",
            0x04 => "array",
            0x05 => "binData",
            0x06 => "undefined",
            0x07 => "objectId",
            0x08 => "bool",
            0x09 => "date",
            0x0A => "null",
            0x0B => "regex",
            0x0C => "dbPointer",
            0x0D => "javascript",
            0x0E => "symbol",
            0x0F => "javascriptWithScope",
            0x10 => "int",
            0x11 => "timestamp",
            0x12 => "long",
            0x13 => "decimal",
            0x7F => "maxKey",
            0xFF => "minKey",
            _ => "invalid",
        }
    }

    /// The type a `$type` alias names; not the pseudo-alias "number".
    pub fn from_name(name: &str) -> Option<Tag> {
        [
            0x01u8, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E,
            0x0F, 0x10, 0x11, 0x12, 0x13, 0x7F, 0xFF,
        ]
        .into_iter()
        .map(Tag)
        .find(|t| t.name() == name)
    }
}

macro_rules! from_value {
    ($($t:ty => |$v:ident| $e:expr;)*) => {$(
        impl<'a> From<$t> for Value<'a> { fn from($v: $t) -> Value<'a> { $e } }
    )*};
}
from_value! {
    i32 => |v| Value::Int32(v);
    i64 => |v| Value::Int64(v);
    f64 => |v| Value::Double(v);
    bool => |v| Value::Bool(v);
    &'a str => |v| Value::String(v);
    &'a String => |v| Value::String(v.as_str());
    ObjectId => |v| Value::ObjectId(v);
    Timestamp => |v| Value::Timestamp(v);
    Decimal128 => |v| Value::Decimal128(v);
    Doc<'a> => |v| Value::Document(v);
    Array<'a> => |v| Value::Array(v);
    Binary<'a> => |v| Value::Binary(v);
    &'a super::DocBuf => |v| Value::Document(v.doc());
}

impl<'a> From<&Value<'a>> for Value<'a> {
    fn from(v: &Value<'a>) -> Value<'a> {
        *v
    }
}
