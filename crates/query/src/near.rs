//! `$near` and `$nearSphere` in a find: results come from near to far, and only where a geospatial
//! index exists.

use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter, drain};
use model::{Result, Value, bail};
use std::sync::Arc;
use store::Collection;

/// Checks that an index on the field can answer the filter's nearness.
///
/// # Errors
/// 291 NoQueryExecutionPlans.
pub fn check_index(filter: &MatchFilter, coll: &Collection) -> Result<()> {
    let Some((path, near)) = filter.filter.near() else {
        return Ok(());
    };
    let fits = |field: &str, v: Value<'_>| {
        field == path.as_str() && v.as_str().is_some_and(|kind| near.can_use(kind))
    };
    let indexes = coll.indexes();
    let found = indexes
        .iter()
        .any(|i| i.is_ready() && !i.is_hidden() && i.key_pattern().iter().any(|(f, v)| fits(f, v)));
    if !found {
        bail!(
            291,
            "error processing query: unable to find index for $geoNear query on '{}'",
            path.as_str()
        );
    }
    Ok(())
}

/// Matching documents by distance.
pub struct NearStream {
    input: Box<dyn BatchStream>,
    filter: Arc<MatchFilter>,
    /// The documents and, from near to far, their numbers; once everything was read.
    sorted: Option<(DocBatch, Vec<usize>)>,
    next: usize,
}

impl NearStream {
    /// Over documents that match.
    pub fn new(input: Box<dyn BatchStream>, filter: Arc<MatchFilter>) -> NearStream {
        NearStream {
            input,
            filter,
            sorted: None,
            next: 0,
        }
    }

    fn read(&mut self, exec: &ExecContext<'_>) -> Result<(DocBatch, Vec<usize>)> {
        let (mut all, mut distances) = (DocBatch::new(), Vec::new());
        let filter = &self.filter.filter;
        drain(self.input.as_mut(), exec, |doc, meta| {
            distances.push(filter.distance(doc).unwrap_or(f64::INFINITY));
            all.push_with_meta(doc, meta);
            Ok(())
        })?;
        let distance = |i: &usize| distances.get(*i).copied().unwrap_or(f64::INFINITY);
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        Ok((all, order))
    }
}

impl BatchStream for NearStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let (all, order) = match self.sorted.take() {
            Some(sorted) => sorted,
            None => self.read(exec)?,
        };
        while let Some(i) = order.get(self.next).filter(|_| !out.is_full()) {
            out.push_with_meta(all.doc(*i), all.meta(*i));
            self.next += 1;
        }
        let more = self.next < order.len();
        self.sorted = Some((all, order));
        Ok(more)
    }
}
