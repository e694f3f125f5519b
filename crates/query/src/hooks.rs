//! What the store asks of the query language: predicates of partial indexes and validators, collators.

use crate::collation;
use model::{Bump, Collate, Doc, Result};
use operators::Env;
use operators::expr::ParseCx;
use operators::filter::Filter;
use std::sync::Arc;
use store::{Hooks, Predicate};

/// The query language as the store knows it.
pub struct Language;

impl Hooks for Language {
    fn predicate(&self, filter: Doc<'_>) -> Result<Predicate> {
        let env = Env::new(0, 1);
        let filter = Filter::parse(&mut ParseCx::new(&env), filter)?;
        Ok(Arc::new(move |d: Doc<'_>| {
            let env = Env::new(0, 1);
            filter.matches(d, &Bump::new(), &env).unwrap_or(false)
        }))
    }

    fn collator(&self, spec: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
        collation::collator(spec)
    }
}
