//! Reads in order of distance: one ring after another is read, sorted and given. Must not know:
//! filters.

use super::steps::Steps;
use crate::plan::{NearMethod, NearPlan, Plan, Ring};
use model::{DocBuf, Result};
use operators::Env;
use std::sync::Arc;
use store::{Collection, Header, Index, IndexScan, ReadView, Row, RowVisitor};

/// Documents read between two looks at the clock.
const STEP_DOCS: usize = 1024;

/// Opens the scan of a plan.
pub(super) type OpenScan<S> = fn(&Arc<Collection>, &ReadView, &Plan, &Env) -> S;

/// Reads in order of distance: one ring after another is read, sorted and given. The documents of
/// one ring are kept in memory.
pub(super) struct NearScan<S> {
    coll: Arc<Collection>,
    view: ReadView,
    nearness: NearPlan,
    open: OpenScan<S>,
    /// Everything has been read.
    ended: bool,
    /// Documents read and not given yet, the farthest first.
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

impl<S: Steps> NearScan<S> {
    pub(super) fn new(
        coll: &Arc<Collection>,
        view: &ReadView,
        nearness: &NearPlan,
        open: OpenScan<S>,
    ) -> NearScan<S> {
        NearScan {
            coll: coll.clone(),
            view: view.clone(),
            nearness: nearness.clone(),
            open,
            ended: false,
            rows: Vec::new(),
            keys: 0,
        }
    }

    pub(super) fn visit(&mut self, env: &Env, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
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

    pub(super) fn keys_examined(&self) -> u64 {
        self.keys
    }

    /// Reads the next ring, or everything if the plan has no rings.
    fn read(&mut self, env: &Env) -> Result<()> {
        let rings = match &mut self.nearness.by {
            NearMethod::Rings(rings) => rings,
            NearMethod::Whole(plan) => {
                let scan = (self.open)(&self.coll, &self.view, plan, env);
                self.ended = true;
                return self.read_scan(env, scan, 0.0, f64::INFINITY);
            }
        };
        let Some(ring) = rings.next(&self.nearness.near) else {
            self.ended = true;
            return Ok(());
        };
        let (from, to) = (ring.from, ring.to);
        let index = rings.index().clone();
        let scan = self.scan(&index, ring);
        match self.read_scan(env, scan, from, to) {
            // The first shape other than a point was inserted since the ring was planned.
            Err(e) if Collection::is_gone(&e) => {
                let NearMethod::Rings(rings) = &self.nearness.by else {
                    return Err(e);
                };
                let again = rings.next(&self.nearness.near).ok_or(e)?;
                let scan = self.scan(&index, again);
                self.read_scan(env, scan, from, to)?;
            }
            read => read?,
        }
        self.ended = to == f64::INFINITY;
        if let NearMethod::Rings(rings) = &mut self.nearness.by {
            rings.advance(self.rows.len());
        }
        Ok(())
    }

    fn scan(&self, index: &Arc<Index>, ring: Ring) -> IndexScan {
        let (coll, view) = (&self.coll, &self.view);
        coll.scan_index(view, index, ring.multikey, ring.intervals, false)
    }

    /// Keeps documents at a distance of at least `from` and less than `to`.
    fn read_scan(&mut self, env: &Env, mut scan: impl Steps, from: f64, to: f64) -> Result<()> {
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
        // Of documents at the same distance the first read comes first.
        self.rows.reverse();
        self.rows.sort_by(|a, b| b.distance.total_cmp(&a.distance));
        Ok(())
    }
}
