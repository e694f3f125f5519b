//! Reads a text index: the documents that have any of several terms. Must not know: what a term is.

use crate::catalog::Collection;
use crate::error;
use crate::format::record;
use crate::index::text::score_of;
use crate::index::{Index, KeyInterval};
use crate::view::ReadView;
use crate::view::rows::{FETCH_MAX, FetchedRows, Row, RowVisitor, fetch};
use model::Result;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A scan of the documents that have any of several terms, with the sum of the terms' scores.
pub struct TermsScan {
    coll: Arc<Collection>,
    view: ReadView,
    index: Arc<Index>,
    intervals: Vec<KeyInterval>,
    /// The ids and scores that were not shown yet, last first; `None` until the entries were read.
    left: Option<Vec<(Vec<u8>, f64)>>,
    examined: u64,
}

impl Collection {
    /// Scans intervals of a text index, one for each term.
    pub fn scan_terms(
        self: &Arc<Self>,
        view: &ReadView,
        index: &Arc<Index>,
        intervals: Vec<KeyInterval>,
    ) -> TermsScan {
        index.usage().add();
        TermsScan {
            coll: self.clone(),
            view: view.clone(),
            index: index.clone(),
            intervals,
            left: None,
            examined: 0,
        }
    }
}

impl TermsScan {
    /// Shows up to `max` documents in their current form: a document that was changed since the
    /// entries were read may not have the terms any more, so the caller matches again.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; 1 InternalError for damage; engine
    /// failures; those of `go_on`, which is asked while entries are read.
    ///
    /// # Cost
    /// The first call reads all entries of the terms; each document's id is kept in memory until it
    /// is shown.
    pub fn visit(
        &mut self,
        max: usize,
        go_on: &dyn Fn() -> Result<()>,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool> {
        self.view.check_kept(&self.coll)?;
        let mut left = match self.left.take() {
            Some(left) => left,
            None => self.gather(go_on)?,
        };
        let shown = self.show(&mut left, max, f);
        let more = !left.is_empty();
        self.left = Some(left);
        self.view.check_kept(&self.coll).and(shown).map(|()| more)
    }

    fn gather(&mut self, go_on: &dyn Fn() -> Result<()>) -> Result<Vec<(Vec<u8>, f64)>> {
        let mut scores: FxHashMap<Vec<u8>, f64> = FxHashMap::default();
        for interval in std::mem::take(&mut self.intervals) {
            go_on()?;
            let mut scan = self.coll.scan_index(
                &self.view,
                &self.index,
                self.index.multikey_bits(),
                Arc::new(vec![interval.clone()]),
                false,
            );
            while scan.visit_entries(1024, &mut |components, id| {
                *scores.entry(id.to_vec()).or_insert(0.0) += score_of(&interval, components);
                true
            })? {
                go_on()?;
            }
            self.examined += scan.keys_examined();
        }
        let mut all: Vec<_> = scores.into_iter().collect();
        all.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        Ok(all)
    }

    fn show(
        &mut self,
        left: &mut Vec<(Vec<u8>, f64)>,
        max: usize,
        f: &mut RowVisitor<'_>,
    ) -> Result<()> {
        let mut shown = 0;
        let mut docs = FetchedRows::default();
        while shown < max && !left.is_empty() {
            let chunk = left.split_off(left.len().saturating_sub(FETCH_MAX.min(max - shown)));
            let keys: Vec<Vec<u8>> = chunk
                .iter()
                .rev()
                .map(|(id, _)| self.coll.key_of(id))
                .collect();
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            fetch(
                &self.view,
                self.coll.shared.engine.as_ref(),
                &wanted,
                &mut docs,
            )?;
            let mut stopped_at = None;
            for (n, ((key, value), (_, score))) in keys
                .iter()
                .zip(docs.iter())
                .zip(chunk.iter().rev())
                .enumerate()
            {
                // Skips a document that was deleted meanwhile.
                let Some(value) = value else { continue };
                let Some((header, doc)) = record::read(value) else {
                    return Err(error::corrupt(&format!("a record of {}", self.coll.ns())));
                };
                shown += 1;
                if self.view.has_lost(&self.coll)
                    || !f(Row {
                        key,
                        header,
                        doc,
                        score: *score,
                    })
                {
                    stopped_at = Some(n + 1);
                    break;
                }
            }
            if let Some(n) = stopped_at {
                left.extend(chunk.into_iter().rev().skip(n).rev());
                return Ok(());
            }
        }
        Ok(())
    }

    /// Index entries looked at so far.
    pub fn keys_examined(&self) -> u64 {
        self.examined
    }
}
