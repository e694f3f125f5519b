//! The readable part of bytes that are no valid document. Must not know: rows, tables.

use crate::format::record;
use model::{Doc, DocBuf};

/// Longest header before the document of a record.
const HEADER_MAX: usize = 2 + 8 + 10 + 10;

/// The fields of a document up to the first damaged one; a wrong length at the beginning is
/// ignored.
pub(super) fn readable(bytes: &[u8]) -> DocBuf {
    let mut framed = bytes.to_vec();
    let length = u32::try_from(framed.len()).unwrap_or(0).to_le_bytes();
    if let (Some(head), true) = (framed.first_chunk_mut::<4>(), bytes.len() > 4) {
        *head = length;
    }
    if let Some(last) = framed.last_mut() {
        *last = 0;
    }
    let doc = Doc::new(&framed).unwrap_or(Doc::EMPTY);
    DocBuf::build(|w| {
        for e in doc.elements() {
            let alone = DocBuf::build(|w| _ = w.put_raw(e.name, e.tag, e.payload));
            if model::validate(alone.as_bytes()).is_err() {
                return;
            }
            w.put_element(&e);
        }
    })
}

/// The bytes of a record from its document on, as far as the header is readable.
pub(super) fn last_document(value: &[u8]) -> &[u8] {
    record::read(value)
        .map(|(_, doc)| doc.as_bytes())
        .or_else(|| whole_at_end(value).map(Doc::as_bytes))
        .unwrap_or_else(|| value.get(4..).unwrap_or_default())
}

/// The valid document at the end of a record whose header is damaged.
pub(super) fn whole_at_end(value: &[u8]) -> Option<Doc<'_>> {
    let mut at = 2..=HEADER_MAX;
    at.find_map(|at| {
        let rest = value.get(at..)?;
        Doc::new(rest).and_then(|_| model::validate(rest).ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn fields_before_the_damage_are_read() {
        let whole = doc! { "_id": 1i32, "a": "text", "b": { "c": true } };
        assert_eq!(readable(whole.as_bytes()), whole);
        // Damages the length of the document, and the type of its second field.
        let mut bytes = whole.as_bytes().to_vec();
        bytes[0] ^= 0x40;
        assert_eq!(readable(&bytes), whole);
        let second = 4 + 9;
        bytes[second] = 0x77;
        assert_eq!(readable(&bytes), doc! { "_id": 1i32 });
        for n in 0..bytes.len() {
            readable(&bytes[..n]);
        }
    }

    #[test]
    fn a_document_is_found_behind_a_damaged_header() {
        let whole = doc! { "_id": 1i32 };
        let header = record::Header {
            insert_seq: 300,
            version: 7,
            time: 0,
        };
        let mut value = Vec::new();
        record::write(&mut value, header, whole.as_bytes());
        for bit in 0..8 {
            let mut damaged = value.clone();
            damaged[0] ^= 1 << bit;
            assert_eq!(whole_at_end(&damaged), Some(whole.doc()));
        }
        value.pop();
        assert_eq!(whole_at_end(&value), None);
    }
}
