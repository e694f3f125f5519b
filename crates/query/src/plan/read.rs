//! Running a plan: documents that match, copied into batches, or shown in place.

use super::row_extras::RowExtras;
use super::union::UnionWalk;
use super::{Access, Plan};
use crate::pipeline::{Batch, Docs, MatchFilter, Rt};
use model::{Bump, Doc, Result};
use operators::{Cx, Env};
use std::sync::Arc;
use store::{Collection, IndexScan, ReadView, Row, Scan, TermsScan};

/// Documents examined between two looks at the clock.
const STEP_DOCS: usize = 1024;

/// An open walk of any kind.
pub(super) enum Walk {
    Nothing,
    Scan(Scan),
    Index(IndexScan),
    /// Encoded ids still to be read, last first.
    Ids {
        ids: Vec<Vec<u8>>,
        view: ReadView,
    },
    Union(Box<UnionWalk>),
    Terms(TermsScan),
}

impl Walk {
    pub(super) fn open(coll: &Arc<Collection>, view: &ReadView, plan: &Plan) -> Walk {
        match &plan.access {
            Access::Nothing => Walk::Nothing,
            Access::Collection { reverse } => Walk::Scan(coll.scan(view, *reverse)),
            Access::IdRange {
                lower,
                upper,
                reverse,
            } => Walk::Scan(coll.scan_keys(view, lower.as_deref(), upper.as_deref(), *reverse)),
            Access::Ids { ids, reverse } => {
                let mut ids = ids.clone();
                if !reverse {
                    ids.reverse();
                }
                Walk::Ids {
                    ids,
                    view: view.clone(),
                }
            }
            Access::Index {
                intervals, reverse, ..
            } => match &plan.index {
                Some(index) => Walk::Index(coll.scan_index(
                    view,
                    index,
                    plan.multikey,
                    intervals.clone(),
                    *reverse,
                )),
                None => Walk::Nothing,
            },
            Access::Text { terms } => match (&plan.index, terms.as_slice()) {
                (Some(index), [one]) => Walk::Index(coll.scan_index(
                    view,
                    index,
                    plan.multikey,
                    vec![one.clone()],
                    false,
                )),
                (Some(index), several) => {
                    Walk::Terms(coll.scan_terms(view, index, several.to_vec()))
                }
                (None, _) => Walk::Nothing,
            },
            Access::Union {
                branches,
                merge,
                disjoint,
            } => Walk::Union(Box::new(UnionWalk::open(
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
        f: &mut store::EachRow<'_>,
    ) -> Result<bool> {
        match self {
            Walk::Nothing => Ok(false),
            Walk::Scan(s) => s.visit(max, f),
            Walk::Index(i) => i.visit(max, f),
            Walk::Union(u) => u.visit(coll, env, max, f),
            Walk::Terms(t) => t.visit(max, &|| env.check_interrupt(), f),
            Walk::Ids { ids, view } => {
                let next: Vec<&[u8]> = ids.iter().rev().take(max).map(Vec::as_slice).collect();
                let looked = coll.get_encoded(view, &next, f)?;
                ids.truncate(ids.len() - looked);
                Ok(!ids.is_empty())
            }
        }
    }

    pub(super) fn pause(&mut self) {
        match self {
            Walk::Scan(s) => s.pause(),
            Walk::Index(i) => i.pause(),
            Walk::Union(u) => u.pause(),
            Walk::Nothing | Walk::Ids { .. } | Walk::Terms(_) => {}
        }
    }

    /// Index entries looked at so far.
    pub(super) fn keys_examined(&self) -> u64 {
        match self {
            Walk::Index(i) => i.keys_examined(),
            Walk::Union(u) => u.keys_examined(),
            Walk::Terms(t) => t.keys_examined(),
            Walk::Nothing | Walk::Scan(_) | Walk::Ids { .. } => 0,
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
    let mut walk = Walk::open(coll, &plan.view, plan);
    let filter = filter.filter(|_| !plan.complete);
    let mut arena = Bump::new();
    let mut outcome: Result<bool> = Ok(true);
    loop {
        env.check_interrupt()?;
        let more = walk.visit(coll, env, STEP_DOCS, &mut |row| {
            arena.reset();
            outcome = matches(filter, row.doc, &arena, env)
                .and_then(|m| if m { each(row) } else { Ok(true) });
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

/// How many documents match, counted no further than `most`. An index whose bounds say all the
/// filter says is counted without reading documents.
///
/// # Errors
/// As [`each_match`].
pub fn count_matches(
    coll: &Arc<Collection>,
    plan: &Plan,
    filter: Option<&MatchFilter>,
    env: &Env,
    most: u64,
) -> Result<u64> {
    let mut found = 0u64;
    if !(plan.complete && matches!(plan.access, Access::Index { .. })) {
        each_match(coll, plan, filter, env, &mut |_| {
            found += 1;
            Ok(found < most)
        })?;
        return Ok(found);
    }
    let Walk::Index(mut walk) = Walk::open(coll, &plan.view, plan) else {
        return Ok(0);
    };
    loop {
        env.check_interrupt()?;
        let more = walk.visit_entries(STEP_DOCS, &mut |_, _| {
            found += 1;
            found < most
        })?;
        if !more || found >= most {
            return Ok(found);
        }
    }
}

fn matches(filter: Option<&MatchFilter>, doc: Doc<'_>, arena: &Bump, env: &Env) -> Result<bool> {
    match filter {
        None => Ok(true),
        Some(f) if f.filter.is_always_true() => Ok(true),
        Some(f) => f
            .filter
            .matches_in(&Cx::new(arena, model::Value::Document(doc), env), doc),
    }
}

/// What of a document is handed on.
enum Carry {
    Whole,
    /// These top-level fields.
    Fields(Vec<String>),
    /// An empty document for each index entry.
    Entries,
}

impl Carry {
    fn push(&self, doc: Doc<'_>, out: &mut Batch) {
        match self {
            Carry::Whole => out.push(doc),
            Carry::Entries => out.push(Doc::EMPTY),
            Carry::Fields(names) => out.build(None, |w| {
                let mut left = names.len();
                for e in doc.elements() {
                    if left == 0 {
                        break;
                    }
                    if names.iter().any(|n| n.as_bytes() == e.name) {
                        w.put_element(&e);
                        left -= 1;
                    }
                }
            }),
        }
    }
}

/// A plan as a source of batches.
pub struct PlanDocs {
    coll: Arc<Collection>,
    walk: Walk,
    filter: Option<Arc<MatchFilter>>,
    left: u64,
    carry: Carry,
    /// Documents of the first batch: few, so that a client that wants one does not wait for many.
    target: usize,
    extras: Option<RowExtras>,
}

impl PlanDocs {
    /// Opens a plan; at most `limit` documents are given.
    pub fn new(
        coll: Arc<Collection>,
        plan: &Plan,
        filter: Option<Arc<MatchFilter>>,
        limit: Option<u64>,
    ) -> PlanDocs {
        let extras = RowExtras::scores(plan, filter.as_ref());
        let filter = filter.filter(|f| !plan.complete && !f.filter.is_always_true());
        let (walk, left) = (
            Walk::open(&coll, &plan.view, plan),
            limit.unwrap_or(u64::MAX),
        );
        PlanDocs {
            walk,
            coll,
            filter,
            left,
            carry: Carry::Whole,
            target: 32,
            extras,
        }
    }

    /// Only these top-level fields are needed of each document. With none at all, documents behind
    /// index entries are not read.
    #[must_use]
    pub fn carrying(mut self, fields: Vec<String>) -> PlanDocs {
        let entries = fields.is_empty()
            && self.filter.is_none()
            && self.extras.is_none()
            && matches!(self.walk, Walk::Index(_));
        self.carry = if entries {
            Carry::Entries
        } else {
            Carry::Fields(fields)
        };
        self
    }

    /// The same, each document with its record id and index key as metadata.
    #[must_use]
    pub fn with_extras(self, plan: &Plan) -> PlanDocs {
        PlanDocs {
            extras: Some(RowExtras::of(plan, self.extras)),
            ..self
        }
    }

    /// A walk over a capped collection that goes on after its end, at later pulls, with what has
    /// come in since.
    pub fn tail(
        coll: Arc<Collection>,
        reverse: bool,
        filter: Option<Arc<MatchFilter>>,
        limit: Option<u64>,
    ) -> PlanDocs {
        let (walk, left) = (Walk::Scan(coll.tail(reverse)), limit.unwrap_or(u64::MAX));
        PlanDocs {
            walk,
            coll,
            filter,
            left,
            carry: Carry::Whole,
            target: 32,
            extras: None,
        }
    }

    fn next_entries(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        rt.env.check_interrupt()?;
        let Walk::Index(walk) = &mut self.walk else {
            return Ok(false);
        };
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(Batch::TARGET_DOCS);
        let more = walk.visit_entries(want, &mut |_, _| {
            out.push(Doc::EMPTY);
            true
        })?;
        walk.pause();
        self.left -= out.len() as u64;
        Ok(more && self.left > 0)
    }
}

impl Docs for PlanDocs {
    fn next_batch(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        if let Carry::Entries = self.carry {
            return self.next_entries(rt, out);
        }
        let carry = &self.carry;
        let (filter, target, mut left) = (self.filter.as_deref(), self.target as u64, self.left);
        let mut arena = Bump::new();
        let mut failed = None;
        let mut more = true;
        while more && failed.is_none() && (out.len() as u64) < target.min(left) && !out.is_full() {
            rt.env.check_interrupt()?;
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(STEP_DOCS);
            let (coll, extras) = (&self.coll, &self.extras);
            more = self.walk.visit(coll, rt.env, want, &mut |row| {
                arena.reset();
                let fits = match filter {
                    Some(f) => f.matches(rt, row.doc, &arena),
                    None => Ok(true),
                };
                match fits {
                    Ok(true) => match extras {
                        None => carry.push(row.doc, out),
                        Some(e) => out.push_with_meta(row.doc, Some(e.row(&row).doc())),
                    },
                    Ok(false) => {}
                    Err(e) => failed = Some(e),
                }
                failed.is_none()
                    && (out.len() as u64) < target.min(left)
                    && !out.is_full()
                    && !coll.is_dropped()
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

/// What a walk looked at.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// Index entries.
    pub keys: u64,
    /// Documents.
    pub docs: u64,
    /// The same of each branch of a union.
    pub branches: Vec<Walked>,
}

/// Walks a plan, counting; `each` is shown the matches (without a document where only entries are
/// read) and returns false to stop.
///
/// # Errors
/// As [`each_match`].
pub fn walk_counted(
    coll: &Arc<Collection>,
    plan: &Plan,
    filter: Option<&MatchFilter>,
    env: &Env,
    entries_only: bool,
    each: &mut dyn FnMut(Option<Doc<'_>>) -> bool,
) -> Result<Walked> {
    let mut walk = Walk::open(coll, &plan.view, plan);
    if let (true, true, Walk::Index(walk)) = (entries_only, plan.complete, &mut walk) {
        let mut on = true;
        while on
            && walk.visit_entries(STEP_DOCS, &mut |_, _| {
                on = each(None);
                on
            })?
        {
            env.check_interrupt()?;
        }
        return Ok(Walked {
            keys: walk.keys_examined(),
            docs: 0,
            branches: Vec::new(),
        });
    }
    let mut arena = Bump::new();
    let (mut docs, mut failed, mut on) = (0, None, true);
    while on {
        env.check_interrupt()?;
        let more = walk.visit(coll, env, STEP_DOCS, &mut |row| {
            docs += 1;
            arena.reset();
            on = match matches(filter, row.doc, &arena, env) {
                Ok(true) => each(Some(row.doc)),
                Ok(false) => true,
                Err(e) => {
                    failed = Some(e);
                    false
                }
            };
            on
        })?;
        on &= more;
    }
    failed.map_or(Ok(()), Err)?;
    let branches = match &walk {
        Walk::Union(u) => u
            .keys_by_branch()
            .into_iter()
            .map(|keys| Walked {
                keys,
                docs: keys,
                branches: Vec::new(),
            })
            .collect(),
        _ => Vec::new(),
    };
    Ok(Walked {
        keys: walk.keys_examined(),
        docs,
        branches,
    })
}
