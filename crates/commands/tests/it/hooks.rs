//! The query language as the tests of this room need it: equality filters, the simple collation.

use model::{Collate, Doc, Result, compare};
use std::sync::Arc;
use store::{Hooks, Predicate};

pub(crate) struct EqualityOnly;

impl Hooks for EqualityOnly {
    fn predicate(&self, filter: Doc<'_>) -> Result<Predicate> {
        let filter = filter.to_buf();
        Ok(Arc::new(move |d: Doc<'_>| filter.doc().iter().all(|(k, v)| d.get(k).is_some_and(|x| compare(&x, &v).is_eq()))))
    }
    fn collator(&self, _: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
        Ok(None)
    }
}
