//! The metadata of a row: record id and index key for `showRecordId` and `returnKey`, and the score
//! of a text search.

use crate::exec::MatchFilter;
use crate::plan::{Access, Plan, shown_path};
use model::compare::compare_with;
use model::{Doc, DocBuf, FieldPath, Value};
use operators::expr::hashed_index_key;
use std::sync::Arc;
use store::{FieldKind, Index, KeyInterval};

/// Name of the record id in the metadata.
pub(crate) const RECORD_ID: &str = "recordId";
/// Name of the index key in the metadata.
pub(crate) const INDEX_KEY: &str = "indexKey";

const TEXT_SCORE: &str = "textScore";

/// How the index key of a document is found.
enum KeySource {
    /// The key is not wanted.
    Unwanted,
    /// No index is read.
    None,
    Id,
    Index(Arc<Index>, Arc<Vec<KeyInterval>>),
    /// A wildcard index, read for this path.
    Wildcard(FieldPath),
}

/// Makes the metadata of the rows of one plan.
pub(crate) struct RowMetadata {
    key: KeySource,
    score: ScoreSource,
}

/// How the score of a text search is found.
enum ScoreSource {
    /// There is no score.
    None,
    /// The row has it.
    OfRow,
    /// Computed from the document, which may come from a branch without the text search.
    OfDoc(Arc<MatchFilter>),
}

impl RowMetadata {
    /// Scores for a plan that answers a `$text`; `None` for others.
    pub(crate) fn scores(plan: &Plan, filter: Option<&Arc<MatchFilter>>) -> Option<RowMetadata> {
        let score = match &plan.access {
            Access::Text { .. } => ScoreSource::OfRow,
            Access::Union { .. } => {
                ScoreSource::OfDoc(filter.filter(|f| f.filter.text().is_some())?.clone())
            }
            _ => return None,
        };
        Some(RowMetadata {
            key: KeySource::Unwanted,
            score,
        })
    }

    /// Record ids and index keys for any plan, in addition to `before`.
    pub(crate) fn of(plan: &Plan, before: Option<RowMetadata>) -> RowMetadata {
        let score = before.map_or(ScoreSource::None, |b| b.score);
        let key = match (&plan.access, &plan.index) {
            (Access::Ids { .. } | Access::IdRange { .. }, _) => KeySource::Id,
            (Access::Index { .. }, _) if plan.wildcard.is_some() => plan
                .wildcard
                .as_ref()
                .and_then(shown_path)
                .map_or(KeySource::None, KeySource::Wildcard),
            (Access::Index { intervals, .. }, Some(index)) => {
                KeySource::Index(index.clone(), intervals.clone())
            }
            _ => KeySource::None,
        };
        RowMetadata { key, score }
    }

    /// The metadata of one row.
    pub(crate) fn row(&self, row: &store::Row<'_>) -> DocBuf {
        DocBuf::build(|w| {
            if let Some(score) = self.score(row) {
                w.put(TEXT_SCORE, score);
            }
            if matches!(self.key, KeySource::Unwanted) {
                return;
            }
            w.put(
                RECORD_ID,
                i64::try_from(row.header.insert_seq).unwrap_or(i64::MAX),
            );
            let mut key = w.doc(INDEX_KEY);
            match &self.key {
                KeySource::None | KeySource::Unwanted => {}
                KeySource::Id => {
                    key.put("_id", row.doc.field("_id"));
                }
                KeySource::Wildcard(path) => {
                    let mut all = Vec::new();
                    collect(Value::Document(row.doc), path, 0, &mut all);
                    key.put("$_path", path.as_str());
                    key.put(path.as_str(), all.first().copied().unwrap_or(Value::Null));
                }
                KeySource::Index(index, intervals) => {
                    for (at, f) in index.fields().iter().enumerate() {
                        let value = key_value(index, at, &f.path, intervals, row.doc);
                        let value = match f.kind {
                            FieldKind::Hashed => Value::Int64(hashed_index_key(value)),
                            _ => value,
                        };
                        key.put(f.path.as_str(), value);
                    }
                }
            }
        })
    }
}

impl RowMetadata {
    fn score(&self, row: &store::Row<'_>) -> Option<f64> {
        match &self.score {
            ScoreSource::None => None,
            ScoreSource::OfRow => Some(row.score),
            ScoreSource::OfDoc(filter) => {
                let matcher = filter.filter.text()?.matcher()?;
                let matches = matcher.matches(row.doc).unwrap_or(false);
                matches.then(|| matcher.score(row.doc).ok()).flatten()
            }
        }
    }
}

/// The value by which an index found a document: of several values (an array), the first one inside
/// the intervals.
fn key_value<'d>(
    index: &Index,
    at: usize,
    path: &FieldPath,
    intervals: &[KeyInterval],
    doc: Doc<'d>,
) -> Value<'d> {
    let mut all = Vec::new();
    collect(Value::Document(doc), path, 0, &mut all);
    all.sort_by(|a, b| compare_with(a, b, index.collate()));
    let inside = |v: &Value<'_>| {
        let mut key = Vec::new();
        index.encode_bound(at, v, &mut key);
        // The interval's bytes may be longer or shorter than the first component.
        intervals.iter().any(|i| {
            key.as_slice() < i.upper.as_slice() && (key >= i.lower || i.lower.starts_with(&key))
        })
    };
    let found = if at == 0 {
        all.iter().find(|v| inside(v))
    } else {
        None
    };
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
