//! Functions of the layers above that the store needs, passed in when it is opened: predicates for
//! partial indexes, collators, and the terms of text indexes.

use crate::log::LogSettings;
use model::{Collate, Doc, MongoError, Namespace, Result, code};
use operation::Operation;
use std::sync::Arc;

/// Decides whether a partial index includes a document.
pub type Predicate = Arc<dyn Fn(Doc<'_>) -> bool + Send + Sync>;

/// The terms a text index extracts from documents.
pub trait Terms: Send + Sync {
    /// Calls `show` with each distinct term of a document and its score (above 0).
    ///
    /// # Errors
    /// 17261 and 17262 for a document with an unknown language; 16732 for too many terms.
    fn visit_terms(&self, doc: Doc<'_>, show: &mut dyn FnMut(&str, f64)) -> Result<()>;

    /// Whether two versions of a document certainly have the same terms; a cheap check.
    fn same(&self, old: Doc<'_>, new: Doc<'_>) -> bool;
}

/// The requirements of a geospatial index on its fields, and the cells of their places.
pub trait CellExtractor: Send + Sync {
    /// Checks a document that is about to be written.
    ///
    /// # Errors
    /// Why the index cannot hold it.
    fn check(&self, doc: Doc<'_>) -> Result<()>;

    /// Checks a measurement of a time-series collection, where places are points.
    ///
    /// # Errors
    /// Why the index cannot hold it.
    fn check_measurement(&self, doc: Doc<'_>) -> Result<()>;

    /// Appends the cells of the place at a path of a document; appends nothing when the value is
    /// not a place.
    fn cells(&self, path: &str, doc: Doc<'_>, out: &mut Vec<u64>);

    /// Whether a cell is that of a point: a point has only this one cell.
    fn is_point(&self, cell: u64) -> bool;
}

/// Functions that the store calls; the layers above implement them.
pub trait Hooks: Send + Sync {
    /// Compiles a filter whose strings compare by a collation.
    ///
    /// # Errors
    /// The filter parser's and the collation parser's.
    fn predicate(&self, filter: Doc<'_>, collation: Option<Doc<'_>>) -> Result<Predicate>;

    /// Makes a collator; `None` for the simple order.
    ///
    /// # Errors
    /// The collation parser's.
    fn collator(&self, spec: Doc<'_>) -> Result<Option<Arc<dyn Collate>>>;

    /// Parses the text part of an index specification.
    ///
    /// # Errors
    /// 238 where there is no text search.
    fn terms(&self, index: Doc<'_>) -> Result<Arc<dyn Terms>>;

    /// Parses the geospatial part of an index specification; the default requires nothing.
    fn places(&self, _index: Doc<'_>) -> Option<Arc<dyn CellExtractor>> {
        None
    }

    /// Settings of the log of all changes; `None` for a store without one.
    fn log(&self) -> Option<LogSettings> {
        None
    }

    /// Whether an operation may change a collection. Called right before a change, so that an
    /// operation that changes nothing is not refused.
    ///
    /// # Errors
    /// Why it may not.
    fn check_write(&self, operation: &Operation, _ns: &Namespace) -> Result<()> {
        operation.check_write()
    }
}

/// Hooks that refuse filters, collations and text indexes; for tests without operators.
pub struct NoHooks;

impl Hooks for NoHooks {
    fn predicate(&self, _: Doc<'_>, _: Option<Doc<'_>>) -> Result<Predicate> {
        Err(MongoError::new(
            code::NOT_IMPLEMENTED,
            "partial indexes need the query language",
        ))
    }
    fn collator(&self, _: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
        Err(MongoError::new(
            code::NOT_IMPLEMENTED,
            "collations need the query language",
        ))
    }
    fn terms(&self, _: Doc<'_>) -> Result<Arc<dyn Terms>> {
        Err(MongoError::new(
            code::NOT_IMPLEMENTED,
            "text indexes need the query language",
        ))
    }
}
