//! Builders: `DocWriter` and `ArrayWriter` append to a caller's buffer and close themselves when
//! dropped; `DocBuf` owns one finished document.

use super::doc::{Array, Doc, Element, Value};
use super::scalar::Tag;

/// Appends one document to a buffer. Closed (terminator, length) when dropped.
pub struct DocWriter<'b> {
    buf: &'b mut Vec<u8>,
    start: usize,
}

/// Appends one array to a buffer; keys are counted. Closed when dropped.
pub struct ArrayWriter<'b> {
    doc: DocWriter<'b>,
    next: usize,
}

/// What [`DocWriter::put_edited`] does with a field.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'v> {
    /// Keeps the field.
    Keep,
    /// Drops the field.
    Drop,
    /// Sets the field to this value; `Missing` drops it.
    Set(Value<'v>),
}

impl<'b> DocWriter<'b> {
    /// Starts a document at the end of `buf`.
    pub fn new(buf: &'b mut Vec<u8>) -> DocWriter<'b> {
        let start = buf.len();
        buf.extend_from_slice(&[0; 4]);
        DocWriter { buf, start }
    }
    fn head(&mut self, tag: Tag, name: &str) {
        self.buf.push(tag.0);
        // A name with an embedded zero cannot be written; cut it instead of corrupting the
        // document.
        let name = name.as_bytes();
        let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        self.buf.extend_from_slice(&name[..end]);
        self.buf.push(0);
    }
    /// Appends a field; `Missing` appends nothing.
    pub fn put<'v>(&mut self, name: &str, value: impl Into<Value<'v>>) -> &mut Self {
        let value = value.into();
        if !value.is_missing() {
            self.head(value.tag(), name);
            write_payload(self.buf, &value);
        }
        self
    }
    /// Appends an undecoded element under its own name.
    pub fn put_element(&mut self, e: &Element<'_>) -> &mut Self {
        self.put_raw(e.name, e.tag, e.payload)
    }
    /// Appends an undecoded payload under a name.
    pub fn put_raw(&mut self, name: &[u8], tag: Tag, payload: &[u8]) -> &mut Self {
        self.buf.push(tag.0);
        self.buf.extend_from_slice(name);
        self.buf.push(0);
        self.buf.extend_from_slice(payload);
        self
    }
    /// Appends all fields of `doc`.
    pub fn put_all(&mut self, doc: Doc<'_>) -> &mut Self {
        let b = doc.as_bytes();
        self.buf
            .extend_from_slice(b.get(4..b.len() - 1).unwrap_or(&[]));
        self
    }
    /// Appends the fields of `doc`; `change` decides about each. Runs of unchanged fields are
    /// copied in one piece.
    pub fn put_edited<'v>(
        &mut self,
        doc: Doc<'_>,
        mut change: impl FnMut(&Element<'_>) -> Edit<'v>,
    ) -> &mut Self {
        let bytes = doc.as_bytes();
        let (mut run, mut at) = (4, 4);
        for e in doc.elements() {
            let end = at + 2 + e.name.len() + e.payload.len();
            let edit = change(&e);
            if !matches!(edit, Edit::Keep) {
                self.buf
                    .extend_from_slice(bytes.get(run..at).unwrap_or(&[]));
                run = end;
                if let Edit::Set(v) = edit {
                    self.put(e.name_str(), v);
                }
            }
            at = end;
        }
        self.buf
            .extend_from_slice(bytes.get(run..at).unwrap_or(&[]));
        self
    }
    /// Starts a nested document.
    pub fn doc(&mut self, name: &str) -> DocWriter<'_> {
        self.head(Tag::DOCUMENT, name);
        DocWriter::new(self.buf)
    }
    /// Starts a nested array.
    pub fn array(&mut self, name: &str) -> ArrayWriter<'_> {
        self.head(Tag::ARRAY, name);
        ArrayWriter::new(self.buf)
    }
    /// Bytes written so far, the length prefix included.
    pub fn len_bytes(&self) -> usize {
        self.buf.len() - self.start
    }
    /// True while no field was written.
    pub fn is_empty(&self) -> bool {
        self.len_bytes() <= 4
    }
    /// Closes the document (dropping does the same).
    pub fn finish(self) {}
}

impl Drop for DocWriter<'_> {
    fn drop(&mut self) {
        self.buf.push(0);
        let len = i32::try_from(self.buf.len() - self.start).unwrap_or(i32::MAX);
        self.buf[self.start..self.start + 4].copy_from_slice(&len.to_le_bytes());
    }
}

impl<'b> ArrayWriter<'b> {
    /// Starts an array at the end of `buf`.
    pub fn new(buf: &'b mut Vec<u8>) -> ArrayWriter<'b> {
        ArrayWriter {
            doc: DocWriter::new(buf),
            next: 0,
        }
    }
    fn key(&mut self, tag: Tag) {
        self.doc.buf.push(tag.0);
        let mut digits = itoa::Buffer::new();
        self.doc
            .buf
            .extend_from_slice(digits.format(self.next).as_bytes());
        self.doc.buf.push(0);
        self.next += 1;
    }
    /// Appends an element; `Missing` is written as null.
    pub fn push<'v>(&mut self, value: impl Into<Value<'v>>) -> &mut Self {
        let value = match value.into() {
            Value::Missing => Value::Null,
            v => v,
        };
        self.key(value.tag());
        write_payload(self.doc.buf, &value);
        self
    }
    /// Appends an undecoded payload.
    pub fn push_raw(&mut self, tag: Tag, payload: &[u8]) -> &mut Self {
        self.key(tag);
        self.doc.buf.extend_from_slice(payload);
        self
    }
    /// Starts a nested document.
    pub fn doc(&mut self) -> DocWriter<'_> {
        self.key(Tag::DOCUMENT);
        DocWriter::new(self.doc.buf)
    }
    /// Starts a nested array.
    pub fn array(&mut self) -> ArrayWriter<'_> {
        self.key(Tag::ARRAY);
        ArrayWriter::new(self.doc.buf)
    }
    /// Number of elements so far.
    pub fn len(&self) -> usize {
        self.next
    }
    /// True while no element was written.
    pub fn is_empty(&self) -> bool {
        self.next == 0
    }
    /// Bytes written so far.
    pub fn len_bytes(&self) -> usize {
        self.doc.len_bytes()
    }
    /// Closes the array (dropping does the same).
    pub fn finish(self) {}
}

fn write_string(buf: &mut Vec<u8>, s: &str) {
    let len = i32::try_from(s.len() + 1).unwrap_or(i32::MAX);
    buf.extend_from_slice(&len.to_le_bytes());
    buf.extend_from_slice(s.as_bytes());
    buf.push(0);
}

/// Appends the payload bytes of `value` (no tag, no name). `Missing` writes nothing.
pub(crate) fn write_payload(buf: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Missing | Value::MinKey | Value::MaxKey | Value::Undefined | Value::Null => {}
        Value::Int32(v) => buf.extend_from_slice(&v.to_le_bytes()),
        Value::Int64(v) | Value::Date(v) => buf.extend_from_slice(&v.to_le_bytes()),
        Value::Double(v) => buf.extend_from_slice(&v.to_le_bytes()),
        Value::Decimal128(v) => buf.extend_from_slice(&v.to_le_bytes()),
        Value::String(s) | Value::Symbol(s) | Value::Code(s) => write_string(buf, s),
        Value::Document(d) => buf.extend_from_slice(d.as_bytes()),
        Value::Array(a) => buf.extend_from_slice(a.as_bytes()),
        Value::Binary(b) => {
            let len = i32::try_from(b.bytes.len()).unwrap_or(i32::MAX);
            buf.extend_from_slice(&len.to_le_bytes());
            buf.push(b.subtype);
            buf.extend_from_slice(b.bytes);
        }
        Value::ObjectId(id) => buf.extend_from_slice(&id.0),
        Value::Bool(b) => buf.push(u8::from(*b)),
        Value::Timestamp(t) => buf.extend_from_slice(&t.as_u64().to_le_bytes()),
        Value::Regex(r) => {
            for part in [r.pattern, r.options] {
                let bytes = part.as_bytes();
                let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                buf.extend_from_slice(&bytes[..end]);
                buf.push(0);
            }
        }
        Value::DbPointer(ns, id) => {
            write_string(buf, ns);
            buf.extend_from_slice(&id.0);
        }
        Value::CodeWithScope(code, scope) => {
            let len = i32::try_from(4 + 4 + code.len() + 1 + scope.len()).unwrap_or(i32::MAX);
            buf.extend_from_slice(&len.to_le_bytes());
            write_string(buf, code);
            buf.extend_from_slice(scope);
        }
    }
}

impl<'a> Value<'a> {
    /// Copies what the value borrows into `arena`.
    pub fn copy_into<'b>(&self, arena: &'b bumpalo::Bump) -> Value<'b> {
        match *self {
            Value::String(s) => Value::String(arena.alloc_str(s)),
            Value::Symbol(s) => Value::Symbol(arena.alloc_str(s)),
            Value::Code(s) => Value::Code(arena.alloc_str(s)),
            Value::Document(d) => Value::Document(d.copy_into(arena)),
            Value::Array(a) => Value::Array(a.as_doc().copy_into(arena).as_array()),
            Value::Binary(b) => Value::Binary(super::Binary {
                subtype: b.subtype,
                bytes: arena.alloc_slice_copy(b.bytes),
            }),
            Value::Regex(r) => Value::Regex(super::Regex {
                pattern: arena.alloc_str(r.pattern),
                options: arena.alloc_str(r.options),
            }),
            Value::DbPointer(ns, id) => Value::DbPointer(arena.alloc_str(ns), id),
            Value::CodeWithScope(c, s) => {
                Value::CodeWithScope(arena.alloc_str(c), arena.alloc_slice_copy(s))
            }
            Value::Missing => Value::Missing,
            Value::MinKey => Value::MinKey,
            Value::Undefined => Value::Undefined,
            Value::Null => Value::Null,
            Value::Int32(v) => Value::Int32(v),
            Value::Int64(v) => Value::Int64(v),
            Value::Double(v) => Value::Double(v),
            Value::Decimal128(v) => Value::Decimal128(v),
            Value::ObjectId(v) => Value::ObjectId(v),
            Value::Bool(v) => Value::Bool(v),
            Value::Date(v) => Value::Date(v),
            Value::Timestamp(v) => Value::Timestamp(v),
            Value::MaxKey => Value::MaxKey,
        }
    }

    /// Bytes the value takes as a BSON payload.
    pub fn payload_bytes(&self) -> usize {
        let mut buf = Vec::new();
        match self {
            Value::Document(d) => d.len_bytes(),
            Value::Array(a) => a.as_bytes().len(),
            Value::String(s) | Value::Symbol(s) | Value::Code(s) => s.len() + 5,
            other => {
                write_payload(&mut buf, other);
                buf.len()
            }
        }
    }

    /// An owned copy, for values that must outlive their document.
    pub fn to_owned_value(&self) -> OwnedValue {
        let mut buf = DocBuf::new();
        buf.put("", *self);
        OwnedValue(buf)
    }
}

/// One value that owns its bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnedValue(DocBuf);

impl OwnedValue {
    /// The value.
    pub fn get(&self) -> Value<'_> {
        self.0.doc().first().map_or(Value::Missing, |(_, v)| v)
    }
    /// Bytes held.
    pub fn len_bytes(&self) -> usize {
        self.0.as_bytes().len()
    }
}

impl std::fmt::Debug for OwnedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.get(), f)
    }
}

impl<'a> Doc<'a> {
    /// Copies into an owned buffer.
    pub fn to_buf(self) -> DocBuf {
        DocBuf::from_doc(self)
    }

    /// Copies the document into `arena`.
    pub fn copy_into<'b>(self, arena: &'b bumpalo::Bump) -> Doc<'b> {
        Doc::new(arena.alloc_slice_copy(self.as_bytes())).unwrap_or(Doc::EMPTY)
    }

    /// Builds a document in `arena`.
    pub fn build_in(arena: &'a bumpalo::Bump, fill: impl FnOnce(&mut DocWriter<'_>)) -> Doc<'a> {
        DocBuf::build(fill).doc().copy_into(arena)
    }

    /// Builds a document of about `bytes` in `arena`.
    pub fn build_sized_in(
        arena: &'a bumpalo::Bump,
        bytes: usize,
        fill: impl FnOnce(&mut DocWriter<'_>),
    ) -> Doc<'a> {
        let mut buf = Vec::with_capacity(bytes);
        fill(&mut DocWriter::new(&mut buf));
        Doc::new(arena.alloc_slice_copy(&buf)).unwrap_or(Doc::EMPTY)
    }
}

impl<'a> Array<'a> {
    /// Builds an array in `arena`.
    pub fn build_in(
        arena: &'a bumpalo::Bump,
        fill: impl FnOnce(&mut ArrayWriter<'_>),
    ) -> Array<'a> {
        let mut buf = Vec::with_capacity(64);
        fill(&mut ArrayWriter::new(&mut buf));
        Doc::new(arena.alloc_slice_copy(&buf))
            .unwrap_or(Doc::EMPTY)
            .as_array()
    }

    /// Builds an array of `values` in `arena`.
    pub fn from_values_in<'v>(
        arena: &'a bumpalo::Bump,
        values: impl IntoIterator<Item = Value<'v>>,
    ) -> Array<'a> {
        Array::build_in(arena, |w| {
            for v in values {
                w.push(v);
            }
        })
    }
}

/// An owned document, always well-formed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DocBuf(Vec<u8>);

impl Default for DocBuf {
    fn default() -> Self {
        DocBuf::new()
    }
}

impl DocBuf {
    /// The empty document.
    pub fn new() -> DocBuf {
        DocBuf(vec![5, 0, 0, 0, 0])
    }
    /// Bytes it holds in memory.
    pub fn capacity_bytes(&self) -> usize {
        self.0.capacity()
    }
    /// Copies a document.
    pub fn from_doc(doc: Doc<'_>) -> DocBuf {
        DocBuf(doc.as_bytes().to_vec())
    }
    /// Wraps bytes that are a document (length and terminator are checked).
    pub fn from_bytes(bytes: Vec<u8>) -> Option<DocBuf> {
        Doc::new(&bytes).is_some().then_some(DocBuf(bytes))
    }
    /// Builds with a writer.
    pub fn build(fill: impl FnOnce(&mut DocWriter<'_>)) -> DocBuf {
        let mut buf = Vec::with_capacity(128);
        fill(&mut DocWriter::new(&mut buf));
        DocBuf(buf)
    }
    /// Appends a field; `Missing` appends nothing.
    pub fn put<'v>(&mut self, name: &str, value: impl Into<Value<'v>>) -> &mut Self {
        self.append(|w| {
            w.put(name, value);
        })
    }
    /// Appends with a writer, after the existing fields.
    pub fn append(&mut self, fill: impl FnOnce(&mut DocWriter<'_>)) -> &mut Self {
        self.0.pop();
        fill(&mut DocWriter {
            buf: &mut self.0,
            start: 0,
        });
        self
    }
    /// The document.
    pub fn doc(&self) -> Doc<'_> {
        Doc::new(&self.0).unwrap_or(Doc::EMPTY)
    }
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// The bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl<'a> From<&'a DocBuf> for Value<'a> {
    fn from(d: &'a DocBuf) -> Value<'a> {
        Value::Document(d.doc())
    }
}

impl std::fmt::Debug for DocBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.doc(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn edits_keep_drop_and_set() {
        let d = doc! { "a": 1i32, "b": "two", "c": { "x": 1i32 }, "d": true };
        let edited = DocBuf::build(|w| {
            w.put_edited(d.doc(), |e| match e.name {
                b"a" => Edit::Drop,
                b"c" => Edit::Set(Value::Int64(7)),
                b"d" => Edit::Set(Value::Missing),
                _ => Edit::Keep,
            });
        });
        assert_eq!(edited, doc! { "b": "two", "c": 7i64 });
        let same = DocBuf::build(|w| {
            w.put_edited(d.doc(), |_| Edit::Keep);
        });
        assert_eq!(same, d);
    }
}
