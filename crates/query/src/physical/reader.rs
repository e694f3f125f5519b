//! The one loop that reads documents: it steps an access path, shows matching documents in place,
//! and counts. All reads by a plan use it: for batches of documents, for a count, for the keys of a
//! write. Must not know: what is done with the documents.

use super::scan::{PlanScan, reads_ids};
use super::steps::Steps;
use crate::exec::MatchFilter;
use crate::meter::Meter;
use crate::plan::{Access, CachedPlan, Plan, Run, log_times};
use crate::shown::ReadCounts;
use model::{Bump, Doc, Result, Value};
use operators::{Cx, Env, Frame};
use std::sync::Arc;
use store::{Collection, EntryRanges, Part, ReadView, Row, WantedFields};

/// Documents examined between two looks at the clock.
pub(super) const STEP_DOCS: usize = 1024;

/// The filter and its context.
#[derive(Clone, Copy)]
pub struct Criteria<'w> {
    /// Documents that match; `None` is all.
    pub filter: Option<&'w MatchFilter>,
    /// The operation.
    pub env: &'w Env,
    /// Variables bound around the read.
    pub vars: Option<&'w Frame<'w, 'w>>,
}

impl Criteria<'_> {
    fn matches(&self, filter: &MatchFilter, doc: Doc<'_>, arena: &Bump) -> Result<bool> {
        let cx = Cx {
            vars: self.vars,
            ..Cx::new(arena, Value::Document(doc), self.env)
        };
        filter.filter.matches_in(&cx, doc)
    }
}

/// An open read by a plan.
pub struct Reader {
    coll: Arc<Collection>,
    scan: PlanScan,
    /// Every document that the plan reads matches.
    complete: bool,
    /// Each document also counts as an entry of the `_id` index.
    reads_ids: bool,
    /// The fields to take from index entries if documents are not read.
    covered: Option<Arc<WantedFields>>,
    docs: u64,
    matched: u64,
    ended: bool,
    /// Whether the position in the store was released, and how often it was restored.
    paused: bool,
    saves: u64,
    meter: Option<Meter>,
    arena: Bump,
    /// The cache entry that gets the counters of the run at its end.
    cached: Option<Arc<CachedPlan>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(cached) = self.cached.take() {
            cached.record_run(Run {
                keys: self.keys(),
                docs: self.docs,
                matched: self.matched,
            });
        }
    }
}

impl Reader {
    /// Opens a plan in the plan's own snapshot.
    pub fn open(coll: &Arc<Collection>, plan: &Plan, env: &Env) -> Reader {
        Reader::open_in(coll, &plan.view, plan, env)
    }

    /// Opens a plan in another snapshot.
    pub(super) fn open_in(
        coll: &Arc<Collection>,
        view: &ReadView,
        plan: &Plan,
        env: &Env,
    ) -> Reader {
        let mut reader = Reader::new(coll, PlanScan::open(coll, view, plan, env));
        reader.complete = plan.complete;
        reader.reads_ids = reads_ids(coll, plan);
        reader.covered = plan.covered.clone();
        reader.cached = plan.cached.clone();
        reader
    }

    /// A scan of a capped collection. After the end, later steps continue with documents inserted
    /// since.
    pub(super) fn tail(
        coll: &Arc<Collection>,
        reverse: bool,
        filter: Option<&MatchFilter>,
    ) -> Reader {
        let scan = match filter.filter(|_| coll.is_log()) {
            Some(f) => {
                let (first, last) = log_times(f.filter.root());
                coll.scan_log(&ReadView::LATEST, first, last, reverse, true)
            }
            None => coll.tail(reverse),
        };
        Reader::new(coll, PlanScan::Records(scan))
    }

    fn new(coll: &Arc<Collection>, scan: PlanScan) -> Reader {
        Reader {
            coll: coll.clone(),
            scan,
            complete: false,
            reads_ids: false,
            covered: None,
            docs: 0,
            matched: 0,
            ended: false,
            paused: false,
            saves: 0,
            meter: Some(Meter::default()),
            arena: Bump::new(),
            cached: None,
        }
    }

    /// Stops adding to the operation's counters.
    pub(super) fn uncounted(mut self) -> Reader {
        self.meter = None;
        self
    }

    /// Reads one part of a scan without adding to the operation's counters; see
    /// [`Collection::split_parts`].
    pub(super) fn part(
        coll: &Arc<Collection>,
        view: &ReadView,
        part: &Part,
        complete: bool,
    ) -> Reader {
        let (lower, upper) = (part.lower.as_deref(), part.upper.as_deref());
        let scan = coll.scan_keys(view, lower, upper, false);
        let mut reader = Reader::new(coll, PlanScan::Records(scan)).uncounted();
        reader.complete = complete;
        reader
    }

    /// The record key of the last document read, if documents come in key order.
    pub(super) fn position(&self) -> Option<&[u8]> {
        match &self.scan {
            PlanScan::Records(scan) => scan.position(),
            _ => None,
        }
    }

    /// The collection.
    pub(super) fn collection(&self) -> &Arc<Collection> {
        &self.coll
    }

    /// Examines at most `max` documents and shows each match in place; `each` returns false to stop
    /// after it. First checks the operation's interrupt.
    ///
    /// # Output
    /// False when nothing is left.
    ///
    /// # Errors
    /// Those of the filter, of `each` and of the store; the operation's interrupt.
    pub fn step(
        &mut self,
        wanted: &Criteria<'_>,
        max: usize,
        mut each: impl FnMut(Row<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let env = wanted.env;
        env.check_interrupt()?;
        self.resume();
        let filter = wanted
            .filter
            .filter(|f| !self.complete && !f.filter.is_always_true());
        let (mut shown, mut matched, mut outcome) = (0, 0, Ok(true));
        let (coll, arena) = (&self.coll, &mut self.arena);
        let show = &mut |row: Row<'_>| {
            shown += 1;
            let fits = match filter {
                None => Ok(true),
                Some(f) => {
                    arena.reset();
                    wanted.matches(f, row.doc, arena)
                }
            };
            outcome = match fits {
                Ok(true) => {
                    matched += 1;
                    each(row)
                }
                other => other.map(|_| true),
            };
            matches!(outcome, Ok(true))
        };
        let (visited, docs) = match (&self.covered, &mut self.scan) {
            (Some(wanted), PlanScan::Index(scan)) => {
                let mut read = 0;
                let visited = scan.visit_covered(wanted, max, &mut read, show);
                (visited, read)
            }
            (_, scan) => {
                let before = scan.documents_read();
                let visited = scan.visit(coll, env, max, show);
                let read = scan
                    .documents_read()
                    .zip(before)
                    .map(|(n, before)| n - before);
                (visited, read.unwrap_or(shown))
            }
        };
        self.docs += docs;
        self.matched += matched;
        self.count(env, docs);
        let more = visited?;
        outcome?;
        self.ended = !more;
        Ok(more)
    }

    /// Like [`Reader::step`] for a complete plan that reads an index: shows entries without reading
    /// documents.
    ///
    /// # Errors
    /// Those of the store; the operation's interrupt.
    pub(super) fn step_entries(
        &mut self,
        env: &Env,
        max: usize,
        mut each: impl FnMut() -> bool,
    ) -> Result<bool> {
        env.check_interrupt()?;
        self.resume();
        let PlanScan::Index(scan) = &mut self.scan else {
            return Ok(false);
        };
        let mut matched = 0;
        let visited = scan.visit_entries(max, &mut |_, _| {
            matched += 1;
            each()
        });
        self.matched += matched;
        self.count(env, 0);
        let more = visited?;
        self.ended = !more;
        Ok(more)
    }

    /// Divides the entries that are left after steps over entries; `None` when they must be
    /// counted by steps. See [`store::IndexScan::split_rest`].
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn split_entries(&mut self, ranges: usize) -> Result<Option<EntryRanges>> {
        self.resume();
        match &mut self.scan {
            PlanScan::Index(scan) => scan.split_rest(ranges),
            _ => Ok(None),
        }
    }

    /// Ends the read. All entries that were left, `entries` of them, were counted without it.
    pub(super) fn end_counted(&mut self, env: &Env, entries: u64) {
        if let PlanScan::Index(scan) = &mut self.scan {
            scan.end_counted(entries);
        }
        self.matched += entries;
        self.ended = true;
        self.count(env, 0);
    }

    fn count(&mut self, env: &Env, docs: u64) {
        let keys = self.keys();
        if let Some(meter) = &mut self.meter {
            meter.step(env, docs, keys);
        }
    }

    /// Releases the position in the store until the next step.
    pub(super) fn pause(&mut self) {
        self.scan.pause();
        self.paused = true;
    }

    fn resume(&mut self) {
        self.saves += u64::from(std::mem::take(&mut self.paused));
    }

    fn keys(&self) -> u64 {
        self.scan.keys_examined() + if self.reads_ids { self.docs } else { 0 }
    }

    /// The counters so far.
    pub fn counts(&self) -> ReadCounts {
        ReadCounts {
            keys: self.keys(),
            docs: self.docs,
            matched: self.matched,
            ended: self.ended,
            saves: self.saves,
            branches: match &self.scan {
                PlanScan::Union(u) => u.counts(),
                _ => Vec::new(),
            },
            buckets: match &self.scan {
                PlanScan::Series(s) => Some(s.counts()),
                _ => None,
            },
        }
    }
}

/// Whether counting the plan's index entries gives the number of matching documents.
pub(super) fn counts_entries(plan: &Plan) -> bool {
    plan.complete && matches!(plan.access, Access::Index { .. })
}

/// Shows each matching document in place; `each` returns false to stop.
///
/// # Errors
/// As [`Reader::step`].
pub fn each_match(
    coll: &Arc<Collection>,
    plan: &Plan,
    filter: Option<&MatchFilter>,
    env: &Env,
    each: &mut dyn FnMut(Row<'_>) -> Result<bool>,
) -> Result<()> {
    let mut reader = Reader::open(coll, plan, env);
    let wanted = Criteria {
        filter,
        env,
        vars: None,
    };
    let mut on = true;
    while on
        && reader.step(&wanted, STEP_DOCS, |row| {
            on = each(row)?;
            Ok(on)
        })?
    {}
    Ok(())
}
