//! The keys of a document in a geospatial index: a component for each field, which for a place is a
//! cell (`docs/on-disk.md`). The cells of a document come from [`crate::hooks::CellExtractor`].

use super::field::{FieldKind, IndexField};
use super::key_set::KeySet;
use super::reach::{PathEnd, reach};
use super::{Index, KEYS_BYTES_MAX, encode_component};
use crate::format::keys;
use crate::hooks::CellExtractor;
use model::path::PathPart;
use model::{Collate, Doc, Result, Value};
use std::collections::BTreeSet;

/// Appends the component of a cell.
pub fn encode_cell(cell: u64, out: &mut Vec<u8>) {
    out.push(keys::HASH);
    out.extend_from_slice(&cell.to_be_bytes());
}

/// The distinct components of one field; whether there are several, and whether they are cells.
struct Components {
    list: BTreeSet<Vec<u8>>,
    several: bool,
    is_place: bool,
}

impl Index {
    /// One key for each combination of the components of its fields. A document without a place has
    /// no keys.
    pub(super) fn cell_keys(
        &self,
        places: &dyn CellExtractor,
        doc: Doc<'_>,
        set: &mut KeySet,
    ) -> Result<()> {
        let mut fields = Vec::with_capacity(self.fields.len());
        for (n, f) in self.fields.iter().enumerate() {
            let of_field = match f.kind {
                FieldKind::Cells => of_place(places, f, doc),
                _ => of_values(f, self.collate(), doc)?,
            };
            if of_field.several {
                set.multikey |= 1 << n.min(31);
            }
            fields.push(of_field);
        }
        if !fields.iter().any(|f| f.is_place) {
            set.clear();
            return Ok(());
        }
        let keys: usize = fields.iter().map(|f| f.list.len()).product();
        let longest = |f: &Components| f.list.iter().map(Vec::len).max().unwrap_or(0);
        let length: usize = fields.iter().map(longest).sum();
        if keys.saturating_mul(length) > KEYS_BYTES_MAX {
            return Err(self.keys_too_large());
        }
        combine(&fields, &mut Vec::new(), set);
        set.sort();
        Ok(())
    }
}

fn combine<'f>(fields: &'f [Components], before: &mut Vec<&'f [u8]>, set: &mut KeySet) {
    let Some((first, rest)) = fields.split_first() else {
        let start = set.begin();
        before.iter().for_each(|c| set.bytes.extend_from_slice(c));
        return set.end(start);
    };
    for component in &first.list {
        before.push(component);
        combine(rest, before, set);
        before.pop();
    }
}

/// The cells of a field's places; null where a document has none.
fn of_place(places: &dyn CellExtractor, f: &IndexField, doc: Doc<'_>) -> Components {
    let mut cells = Vec::new();
    places.cells(f.path.as_str(), doc, &mut cells);
    let several = match cells.as_slice() {
        [] => false,
        [one] => !places.is_point(*one),
        _ => true,
    };
    let component = |cell: &u64| {
        let mut out = Vec::with_capacity(9);
        encode_cell(*cell, &mut out);
        out
    };
    let mut list: BTreeSet<Vec<u8>> = cells.iter().map(component).collect();
    let is_place = !list.is_empty();
    if !is_place {
        let mut null = Vec::new();
        keys::encode(&Value::Null, None, &mut null);
        list.insert(null);
    }
    Components {
        list,
        several,
        is_place,
    }
}

/// The values at the path of another field.
fn of_values(f: &IndexField, collate: Option<&dyn Collate>, doc: Doc<'_>) -> Result<Components> {
    let mut found = Components {
        list: BTreeSet::new(),
        several: false,
        is_place: false,
    };
    let mut show = |v: Value<'_>| {
        let mut out = Vec::new();
        encode_component(f.kind, &v, collate, &mut out);
        found.list.insert(out);
    };
    found.several = each_value(Value::Document(doc), f.path.parts(), &mut show)?;
    Ok(found)
}

/// Shows the values at a path as other indexes see them; true when an array lies on it.
fn each_value(v: Value<'_>, path: &[PathPart], show: &mut dyn FnMut(Value<'_>)) -> Result<bool> {
    let (array, rest) = match reach(v, path)? {
        PathEnd::At(v) => {
            show(v);
            return Ok(false);
        }
        PathEnd::Blocked(array, rest) => (array, rest),
    };
    if array.is_empty() {
        show(match rest {
            [] => Value::Undefined,
            _ => Value::Missing,
        });
    }
    for v in array.iter() {
        match (rest, v) {
            ([], v) => show(v),
            (_, Value::Document(_)) => {
                each_value(v, rest, show)?;
            }
            _ => show(Value::Missing),
        }
    }
    Ok(true)
}
