//! The parts of BSON that framing needs: the end of a document, its first key, and error documents.
//!
//! Promises: only the outer framing is read. Must not know: element types beyond those of an error
//! document.

use crate::bytes::split_i32;
use crate::code;
use crate::limits::MAX_DOCUMENT_LEN;

/// A document and the bytes after it, or a MongoDB error code with its message.
pub type SplitResult<'a> = Result<(&'a [u8], &'a [u8]), (i32, String)>;

/// Splits the document at the start of `bytes` from the bytes after it.
///
/// # Errors
/// `InvalidBSON` (22) or `BSONObjectTooLarge` (10334) with a message, when the declared length is
/// impossible.
pub fn split_document(bytes: &[u8]) -> SplitResult<'_> {
    let Some((declared, _)) = split_i32(bytes) else {
        return Err((
            code::INVALID_BSON,
            format!(
                "a document needs at least 5 bytes, {} are left",
                bytes.len()
            ),
        ));
    };
    let len = usize::try_from(declared).unwrap_or(0);
    if len > MAX_DOCUMENT_LEN {
        return Err((
            code::BSON_OBJECT_TOO_LARGE,
            format!(
                "document of {declared} bytes is larger than the limit of {MAX_DOCUMENT_LEN} bytes"
            ),
        ));
    }
    match bytes.split_at_checked(len) {
        Some((doc, rest)) if len >= 5 && doc.last() == Some(&0) => Ok((doc, rest)),
        Some(_) if len >= 5 => Err((
            code::INVALID_BSON,
            format!("document of {declared} bytes does not end with a zero byte"),
        )),
        _ => Err((
            code::INVALID_BSON,
            format!(
                "document declares {declared} bytes, allowed are 5 to the {} that are left",
                bytes.len()
            ),
        )),
    }
}

/// Name of the first element: the command name of a command document. `None` for an empty or broken
/// document.
pub fn first_key(document: &[u8]) -> Option<&str> {
    let (&kind, rest) = document.get(4..)?.split_first()?;
    if kind == 0 {
        return None;
    }
    let end = rest.iter().position(|&b| b == 0)?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

/// The first element's value when it is an embedded document under one of `names`.
pub(crate) fn first_embedded<'a>(document: &'a [u8], names: &[&str]) -> Option<&'a [u8]> {
    const EMBEDDED_DOCUMENT: u8 = 3;
    let name = first_key(document)?;
    if document.get(4) != Some(&EMBEDDED_DOCUMENT) || !names.contains(&name) {
        return None;
    }
    let value = document.get(4 + 1 + name.len() + 1..)?;
    split_document(value).ok().map(|(doc, _)| doc)
}

/// Iterates over adjacent documents. Ends early at the first one with invalid framing.
#[derive(Debug, Clone)]
pub struct DocumentIter<'a> {
    rest: &'a [u8],
}

impl<'a> DocumentIter<'a> {
    /// Over the documents in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for DocumentIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (doc, rest) = split_document(self.rest).ok()?;
        self.rest = rest;
        Some(doc)
    }
}

/// Appends one flat document to a buffer.
pub(crate) struct DocumentWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> DocumentWriter<'a> {
    pub(crate) fn begin(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { out, start }
    }

    fn key(&mut self, kind: u8, name: &str) {
        self.out.push(kind);
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(0);
    }

    pub(crate) fn double(&mut self, name: &str, value: f64) {
        self.key(1, name);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn int32(&mut self, name: &str, value: i32) {
        self.key(16, name);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn string(&mut self, name: &str, value: &str) {
        self.key(2, name);
        let len = i32::try_from(value.len() + 1).unwrap_or(i32::MAX);
        self.out.extend_from_slice(&len.to_le_bytes());
        self.out.extend_from_slice(value.as_bytes());
        self.out.push(0);
    }

    pub(crate) fn finish(self) {
        self.out.push(0);
        let len = i32::try_from(self.out.len() - self.start).unwrap_or(i32::MAX);
        if let Some(slot) = self.out.get_mut(self.start..self.start + 4) {
            slot.copy_from_slice(&len.to_le_bytes());
        }
    }
}
