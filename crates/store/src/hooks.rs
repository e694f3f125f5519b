//! What the store needs from rooms above it, passed in when it is opened: predicates for partial indexes and collators.

use model::{Collate, Doc, MongoError, Result, code};
use std::sync::Arc;

/// Decides whether a document belongs into a partial index.
pub type Predicate = Arc<dyn Fn(Doc<'_>) -> bool + Send + Sync>;

/// Compilers the store calls; implemented above it.
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
}

/// Refuses both; for tests without operators.
pub struct NoHooks;

impl Hooks for NoHooks {
    fn predicate(&self, _: Doc<'_>, _: Option<Doc<'_>>) -> Result<Predicate> {
        Err(MongoError::new(code::NOT_IMPLEMENTED, "partial indexes need the query language"))
    }
    fn collator(&self, _: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
        Err(MongoError::new(code::NOT_IMPLEMENTED, "collations need the query language"))
    }
}
