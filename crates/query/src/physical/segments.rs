//! Reads a collection from the segments of a column index (docs/adr/0103-column-segments.md). In a
//! part with a segment, only documents that have changed since, or that have something columns do
//! not hold, are read as documents; parts without a segment are read as documents. Promises: it
//! gives documents in the order of a scan. Must not know: what is done with them.

use super::open_segment::{OpenSegment, RowCounts, SegmentSource};
use super::taker::{Consumer, StepOutcome};
use crate::exec::MatchFilter;
use crate::plan::{ColumnLens, ColumnPlan};
use crate::shown::{PlanNode, StageStats, canonical, count};
use model::{DocBuf, Result};
use operators::columns::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{Collection, Index, Part, ReadView, Segment, Segments};

/// Number of documents in segments from which several threads are used.
const LONG_ROWS: u64 = 1 << 16;

/// A collection in one snapshot, with its column index.
pub(crate) struct ColumnScan {
    coll: Arc<Collection>,
    plan: Arc<ColumnPlan>,
    parts: Vec<Part>,
    /// The segment of each part.
    segment_of: Vec<Option<usize>>,
    counts: SegmentCounts,
}

/// Counters of the read.
#[derive(Default)]
pub(super) struct SegmentCounts {
    read: AtomicU64,
    skipped: AtomicU64,
    rows: AtomicU64,
    documents: AtomicU64,
}

impl SegmentCounts {
    /// Counts an opened segment.
    pub(super) fn count_opened(&self, segment: &OpenSegment) {
        let counted = match segment.is_skipped {
            true => &self.skipped,
            false => &self.read,
        };
        counted.fetch_add(1, Relaxed);
    }

    /// Adds rows and documents that were taken.
    pub(super) fn add(&self, taken: RowCounts) {
        self.rows.fetch_add(taken.rows, Relaxed);
        self.documents.fetch_add(taken.docs, Relaxed);
    }

    /// Documents that were read.
    pub(super) fn documents(&self) -> u64 {
        self.documents.load(Relaxed)
    }

    /// The stage that explain shows.
    pub(super) fn show(
        &self,
        lens: &ColumnLens,
        filter: Option<&MatchFilter>,
        returned: u64,
    ) -> PlanNode {
        let amount = |n: &AtomicU64| n.load(Relaxed);
        let (rows, docs) = (amount(&self.rows), amount(&self.documents));
        let spec = filter.map(|f| &f.spec).filter(|s| !s.doc().is_empty());
        PlanNode {
            stage: "COLUMN_SCAN",
            filter: spec.map(|s| canonical(s.doc())),
            own: DocBuf::build(|w| {
                w.put("keyPattern", lens.index.key_pattern())
                    .put("indexName", lens.index.name());
                let mut list = w.array("columns");
                for path in lens.paths.list() {
                    list.push(path.as_str());
                }
            }),
            stats: StageStats::of(returned, rows + docs, returned > 0 || rows + docs > 0),
            counted: model::doc! {
                "segmentsRead": count(amount(&self.read)),
                "segmentsSkipped": count(amount(&self.skipped)),
                "rowsFromSegments": count(rows),
                "docsExamined": count(docs),
            },
            ..PlanNode::default()
        }
    }
}

impl ColumnScan {
    /// The scan for a plan.
    pub(super) fn new(coll: &Arc<Collection>, plan: &Arc<ColumnPlan>) -> ColumnScan {
        let (parts, segment_of) = divide(&plan.segments);
        ColumnScan {
            coll: Arc::clone(coll),
            plan: Arc::clone(plan),
            parts,
            segment_of,
            counts: SegmentCounts::default(),
        }
    }

    /// Counts a use of the index.
    pub(super) fn begin(&self) {
        self.plan.lens.index.usage().add();
    }

    /// The index.
    pub(super) fn index(&self) -> &Arc<Index> {
        &self.plan.lens.index
    }

    /// The snapshot.
    pub(super) fn view(&self) -> &ReadView {
        &self.plan.segments.view
    }

    /// The consecutive parts of the collection.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The read is long enough for several threads.
    pub(super) fn is_long(&self) -> bool {
        self.plan.segments.rows() > LONG_ROWS
    }

    /// The stage that explain shows.
    pub(super) fn show(&self, filter: Option<&MatchFilter>, returned: u64) -> PlanNode {
        self.counts.show(&self.plan.lens, filter, returned)
    }

    /// Documents that were read.
    pub(super) fn documents(&self) -> u64 {
        self.counts.documents()
    }

    /// Sets the number of documents that were read.
    pub(super) fn note_documents(&self, docs: u64) {
        self.counts.documents.store(docs, Relaxed);
    }

    /// Reads a part from its segment; adds the documents it has read to `docs`. `go_on` is called
    /// now and then and ends the read by returning false.
    ///
    /// # Output
    /// `None` if documents must be read instead: the taker got nothing.
    ///
    /// # Errors
    /// Those of the taker, of the store and of `go_on`.
    pub(super) fn read<T: Consumer>(
        &self,
        part: usize,
        taker: &mut T,
        docs: &mut u64,
        go_on: &dyn Fn() -> Result<bool>,
    ) -> Result<Option<StepOutcome>> {
        let at = self.segment_of.get(part).copied().flatten();
        let segments = &self.plan.segments;
        let Some(segment) = at.and_then(|at| segments.list.get(at)) else {
            return Ok(None);
        };
        let source = SegmentSource {
            coll: &self.coll,
            view: self.view(),
            lens: &self.plan.lens,
        };
        let touched = segments.touched_documents(segment);
        let Some(mut open) = OpenSegment::open(source, segment, touched, false)? else {
            return Ok(None);
        };
        self.counts.count_opened(&open);
        let mut ended = StepOutcome::More;
        while matches!(ended, StepOutcome::More) {
            let mut taken = RowCounts::default();
            ended = match go_on()? {
                true => open.step(source, Batch::DOCS, taker, &mut taken)?,
                false => StepOutcome::Stop,
            };
            self.counts.rows.fetch_add(taken.rows, Relaxed);
            *docs += taken.docs;
        }
        Ok(Some(match ended {
            StepOutcome::End if taker.settle()? => StepOutcome::End,
            _ => StepOutcome::Stop,
        }))
    }
}

/// Divides a collection into parts: the segments, and the ranges before, between and after them.
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
