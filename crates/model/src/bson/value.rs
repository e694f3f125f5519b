//! Accessors of a BSON value, and conversions into one.

use super::doc::{Array, Doc, Value};
use super::scalar::{Binary, ObjectId, Tag, Timestamp};
use crate::Decimal128;

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
    /// MongoDB's truth value: false, null, undefined, missing and numeric zero are false, all else
    /// is true.
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
}

impl<'a> From<&Value<'a>> for Value<'a> {
    fn from(v: &Value<'a>) -> Value<'a> {
        *v
    }
}
