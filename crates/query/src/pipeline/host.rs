//! `Host`: everything a pipeline needs from outside. Implemented over the store by the server, over
//! memory by tests.

use super::{Batch, Docs, MatchFilter, Rt};
use crate::stages::sort_pattern::SortPattern;
use model::{Doc, DocBuf, FieldPath, Namespace, Result, Value};
use std::sync::Arc;

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
}

/// A read of one collection. `filter`, `sort` and `limit` are offers; what the host does not take
/// the pipeline does.
pub struct Read<'q> {
    /// The collection; never a view.
    pub ns: &'q Namespace,
    /// Documents the pipeline wants.
    pub filter: Option<&'q Arc<MatchFilter>>,
    /// The order it wants them in.
    pub sort: Option<&'q SortPattern>,
    /// No more than this many are needed, after filter and sort.
    pub limit: Option<u64>,
    /// One document for each value at this path is enough; more do no harm.
    pub distinct: Option<&'q str>,
    /// Besides by the filter, only these top-level fields are looked at; `None` is all of them. A
    /// host that leaves the filter to the pipeline gives whole documents.
    pub fields: Option<&'q [String]>,
}

/// An open read, and which offers the host took.
pub struct Opened {
    /// The documents.
    pub docs: Box<dyn Docs>,
    /// Only matching documents come.
    pub filtered: bool,
    /// They come in the wanted order.
    pub sorted: bool,
    /// No more come than were wanted.
    pub limited: bool,
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
    fn write(&mut self, docs: &Batch) -> Result<()>;
    /// Puts the new content in place of the old, indexes kept.
    ///
    /// # Errors
    /// Those of the store.
    fn commit(self: Box<Self>) -> Result<()>;
}

/// What becomes of a document of `$merge` that matches none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotMatched {
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
    pub not_matched: NotMatched,
}

/// Gives the new version of a matched document; `None` leaves it alone.
pub type OnMatch<'m> = dyn Fn(Doc<'_>) -> Result<Option<DocBuf>> + 'm;

/// What a pipeline asks of the server. Object-safe; every method may be called many times, and
/// while one thread reads another may call.
pub trait Host: Sync {
    /// What a name stands for.
    ///
    /// # Errors
    /// Those of the catalog.
    fn resolve(&self, ns: &Namespace) -> Result<Resolved>;

    /// Opens a read of a collection.
    ///
    /// # Errors
    /// Those of the store and of the filter.
    fn open(&self, rt: &Rt<'_>, read: &Read<'_>) -> Result<Opened>;

    /// Whether `field` of a collection can be looked up by value cheaply (an index with it first).
    fn can_look_up(&self, ns: &Namespace, field: &FieldPath) -> bool;

    /// Documents that may have any of `values` (or an array holding one) at `field`. May give more
    /// than those; the caller checks. Called only after [`Host::can_look_up`] said yes.
    ///
    /// # Errors
    /// Those of the store.
    fn look_up(
        &self,
        rt: &Rt<'_>,
        ns: &Namespace,
        field: &FieldPath,
        values: &[Value<'_>],
    ) -> Result<Box<dyn Docs>>;

    /// The geospatial indexes of a collection: the field and the kind.
    ///
    /// # Errors
    /// Those of the catalog.
    fn geo_indexes(&self, ns: &Namespace) -> Result<Vec<(String, GeoIndex)>>;

    /// Begins `$out`.
    ///
    /// # Errors
    /// 166 on a view, 17152 on a capped collection, 20 / 7406103 / 7268700 for unfit time-series
    /// options.
    fn begin_out(&self, target: &OutTarget) -> Result<Box<dyn OutWriter>>;

    /// Checks before `$merge` writes: the target may be written, and `on` has a unique index.
    ///
    /// # Errors
    /// 166 on a view, 51183 without a unique index.
    fn check_merge(&self, ns: &Namespace, on: &[String]) -> Result<()>;

    /// Writes one document of `$merge`.
    ///
    /// # Errors
    /// 13113 MergeStageNoMatchingDocument, 11000, 121, and those of `matched`.
    fn merge(&self, write: &MergeWrite<'_>, matched: &OnMatch<'_>) -> Result<()>;

    /// The documents of `$collStats`; `spec` is its checked argument.
    ///
    /// # Errors
    /// 26 NamespaceNotFound where the asked part needs the collection.
    fn coll_stats(&self, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>>;

    /// The documents of `$indexStats`, one per index.
    ///
    /// # Errors
    /// Those of the store.
    fn index_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>>;

    /// The documents of `$planCacheStats`.
    ///
    /// # Errors
    /// Those of the plan cache.
    fn plan_cache_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>>;

    /// The documents of a stage that lists something of the server: `$currentOp`, `$listSessions`,
    /// `$listLocalSessions`, `$listClusterCatalog`, `$querySettings`; `spec` is its checked
    /// argument, `db` where it runs.
    ///
    /// # Errors
    /// The stage's own.
    fn list(&self, stage: &str, db: &str, spec: Doc<'_>) -> Result<Vec<DocBuf>>;

    /// The index [`Host::look_up`] would use, for explain.
    fn look_up_index(&self, _ns: &Namespace, _field: &FieldPath) -> Option<String> {
        None
    }

    /// The operation's collation as the client wrote it, for explain.
    fn collation(&self) -> Option<DocBuf> {
        None
    }

    /// Bytes one blocking stage may hold before it spills or fails.
    fn memory_limit_bytes(&self) -> usize {
        100 * 1024 * 1024
    }

    /// A fresh temporary file that vanishes when dropped.
    ///
    /// # Errors
    /// 39 FileStreamFailed.
    fn spill_file(&self) -> Result<std::fs::File>;
}
