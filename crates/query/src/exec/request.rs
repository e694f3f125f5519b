//! Requests of a pipeline to the server, and their results, as data. Must not know who answers.

use super::batch::DocBatch;
use model::{Doc, DocBuf, Namespace, OwnedValue, Result, Value};

/// The object that a namespace names.
#[derive(Clone, Debug)]
pub enum ResolvedNamespace {
    /// Nothing of that name: reads give no documents.
    Missing,
    /// A collection.
    Collection,
    /// A view: its pipeline runs over `on`.
    View {
        /// The collection or view below.
        on: Namespace,
        /// An array of stages.
        pipeline: DocBuf,
    },
    /// The buckets of a time-series collection.
    Buckets {
        /// The collection.
        on: Namespace,
    },
}

/// The only indexes that a read may use, whatever its hint says.
#[derive(Clone, Debug)]
pub struct AllowedIndexes {
    /// Names and key patterns.
    pub list: Vec<OwnedValue>,
    /// Set by an index filter: if none of the indexes can be used, the collection is scanned. Query
    /// settings are ignored in that case instead.
    pub filter: bool,
}

impl AllowedIndexes {
    /// Whether an index is one of them.
    pub(crate) fn has(&self, name: &str, key: Doc<'_>) -> bool {
        self.list.iter().any(|v| match v.get() {
            Value::String(s) => s == name,
            Value::Document(d) => model::compare::compare_docs(d, key, None).is_eq(),
            _ => false,
        })
    }
}

/// For each value at a path, only the first or the last document in the wanted order is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEnd {
    /// The path whose values define the groups.
    pub path: String,
    /// The last document is needed, not the first.
    pub last: bool,
}

/// The output of a stage that needs only the number of its input documents.
#[derive(Clone, Debug)]
pub struct CountOutput {
    /// The `_id` of its output document, if that has one.
    pub id: Option<OwnedValue>,
    /// The fields that hold the number.
    pub names: Vec<String>,
}

impl CountOutput {
    /// The output document; `None` for an empty input.
    pub(crate) fn document(&self, number: u64) -> Option<DocBuf> {
        let number = i64::try_from(number).ok().filter(|n| *n > 0)?;
        let number = i32::try_from(number).map_or(Value::Int64(number), Value::Int32);
        Some(DocBuf::build(|w| {
            if let Some(id) = &self.id {
                w.put("_id", id.get());
            }
            for name in &self.names {
                w.put(name, number);
            }
        }))
    }
}

/// Kinds of geospatial indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeoIndex {
    /// `2d`.
    Flat,
    /// `2dsphere`.
    Sphere,
}

/// Where `$out` writes.
#[derive(Clone, Debug)]
pub struct OutTarget {
    /// The collection to replace.
    pub ns: Namespace,
    /// Time-series options, if it becomes a time-series collection.
    pub timeseries: Option<DocBuf>,
}

/// A replacement of a collection that is being written. If it is dropped without
/// [`OutWriter::commit`], nothing has changed.
pub trait OutWriter: Send {
    /// Adds documents.
    ///
    /// # Errors
    /// 11000 DuplicateKey, 121 DocumentValidationFailure.
    fn write(&mut self, docs: &DocBatch) -> Result<()>;
    /// Replaces the old content by the new, and keeps the indexes. Must be called again after
    /// [`model::ErrorKind::SetAside`].
    ///
    /// # Errors
    /// Those of the store.
    fn commit(&mut self) -> Result<()>;
}

/// What to do with a document of `$merge` that matches no document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenNotMatched {
    /// It is inserted.
    Insert,
    /// It is dropped.
    Discard,
    /// The operation fails with 13113.
    Fail,
}

/// One document of `$merge`.
pub struct MergeWrite<'m> {
    /// The collection written to; created when missing.
    pub ns: &'m Namespace,
    /// The `on` fields and their values in the document.
    pub on: &'m [(&'m str, Value<'m>)],
    /// The document.
    pub doc: Doc<'m>,
    /// What to do without a match.
    pub not_matched: WhenNotMatched,
}

/// Gives the new version of a matched document; `None` leaves it alone.
pub type OnMatch<'m> = dyn Fn(Doc<'_>) -> Result<Option<DocBuf>> + 'm;
