//! The values of entries: the document's id, and the information that the key lacks. Must not know:
//! the engine.

use super::{FieldKind, Index, IndexField, WantedFields, marks};
use crate::format::keys;
use model::{Doc, DocWriter};

/// Replaces the number of marks when there are more than a byte can count; the marks are left out
/// then.
const UNMARKED: u8 = u8::MAX;

/// An entry of an index.
#[derive(Clone, Copy)]
pub struct EntryParts<'e> {
    /// The key after the identifier of the index.
    pub key: &'e [u8],
    /// The encoded id of the document.
    pub id: &'e [u8],
    /// The value as stored.
    pub value: &'e [u8],
}

/// The parts of the value of an entry in a unique index.
struct ValueParts<'e> {
    id: &'e [u8],
    /// Marks, or the stored part of the document.
    carried: &'e [u8],
    /// There were more marks than an entry stores.
    is_cut: bool,
}

impl Index {
    /// What to read from its entries for the top-level fields of these names, or for whole
    /// documents without names; `None` when the entries may not contain all of it.
    pub fn select_fields(&self, names: Option<&[String]>) -> Option<WantedFields> {
        if let Some(carried) = &self.carried {
            return carried.select_fields(names);
        }
        let names = names?;
        let mut wanted = WantedFields::default();
        let arrays = self.multikey_bits();
        for name in names {
            let is_it = |f: &IndexField| f.path.as_str() == name;
            match self.fields.iter().position(is_it) {
                Some(n) if self.fields[n].kind == FieldKind::Hashed => return None,
                Some(n) if arrays & 1 << n.min(31) != 0 => return None,
                Some(n) => wanted.fields.push(n),
                None if name == "_id" => wanted.id = true,
                None => return None,
            }
        }
        self.marked.then_some(wanted)
    }

    /// Decodes the fields of a document from its entry into `bytes`, in the order of the document;
    /// `None` when the entry does not contain all that is wanted.
    pub fn decode_fields<'b>(
        &self,
        wanted: &WantedFields,
        entry: EntryParts<'b>,
        bytes: &'b mut Vec<u8>,
    ) -> Option<Doc<'b>> {
        if self.carried.is_some() {
            return match self.unique {
                false => Doc::new(entry.value),
                true => Doc::new(self.split_value(entry.value)?.carried),
            };
        }
        bytes.clear();
        let mut w = DocWriter::new(bytes);
        let said = self.write_fields(wanted, entry, &mut w);
        w.finish();
        said.and_then(|()| Doc::new(bytes))
    }

    fn write_fields(
        &self,
        wanted: &WantedFields,
        entry: EntryParts<'_>,
        w: &mut DocWriter<'_>,
    ) -> Option<()> {
        let EntryParts { key, id, value } = entry;
        let marks = match (self.unique, value) {
            (false, [0]) => &[],
            (false, marks) => marks,
            (true, value) => match self.split_value(value)? {
                ValueParts { is_cut: true, .. } => return None,
                parts => parts.carried,
            },
        };
        let components = key;
        marks::write(
            &self.fields,
            wanted,
            marks::EntryFields {
                components,
                id,
                marks,
            },
            w,
        )
    }

    /// The id of an entry's document; `entry` includes the identifier of the index. `None` for
    /// bytes that are no entry.
    pub(crate) fn id_of<'e>(&self, entry: &'e [u8], value: &'e [u8]) -> Option<&'e [u8]> {
        match (self.unique, self.marked) {
            (false, _) => keys::id_of_tail(entry),
            (true, false) => Some(value),
            (true, true) => self.split_value(value).map(|parts| parts.id),
        }
    }

    /// Splits the value of an entry of this unique index with marks; `None` for malformed bytes.
    fn split_value<'e>(&self, value: &'e [u8]) -> Option<ValueParts<'e>> {
        let (bytes, carried_len) = match &self.carried {
            Some(_) => {
                let (bytes, len) = value.split_last_chunk::<4>()?;
                (bytes, usize::try_from(u32::from_le_bytes(*len)).ok()?)
            }
            None => match value.split_last()? {
                (&UNMARKED, id) => {
                    return Some(ValueParts {
                        id,
                        carried: &[],
                        is_cut: true,
                    });
                }
                (len, bytes) => (bytes, usize::from(*len)),
            },
        };
        let (id, carried) = bytes.split_at_checked(bytes.len().checked_sub(carried_len)?)?;
        Some(ValueParts {
            id,
            carried,
            is_cut: false,
        })
    }

    /// Whether the value of an entry of this unique index names the document with this id.
    pub(crate) fn is_owned_by(&self, value: &[u8], id: &[u8]) -> bool {
        self.id_of(&[], value) == Some(id)
    }

    /// Appends the value of an entry: in a unique index the id, then the marks or the stored part
    /// of the document; in other indexes these alone, or a zero byte when they are empty.
    pub(crate) fn append_value(&self, marks: &[u8], id: &[u8], out: &mut Vec<u8>) {
        match (self.unique, self.marked) {
            (true, false) => out.extend_from_slice(id),
            (true, true) if self.carried.is_some() => {
                out.extend_from_slice(id);
                out.extend_from_slice(marks);
                out.extend_from_slice(&(marks.len() as u32).to_le_bytes());
            }
            (true, true) => {
                out.extend_from_slice(id);
                match u8::try_from(marks.len()) {
                    Ok(n) if n != UNMARKED => {
                        out.extend_from_slice(marks);
                        out.push(n);
                    }
                    _ => out.push(UNMARKED),
                }
            }
            (false, _) if marks.is_empty() => out.push(0),
            (false, _) => out.extend_from_slice(marks),
        }
    }

    pub(super) fn has_same_layout(&self, old: Doc<'_>, new: Doc<'_>) -> bool {
        let [old, new] = [old, new].map(|d| marks::layout(&self.fields, d));
        old == new
    }
}
