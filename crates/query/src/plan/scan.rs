//! Executing an access path: rows shown in place, in steps. Must not know: filters.

use super::access::{Access, NearBy, Nearness, Plan};
use super::rings::Ring;
use crate::examined;
use crate::exec::SortPattern;
use model::{Doc, DocBuf, Result};
use operators::Env;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{
    Collection, EachRow, Header, Index, IndexScan, ReadView, Row, Scan, SeriesScan, TermsScan,
};

/// Documents that a read from near to far reads between two looks at the clock.
const STEP_DOCS: usize = 1024;
/// Rows a branch of a merge reads ahead.
const AHEAD: usize = 8;

/// The open scan of an access path.
pub(super) enum PlanScan {
    Nothing,
    Records(Scan),
    Series(Box<SeriesScan>),
    Index(IndexScan),
    /// Encoded ids still to be read, last first.
    Ids {
        ids: Vec<Vec<u8>>,
        view: ReadView,
    },
    Union(Box<UnionScan>),
    Terms(TermsScan),
    Near(Box<NearScan>),
}

impl PlanScan {
    pub(super) fn open(coll: &Arc<Collection>, view: &ReadView, plan: &Plan) -> PlanScan {
        examined::opened(plan);
        if let Some(scan) = series(coll, view, plan) {
            return PlanScan::Series(Box::new(scan));
        }
        match &plan.access {
            Access::Nothing => PlanScan::Nothing,
            Access::Collection { reverse } => PlanScan::Records(match plan.times {
                Some(times) => coll.scan_log(view, times, *reverse, false),
                None => coll.scan(view, *reverse),
            }),
            Access::IdRange {
                lower,
                upper,
                reverse,
            } => PlanScan::Records(coll.scan_keys(
                view,
                lower.as_deref(),
                upper.as_deref(),
                *reverse,
            )),
            Access::Ids { ids, reverse } => {
                let mut ids = ids.clone();
                if !reverse {
                    ids.reverse();
                }
                PlanScan::Ids {
                    ids,
                    view: view.clone(),
                }
            }
            Access::Index {
                intervals, reverse, ..
            } => match &plan.index {
                Some(index) => PlanScan::Index(coll.scan_index(
                    view,
                    index,
                    plan.multikey,
                    intervals.clone(),
                    *reverse,
                )),
                None => PlanScan::Nothing,
            },
            Access::Near(nearness) => {
                PlanScan::Near(Box::new(NearScan::open(coll, view, nearness)))
            }
            Access::Text { terms } => match (&plan.index, terms.as_slice()) {
                (Some(index), [one]) => PlanScan::Index(coll.scan_index(
                    view,
                    index,
                    plan.multikey,
                    vec![one.clone()],
                    false,
                )),
                (Some(index), several) => {
                    PlanScan::Terms(coll.scan_terms(view, index, several.to_vec()))
                }
                (None, _) => PlanScan::Nothing,
            },
            Access::Union {
                branches,
                merge,
                disjoint,
            } => PlanScan::Union(Box::new(UnionScan::open(
                coll,
                view,
                branches,
                merge.as_ref(),
                *disjoint,
            ))),
        }
    }

    pub(super) fn visit(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut EachRow<'_>,
    ) -> Result<bool> {
        match self {
            PlanScan::Nothing => Ok(false),
            PlanScan::Records(s) => s.visit(max, f),
            PlanScan::Series(s) => s.visit(max, f),
            PlanScan::Index(i) => i.visit(max, f),
            PlanScan::Union(u) => u.visit(coll, env, max, f),
            PlanScan::Near(n) => n.visit(env, max, f),
            PlanScan::Terms(t) => t.visit(max, &|| env.check_interrupt(), f),
            PlanScan::Ids { ids, view } => {
                let next: Vec<&[u8]> = ids.iter().rev().take(max).map(Vec::as_slice).collect();
                let looked = coll.get_encoded(view, &next, f)?;
                ids.truncate(ids.len() - looked);
                Ok(!ids.is_empty())
            }
        }
    }

    pub(super) fn pause(&mut self) {
        match self {
            PlanScan::Records(s) => s.pause(),
            PlanScan::Series(s) => s.pause(),
            PlanScan::Index(i) => i.pause(),
            PlanScan::Union(u) => u.pause(),
            PlanScan::Nothing | PlanScan::Ids { .. } | PlanScan::Terms(_) | PlanScan::Near(_) => {}
        }
    }

    /// Index entries looked at so far.
    pub(super) fn keys_examined(&self) -> u64 {
        match self {
            PlanScan::Index(i) => i.keys_examined(),
            PlanScan::Union(u) => u.keys_examined(),
            PlanScan::Terms(t) => t.keys_examined(),
            PlanScan::Near(n) => n.keys_examined(),
            PlanScan::Series(s) => s.counts().keys,
            PlanScan::Nothing | PlanScan::Records(_) | PlanScan::Ids { .. } => 0,
        }
    }
}

/// The scan of a time-series collection.
fn series(coll: &Arc<Collection>, view: &ReadView, plan: &Plan) -> Option<SeriesScan> {
    let read = plan.series.clone()?;
    let by = match (&plan.access, &plan.index) {
        (Access::Nothing, _) => return None,
        (Access::Index { intervals, .. }, Some(index)) => {
            let intervals = intervals.clone();
            Some(coll.scan_index(view, index, plan.multikey, intervals, false))
        }
        _ => None,
    };
    coll.scan_series(view, read, by)
}

/// A row read ahead.
struct Ahead {
    key: Vec<u8>,
    header: Header,
    doc: Vec<u8>,
    /// The sort key, whose bytes compare as the order does.
    sort_key: Vec<u8>,
    score: f64,
}

struct Branch {
    scan: PlanScan,
    ahead: VecDeque<Ahead>,
    more: bool,
}

/// The scans of a union, one after another or merged by its order.
pub(super) struct UnionScan {
    branches: Vec<Branch>,
    merge: Option<Arc<SortPattern>>,
    at: usize,
    seen: Option<FxHashSet<Vec<u8>>>,
}

impl UnionScan {
    pub(super) fn open(
        coll: &Arc<Collection>,
        view: &ReadView,
        branches: &[Plan],
        merge: Option<&Arc<SortPattern>>,
        disjoint: bool,
    ) -> UnionScan {
        let branches = branches
            .iter()
            .map(|p| Branch {
                scan: PlanScan::open(coll, view, p),
                ahead: VecDeque::new(),
                more: true,
            })
            .collect();
        UnionScan {
            branches,
            merge: merge.cloned(),
            at: 0,
            seen: (!disjoint).then(FxHashSet::default),
        }
    }

    pub(super) fn visit(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut EachRow<'_>,
    ) -> Result<bool> {
        match self.merge.clone() {
            Some(order) => self.visit_merged(coll, env, &order, max, f),
            None => self.visit_in_turn(coll, env, max, f),
        }
    }

    fn visit_in_turn(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut EachRow<'_>,
    ) -> Result<bool> {
        let mut shown = 0;
        let seen = &mut self.seen;
        while let Some(branch) = self.branches.get_mut(self.at) {
            let mut stopped = false;
            let more = branch.scan.visit(coll, env, max - shown, &mut |row| {
                if seen.as_mut().is_some_and(|s| !s.insert(row.key.to_vec())) {
                    return true;
                }
                shown += 1;
                stopped = !f(row);
                !stopped && shown < max
            })?;
            if !more {
                branch.scan.pause();
                self.at += 1;
            }
            if stopped || shown >= max {
                break;
            }
        }
        Ok(self.at < self.branches.len())
    }

    fn visit_merged(
        &mut self,
        coll: &Collection,
        env: &Env,
        order: &SortPattern,
        max: usize,
        f: &mut EachRow<'_>,
    ) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            for b in self
                .branches
                .iter_mut()
                .filter(|b| b.more && b.ahead.is_empty())
            {
                b.fill(coll, env, order)?;
            }
            let Some(next) = least(&self.branches) else {
                return Ok(false);
            };
            let Some(row) = self
                .branches
                .get_mut(next)
                .and_then(|b| b.ahead.pop_front())
            else {
                return Ok(false);
            };
            if self
                .seen
                .as_mut()
                .is_some_and(|s| !s.insert(row.key.clone()))
            {
                continue;
            }
            shown += 1;
            let doc = Doc::new(&row.doc).unwrap_or(Doc::EMPTY);
            if !f(Row {
                key: &row.key,
                header: row.header,
                doc,
                score: row.score,
            }) {
                break;
            }
        }
        Ok(self.branches.iter().any(|b| b.more || !b.ahead.is_empty()))
    }

    pub(super) fn keys_by_branch(&self) -> Vec<u64> {
        self.branches
            .iter()
            .map(|b| b.scan.keys_examined())
            .collect()
    }

    pub(super) fn keys_examined(&self) -> u64 {
        self.branches.iter().map(|b| b.scan.keys_examined()).sum()
    }

    pub(super) fn pause(&mut self) {
        self.branches.iter_mut().for_each(|b| b.scan.pause());
    }
}

impl Branch {
    fn fill(&mut self, coll: &Collection, env: &Env, order: &SortPattern) -> Result<()> {
        let mut failed = None;
        while self.more && self.ahead.is_empty() && failed.is_none() {
            let ahead = &mut self.ahead;
            self.more = self.scan.visit(coll, env, AHEAD, &mut |row| {
                let mut key = Vec::new();
                if let Err(e) = order.key_into(row.doc, None, env, &mut key) {
                    failed = Some(e);
                    return false;
                }
                ahead.push_back(Ahead {
                    key: row.key.to_vec(),
                    header: row.header,
                    doc: row.doc.as_bytes().to_vec(),
                    sort_key: key,
                    score: row.score,
                });
                true
            })?;
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The branch whose next row comes first; of equal ones the first.
fn least(branches: &[Branch]) -> Option<usize> {
    let heads = branches
        .iter()
        .enumerate()
        .filter_map(|(i, b)| Some((i, &b.ahead.front()?.sort_key)));
    heads.min_by(|(_, a), (_, b)| a.cmp(b)).map(|(i, _)| i)
}

/// Reads from near to far: a ring is read, sorted and shown before the next. What a ring holds is
/// kept in memory.
pub(super) struct NearScan {
    coll: Arc<Collection>,
    view: ReadView,
    nearness: Nearness,
    /// Nothing is left to be read.
    ended: bool,
    /// What was read and not shown yet, the farthest first.
    rows: Vec<NearRow>,
    keys: u64,
}

struct NearRow {
    distance: f64,
    key: Vec<u8>,
    header: Header,
    doc: DocBuf,
    score: f64,
}

impl NearScan {
    fn open(coll: &Arc<Collection>, view: &ReadView, nearness: &Nearness) -> NearScan {
        NearScan {
            coll: coll.clone(),
            view: view.clone(),
            nearness: nearness.clone(),
            ended: false,
            rows: Vec::new(),
            keys: 0,
        }
    }

    fn visit(&mut self, env: &Env, max: usize, f: &mut EachRow<'_>) -> Result<bool> {
        let mut shown = 0;
        loop {
            while shown < max
                && let Some(row) = self.rows.pop()
            {
                shown += 1;
                let goes_on = f(Row {
                    key: &row.key,
                    header: row.header,
                    doc: row.doc.doc(),
                    score: row.score,
                });
                if !goes_on {
                    shown = max;
                }
            }
            if shown >= max || self.ended {
                return Ok(!self.ended || !self.rows.is_empty());
            }
            self.read(env)?;
        }
    }

    fn keys_examined(&self) -> u64 {
        self.keys
    }

    /// Reads the next ring, or everything.
    fn read(&mut self, env: &Env) -> Result<()> {
        let rings = match &mut self.nearness.by {
            NearBy::Rings(rings) => rings,
            NearBy::Whole(plan) => {
                let scan = PlanScan::open(&self.coll, &self.view, plan);
                self.ended = true;
                return self.read_scan(env, scan, (0.0, f64::INFINITY));
            }
        };
        let Some(ring) = rings.next(&self.nearness.near) else {
            self.ended = true;
            return Ok(());
        };
        let limits = (ring.from, ring.to);
        let index = rings.index().clone();
        let scan = self.scan(&index, ring);
        match self.read_scan(env, scan, limits) {
            // The first shape beside points has come in since the ring was planned.
            Err(e) if Collection::is_gone(&e) => {
                let NearBy::Rings(rings) = &self.nearness.by else {
                    return Err(e);
                };
                let again = rings.next(&self.nearness.near).ok_or(e)?;
                let scan = self.scan(&index, again);
                self.read_scan(env, scan, limits)?;
            }
            read => read?,
        }
        self.ended = limits.1 == f64::INFINITY;
        if let NearBy::Rings(rings) = &mut self.nearness.by {
            rings.done(self.rows.len());
        }
        Ok(())
    }

    fn scan(&self, index: &Arc<Index>, ring: Ring) -> PlanScan {
        let (coll, view) = (&self.coll, &self.view);
        PlanScan::Index(coll.scan_index(view, index, ring.multikey, ring.intervals, false))
    }

    /// Keeps what lies from the first distance on and nearer than the second.
    fn read_scan(&mut self, env: &Env, mut scan: PlanScan, (from, to): (f64, f64)) -> Result<()> {
        self.rows.clear();
        let (path, near) = (&self.nearness.path, &self.nearness.near);
        let (rows, mut more) = (&mut self.rows, true);
        while more {
            env.check_interrupt()?;
            more = scan.visit(&self.coll, env, STEP_DOCS, &mut |row| {
                let distance = near.least(path, row.doc);
                let inside = |d: &f64| from <= *d && (*d < to || to == f64::INFINITY);
                if let Some(distance) = distance.filter(inside) {
                    rows.push(NearRow {
                        distance,
                        key: row.key.to_vec(),
                        header: row.header,
                        doc: row.doc.to_buf(),
                        score: row.score,
                    });
                }
                true
            })?;
        }
        self.keys += scan.keys_examined();
        // Of equally far ones the first that was read comes first.
        self.rows.reverse();
        self.rows.sort_by(|a, b| b.distance.total_cmp(&a.distance));
        Ok(())
    }
}
