//! Index filters: which indexes queries of a shape may use, set by `planCacheSetFilter`. They are
//! kept in memory only, as in MongoDB. Promises: without filters, a query costs one load. Must not
//! know: how queries are planned.

use model::{Doc, DocBuf, Namespace, OwnedValue};
use parking_lot::Mutex;
use query::explain::filter_shape;
use query::plan::AllowedIndexes;
use query::shown::canonical;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The parts of a query that determine its shape.
#[derive(Clone, Copy, Debug)]
pub struct ShapeParts<'a> {
    /// The filter.
    pub query: Doc<'a>,
    /// The sort.
    pub sort: Doc<'a>,
    /// The projection.
    pub projection: Doc<'a>,
    /// The collation as the client gave it.
    pub collation: Doc<'a>,
}

impl<'a> ShapeParts<'a> {
    /// The parts of a query without sort and projection.
    pub fn of(query: Doc<'a>, collation: Option<Doc<'a>>) -> ShapeParts<'a> {
        ShapeParts {
            query,
            sort: Doc::EMPTY,
            projection: Doc::EMPTY,
            collation: collation.unwrap_or(Doc::EMPTY),
        }
    }

    /// The key of the shape: it ignores the constants of the filter, so that all queries of the
    /// shape have it.
    fn key(&self) -> String {
        let filter = filter_shape(canonical(self.query).doc());
        let (sort, projection, collation) = (self.sort, self.projection, self.collation);
        format!("{filter}\n{sort}\n{projection}\n{collation}")
    }
}

/// An index filter for one query shape.
#[derive(Clone, Debug)]
pub struct PlanFilter {
    key: String,
    /// Filter of the shape.
    pub query: DocBuf,
    /// Sort of the shape.
    pub sort: DocBuf,
    /// Projection of the shape.
    pub projection: DocBuf,
    /// Collation of the shape.
    pub collation: DocBuf,
    /// Allowed indexes: key patterns or names.
    pub indexes: Vec<OwnedValue>,
}

/// The index filters of all namespaces.
#[derive(Default)]
pub struct PlanFilters {
    any: AtomicBool,
    by_ns: Mutex<BTreeMap<String, Vec<PlanFilter>>>,
}

impl PlanFilters {
    /// The indexes that a query of a collection may use; `None` without a filter for it.
    pub fn allowed(&self, ns: &Namespace, shape: &ShapeParts<'_>) -> Option<AllowedIndexes> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let key = shape.key();
        let by_ns = self.by_ns.lock();
        let filter = by_ns.get(&ns.to_string())?.iter().find(|f| f.key == key)?;
        Some(AllowedIndexes {
            list: filter.indexes.clone(),
            filter: true,
        })
    }

    /// Sets the filter of a shape.
    pub fn set(&self, ns: &Namespace, shape: &ShapeParts<'_>, indexes: Vec<OwnedValue>) {
        let filter = PlanFilter {
            key: shape.key(),
            query: shape.query.to_buf(),
            sort: shape.sort.to_buf(),
            projection: shape.projection.to_buf(),
            collation: shape.collation.to_buf(),
            indexes,
        };
        let mut by_ns = self.by_ns.lock();
        let list = by_ns.entry(ns.to_string()).or_default();
        list.retain(|f| f.key != filter.key);
        list.push(filter);
        self.any.store(true, Ordering::Release);
    }

    /// Removes the filter of a shape, or all filters of a collection.
    pub fn clear(&self, ns: &Namespace, shape: Option<&ShapeParts<'_>>) {
        let mut by_ns = self.by_ns.lock();
        let name = ns.to_string();
        match (shape, by_ns.get_mut(&name)) {
            (Some(shape), Some(list)) => {
                let key = shape.key();
                list.retain(|f| f.key != key);
            }
            _ => _ = by_ns.remove(&name),
        }
        by_ns.retain(|_, list| !list.is_empty());
        self.any.store(!by_ns.is_empty(), Ordering::Release);
    }

    /// The index filters of a collection.
    pub fn list(&self, ns: &Namespace) -> Vec<PlanFilter> {
        let by_ns = self.by_ns.lock();
        by_ns.get(&ns.to_string()).cloned().unwrap_or_default()
    }
}
