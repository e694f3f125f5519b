//! Executes an access path: shows rows in place, in steps. Must not know: filters.

use super::near::NearScan;
use super::steps::Steps;
use super::union::{Branch, UnionScan};
use crate::meter::open_read;
use crate::plan::{Access, Plan};
use model::Result;
use operation::AccessPath;
use operators::Env;
use std::sync::Arc;
use store::{
    Collection, IndexScan, ReadView, RowVisitor, Scan, SeriesScan, TermsScan, WantedFields,
};

/// The open scan of an access path.
pub(super) enum PlanScan {
    Nothing,
    Records(Scan),
    Series(Box<SeriesScan>),
    Index(IndexScan),
    /// One scan of a union. Its index entries have all wanted fields.
    Covered {
        scan: IndexScan,
        wanted: Arc<WantedFields>,
        read: u64,
    },
    /// Encoded ids. Those before `at` have been read (for a reverse scan, `at` counts from the
    /// end).
    Ids {
        ids: Arc<Vec<Vec<u8>>>,
        at: usize,
        reverse: bool,
        view: ReadView,
    },
    Union(Box<UnionScan<PlanScan>>),
    Terms(TermsScan),
    Near(Box<NearScan<PlanScan>>),
}

impl PlanScan {
    pub(super) fn open(
        coll: &Arc<Collection>,
        view: &ReadView,
        plan: &Plan,
        env: &Env,
    ) -> PlanScan {
        // For a union the branches are opened next.
        if !matches!(plan.access, Access::Union { .. }) {
            open_read(env, || path_of(plan));
        }
        if let Some(scan) = series(coll, view, plan) {
            return PlanScan::Series(Box::new(scan));
        }
        if matches!(plan.access, Access::Ids { .. } | Access::IdRange { .. }) {
            coll.id_usage().add();
        }
        match &plan.access {
            Access::Nothing => PlanScan::Nothing,
            Access::Collection { reverse } => {
                PlanScan::Records(all_records(coll, view, plan, *reverse))
            }
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
            Access::Ids { ids, reverse } => PlanScan::Ids {
                ids: ids.clone(),
                at: 0,
                reverse: *reverse,
                view: view.clone(),
            },
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
            Access::Near(nearness) => PlanScan::Near(Box::new(NearScan::new(
                coll,
                view,
                nearness,
                PlanScan::open,
            ))),
            Access::Text { terms } => match (&plan.index, terms.as_slice()) {
                (Some(index), [one]) => PlanScan::Index(coll.scan_index(
                    view,
                    index,
                    plan.multikey,
                    Arc::new(vec![one.clone()]),
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
            } => {
                let branches = branches.iter().map(|p| open_branch(coll, view, p, env));
                let branches = branches.collect();
                PlanScan::Union(Box::new(UnionScan::new(branches, merge.clone(), *disjoint)))
            }
        }
    }
}

/// Opens one of the plans of a union.
fn open_branch(
    coll: &Arc<Collection>,
    view: &ReadView,
    plan: &Plan,
    env: &Env,
) -> Branch<PlanScan> {
    let scan = PlanScan::open(coll, view, plan, env).cover(plan.covered.clone());
    Branch::new(scan, reads_ids(coll, plan))
}

impl PlanScan {
    /// The same scan, showing fields from entries if some are wanted.
    fn cover(self, wanted: Option<Arc<WantedFields>>) -> PlanScan {
        match (self, wanted) {
            (PlanScan::Index(scan), Some(wanted)) => PlanScan::Covered {
                scan,
                wanted,
                read: 0,
            },
            (scan, _) => scan,
        }
    }
}

/// A scan of all documents, or of the part of the log that a plan reads.
fn all_records(coll: &Arc<Collection>, view: &ReadView, plan: &Plan, reverse: bool) -> Scan {
    match plan.times {
        Some((first, last)) => coll.scan_log(view, first, last, reverse, false),
        None if plan.any_order => coll.scan_any_order(view),
        None => coll.scan(view, reverse),
    }
}

impl Steps for PlanScan {
    fn visit(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool> {
        match self {
            PlanScan::Nothing => Ok(false),
            PlanScan::Records(s) => s.visit(max, f),
            PlanScan::Series(s) => s.visit(max, f),
            PlanScan::Index(i) => i.visit(max, f),
            PlanScan::Covered { scan, wanted, read } => scan.visit_covered(wanted, max, read, f),
            PlanScan::Union(u) => u.visit(coll, env, max, f),
            PlanScan::Near(n) => n.visit(env, max, f),
            PlanScan::Terms(t) => t.visit(max, &|| env.check_interrupt(), f),
            PlanScan::Ids {
                ids,
                at,
                reverse,
                view,
            } => {
                let next: Vec<&[u8]> = match reverse {
                    true => ids
                        .iter()
                        .rev()
                        .skip(*at)
                        .take(max)
                        .map(Vec::as_slice)
                        .collect(),
                    false => ids.iter().skip(*at).take(max).map(Vec::as_slice).collect(),
                };
                *at += coll.get_encoded(view, &next, f)?;
                Ok(*at < ids.len())
            }
        }
    }

    fn pause(&mut self) {
        match self {
            PlanScan::Records(s) => s.pause(),
            PlanScan::Series(s) => s.pause(),
            PlanScan::Index(scan) | PlanScan::Covered { scan, .. } => scan.pause(),
            PlanScan::Union(u) => u.pause(),
            PlanScan::Nothing | PlanScan::Ids { .. } | PlanScan::Terms(_) | PlanScan::Near(_) => {}
        }
    }

    fn documents_read(&self) -> Option<u64> {
        match self {
            PlanScan::Covered { read, .. } => Some(*read),
            PlanScan::Union(u) => u.documents_read(),
            _ => None,
        }
    }

    fn keys_examined(&self) -> u64 {
        match self {
            PlanScan::Index(scan) | PlanScan::Covered { scan, .. } => scan.keys_examined(),
            PlanScan::Union(u) => u.keys_examined(),
            PlanScan::Terms(t) => t.keys_examined(),
            PlanScan::Near(n) => n.keys_examined(),
            PlanScan::Series(s) => s.counts().keys,
            PlanScan::Nothing | PlanScan::Records(_) | PlanScan::Ids { .. } => 0,
        }
    }
}

/// The access path of a plan, as the operation's summary shows it.
fn path_of(plan: &Plan) -> AccessPath {
    match (&plan.access, &plan.index) {
        (Access::Collection { .. }, _) => AccessPath::Collection,
        (Access::IdRange { .. } | Access::Ids { .. }, _) => AccessPath::IdRange,
        (Access::Index { .. }, Some(index)) => AccessPath::Index(index.clone()),
        (Access::Text { .. }, Some(index)) => AccessPath::Text(index.clone()),
        _ => AccessPath::Nothing,
    }
}

/// Whether a client sees the documents of a plan as entries of the `_id` index. In a clustered
/// collection only a document read by a single `_id` counts so.
pub(super) fn reads_ids(coll: &Collection, plan: &Plan) -> bool {
    match &plan.access {
        Access::Ids { ids, .. } if ids.len() == 1 && plan.complete => true,
        Access::Ids { .. } | Access::IdRange { .. } => !is_clustered(coll),
        _ => false,
    }
}

/// The collection is clustered: the client asked for documents in the order of `_id`.
pub(super) fn is_clustered(coll: &Collection) -> bool {
    coll.options().doc().contains("clusteredIndex")
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
