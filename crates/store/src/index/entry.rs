//! The values of entries: whose they are, and what they say beside their keys. Must not know: the
//! engine.

use super::{FieldKind, Index, IndexField, WantedFields, marks};
use crate::format::keys;
use model::{Doc, DocWriter};

/// In the place of the number of an entry's marks: it has more than that number could say, and
/// none is there.
const UNMARKED: u8 = u8::MAX;

/// An entry of an index.
#[derive(Clone, Copy)]
pub struct EntryParts<'e> {
    /// Behind the identifier of the index.
    pub key: &'e [u8],
    /// The encoded id of its document.
    pub id: &'e [u8],
    /// As it is stored.
    pub value: &'e [u8],
}

/// The value of an entry of a unique index, taken apart.
struct ValueParts<'e> {
    id: &'e [u8],
    /// Marks, or what is carried of the document.
    carried: &'e [u8],
    /// There were more marks than are kept.
    is_cut: bool,
}

impl Index {
    /// What of its entries has the top-level fields of these names, or whole documents without
    /// names; `None` when they may not have it.
    pub fn wanted_fields(&self, names: Option<&[String]>) -> Option<WantedFields> {
        if let Some(carried) = &self.carried {
            return carried.wanted(names);
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

    /// What an entry says of its document, in the order of the document, written to `bytes`; `None`
    /// when it does not say all that is wanted.
    pub fn said<'b>(
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
        let said = self.write_said(wanted, entry, &mut w);
        w.finish();
        said.and_then(|()| Doc::new(bytes))
    }

    fn write_said(
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

    /// The id of the document that an entry, with the identifier of the index, is of; `None` for
    /// bytes that are no entry.
    pub(crate) fn id_of<'e>(&self, entry: &'e [u8], value: &'e [u8]) -> Option<&'e [u8]> {
        match (self.unique, self.marked) {
            (false, _) => keys::id_of_tail(entry),
            (true, false) => Some(value),
            (true, true) => self.split_value(value).map(|parts| parts.id),
        }
    }

    /// The parts of the value of an entry of this unique index with marks; `None` for bytes that
    /// are none.
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

    /// Whether the value of an entry of this unique index says that it is of the document with this
    /// id.
    pub(crate) fn is_owned_by(&self, value: &[u8], id: &[u8]) -> bool {
        self.id_of(&[], value) == Some(id)
    }

    /// Appends the value of an entry: in a unique index the id, in others something, and the marks
    /// or what is carried of the document.
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
