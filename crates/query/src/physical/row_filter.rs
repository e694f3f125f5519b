//! Finds the matching rows of columns and the matching documents, for reads by columns. Must not
//! know: where rows come from, what is done with the matches.

use crate::exec::MatchFilter;
use model::{Bump, Doc, Result, Value};
use operators::columns::{Batch, Column, Paths};
use operators::vector::{ColumnFilter, FilterContext};
use operators::{Cx, Env, Frame};
use std::ops::Range;
use std::sync::Arc;

/// The filter of a read by columns.
pub(super) struct RowFilter {
    /// `None`: everything matches.
    filter: Option<(Arc<MatchFilter>, ColumnFilter)>,
    /// The paths of the columns, in their order.
    paths: Arc<Paths>,
}

impl RowFilter {
    /// `paths` are the paths of all columns, the filter's among them. `None` if the filter cannot
    /// be applied to columns.
    pub(super) fn of(filter: Option<&Arc<MatchFilter>>, paths: &Arc<Paths>) -> Option<RowFilter> {
        let filter = match filter.filter(|f| !f.filter.is_always_true()) {
            None => None,
            Some(f) => {
                // They include the filter's paths, so nothing is added.
                let mut all = Paths::clone(paths);
                Some((Arc::clone(f), ColumnFilter::of(&f.filter, &mut all)?))
            }
        };
        Some(RowFilter {
            filter,
            paths: Arc::clone(paths),
        })
    }
}

/// A filter while it is applied.
pub(super) struct RowMatches<'f> {
    by: &'f RowFilter,
    env: &'f Env,
    vars: Option<&'f Frame<'f, 'f>>,
    batch: Batch,
    rows: Vec<u32>,
    arena: Bump,
}

impl<'f> RowMatches<'f> {
    /// Prepares to apply a filter.
    pub(super) fn new(
        by: &'f RowFilter,
        env: &'f Env,
        vars: Option<&'f Frame<'f, 'f>>,
    ) -> RowMatches<'f> {
        RowMatches {
            batch: Batch::new(Arc::clone(&by.paths)),
            by,
            env,
            vars,
            rows: Vec::new(),
            arena: Bump::new(),
        }
    }

    /// Whether a document matches.
    ///
    /// # Errors
    /// Those of the filter.
    pub(super) fn has(&mut self, doc: Doc<'_>) -> Result<bool> {
        let Some((filter, _)) = &self.by.filter else {
            return Ok(true);
        };
        self.arena.reset();
        let cx = Cx {
            vars: self.vars,
            ..Cx::new(&self.arena, Value::Document(doc), self.env)
        };
        filter.filter.matches_in(&cx, doc)
    }

    /// The matching rows, numbered from the start of `rows`.
    ///
    /// # Errors
    /// Those of the filter.
    pub(super) fn find_matches(
        &mut self,
        columns: &[Option<Column>],
        rows: Range<usize>,
    ) -> Result<&[u32]> {
        self.rows.clear();
        self.rows.extend(0..rows.len() as u32);
        if let Some((filter, sieve)) = &self.by.filter {
            let (env, vars) = (self.env, self.vars);
            self.batch.clear();
            self.batch.push_rows(columns, rows);
            sieve.keep(
                &filter.filter,
                &self.batch,
                FilterContext { env, vars },
                &mut self.rows,
            )?;
        }
        Ok(&self.rows)
    }
}
