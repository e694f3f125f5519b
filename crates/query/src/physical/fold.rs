//! A read that does the work of the stage above it: it extracts columns from documents in place and
//! feeds them to the stage, in parts on several threads. If the results do not fit into memory the
//! stage does the work itself, over documents. Must not know: which stages there are.

use super::operator::Operator;
use super::parts::{PartitionedRead, PartitionedResult};
use super::read::CollectionRead;
use super::reader::Criteria;
use super::segments::ColumnScan;
use super::taker::Consumer;
use crate::exec::{BatchStream, DocBatch, ExecContext, Fold, MatchFilter, PartialResult};
use crate::meter::open_read;
use crate::plan::Plan;
use crate::shown::PlanNode;
use model::{Doc, Result};
use operation::{AccessPath, ReadTotals};
use operators::Env;
use operators::columns::{Batch, Column, Paths};
use operators::vector::{ColumnFilter, FilterContext, Rows};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::Collection;

/// The filter is applied to columns if at least one in this many documents matches. If fewer match,
/// it is cheaper to test each document's fields first.
const MATCHES_ONE_OF: u64 = 4;
/// It is also applied to columns if it uses at least this many paths, which one walk over the
/// document then finds together.
const PATHS_MANY: usize = 3;

/// Gives the output documents of the stage.
pub(crate) struct FoldRead {
    coll: Arc<Collection>,
    plan: Plan,
    filter: Option<Arc<MatchFilter>>,
    fold: Arc<dyn Fold>,
    /// The fields that the stage needs.
    fields: Option<Vec<String>>,
    /// The column index it is read by.
    columns: Option<Arc<ColumnScan>>,
    result: Option<Box<dyn BatchStream>>,
    returned: u64,
    docs: u64,
}

impl FoldRead {
    /// Reads by a plan that can be read in parts; see [`super::parts::has_parts`].
    pub(crate) fn new(
        coll: Arc<Collection>,
        plan: Plan,
        filter: Option<Arc<MatchFilter>>,
        fold: Arc<dyn Fold>,
        fields: Option<Vec<String>>,
    ) -> FoldRead {
        let plan = Plan {
            any_order: fold.any_order(),
            ..plan
        };
        let columns = plan.columns.as_ref().filter(|c| !c.lens.makes_documents);
        let columns = columns.map(|columns| Arc::new(ColumnScan::new(&coll, columns)));
        FoldRead {
            coll,
            plan,
            filter,
            fold,
            fields,
            columns,
            result: None,
            returned: 0,
            docs: 0,
        }
    }

    fn run(&mut self, exec: &ExecContext<'_>) -> Result<Box<dyn BatchStream>> {
        let columns = self.columns.clone();
        if let Some(columns) = &columns {
            columns.begin();
            open_read(exec.env, || AccessPath::Columns(columns.index().clone()));
        }
        let fold = &self.fold;
        let read = PartitionedRead {
            coll: &self.coll,
            plan: &self.plan,
            wanted: Criteria {
                filter: self.filter.as_deref(),
                env: exec.env,
                vars: exec.vars,
            },
        };
        let mut taken = PartitionedResult::new();
        let budget = exec.group_bytes_max();
        let by_columns = self
            .filter
            .as_ref()
            .filter(|f| columns.is_none() || !f.filter.is_always_true())
            .and_then(|f| FoldFilter::of(f, fold.paths()));
        // Rows of segments were not filtered before, so the filter is always applied to them.
        let by_all = by_columns.as_ref().filter(|_| columns.is_some());
        if let Some(by) = by_all {
            by.pays.store(true, Relaxed);
        }
        let make = || Part {
            fold,
            by_columns: by_columns.as_ref(),
            exec: *exec,
            budget,
            filters: by_all.is_some(),
            rows: Vec::new(),
            batch: Batch::new(Arc::clone(by_all.map_or(fold.paths(), |by| &by.paths))),
            folded: fold.begin(),
        };
        let ended = match &columns {
            Some(columns) => read.run_columns(&mut taken, &make, columns),
            None => read.run(&mut taken, &make, &|head| {
                if let Some(by) = &by_columns {
                    let often = head.matched * MATCHES_ONE_OF >= head.docs;
                    by.pays.store(often || by.own_paths >= PATHS_MANY, Relaxed);
                }
            }),
        };
        if let Some(columns) = &columns {
            columns.note_documents(taken.docs);
        }
        if ended.is_ok() && taken.stopped {
            drop(taken);
            return self.fold_documents(exec);
        }
        let docs = taken.docs;
        let folded = taken.takers.into_iter().map(|p| p.folded).collect();
        // Parts share groups, so their sum says nothing about the size of the whole result.
        let merged = ended.and_then(|()| fold.merge(folded, exec));
        if merged.as_ref().is_ok_and(|m| m.memory_bytes() > budget) {
            drop(merged);
            return self.fold_documents(exec);
        }
        read.count(docs);
        self.docs = docs;
        Arc::clone(fold).finish(merged?)
    }

    fn fold_documents(&self, exec: &ExecContext<'_>) -> Result<Box<dyn BatchStream>> {
        let (coll, plan) = (Arc::clone(&self.coll), self.plan.clone());
        let mut read = CollectionRead::new(coll, plan, self.filter.clone(), None);
        if let Some(fields) = &self.fields {
            read = read.with_fields(fields.clone());
        }
        Arc::clone(&self.fold).fold_documents(Box::new(read), exec)
    }
}

impl BatchStream for FoldRead {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let mut result = match self.result.take() {
            Some(result) => result,
            None => self.run(exec)?,
        };
        let before = out.len();
        let more = result.next_batch(exec, out)?;
        self.returned += (out.len() - before) as u64;
        self.result = Some(result);
        Ok(more)
    }
}

/// Explain shows it as a read by a column index.
impl Operator for FoldRead {
    fn begin(&mut self, _: &Env) {}

    fn show(&self) -> PlanNode {
        match &self.columns {
            Some(columns) => columns.show(self.filter.as_deref(), self.returned),
            _ => PlanNode::default(),
        }
    }

    fn read_totals(&self) -> ReadTotals {
        ReadTotals {
            keys: 0,
            docs: self.docs,
            returned: 0,
        }
    }
}

/// A filter that can be applied to columns.
struct FoldFilter<'p> {
    filter: &'p MatchFilter,
    sieve: ColumnFilter,
    /// The paths of the stage and of the filter.
    paths: Arc<Paths>,
    own_paths: usize,
    /// Applying it to columns is cheaper than testing each document.
    pays: AtomicBool,
}

impl<'p> FoldFilter<'p> {
    fn of(filter: &'p MatchFilter, stage: &Arc<Paths>) -> Option<FoldFilter<'p>> {
        let mut paths = Paths::clone(stage);
        let sieve = ColumnFilter::of(&filter.filter, &mut paths)?;
        let mut own = Paths::default();
        ColumnFilter::of(&filter.filter, &mut own)?;
        Some(FoldFilter {
            filter,
            sieve,
            paths: Arc::new(paths),
            own_paths: own.len(),
            pays: AtomicBool::new(false),
        })
    }
}

/// The documents of one part: their columns, and the stage's result so far.
struct Part<'p> {
    fold: &'p Arc<dyn Fold>,
    by_columns: Option<&'p FoldFilter<'p>>,
    exec: ExecContext<'p>,
    budget: usize,
    /// The filter must be applied to the batch.
    filters: bool,
    /// The rows that match.
    rows: Vec<u32>,
    batch: Batch,
    folded: Box<dyn PartialResult>,
}

impl Part<'_> {
    fn add(&mut self) -> Result<()> {
        let (env, vars) = (self.exec.env, self.exec.vars);
        let mut selected = None;
        if let (true, Some(by)) = (self.filters, self.by_columns) {
            self.rows.clear();
            self.rows.extend(0..self.batch.len() as u32);
            let (filter, around) = (&by.filter.filter, FilterContext { env, vars });
            by.sieve.keep(filter, &self.batch, around, &mut self.rows)?;
            selected = Some(self.rows.as_slice());
        }
        let rows = Rows {
            batch: &self.batch,
            selected,
            env,
            vars,
        };
        if !rows.is_empty() {
            self.fold.add(self.folded.as_mut(), rows, &self.exec)?;
        }
        self.batch.clear();
        Ok(())
    }
}

impl Consumer for Part<'_> {
    fn take(&mut self, doc: Doc<'_>) -> Result<bool> {
        self.batch.push(doc);
        match self.batch.is_full() {
            true => self.settle(),
            false => Ok(true),
        }
    }

    fn take_rows(&mut self, from: &[Option<Column>], mut rows: Range<usize>) -> Result<bool> {
        while !rows.is_empty() {
            let room = Batch::DOCS.saturating_sub(self.batch.len()).max(1);
            let end = rows.end.min(rows.start + room);
            self.batch.push_rows(from, rows.start..end);
            rows.start = end;
            if self.batch.is_full() && !self.settle()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn settle(&mut self) -> Result<bool> {
        self.add()?;
        let exec = &self.exec;
        let short = exec.allow_disk_use && exec.env.is_short_of_memory();
        Ok(!short && self.folded.memory_bytes() <= self.budget)
    }

    fn begin_step(&mut self) -> Result<()> {
        if let Some(by) = self.by_columns
            && by.pays.load(Relaxed) != self.filters
        {
            self.add()?;
            self.filters = !self.filters;
            self.batch = Batch::new(Arc::clone(match self.filters {
                true => &by.paths,
                false => self.fold.paths(),
            }));
        }
        Ok(())
    }

    fn filters(&self) -> bool {
        self.filters
    }
}
