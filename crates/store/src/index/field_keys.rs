//! The keys of a document in an index with one component for each field, and the effect of arrays.

use super::field::{FieldKind, encode_component};
use super::key_set::KeySet;
use super::reach::{PathEnd, reach};
use super::{Index, KEYS_BYTES_MAX, marks};
use model::{Array, Doc, MongoError, Result, Value};

impl Index {
    /// One key, or one for each distinct element of an array.
    pub(super) fn field_keys(&self, doc: Doc<'_>, set: &mut KeySet) -> Result<()> {
        let mut states: smallvec::SmallVec<[PathEnd<'_>; 4]> = self
            .fields
            .iter()
            .map(|f| reach(Value::Document(doc), f.path.parts()))
            .collect::<Result<_>>()?;
        if self.sparse
            && states
                .iter()
                .all(|s| matches!(s, PathEnd::At(Value::Missing)))
        {
            return Ok(());
        }
        self.expand(&mut states, self.marked.then_some(doc), set)?;
        set.sort();
        Ok(())
    }

    /// Appends the stored part of the document, or the marks of the key with these values; `arrays`
    /// says which fields go through an array.
    fn put_marks(&self, states: &[PathEnd<'_>], arrays: u32, doc: Doc<'_>, out: &mut Vec<u8>) {
        if let Some(carried) = &self.carried {
            return carried.put(doc, out);
        }
        let start = out.len();
        for (i, (s, f)) in states.iter().zip(&self.fields).enumerate() {
            let known = f.path.parts().len() == 1 && arrays & 1 << i.min(31) == 0;
            if let PathEnd::At(v) = s {
                marks::put(v, known && f.kind != FieldKind::Hashed, out);
            }
        }
        marks::end(&self.fields, doc, start, out);
    }

    /// Emits one key, or one for each element of the array in which some fields are. Keys have
    /// marks when the caller passes the document.
    pub(super) fn expand(
        &self,
        states: &mut [PathEnd<'_>],
        marked: Option<Doc<'_>>,
        set: &mut KeySet,
    ) -> Result<()> {
        let mut blocking: Option<Array<'_>> = None;
        for (i, s) in states.iter().enumerate() {
            let PathEnd::Blocked(a, _) = s else { continue };
            set.multikey |= 1 << i.min(31);
            match blocking {
                None => blocking = Some(*a),
                // Two fields are in the same array when its bytes have the same address.
                Some(b) if std::ptr::eq(b.as_bytes(), a.as_bytes()) => {}
                Some(_) => {
                    return Err(MongoError::new(
                        171,
                        format!(
                            "cannot index parallel arrays: more than one field of {} is an array \
                                in the same document",
                            self.key_pattern()
                        ),
                    ));
                }
            }
        }
        let Some(array) = blocking else {
            let start = set.begin();
            for (s, f) in states.iter().zip(&self.fields) {
                if let PathEnd::At(v) = s {
                    if f.kind == FieldKind::Hashed && matches!(v, Value::Array(_)) {
                        return Err(MongoError::new(
                            16766,
                            "hashed indexes do not currently support array values",
                        ));
                    }
                    encode_component(f.kind, v, self.collate(), &mut set.bytes);
                }
            }
            let marks = set.begin();
            if let Some(doc) = marked {
                self.put_marks(states, set.multikey, doc, &mut set.bytes);
            }
            set.end_marked(start, marks);
            if set.bytes.len() > KEYS_BYTES_MAX {
                return Err(self.keys_too_large());
            }
            return Ok(());
        };
        if self.fields.iter().any(|f| f.kind == FieldKind::Hashed) {
            return Err(MongoError::new(
                16766,
                "hashed indexes do not currently support array values",
            ));
        }
        let mut step = |element: Option<Value<'_>>| -> Result<()> {
            let mut next: smallvec::SmallVec<[PathEnd<'_>; 4]> = states
                .iter()
                .map(|s| match s {
                    PathEnd::Blocked(_, []) => Ok(PathEnd::At(element.unwrap_or(Value::Undefined))),
                    PathEnd::Blocked(_, rest) => match element {
                        Some(v @ Value::Document(_)) => reach(v, rest),
                        _ => Ok(PathEnd::At(Value::Missing)),
                    },
                    PathEnd::At(v) => Ok(PathEnd::At(*v)),
                })
                .collect::<Result<_>>()?;
            self.expand(&mut next, marked, set)
        };
        if array.is_empty() {
            return step(None);
        }
        array.iter().try_for_each(|v| step(Some(v)))
    }
}
