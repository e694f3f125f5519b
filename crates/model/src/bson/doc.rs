//! `Doc`, `Array` and `Value`: borrowed raw BSON. Reading is linear, allocation-free and total. A
//! value is borrowed from a document or from an arena; it is Copy, has at most 40 bytes and owns
//! nothing.

use super::scalar::{Binary, ObjectId, Regex, Tag, Timestamp};
use crate::Decimal128;

/// A raw BSON document. Copy; borrows its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Doc<'a>(&'a [u8]);

/// A raw BSON array (a document whose keys are ignored).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Array<'a>(Doc<'a>);

/// One BSON value. `Missing` is the absence of a value, such as an absent field; it is never
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

const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

impl<'a> Doc<'a> {
    /// The document without fields.
    pub const EMPTY: Doc<'static> = Doc(EMPTY);

    /// Views `bytes` as a document. Checks only the length and the terminator; use
    /// [`crate::validate()`] for untrusted bytes.
    pub fn new(bytes: &'a [u8]) -> Option<Doc<'a>> {
        let len = usize::try_from(i32::from_le_bytes(*bytes.first_chunk::<4>()?)).ok()?;
        (len == bytes.len() && len >= 5 && bytes[len - 1] == 0).then_some(Doc(bytes))
    }

    /// Like [`Doc::new`] on a prefix of `bytes`; the empty document when malformed. For stored or
    /// already checked bytes.
    pub fn from_prefix(bytes: &'a [u8]) -> Doc<'a> {
        let Some(head) = bytes.first_chunk::<4>() else {
            return Doc::EMPTY;
        };
        let len = i32::from_le_bytes(*head).max(0) as usize;
        bytes.get(..len).and_then(Doc::new).unwrap_or(Doc::EMPTY)
    }

    /// The bytes, length prefix and terminator included.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
    /// Size in bytes.
    pub fn len_bytes(self) -> usize {
        self.0.len()
    }
    /// True without fields.
    pub fn is_empty(self) -> bool {
        self.0.len() <= 5
    }
    /// The elements, undecoded: name bytes, tag and payload.
    pub fn elements(self) -> Elements<'a> {
        Elements {
            rest: self.0.get(4..self.0.len().saturating_sub(1)).unwrap_or(&[]),
        }
    }
    /// Fields in order, decoded.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, Value<'a>)> + Clone {
        self.elements().map(|e| (e.name_str(), e.value()))
    }
    /// The first field called `name`, undecoded.
    pub fn get_element(self, name: &str) -> Option<Element<'a>> {
        let name = name.as_bytes();
        let mut rest = self.elements().rest;
        // Like `Elements::next`, but other names are only skipped.
        loop {
            let (&tag, after_tag) = rest.split_first()?;
            if after_tag.get(name.len()) == Some(&0) && after_tag.starts_with(name) {
                let body = after_tag.get(name.len() + 1..)?;
                let payload = body.get(..payload_len(Tag(tag), body)?)?;
                return Some(Element {
                    name: &after_tag[..name.len()],
                    tag: Tag(tag),
                    payload,
                });
            }
            let body = after_tag.get(name_len(after_tag)? + 1..)?;
            rest = body.get(payload_len(Tag(tag), body)?..)?;
        }
    }
    /// The first field called `name`.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.get_element(name).map(|e| e.value())
    }
    /// The first field called `name`, or `Missing`.
    pub fn field(self, name: &str) -> Value<'a> {
        self.get(name).unwrap_or(Value::Missing)
    }
    /// True when there is a field called `name`.
    pub fn contains(self, name: &str) -> bool {
        self.get_element(name).is_some()
    }
    /// The first field.
    pub fn first(self) -> Option<(&'a str, Value<'a>)> {
        self.iter().next()
    }
    /// Number of fields; linear.
    pub fn count(self) -> usize {
        self.elements().count()
    }
    /// The same bytes seen as an array.
    pub fn as_array(self) -> Array<'a> {
        Array(self)
    }
}

impl<'a> Array<'a> {
    /// The array without elements.
    pub const EMPTY: Array<'static> = Array(Doc(EMPTY));

    /// Views `bytes` as an array; see [`Doc::new`].
    pub fn new(bytes: &'a [u8]) -> Option<Array<'a>> {
        Doc::new(bytes).map(Array)
    }
    /// The bytes, length prefix and terminator included.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0.0
    }
    /// Elements in order, decoded.
    pub fn iter(self) -> impl Iterator<Item = Value<'a>> + Clone {
        self.0.elements().map(|e| e.value())
    }
    /// Elements in order, undecoded.
    pub fn elements(self) -> Elements<'a> {
        self.0.elements()
    }
    /// The elements from the point where an earlier iteration had `rest` bytes left
    /// ([`Elements::rest_bytes`]).
    pub fn elements_from(self, rest: usize) -> Elements<'a> {
        let end = self.as_bytes().len().saturating_sub(1);
        let start = end.saturating_sub(rest).max(4);
        Elements::new(self.as_bytes().get(start..end).unwrap_or(&[]))
    }
    /// Element number `index`; linear.
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        self.0.elements().nth(index).map(|e| e.value())
    }
    /// Number of elements; linear.
    pub fn len(self) -> usize {
        self.0.elements().count()
    }
    /// True without elements.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
    /// The same bytes seen as a document.
    pub fn as_doc(self) -> Doc<'a> {
        self.0
    }
}

/// One undecoded element.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// Field name without its terminator.
    pub name: &'a [u8],
    /// BSON type.
    pub tag: Tag,
    /// Payload bytes, with the exact length of the type.
    pub payload: &'a [u8],
}

impl<'a> Element<'a> {
    /// The name as text; empty when it is not UTF-8 (impossible after validation).
    pub fn name_str(&self) -> &'a str {
        std::str::from_utf8(self.name).unwrap_or("")
    }

    /// Decodes the payload.
    pub fn value(&self) -> Value<'a> {
        decode(self.tag, self.payload).unwrap_or(Value::Null)
    }
}

/// Iterator over undecoded elements. Ends at the first malformed one.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Iterates a run of elements without length prefix and terminator.
    pub(crate) fn new(rest: &'a [u8]) -> Elements<'a> {
        Elements { rest }
    }
    /// Number of bytes not yet read.
    pub fn rest_bytes(&self) -> usize {
        self.rest.len()
    }
    /// Bytes not yet read.
    pub(crate) fn unread_bytes(&self) -> &'a [u8] {
        self.rest
    }
    /// Skips at most `max` elements that have the same scalar type and the same length of names,
    /// such as most of a long array of numbers, and returns their number. `next` must read the
    /// element at which it stops.
    pub fn skip_scalars(&mut self, max: usize) -> usize {
        let Some((&tag, after_tag)) = self.rest.split_first() else {
            return 0;
        };
        let size = match Tag(tag) {
            Tag::INT32 => 4,
            Tag::INT64 | Tag::DOUBLE | Tag::DATE | Tag::TIMESTAMP => 8,
            Tag::OBJECT_ID => 12,
            Tag::BOOL => 1,
            Tag::NULL => 0,
            _ => return 0,
        };
        let Some(zero) = after_tag.first_chunk().map(first_zero).filter(|z| *z != 0) else {
            return 0;
        };
        let length = 2 + (zero.trailing_zeros() / 8) as usize + size;
        // Only bits up to the first zero byte are used; bits above it may be wrong.
        let (mask, wanted) = (zero ^ (zero - 1), zero & zero.wrapping_neg());
        let mut skipped = 0;
        while skipped < max
            && let Some((&next, name)) = self.rest.split_first()
            && next == tag
            && name.first_chunk().map(first_zero).unwrap_or(0) & mask == wanted
            && let Some(rest) = self.rest.get(length..)
        {
            self.rest = rest;
            skipped += 1;
        }
        skipped
    }
}

/// A word whose lowest set bit is the highest of the first zero byte; 0 when there is none.
#[inline]
fn first_zero(eight: &[u8; 8]) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(*eight);
    word.wrapping_sub(LOW) & !word & (LOW << 7)
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, after_tag) = self.rest.split_first()?;
        let name_len = name_len(after_tag)?;
        let (name, after_name) = after_tag.split_at(name_len);
        let body = after_name.get(1..)?;
        let len = payload_len(Tag(tag), body)?;
        let payload = body.get(..len)?;
        self.rest = &body[len..];
        Some(Element {
            name,
            tag: Tag(tag),
            payload,
        })
    }
}

/// Bytes before the first zero.
#[inline]
fn name_len(b: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(eight) = b.get(from..).and_then(|b| b.first_chunk::<8>()) {
        let zero = first_zero(eight);
        if zero != 0 {
            return Some(from + (zero.trailing_zeros() / 8) as usize);
        }
        from += 8;
    }
    b.get(from..)?
        .iter()
        .position(|&c| c == 0)
        .map(|n| from + n)
}

#[inline]
fn read_len(b: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*b.first_chunk::<4>()?)).ok()
}

fn cstr_len(b: &[u8]) -> Option<usize> {
    b.iter().position(|&c| c == 0).map(|n| n + 1)
}

/// Length in bytes of a payload of this type at the start of `b`; `None` when `b` is malformed.
#[inline]
pub(crate) fn payload_len(tag: Tag, b: &[u8]) -> Option<usize> {
    Some(match tag {
        Tag::INT32 => 4,
        Tag::DOUBLE | Tag::DATE | Tag::TIMESTAMP | Tag::INT64 => 8,
        Tag::STRING | Tag::CODE | Tag::SYMBOL => read_len(b)?.checked_add(4)?,
        Tag::DOCUMENT | Tag::ARRAY | Tag::CODE_WITH_SCOPE => read_len(b)?,
        Tag::OBJECT_ID => 12,
        Tag::BOOL => 1,
        Tag::NULL | Tag::UNDEFINED | Tag::MIN_KEY | Tag::MAX_KEY => 0,
        Tag::BINARY => read_len(b)?.checked_add(5)?,
        Tag::DECIMAL128 => 16,
        Tag::REGEX => {
            let first = cstr_len(b)?;
            first + cstr_len(b.get(first..)?)?
        }
        Tag::DB_POINTER => read_len(b)?.checked_add(16)?,
        _ => return None,
    })
}

fn text(b: &[u8]) -> Option<&str> {
    std::str::from_utf8(b).ok()
}

/// `len(4) | bytes | 0` as text.
fn string(b: &[u8]) -> Option<&str> {
    text(b.get(4..b.len().checked_sub(1)?)?)
}

pub(crate) fn decode(tag: Tag, b: &[u8]) -> Option<Value<'_>> {
    Some(match tag {
        Tag::DOUBLE => Value::Double(f64::from_le_bytes(*b.first_chunk()?)),
        Tag::STRING => Value::String(string(b)?),
        Tag::DOCUMENT => Value::Document(Doc::new(b)?),
        Tag::ARRAY => Value::Array(Array(Doc::new(b)?)),
        Tag::BINARY => Value::Binary(Binary {
            subtype: *b.get(4)?,
            bytes: b.get(5..)?,
        }),
        Tag::UNDEFINED => Value::Undefined,
        Tag::OBJECT_ID => Value::ObjectId(ObjectId(*b.first_chunk()?)),
        Tag::BOOL => Value::Bool(*b.first()? != 0),
        Tag::DATE => Value::Date(i64::from_le_bytes(*b.first_chunk()?)),
        Tag::NULL => Value::Null,
        Tag::REGEX => {
            let split = b.iter().position(|&c| c == 0)?;
            let options = b.get(split + 1..b.len().checked_sub(1)?)?;
            Value::Regex(Regex {
                pattern: text(&b[..split])?,
                options: text(options)?,
            })
        }
        Tag::DB_POINTER => {
            let split = b.len().checked_sub(12)?;
            Value::DbPointer(
                string(&b[..split])?,
                ObjectId(*b.get(split..)?.first_chunk()?),
            )
        }
        Tag::CODE => Value::Code(string(b)?),
        Tag::SYMBOL => Value::Symbol(string(b)?),
        Tag::CODE_WITH_SCOPE => {
            let code = b.get(4..)?;
            let len = read_len(code)?.checked_add(4)?;
            Value::CodeWithScope(string(code.get(..len)?)?, code.get(len..)?)
        }
        Tag::INT32 => Value::Int32(i32::from_le_bytes(*b.first_chunk()?)),
        Tag::TIMESTAMP => {
            Value::Timestamp(Timestamp::from_u64(u64::from_le_bytes(*b.first_chunk()?)))
        }
        Tag::INT64 => Value::Int64(i64::from_le_bytes(*b.first_chunk()?)),
        Tag::DECIMAL128 => Value::Decimal128(Decimal128::from_le_bytes(*b.first_chunk()?)),
        Tag::MIN_KEY => Value::MinKey,
        Tag::MAX_KEY => Value::MaxKey,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn names_of_every_length_are_found() {
        for len in 0..40 {
            let name = "n".repeat(len);
            let longer = format!("{name}x");
            let d = crate::DocBuf::build(|w| {
                w.put(&longer, 1i32)
                    .put("z", "text")
                    .put(&name, 2i32)
                    .put("last", true);
            });
            assert_eq!(d.doc().field(&name).as_i64_exact(), Some(2), "{len}");
            assert_eq!(
                d.doc().iter().map(|(n, _)| n.len()).collect::<Vec<_>>(),
                [len + 1, 1, len, 4]
            );
            assert!(d.doc().get("nothing").is_none());
        }
    }

    #[test]
    fn skipping_scalars_ends_where_one_by_one_does() {
        let long = crate::DocBuf::build(|w| {
            for n in 0..1_200i32 {
                let name = n.to_string();
                match n {
                    300..310 => w.put(&name, f64::from(n)),
                    500 | 1_199 => w.put(&name, doc! { "b": n }.doc()),
                    501..520 => w.put(&name, n % 2 == 0),
                    700..703 => w.put(&name, "text"),
                    _ => w.put(&name, n),
                };
            }
        });
        for max in [1, 2, 9, 100, usize::MAX] {
            let (mut left, mut seen) = (long.doc().elements(), 0);
            loop {
                let mut plain = left.clone();
                let skipped = left.skip_scalars(max);
                assert!(skipped <= max);
                assert!(plain.by_ref().take(skipped).all(|e| e.tag != Tag::DOCUMENT));
                assert_eq!(plain.rest_bytes(), left.rest_bytes());
                seen += skipped;
                match left.next() {
                    Some(e) => assert_eq!(e.name_str(), seen.to_string()),
                    None => break,
                }
                seen += 1;
            }
            assert_eq!(seen, 1_200);
        }
        let mut all = doc! { "a": 1i32, "b": 2i32, "c": 3i32, "d": 4i32 };
        assert_eq!(
            all.doc().elements().skip_scalars(usize::MAX),
            3,
            "8 bytes are looked at"
        );
        all = doc! { "a": "text" };
        assert_eq!(all.doc().elements().skip_scalars(usize::MAX), 0);
    }

    #[test]
    fn broken_bytes_end_a_search() {
        let whole = doc! { "a": "some text", "b": { "c": 1i32 }, "d": 2i32 }.into_bytes();
        for cut in 5..whole.len() {
            let mut bytes = whole[..cut].to_vec();
            bytes[..4].copy_from_slice(&(cut as i32).to_le_bytes());
            bytes[cut - 1] = 0;
            if let Some(d) = Doc::new(&bytes) {
                assert_eq!(
                    d.get_element("d").is_some(),
                    d.elements().any(|e| e.name == b"d"),
                    "{cut}"
                );
            }
        }
    }
}
