//! A collection by the segments of a column index (docs/adr/0103-column-segments.md): parts that
//! have a segment are read from it, without documents, but for those that were touched since and
//! those with something that columns do not hold; other parts are read as documents. Promises: what
//! is taken, and in which order, is what a scan of the documents gives. Must not know: what becomes
//! of it.

use super::taker::{Step, Taker};
use crate::exec::MatchFilter;
use crate::plan::{ColumnChoice, Plan, ranges_of};
use crate::shown::{PlanNode, StageStats, canonical, count};
use model::{DocBuf, Result};
use operators::columns::{Batch, Column, Paths};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::format::segment::APART;
use store::{Collection, Index, Part, ReadView, Segment, SegmentColumn, Segments};

/// Columns are read when at most one of so many of their documents was touched since ...
const TOUCHED_ONE_OF: u64 = 8;
/// ... which holds for each segment, too.
const TOUCHED_ONE_OF_SEGMENT: usize = 4;
/// Documents of segments from which on several threads read.
const LONG_ROWS: u64 = 1 << 16;
/// Documents fetched at once.
const FETCHED: usize = 64;

/// Bytes between which values of a path lie, in the order of index entries.
type Ranges = Vec<(Vec<u8>, Vec<u8>)>;

/// A collection in one state, by a column index.
pub(crate) struct ColumnScan {
    coll: Arc<Collection>,
    index: Arc<Index>,
    segments: Segments,
    /// What is taken out.
    paths: Arc<Paths>,
    /// What the filter says of each path; `None` is nothing.
    ranges: Vec<Option<Ranges>>,
    parts: Vec<Part>,
    /// The segment of each part.
    segment_of: Vec<Option<usize>>,
    counts: Counts,
}

/// What was done.
#[derive(Default)]
struct Counts {
    segments_read: AtomicU64,
    segments_skipped: AtomicU64,
    rows: AtomicU64,
    documents: AtomicU64,
}

impl ColumnScan {
    /// Opens one for a plan that scans a collection; `None` where there is no column index with
    /// all of the paths, or reading documents is no more work.
    ///
    /// # Errors
    /// Those of the store; those of `go_on`.
    pub(super) fn open(
        coll: &Arc<Collection>,
        plan: &Plan,
        choice: &ColumnChoice,
        paths: &Arc<Paths>,
        filter: Option<&MatchFilter>,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<ColumnScan>> {
        let has_all = |index: &&Arc<Index>| paths.list().iter().all(|p| index.has_column(p));
        for index in choice.indexes.iter().filter(has_all) {
            let found = coll.segments(&plan.view, index, TOUCHED_ONE_OF, go_on)?;
            let Some(segments) = found else { continue };
            let ranges = paths
                .list()
                .iter()
                .map(|path| ranges_of(filter?, path.as_str(), choice.simple_collation));
            let (parts, segment_of) = divide(&segments);
            return Ok(Some(ColumnScan {
                coll: Arc::clone(coll),
                index: Arc::clone(index),
                ranges: ranges.collect(),
                paths: Arc::clone(paths),
                segments,
                parts,
                segment_of,
                counts: Counts::default(),
            }));
        }
        Ok(None)
    }

    /// Notes that it is used.
    pub(super) fn begin(&self) {
        self.index.usage().add();
    }

    /// The index.
    pub(super) fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// The state.
    pub(super) fn view(&self) -> &ReadView {
        &self.segments.view
    }

    /// Parts that follow each other.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Several threads are worth it.
    pub(super) fn is_long(&self) -> bool {
        self.segments.rows() > LONG_ROWS
    }

    /// The stage.
    pub(super) fn show(&self, filter: Option<&MatchFilter>, returned: u64) -> PlanNode {
        let amount = |n: &AtomicU64| n.load(Relaxed);
        let (rows, docs) = (amount(&self.counts.rows), amount(&self.counts.documents));
        let spec = filter.map(|f| &f.spec).filter(|s| !s.doc().is_empty());
        PlanNode {
            stage: "COLUMN_SCAN",
            filter: spec.map(|s| canonical(s.doc())),
            own: DocBuf::build(|w| {
                w.put("keyPattern", self.index.key_pattern())
                    .put("indexName", self.index.name());
                let mut list = w.array("columns");
                for path in self.paths.list() {
                    list.push(path.as_str());
                }
            }),
            stats: StageStats::of(returned, rows + docs, returned > 0 || rows + docs > 0),
            counted: model::doc! {
                "segmentsRead": count(amount(&self.counts.segments_read)),
                "segmentsSkipped": count(amount(&self.counts.segments_skipped)),
                "rowsFromSegments": count(rows),
                "docsExamined": count(docs),
            },
            ..PlanNode::default()
        }
    }

    /// So many documents were read in all.
    pub(super) fn note_documents(&self, docs: u64) {
        self.counts.documents.store(docs, Relaxed);
    }

    /// Reads a part from its segment; adds the documents it has read to `docs`. `go_on` is asked
    /// now and then, and false ends it.
    ///
    /// # Output
    /// `None` when documents are to be read instead: nothing was taken.
    ///
    /// # Errors
    /// Those of the taker, of the store and of `go_on`.
    pub(super) fn read<T: Taker>(
        &self,
        part: usize,
        taker: &mut T,
        docs: &mut u64,
        go_on: &dyn Fn() -> Result<bool>,
    ) -> Result<Option<Step>> {
        let at = self.segment_of.get(part).copied().flatten();
        let Some(segment) = at.and_then(|at| self.segments.list.get(at)) else {
            return Ok(None);
        };
        let touched = self.segments.touched_of(segment);
        if touched.len() * TOUCHED_ONE_OF_SEGMENT > segment.head.rows as usize {
            return Ok(None);
        }
        let Some(values) = self.values(segment)? else {
            return Ok(None);
        };
        let mut taking = Taking {
            scan: self,
            taker,
            docs,
            go_on,
        };
        let wants = match &values {
            Values::Skipped => taking.take_documents(touched)?,
            Values::Read { columns, apart } => {
                let ids = match touched.is_empty() && apart.is_empty() {
                    true => SegmentColumn::default(),
                    false => {
                        let ids = self.coll.segment_ids(self.view(), &self.index, segment)?;
                        let Some(ids) = ids else { return Ok(None) };
                        ids
                    }
                };
                let others = others(&ids, apart, touched);
                taking.take_around(columns, segment.head.rows as usize, &ids, &others)?
            }
        };
        let counted = match values {
            Values::Skipped => &self.counts.segments_skipped,
            Values::Read { .. } => &self.counts.segments_read,
        };
        counted.fetch_add(1, Relaxed);
        Ok(Some(match wants && taking.taker.settle()? {
            true => Step::End,
            false => Step::Stop,
        }))
    }

    /// What a segment has at the paths; `None` when documents are to be read.
    fn values(&self, segment: &Segment) -> Result<Option<Values>> {
        let head = &segment.head;
        let mut numbers = Vec::with_capacity(self.paths.len());
        for (path, ranges) in self.paths.list().iter().zip(&self.ranges) {
            let Some(at) = head.columns.iter().position(|c| c.path == path.as_str()) else {
                if !head.is_complete {
                    return Ok(None);
                }
                numbers.push(None);
                continue;
            };
            numbers.push(Some(at as u32 + 1));
            let zone = head.columns.get(at).and_then(|c| c.zone.as_ref());
            if let (Some(zone), Some(ranges)) = (zone, ranges)
                && !ranges.iter().any(|(low, high)| zone.meets(low, high))
            {
                return Ok(Some(Values::Skipped));
            }
        }
        let (mut columns, mut apart) = (Vec::with_capacity(numbers.len()), Vec::new());
        for number in numbers {
            let Some(number) = number else {
                columns.push(None);
                continue;
            };
            let read = self
                .coll
                .segment_column(self.view(), &self.index, segment, number)?;
            let Some(SegmentColumn { tags, words, bytes }) = read else {
                return Ok(None);
            };
            let rows = tags.iter().enumerate().filter(|(_, tag)| **tag == APART);
            apart.extend(rows.map(|(row, _)| row));
            columns.push(Some(Column::of_stored(tags, words, bytes)));
        }
        apart.sort_unstable();
        apart.dedup();
        Ok(Some(Values::Read { columns, apart }))
    }
}

/// The values of a segment.
enum Values {
    /// None of its documents matches, as it was.
    Skipped,
    /// By path, and the rows whose documents are to be read.
    Read {
        columns: Vec<Option<Column>>,
        apart: Vec<usize>,
    },
}

/// The ids of documents that are read, in their order: those of rows apart, and touched ones.
fn others(ids: &SegmentColumn, apart: &[usize], touched: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = apart.iter().map(|row| ids.long(*row).to_vec()).collect();
    all.extend_from_slice(touched);
    all.sort_unstable();
    all.dedup();
    all
}

/// A segment as it is taken.
struct Taking<'t, T> {
    scan: &'t ColumnScan,
    taker: &'t mut T,
    docs: &'t mut u64,
    go_on: &'t dyn Fn() -> Result<bool>,
}

impl<T: Taker> Taking<'_, T> {
    /// The rows of a segment with the documents of `others` in the place of their rows or between
    /// them.
    fn take_around(
        &mut self,
        columns: &[Option<Column>],
        rows: usize,
        ids: &SegmentColumn,
        others: &[Vec<u8>],
    ) -> Result<bool> {
        let mut next = 0;
        for chunk in others.chunks(FETCHED) {
            let Some(docs) = self.fetch(chunk)? else {
                return Ok(false);
            };
            for (id, doc) in chunk.iter().zip(docs) {
                let at = find(ids, next..rows, id);
                if !self.take_rows(columns, next..at)? {
                    return Ok(false);
                }
                next = at + usize::from(at < rows && ids.long(at) == &id[..]);
                if let Some(doc) = doc
                    && !self.taker.take(doc.doc())?
                {
                    return Ok(false);
                }
            }
        }
        self.take_rows(columns, next..rows)
    }

    fn take_rows(&mut self, columns: &[Option<Column>], rows: Range<usize>) -> Result<bool> {
        let mut at = rows.start;
        while at < rows.end {
            if !(self.go_on)()? {
                return Ok(false);
            }
            let end = rows.end.min(at + Batch::DOCS);
            self.scan.counts.rows.fetch_add((end - at) as u64, Relaxed);
            if !self.taker.take_rows(columns, at..end)? {
                return Ok(false);
            }
            at = end;
        }
        Ok(true)
    }

    fn take_documents(&mut self, ids: &[Vec<u8>]) -> Result<bool> {
        for chunk in ids.chunks(FETCHED) {
            let Some(docs) = self.fetch(chunk)? else {
                return Ok(false);
            };
            for doc in docs.into_iter().flatten() {
                if !self.taker.take(doc.doc())? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The documents of these ids, each in the place of its id; `None` when it is to end.
    fn fetch(&mut self, ids: &[Vec<u8>]) -> Result<Option<Vec<Option<DocBuf>>>> {
        if !(self.go_on)()? {
            return Ok(None);
        }
        let docs = self.scan.coll.documents_of(self.scan.view(), ids)?;
        *self.docs += docs.iter().flatten().count() as u64;
        Ok(Some(docs))
    }
}

/// The first of the rows whose id is not below one.
fn find(ids: &SegmentColumn, rows: Range<usize>, id: &[u8]) -> usize {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match ids.long(middle) < id {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// A collection in parts: segments, and what lies before, between and behind them.
fn divide(segments: &Segments) -> (Vec<Part>, Vec<Option<usize>>) {
    let (mut parts, mut segment_of) = (Vec::new(), Vec::new());
    let mut lower: Option<&Vec<u8>> = None;
    for (at, Segment { head, .. }) in segments.list.iter().enumerate() {
        if lower.map_or(!head.low.is_empty(), |lower| *lower < head.low) {
            parts.push(Part {
                lower: lower.cloned(),
                upper: Some(head.low.clone()),
            });
            segment_of.push(None);
        }
        parts.push(Part {
            lower: Some(head.low.clone()),
            upper: Some(head.high.clone()),
        });
        segment_of.push(Some(at));
        lower = Some(&head.high);
    }
    parts.push(Part {
        lower: lower.cloned(),
        upper: None,
    });
    segment_of.push(None);
    (parts, segment_of)
}
