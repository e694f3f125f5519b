//! Counting: by the collection's own counter, by index entries, by columns or by documents.
//! [`Count::new`] alone decides which.

use super::entries::count_entries;
use super::nothing::EmptyScan;
use super::operator::Operator;
use super::parts::{PartitionedRead, PartitionedResult, has_parts};
use super::read::CollectionRead;
use super::reader::{Criteria, STEP_DOCS, counts_entries};
use super::row_filter::RowMatches;
use super::taker::Consumer;
use super::whole_columns::WholeColumns;
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use crate::plan::{Plan, PlanRequest, RequiredOutput, plan_read};
use crate::shown::{self, PlanNode, count};
use model::{Doc, DocBuf, Result};
use operation::ReadTotals;
use operators::Env;
use operators::columns::{Column, Paths};
use std::ops::Range;
use std::sync::Arc;
use store::{Collection, ReadView};

enum Source {
    /// There is no collection.
    Nothing(EmptyScan),
    /// The collection's counter. It is exact for the latest state, and for snapshots that have
    /// counters.
    Counter(Arc<Collection>, ReadView),
    /// Entries of an index whose bounds express the whole filter.
    Entries(Box<CollectionRead>),
    /// Documents.
    Documents(Box<CollectionRead>),
    /// Columns.
    Columns(Box<WholeColumns>),
}

/// Counts matching documents. As a stream it gives no documents.
pub struct Count {
    source: Source,
    skip: u64,
    limit: Option<u64>,
    /// Matches counted so far, at most the number wanted.
    met: u64,
    ended: bool,
    /// Explain will not show it, so it may be read in parts.
    unseen: bool,
}

impl Count {
    /// Chooses how to count what `request` asks for; `filter` is the request's filter.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn new(
        coll: Option<Arc<Collection>>,
        request: &PlanRequest<'_>,
        filter: &Arc<MatchFilter>,
        skip: u64,
        limit: Option<u64>,
    ) -> Result<Count> {
        let source = match coll {
            None => Source::Nothing(EmptyScan::default()),
            Some(c) if Count::is_by_counter(request) => Source::Counter(c, view_of(request)),
            Some(c) => {
                let nothing = Paths::default();
                let request = PlanRequest {
                    columns: Some(RequiredOutput::Values(&nothing)),
                    ..*request
                };
                let plan = Plan {
                    // A limit decides by the order how many documents are examined.
                    any_order: skip == 0 && limit.is_none(),
                    ..plan_read(&c, &request)?
                };
                let entries = counts_entries(&plan);
                match WholeColumns::of(&c, &plan, filter) {
                    Some(columns) => Source::Columns(Box::new(columns)),
                    None => {
                        let read =
                            Box::new(CollectionRead::new(c, plan, Some(filter.clone()), None));
                        match entries {
                            true => Source::Entries(read),
                            false => Source::Documents(read),
                        }
                    }
                }
            }
        };
        Ok(Count::with_source(source, skip, limit))
    }

    fn with_source(source: Source, skip: u64, limit: Option<u64>) -> Count {
        Count {
            source,
            skip,
            limit,
            met: 0,
            ended: false,
            unseen: false,
        }
    }

    /// Whether the collection's counter answers the request: it counts all documents of the latest
    /// state, or of a snapshot that has counters.
    pub(crate) fn is_by_counter(request: &PlanRequest<'_>) -> bool {
        let all = request.filter.is_none_or(|f| f.filter.is_always_true());
        let known = request.view.is_none_or(|v| v.has_counters());
        all && known && request.hint.is_none()
    }

    /// Counts by the collection's counter.
    pub(crate) fn by_counter(coll: Arc<Collection>, request: &PlanRequest<'_>) -> Count {
        Count::with_source(Source::Counter(coll, view_of(request)), 0, None)
    }

    /// Counts the entries of a plan that needs no documents; see [`counts_entries`].
    pub(crate) fn by_entries(
        coll: Arc<Collection>,
        plan: Plan,
        filter: Option<Arc<MatchFilter>>,
    ) -> Count {
        let read = CollectionRead::new(coll, plan, filter, None);
        Count::with_source(Source::Entries(Box::new(read)), 0, None)
    }

    /// Prepares for a run that explain will not show: the bounds are dropped.
    #[must_use]
    pub fn drop_bounds(mut self) -> Count {
        self.unseen = true;
        match &mut self.source {
            Source::Nothing(_) | Source::Counter(..) | Source::Columns(_) => {}
            Source::Entries(read) | Source::Documents(read) => read.drop_bounds(),
        }
        self
    }

    /// The access path, if there is one.
    pub fn plan(&self) -> Option<&Plan> {
        match &self.source {
            Source::Nothing(_) | Source::Counter(..) => None,
            Source::Entries(read) | Source::Documents(read) => Some(read.plan()),
            Source::Columns(columns) => Some(columns.plan()),
        }
    }

    /// Counts.
    ///
    /// # Errors
    /// Those of the filter and the store; the operation's interrupt.
    pub fn run(&mut self, env: &Env) -> Result<u64> {
        let most = match self.limit {
            Some(n) => n.saturating_add(self.skip),
            None => u64::MAX,
        };
        let met = &mut self.met;
        match &mut self.source {
            Source::Nothing(_) => {}
            Source::Counter(c, view) => *met = view.count_of(c)?.min(most),
            Source::Columns(columns) => {
                let parts = columns.run(env, &|matches| RowCount {
                    matches,
                    met: 0,
                    most,
                })?;
                *met = parts.iter().map(|part| part.met).sum::<u64>().min(most);
            }
            Source::Entries(read) => {
                let (reader, _) = read.parts(env);
                *met = count_entries(reader, env, most)?;
            }
            Source::Documents(read)
                if self.unseen && most == u64::MAX && has_parts(read.plan(), read.filter()) =>
            {
                *met = count_in_parts(read, env)?;
            }
            Source::Documents(read) => {
                let (reader, filter) = read.parts(env);
                let wanted = Criteria {
                    filter,
                    env,
                    vars: None,
                };
                while *met < most
                    && reader.step(&wanted, STEP_DOCS, |_| {
                        *met += 1;
                        Ok(*met < most)
                    })?
                {}
            }
        }
        self.ended = true;
        Ok(self.match_count())
    }

    /// The matches after the skipped ones.
    fn match_count(&self) -> u64 {
        self.met.saturating_sub(self.skip)
    }
}

fn view_of(request: &PlanRequest<'_>) -> ReadView {
    request.view.cloned().unwrap_or_default()
}

/// Counts what matches on several threads.
fn count_in_parts(read: &CollectionRead, env: &Env) -> Result<u64> {
    let parts = PartitionedRead {
        coll: read.collection(),
        plan: read.plan(),
        wanted: Criteria {
            filter: read.filter(),
            env,
            vars: None,
        },
    };
    let mut taken = PartitionedResult::new();
    let ended = parts.run(&mut taken, &Matches::default, &|_| {});
    parts.count(taken.docs);
    ended?;
    Ok(taken.takers.iter().map(|m| m.0).sum())
}

/// The number of matches in a part.
#[derive(Default)]
struct Matches(u64);

impl Consumer for Matches {
    fn take(&mut self, _: Doc<'_>) -> Result<bool> {
        self.0 += 1;
        Ok(true)
    }
    fn settle(&mut self) -> Result<bool> {
        Ok(true)
    }
}

/// Counts the rows and documents of a part that match.
struct RowCount<'f> {
    matches: RowMatches<'f>,
    met: u64,
    most: u64,
}

impl Consumer for RowCount<'_> {
    fn take(&mut self, doc: Doc<'_>) -> Result<bool> {
        self.met += u64::from(self.matches.has(doc)?);
        Ok(self.met < self.most)
    }
    fn take_rows(&mut self, from: &[Option<Column>], rows: Range<usize>) -> Result<bool> {
        self.met += self.matches.find_matches(from, rows)?.len() as u64;
        Ok(self.met < self.most)
    }
    fn settle(&mut self) -> Result<bool> {
        Ok(true)
    }
    fn filters(&self) -> bool {
        true
    }
}

impl BatchStream for Count {
    fn next_batch(&mut self, exec: &ExecContext<'_>, _: &mut DocBatch) -> Result<bool> {
        self.run(exec.env)?;
        Ok(false)
    }
}

impl Operator for Count {
    fn begin(&mut self, env: &Env) {
        match &mut self.source {
            Source::Nothing(_) | Source::Counter(..) | Source::Columns(_) => {}
            Source::Entries(read) | Source::Documents(read) => read.begin(env),
        }
    }

    fn show(&self) -> PlanNode {
        let counted = model::doc! { "nCounted": count(self.match_count()),
        "nSkipped": count(self.skip.min(self.met)) };
        let below = match &self.source {
            Source::Nothing(nothing) => nothing.show(),
            Source::Counter(..) => {
                let mut shown = PlanNode {
                    stage: "RECORD_STORE_FAST_COUNT",
                    counted,
                    ..PlanNode::default()
                };
                shown.stats.ended = self.ended;
                shown.stats.works = u64::from(self.ended);
                return shown;
            }
            Source::Entries(read) => shown::count_scan(read.plan(), &read.counts()),
            Source::Documents(read) => read.show(),
            Source::Columns(columns) => columns.show(self.met),
        };
        PlanNode {
            counted,
            ..PlanNode::wrap(below, "COUNT", DocBuf::new(), 0, self.ended)
        }
    }

    fn read_totals(&self) -> ReadTotals {
        match &self.source {
            Source::Nothing(_) | Source::Counter(..) => ReadTotals::default(),
            Source::Entries(read) | Source::Documents(read) => read.read_totals(),
            Source::Columns(columns) => columns.read_totals(),
        }
    }
}
