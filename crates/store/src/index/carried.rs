//! Fields of documents that the entries of a clustering index store instead of marks (ADR 0096).
//! Promises: the stored document has its fields in the order of the whole one. Must not know: keys,
//! the engine.

use super::{IndexField, WantedFields};
use model::{Doc, DocWriter, Value};

/// The part of a document that an entry stores.
pub(super) enum IncludedFields {
    /// The whole document.
    Document,
    /// The top-level fields of these names: `_id`, those of the key and those asked for.
    Fields(Box<[String]>),
}

impl IncludedFields {
    /// Parses a specification: `clustering` is true, or names top-level fields.
    pub(super) fn parse(spec: Doc<'_>, fields: &[IndexField]) -> Option<IncludedFields> {
        match spec.field("clustering") {
            Value::Array(names) => {
                let own = std::iter::once("_id").chain(fields.iter().map(|f| f.path.first()));
                let named = names.iter().filter_map(|v| v.as_str());
                let mut all: Vec<String> = own.chain(named).map(str::to_owned).collect();
                all.sort_unstable();
                all.dedup();
                Some(IncludedFields::Fields(all.into()))
            }
            v => v.truthy().then_some(IncludedFields::Document),
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            IncludedFields::Document => true,
            IncludedFields::Fields(names) => {
                names.binary_search_by(|n| n.as_str().cmp(name)).is_ok()
            }
        }
    }

    /// Appends the stored part of a document.
    pub(super) fn put(&self, doc: Doc<'_>, out: &mut Vec<u8>) {
        let IncludedFields::Fields(_) = self else {
            out.extend_from_slice(doc.as_bytes());
            return;
        };
        let mut w = DocWriter::new(out);
        let is_carried = |name: &[u8]| str::from_utf8(name).is_ok_and(|name| self.has(name));
        for e in doc.elements().filter(|e| is_carried(e.name)) {
            w.put_element(&e);
        }
        w.finish();
    }

    /// What to read from entries for these top-level fields, or for whole documents without names;
    /// `None` when the entries do not store all of it.
    pub(super) fn select_fields(&self, names: Option<&[String]>) -> Option<WantedFields> {
        let is_carried = match (self, names) {
            (IncludedFields::Document, _) => true,
            (IncludedFields::Fields(_), None) => false,
            (IncludedFields::Fields(_), Some(names)) => names.iter().all(|n| self.has(n)),
        };
        is_carried.then(WantedFields::default)
    }

    /// Whether two versions of a document have the same stored part.
    pub(super) fn is_same(&self, old: Doc<'_>, new: Doc<'_>) -> bool {
        match self {
            IncludedFields::Document => old.as_bytes() == new.as_bytes(),
            IncludedFields::Fields(_) => {
                let [mut a, mut b] = [Vec::new(), Vec::new()];
                self.put(old, &mut a);
                self.put(new, &mut b);
                a == b
            }
        }
    }
}
