//! What a pipeline asks of the server and gets back, as data. Must not know who answers.

use super::batch::DocBatch;
use model::{Doc, DocBuf, Namespace, OwnedValue, Result, Value};

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Resolved {
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

/// The only indexes a read may use, whatever its hint says.
#[derive(Clone, Debug)]
pub struct AllowedIndexes {
    /// Names and key patterns.
    pub list: Vec<OwnedValue>,
    /// Set by an index filter: where none of them can be used the collection is read as a whole.
    /// Settings of a query rather have no effect then.
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

/// Of the documents with one value at a path, the first in the wanted order is enough, or the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEnd {
    /// What tells groups apart.
    pub path: String,
    /// The last.
    pub last: bool,
}

/// What a stage makes that looks at nothing but the number of its documents.
#[derive(Clone, Debug)]
pub struct NumberOnly {
    /// The `_id` of its document, where that has one.
    pub id: Option<OwnedValue>,
    /// The fields that are the number.
    pub names: Vec<String>,
}

impl NumberOnly {
    /// Its document; none of no documents.
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
    /// The collection that is replaced.
    pub ns: Namespace,
    /// Time-series options, when it shall be a time-series collection.
    pub timeseries: Option<DocBuf>,
}

/// A replacement of a collection in the making. Dropped without [`OutWriter::commit`], nothing has
/// happened.
pub trait OutWriter: Send {
    /// Adds documents.
    ///
    /// # Errors
    /// 11000 DuplicateKey, 121 DocumentValidationFailure.
    fn write(&mut self, docs: &DocBatch) -> Result<()>;
    /// Puts the new content in place of the old, indexes kept. To be called again when it was set
    /// aside ([`model::ErrorKind::SetAside`]).
    ///
    /// # Errors
    /// Those of the store.
    fn commit(&mut self) -> Result<()>;
}

/// What becomes of a document of `$merge` that matches none.
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
