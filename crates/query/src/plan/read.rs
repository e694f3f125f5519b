//! Running a plan: documents that match, copied into batches, or shown in place.

use super::access::{Access, Plan};
use super::log_times;
use super::row_metadata::RowMetadata;
use super::scan::PlanScan;
use crate::examined::Meter;
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use model::{Bump, Doc, Result};
use operators::{Cx, Env};
use std::sync::Arc;
use store::{BucketsRead, Collection, ReadView, Row};

/// Documents examined between two looks at the clock.
const STEP_DOCS: usize = 1024;

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
    let mut scan = PlanScan::open(coll, &plan.view, plan);
    let filter = filter.filter(|_| !plan.complete);
    let mut arena = Bump::new();
    let mut outcome: Result<bool> = Ok(true);
    let mut meter = Meter::default();
    loop {
        env.check_interrupt()?;
        let mut docs = 0;
        let more = scan.visit(coll, env, STEP_DOCS, &mut |row| {
            docs += 1;
            arena.reset();
            outcome = matches(filter, row.doc, &arena, env)
                .and_then(|m| if m { each(row) } else { Ok(true) });
            matches!(outcome, Ok(true))
        });
        meter.step(docs, scan.keys_examined());
        let more = more?;
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
    let PlanScan::Index(mut scan) = PlanScan::open(coll, &plan.view, plan) else {
        return Ok(0);
    };
    let mut meter = Meter::default();
    loop {
        env.check_interrupt()?;
        let more = scan.visit_entries(STEP_DOCS, &mut |_, _| {
            found += 1;
            found < most
        })?;
        meter.step(0, scan.keys_examined());
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

/// What of a matching document goes into the batch.
enum RowOutput {
    Whole,
    /// These top-level fields.
    Fields(Vec<String>),
    /// An empty document for each index entry.
    Entries,
}

impl RowOutput {
    fn push(&self, doc: Doc<'_>, out: &mut DocBatch) {
        match self {
            RowOutput::Whole => out.push(doc),
            RowOutput::Entries => out.push(Doc::EMPTY),
            RowOutput::Fields(names) => out.build(None, |w| {
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
pub struct PlanStream {
    coll: Arc<Collection>,
    scan: PlanScan,
    filter: Option<Arc<MatchFilter>>,
    left: u64,
    output: RowOutput,
    /// Documents of the first batch: few, so that a client that wants one does not wait for many.
    target: usize,
    metadata: Option<RowMetadata>,
    meter: Meter,
}

impl PlanStream {
    /// Opens a plan; at most `limit` documents are given.
    pub fn new(
        coll: Arc<Collection>,
        plan: &Plan,
        filter: Option<Arc<MatchFilter>>,
        limit: Option<u64>,
    ) -> PlanStream {
        let metadata = RowMetadata::scores(plan, filter.as_ref());
        let filter = filter.filter(|f| !plan.complete && !f.filter.is_always_true());
        let (scan, left) = (
            PlanScan::open(&coll, &plan.view, plan),
            limit.unwrap_or(u64::MAX),
        );
        PlanStream {
            scan,
            coll,
            filter,
            left,
            output: RowOutput::Whole,
            target: 32,
            metadata,
            meter: Meter::default(),
        }
    }

    /// Only these top-level fields are needed of each document. With none at all, documents behind
    /// index entries are not read.
    #[must_use]
    pub fn with_fields(mut self, fields: Vec<String>) -> PlanStream {
        let entries = fields.is_empty()
            && self.filter.is_none()
            && self.metadata.is_none()
            && matches!(self.scan, PlanScan::Index(_));
        self.output = if entries {
            RowOutput::Entries
        } else {
            RowOutput::Fields(fields)
        };
        self
    }

    /// The same, each document with its record id and index key as metadata.
    #[must_use]
    pub fn with_row_metadata(self, plan: &Plan) -> PlanStream {
        PlanStream {
            metadata: Some(RowMetadata::of(plan, self.metadata)),
            ..self
        }
    }

    /// A scan over a capped collection that goes on after its end, at later pulls, with what has
    /// come in since.
    pub fn tail(
        coll: Arc<Collection>,
        reverse: bool,
        filter: Option<Arc<MatchFilter>>,
        limit: Option<u64>,
    ) -> PlanStream {
        let (scan, left) = (
            PlanScan::Records(match filter.as_ref().filter(|_| coll.is_log()) {
                Some(f) => {
                    let times = log_times::of(f.filter.root());
                    coll.scan_log(&ReadView::LATEST, times, reverse, true)
                }
                None => coll.tail(reverse),
            }),
            limit.unwrap_or(u64::MAX),
        );
        PlanStream {
            scan,
            coll,
            filter,
            left,
            output: RowOutput::Whole,
            target: 32,
            metadata: None,
            meter: Meter::default(),
        }
    }

    fn next_entries(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        exec.env.check_interrupt()?;
        let PlanScan::Index(scan) = &mut self.scan else {
            return Ok(false);
        };
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(DocBatch::TARGET_DOCS);
        let more = scan.visit_entries(want, &mut |_, _| {
            out.push(Doc::EMPTY);
            true
        })?;
        self.meter.step(0, scan.keys_examined());
        scan.pause();
        self.left -= out.len() as u64;
        Ok(more && self.left > 0)
    }
}

impl BatchStream for PlanStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        if let RowOutput::Entries = self.output {
            return self.next_entries(exec, out);
        }
        let output = &self.output;
        let (filter, target, mut left) = (self.filter.as_deref(), self.target as u64, self.left);
        let mut arena = Bump::new();
        let mut failed = None;
        let mut more = true;
        while more && failed.is_none() && (out.len() as u64) < target.min(left) && !out.is_full() {
            exec.env.check_interrupt()?;
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(STEP_DOCS);
            let (coll, metadata) = (&self.coll, &self.metadata);
            let mut docs = 0;
            let visited = self.scan.visit(coll, exec.env, want, &mut |row| {
                docs += 1;
                arena.reset();
                let fits = match filter {
                    Some(f) => exec.matches(f, row.doc, &arena),
                    None => Ok(true),
                };
                match fits {
                    Ok(true) => match metadata {
                        None => output.push(row.doc, out),
                        Some(e) => out.push_with_meta(row.doc, Some(e.row(&row).doc())),
                    },
                    Ok(false) => {}
                    Err(e) => failed = Some(e),
                }
                failed.is_none() && (out.len() as u64) < target.min(left) && !out.is_full()
            });
            self.meter.step(docs, self.scan.keys_examined());
            more = visited?;
        }
        self.scan.pause();
        if let Some(e) = failed {
            return Err(e);
        }
        self.target = (self.target * 4).min(DocBatch::TARGET_DOCS);
        left -= out.len() as u64;
        self.left = left;
        Ok(more && left > 0)
    }
}

/// What a scan looked at.
#[derive(Clone, Debug, Default)]
pub struct ScanCounts {
    /// Index entries.
    pub keys: u64,
    /// Documents.
    pub docs: u64,
    /// The same of each branch of a union.
    pub branches: Vec<ScanCounts>,
    /// Of a time-series collection.
    pub buckets: Option<BucketsRead>,
}

/// Walks a plan, counting; `each` is shown the matches (without a document where only entries are
/// read) and returns false to stop.
///
/// # Errors
/// As [`each_match`].
pub fn scan_counted(
    coll: &Arc<Collection>,
    plan: &Plan,
    filter: Option<&MatchFilter>,
    env: &Env,
    entries_only: bool,
    each: &mut dyn FnMut(Option<Doc<'_>>) -> bool,
) -> Result<ScanCounts> {
    let mut scan = PlanScan::open(coll, &plan.view, plan);
    if let (true, true, PlanScan::Index(scan)) = (entries_only, plan.complete, &mut scan) {
        let mut on = true;
        while on
            && scan.visit_entries(STEP_DOCS, &mut |_, _| {
                on = each(None);
                on
            })?
        {
            env.check_interrupt()?;
        }
        return Ok(ScanCounts {
            keys: scan.keys_examined(),
            ..ScanCounts::default()
        });
    }
    let mut arena = Bump::new();
    let (mut docs, mut failed, mut on) = (0, None, true);
    while on {
        env.check_interrupt()?;
        let more = scan.visit(coll, env, STEP_DOCS, &mut |row| {
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
    let branches = match &scan {
        PlanScan::Union(u) => u
            .keys_by_branch()
            .into_iter()
            .map(|keys| ScanCounts {
                keys,
                docs: keys,
                ..ScanCounts::default()
            })
            .collect(),
        _ => Vec::new(),
    };
    Ok(ScanCounts {
        keys: scan.keys_examined(),
        docs,
        branches,
        buckets: match &scan {
            PlanScan::Series(s) => Some(s.counts()),
            _ => None,
        },
    })
}
