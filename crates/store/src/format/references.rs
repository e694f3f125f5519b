//! The body of a row of the log that refers to records (ADR 0051), and the keys of saved documents.
//! Layout in `docs/on-disk.md`. Must not know: engines, commits.
//!
//! Body: a document of the common fields, `ident(4) spared(8)`, then for each entry a document, or
//! four zero bytes, the length of a key (varint) and the record key without its ident.

use super::log::{self as row, Head, next_document};
use super::record::{read_varint, varint};

/// Stands in place of a document's length before a reference; no document is that short.
const MARK: [u8; 4] = [0; 4];
/// The identifier of saved documents in the table of the log; no collection has it.
pub(crate) const IMAGES: u32 = 0;

/// The start of the part behind the common fields. `spared` is by how many bytes the row would be
/// larger with the documents themselves.
pub(crate) fn start(ident: u32, spared: u64) -> [u8; 12] {
    let mut out = [0; 12];
    out[..4].copy_from_slice(&ident.to_be_bytes());
    out[4..].copy_from_slice(&spared.to_be_bytes());
    out
}

/// Appends a reference to the record under this key, which is without ident.
pub(crate) fn push(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(&MARK);
    varint(out, key.len() as u64);
    out.extend_from_slice(key);
}

/// What stands for the document of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'v> {
    /// The document itself.
    Document(&'v [u8]),
    /// The key of its record without ident.
    Reference(&'v [u8]),
}

/// A row of references.
pub(crate) struct References<'v> {
    pub(crate) head: Head,
    /// The document of the common fields.
    pub(crate) common: &'v [u8],
    /// Identifier of the collection of the records.
    pub(crate) ident: u32,
    /// By how many bytes the row would be larger with the documents themselves.
    pub(crate) spared: u64,
    rest: &'v [u8],
}

impl<'v> References<'v> {
    /// The row with this value; `None` when it is of another kind or damaged.
    pub(crate) fn of(value: &'v [u8]) -> Option<References<'v>> {
        let (head, mut rest) = row::read(value)?;
        if head.kind != row::REFERENCES {
            return None;
        }
        let common = next_document(&mut rest)?.as_bytes();
        let (ident, rest) = rest.split_first_chunk::<4>()?;
        let (spared, rest) = rest.split_first_chunk::<8>()?;
        Some(References {
            head,
            common,
            ident: u32::from_be_bytes(*ident),
            spared: u64::from_be_bytes(*spared),
            rest,
        })
    }

    /// The items of its entries; `None` when they are damaged.
    pub(crate) fn items(&self) -> Option<Vec<Item<'v>>> {
        let (mut rest, mut all) = (self.rest, Vec::new());
        while !rest.is_empty() {
            let item = match rest.strip_prefix(&MARK) {
                Some(behind) => {
                    let (len, behind) = read_varint(behind)?;
                    let (key, behind) = behind.split_at_checked(usize::try_from(len).ok()?)?;
                    rest = behind;
                    Item::Reference(key)
                }
                None => Item::Document(next_document(&mut rest)?.as_bytes()),
            };
            all.push(item);
        }
        (all.len() as u64 == u64::from(self.head.entries)).then_some(all)
    }
}

/// Whether a value is a row of references.
pub(crate) fn is_row(value: &[u8]) -> bool {
    row::read(value).is_some_and(|(head, _)| head.kind == row::REFERENCES)
}

/// The bytes that a row counts for: those it would have with the documents themselves.
pub(crate) fn log_bytes(value: &[u8]) -> u64 {
    let spared = References::of(value).map_or(0, |r| r.spared);
    spared.saturating_add(value.len() as u64)
}

/// The key of the saved document that the entry with this time refers to.
pub(crate) fn image_key(time: u64) -> [u8; 12] {
    row::key(IMAGES, time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn items_are_read_as_written_and_damage_is_noticed() {
        let (common, copied) = (doc! { "ns": "db.c" }, doc! { "_id": 1i32 });
        let mut value = row::head(row::REFERENCES, 2).to_vec();
        value.extend_from_slice(common.as_bytes());
        value.extend_from_slice(&start(9, 300));
        push(&mut value, b"key");
        value.extend_from_slice(copied.as_bytes());
        let read = References::of(&value).unwrap();
        assert_eq!((read.ident, read.common), (9, common.as_bytes()));
        assert_eq!(log_bytes(&value), value.len() as u64 + 300);
        let items = [Item::Reference(b"key"), Item::Document(copied.as_bytes())];
        assert_eq!(read.items().as_deref(), Some(&items[..]));
        assert!(is_row(&value) && row::Entries::of(5, &value).is_none());
        for cut in 0..value.len() {
            let items = References::of(&value[..cut]).and_then(|r| r.items());
            assert_eq!(items, None);
        }
    }
}
