//! What `showRecordId` and `returnKey` tell of a document besides itself. It travels as the document's metadata.

use super::{Access, Plan};
use model::compare::compare_with;
use model::{Doc, DocBuf, FieldPath, Value};
use std::sync::Arc;
use store::{Index, KeyInterval};

/// Name of the record id in the metadata.
pub(crate) const RECORD_ID: &str = "recordId";
/// Name of the index key in the metadata.
pub(crate) const INDEX_KEY: &str = "indexKey";

/// Where the key of a document comes from.
enum Key {
    /// No index is read.
    None,
    Id,
    Index(Arc<Index>, Vec<KeyInterval>),
}

/// Makes the metadata of the rows of one plan.
pub(crate) struct RowExtras(Key);

impl RowExtras {
    pub(crate) fn of(plan: &Plan) -> RowExtras {
        RowExtras(match (&plan.access, &plan.index) {
            (Access::Ids { .. } | Access::IdRange { .. }, _) => Key::Id,
            (Access::Index { intervals, .. }, Some(index)) => Key::Index(index.clone(), intervals.clone()),
            _ => Key::None,
        })
    }

    /// The metadata of one row.
    pub(crate) fn row(&self, row: &store::Row<'_>) -> DocBuf {
        DocBuf::build(|w| {
            w.put(RECORD_ID, i64::try_from(row.header.insert_seq).unwrap_or(i64::MAX));
            let mut key = w.doc(INDEX_KEY);
            match &self.0 {
                Key::None => {}
                Key::Id => {
                    key.put("_id", row.doc.field("_id"));
                }
                Key::Index(index, intervals) => {
                    for (at, f) in index.fields().iter().enumerate() {
                        key.put(f.path.as_str(), key_value(index, at, &f.path, intervals, row.doc));
                    }
                }
            }
        })
    }
}

/// The value under which an index has a document: of several (an array) the first inside the intervals.
fn key_value<'d>(index: &Index, at: usize, path: &FieldPath, intervals: &[KeyInterval], doc: Doc<'d>) -> Value<'d> {
    let mut all = Vec::new();
    collect(Value::Document(doc), path, 0, &mut all);
    all.sort_by(|a, b| compare_with(a, b, index.collate()));
    let inside = |v: &Value<'_>| {
        let mut key = Vec::new();
        index.encode_bound(at, v, &mut key);
        // The interval may be longer than the first component or shorter.
        intervals.iter().any(|i| key.as_slice() < i.upper.as_slice() && (key >= i.lower || i.lower.starts_with(&key)))
    };
    let found = if at == 0 { all.iter().find(|v| inside(v)) } else { None };
    found.or(all.first()).copied().unwrap_or(Value::Null)
}

fn collect<'d>(v: Value<'d>, path: &FieldPath, depth: usize, out: &mut Vec<Value<'d>>) {
    let Some(part) = path.parts().get(depth) else {
        match v {
            Value::Array(a) => out.extend(a.iter()),
            Value::Missing => {}
            v => out.push(v),
        }
        return;
    };
    match v {
        Value::Document(d) => collect(d.field(&part.name), path, depth + 1, out),
        Value::Array(a) => a.iter().for_each(|v| collect(v, path, depth, out)),
        _ => {}
    }
}
