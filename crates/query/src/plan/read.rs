//! Running a plan: documents that match, copied into batches, or shown in place.

use super::row_extras::RowExtras;
use super::{Access, Plan};
use crate::pipeline::{Batch, Docs, MatchFilter, Rt};
use model::{Bump, Doc, Result};
use operators::{Cx, Env};
use std::sync::Arc;
use store::{Collection, IndexScan, Row, Scan};

/// Documents examined between two looks at the clock.
const STEP_DOCS: usize = 1024;

/// An open walk of any kind.
enum Walk {
    Nothing,
    Scan(Scan),
    Index(IndexScan),
    /// Encoded ids still to be read, last first.
    Ids(Vec<Vec<u8>>),
}

impl Walk {
    fn open(coll: &Arc<Collection>, plan: &Plan) -> Walk {
        match &plan.access {
            Access::Nothing => Walk::Nothing,
            Access::Collection { reverse } => Walk::Scan(coll.scan(*reverse)),
            Access::IdRange { lower, upper, reverse } => {
                Walk::Scan(coll.scan_keys(lower.as_deref(), upper.as_deref(), *reverse))
            }
            Access::Ids { ids, reverse } => {
                let mut ids = ids.clone();
                if !reverse {
                    ids.reverse();
                }
                Walk::Ids(ids)
            }
            Access::Index { intervals, reverse, .. } => match &plan.index {
                Some(index) => Walk::Index(coll.scan_index(index, intervals.clone(), *reverse)),
                None => Walk::Nothing,
            },
        }
    }

    fn visit(&mut self, coll: &Collection, max: usize, f: &mut store::scan::EachRow<'_>) -> Result<bool> {
        match self {
            Walk::Nothing => Ok(false),
            Walk::Scan(s) => s.visit(max, f),
            Walk::Index(i) => i.visit(max, f),
            Walk::Ids(ids) => {
                for _ in 0..max {
                    let Some(id) = ids.pop() else { return Ok(false) };
                    let mut go_on = true;
                    coll.get_encoded(&id, &mut |row| go_on = f(row))?;
                    if !go_on {
                        break;
                    }
                }
                coll.check_alive().map(|()| !ids.is_empty())
            }
        }
    }

    fn pause(&mut self) {
        match self {
            Walk::Scan(s) => s.pause(),
            Walk::Index(i) => i.pause(),
            Walk::Nothing | Walk::Ids(_) => {}
        }
    }
}

/// Shows each matching document in place; `each` returns false to stop.
///
/// # Errors
/// Those of the filter, of `each`, of the store; the operation's interrupt.
pub fn each_match(
    coll: &Arc<Collection>,
    plan: &Plan,
    filter: Option<&MatchFilter>,
    env: &Env,
    each: &mut dyn FnMut(Row<'_>) -> Result<bool>,
) -> Result<()> {
    let mut walk = Walk::open(coll, plan);
    let mut arena = Bump::new();
    let mut outcome: Result<bool> = Ok(true);
    loop {
        env.check_interrupt()?;
        let more = walk.visit(coll, STEP_DOCS, &mut |row| {
            arena.reset();
            outcome = matches(filter, row.doc, &arena, env).and_then(|m| if m { each(row) } else { Ok(true) });
            // The walk then says that the collection is gone.
            matches!(outcome, Ok(true)) && !coll.is_dropped()
        })?;
        match std::mem::replace(&mut outcome, Ok(true)) {
            Err(e) => return Err(e),
            Ok(false) => return Ok(()),
            Ok(true) if !more => return Ok(()),
            Ok(true) => {}
        }
    }
}

fn matches(filter: Option<&MatchFilter>, doc: Doc<'_>, arena: &Bump, env: &Env) -> Result<bool> {
    match filter {
        None => Ok(true),
        Some(f) if f.filter.is_always_true() => Ok(true),
        Some(f) => f.filter.matches_in(&Cx::new(arena, model::Value::Document(doc), env), doc),
    }
}

/// A plan as a source of batches.
pub struct PlanDocs {
    coll: Arc<Collection>,
    walk: Walk,
    filter: Option<Arc<MatchFilter>>,
    left: u64,
    /// Documents of the first batch: few, so that a client that wants one does not wait for many.
    target: usize,
    extras: Option<RowExtras>,
}

impl PlanDocs {
    /// Opens a plan; at most `limit` documents are given.
    pub fn new(coll: Arc<Collection>, plan: &Plan, filter: Option<Arc<MatchFilter>>, limit: Option<u64>) -> PlanDocs {
        PlanDocs { walk: Walk::open(&coll, plan), coll, filter, left: limit.unwrap_or(u64::MAX), target: 32, extras: None }
    }

    /// The same, each document with its record id and index key as metadata.
    pub fn with_extras(self, plan: &Plan) -> PlanDocs {
        PlanDocs { extras: Some(RowExtras::of(plan)), ..self }
    }

    /// A walk over a capped collection that goes on after its end, at later pulls, with what has come in since.
    pub fn tail(coll: Arc<Collection>, reverse: bool, filter: Option<Arc<MatchFilter>>, limit: Option<u64>) -> PlanDocs {
        PlanDocs { walk: Walk::Scan(coll.tail(reverse)), coll, filter, left: limit.unwrap_or(u64::MAX), target: 32, extras: None }
    }
}

impl Docs for PlanDocs {
    fn next_batch(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let (filter, target, mut left) = (self.filter.as_deref(), self.target as u64, self.left);
        let mut arena = Bump::new();
        let mut failed = None;
        let mut more = true;
        while more && failed.is_none() && (out.len() as u64) < target.min(left) && !out.is_full() {
            rt.env.check_interrupt()?;
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(STEP_DOCS);
            let (coll, extras) = (&self.coll, &self.extras);
            more = self.walk.visit(coll, want, &mut |row| {
                arena.reset();
                let fits = match filter {
                    Some(f) if !f.filter.is_always_true() => f.matches(rt, row.doc, &arena),
                    _ => Ok(true),
                };
                match fits {
                    Ok(true) => match extras {
                        None => out.push(row.doc),
                        Some(e) => out.push_with_meta(row.doc, Some(e.row(&row).doc())),
                    },
                    Ok(false) => {}
                    Err(e) => failed = Some(e),
                }
                failed.is_none() && (out.len() as u64) < target.min(left) && !out.is_full() && !coll.is_dropped()
            })?;
        }
        self.walk.pause();
        if let Some(e) = failed {
            return Err(e);
        }
        self.target = (self.target * 4).min(Batch::TARGET_DOCS);
        left -= out.len() as u64;
        self.left = left;
        Ok(more && left > 0)
    }
}
