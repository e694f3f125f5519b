//! A `find`: filter, order, skip, limit and projection over one collection, as a chain of pull operators.

use crate::near;
use crate::pipeline::{Batch, Docs, MatchFilter, Rt};
use crate::plan::{Hint, Plan, PlanDocs, Want, choose};
use crate::rows::Run;
use crate::stages::sort::sort_all;
use crate::stages::sort_pattern::SortPattern;
use model::{Bump, DocBuf, Result};
use operators::project::Projection;
use std::sync::Arc;
use store::Collection;

/// A parsed find.
pub struct Find {
    /// Documents wanted.
    pub filter: Arc<MatchFilter>,
    /// Their order.
    pub sort: Option<SortPattern>,
    /// Left out at the beginning.
    pub skip: u64,
    /// At most this many.
    pub limit: Option<u64>,
    /// What of them.
    pub projection: Option<Projection>,
    /// How to read.
    pub hint: Option<Hint>,
    /// Collation as the client wrote it.
    pub collation: Option<DocBuf>,
}

impl Find {
    /// Chooses how to read.
    ///
    /// # Errors
    /// 2 for a hint that names no index.
    pub fn plan(&self, coll: &Collection) -> Result<Plan> {
        let want = Want {
            filter: Some(&self.filter),
            sort: self.sort.as_ref(),
            hint: self.hint.as_ref(),
            collation: self.collation.as_ref().map(DocBuf::doc),
        };
        choose(coll, &want)
    }

    /// Opens the chain.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn open(self: &Arc<Self>, coll: Arc<Collection>) -> Result<Box<dyn Docs>> {
        let plan = self.plan(&coll)?;
        let sorted = plan.sorted || self.sort.is_none();
        let wanted = self.limit.map(|n| n.saturating_add(self.skip));
        let near = self.filter.filter.near().is_some();
        if near {
            near::check_index(&self.filter, &coll)?;
        }
        let source = PlanDocs::new(coll, &plan, Some(self.filter.clone()), wanted.filter(|_| sorted && !near));
        let source: Box<dyn Docs> = match near && self.sort.is_none() {
            true => Box::new(near::NearDocs::new(Box::new(source), self.filter.clone())),
            false => Box::new(source),
        };
        Ok(Box::new(FindDocs {
            find: self.clone(),
            source,
            sort: (!sorted).then_some(None),
            skip: self.skip,
            left: self.limit.unwrap_or(u64::MAX),
            scratch: Batch::new(),
        }))
    }
}

struct FindDocs {
    find: Arc<Find>,
    source: Box<dyn Docs>,
    /// `Some(None)` before and `Some(Some)` after sorting, when the source is not in order.
    sort: Option<Option<Run>>,
    skip: u64,
    left: u64,
    scratch: Batch,
}

impl FindDocs {
    fn pull(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        let Some(run) = &mut self.sort else { return self.source.next_batch(rt, out) };
        let Some(pattern) = &self.find.sort else { return Ok(false) };
        let run = match run {
            Some(run) => run,
            none => {
                let keep = self.find.limit.map(|n| n.saturating_add(self.find.skip));
                none.insert(sort_all(pattern, keep, self.source.as_mut(), rt)?)
            }
        };
        run.next_batch(pattern, rt.env.collate(), out)
    }
}

impl Docs for FindDocs {
    fn next_batch(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let mut raw = std::mem::take(&mut self.scratch);
        let projected = self.find.projection.is_some();
        let target = if projected { &mut raw } else { &mut *out };
        target.clear();
        let more = self.pull(rt, target)?;
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(target.len());
        target.drop_front(skipped);
        self.skip -= skipped as u64;
        target.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= target.len() as u64;
        if let Some(p) = &self.find.projection {
            let mut arena = Bump::new();
            for doc in raw.iter() {
                arena.reset();
                let cx = rt.cx(&arena, doc);
                let position = match p.needs_position() {
                    true => self.find.filter.filter.matches_with_position(doc, &arena, rt.env)?.1,
                    false => None,
                };
                out.push(p.apply_at(&cx, doc, position)?);
            }
        }
        self.scratch = raw;
        Ok(more && self.left > 0)
    }
}
