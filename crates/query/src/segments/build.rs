//! Builds the next segment of a column index, for one of which many documents have changed, for two
//! small ones next to each other, or for documents in no segment. Promises: a segment is built from
//! one snapshot, and the commit that adds it removes those it replaces. Must not know: how columns
//! are extracted from documents.

use super::taking::SegmentBuilder;
use model::{Result, Tag};
use operation::Operation;
use std::sync::Arc;
use store::format::segment::{Head, bound_after, touched_id};
use store::{Collection, Index, NewSegment, ReadView, ReplacedSegments, Segment, SegmentColumn};

/// A segment is rebuilt when more than one in this many of its documents has changed.
const TOUCHED_ONE_OF: usize = 16;
/// Bytes of values after which a segment ends.
const BYTES_MAX: usize = 16 << 20;
/// Most notes of changed documents removed in one commit; the rest waits for the next.
const NOTES_MAX: usize = 200_000;
/// Documents between two checks of the interrupt.
const STEP_DOCS: usize = 1024;

/// The number of documents in a segment.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Most documents.
    pub docs_max: usize,
    /// Fewest documents for a new segment.
    pub docs_min: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            docs_max: 1 << 16,
            docs_min: 1 << 12,
        }
    }
}

/// A range of documents from which one or more segments are built.
struct Job {
    low: Vec<u8>,
    /// `None` is the end of the collection.
    high: Option<Vec<u8>>,
    replaced: Vec<Segment>,
}

/// Makes the next segment of an index.
///
/// # Output
/// False when there was nothing to make.
///
/// # Errors
/// Those of the store; the operation's interrupt.
pub fn build_next(
    coll: &Arc<Collection>,
    index: &Arc<Index>,
    sizes: &Sizes,
    operation: &Operation,
) -> Result<bool> {
    if !coll.may_have_segments() || !index.is_ready() {
        return Ok(false);
    }
    let build = Build {
        coll,
        index,
        sizes,
        view: coll.snapshot()?,
        operation,
    };
    match build.find_job()? {
        Some(job) => build.run(job),
        None => Ok(false),
    }
}

/// The search for one index's next segment.
struct Build<'b> {
    coll: &'b Arc<Collection>,
    index: &'b Arc<Index>,
    sizes: &'b Sizes,
    view: ReadView,
    operation: &'b Operation,
}

impl Build<'_> {
    fn go_on(&self) -> Result<()> {
        self.operation.check()
    }

    fn find_job(&self) -> Result<Option<Job>> {
        let all = self.coll.segment_heads(&self.view, self.index)?;
        for segment in &all {
            if self.is_old(segment)? {
                return Ok(Some(Job::of(std::slice::from_ref(segment))));
            }
        }
        let rows = |s: &Segment| s.head.rows as usize;
        for pair in all.windows(2) {
            if let [a, b] = pair
                && a.head.high == b.head.low
                && !(a.head.is_large || b.head.is_large)
                && rows(a) + rows(b) <= self.sizes.docs_max / 2
            {
                return Ok(Some(Job::of(pair)));
            }
        }
        let mut low = Vec::new();
        for segment in &all {
            let high = Some(&segment.head.low).filter(|high| low < **high);
            if let Some(high) = high
                && self.has_enough(&low, Some(high))?
            {
                return Ok(Some(Job::new_range(low, Some(high.clone()))));
            }
            low.clone_from(&segment.head.high);
        }
        let found = self.has_enough(&low, None)?;
        Ok(found.then(|| Job::new_range(low, None)))
    }

    /// Whether many documents of a segment have changed, or a few of them often.
    fn is_old(&self, segment: &Segment) -> Result<bool> {
        let notes = self.notes(&segment.head.low, &segment.head.high)?;
        if notes.len() == NOTES_MAX {
            return Ok(true);
        }
        let mut ids: Vec<&[u8]> = notes.iter().filter_map(|n| touched_id(n)).collect();
        ids.dedup();
        Ok(ids.len() * TOUCHED_ONE_OF > segment.head.rows as usize)
    }

    fn notes(&self, low: &[u8], high: &[u8]) -> Result<Vec<Vec<u8>>> {
        let go_on = || self.go_on();
        let (coll, view) = (self.coll, &self.view);
        coll.read_touch_notes(view, self.index, low, Some(high), NOTES_MAX, &go_on)
    }

    fn has_enough(&self, low: &[u8], high: Option<&Vec<u8>>) -> Result<bool> {
        let high = high.map(Vec::as_slice);
        let mut scan = self.coll.scan_keys(&self.view, Some(low), high, false);
        let (mut left, mut more) = (self.sizes.docs_min, true);
        while more && left > 0 {
            self.go_on()?;
            more = scan.visit(left.min(STEP_DOCS), &mut |_| {
                left -= 1;
                left > 0
            })?;
        }
        Ok(left == 0)
    }

    fn run(&self, job: Job) -> Result<bool> {
        let (low, high) = (&job.low[..], job.high.as_deref());
        let mut scan = self.coll.scan_keys(&self.view, Some(low), high, false);
        let (mut taking, mut ids) = (SegmentBuilder::new(self.index), SegmentColumn::default());
        let is_full = |taking: &SegmentBuilder| {
            taking.rows() >= self.sizes.docs_max || taking.bytes() >= BYTES_MAX
        };
        let (mut last, mut more) = (Vec::new(), true);
        while more && !is_full(&taking) {
            self.go_on()?;
            more = scan.visit(STEP_DOCS, &mut |row| {
                taking.take(row.doc);
                ids.push_long(Tag::BINARY, row.id());
                last.clear();
                last.extend_from_slice(row.id());
                !is_full(&taking)
            })?;
        }
        let (is_cut, is_large) = (is_full(&taking), taking.bytes() >= BYTES_MAX);
        let rows = taking.rows() as u32;
        let high = match job.high {
            Some(high) if !is_cut => high,
            _ if rows > 0 => bound_after(&last),
            _ => return Ok(false),
        };
        let (heads, is_complete, columns) = taking.end();
        let new = NewSegment {
            head: Head {
                rows,
                low: job.low,
                high,
                is_complete,
                is_large,
                columns: heads,
            },
            ids,
            columns,
        };
        let notes = self.notes(&new.head.low, &new.head.high)?;
        let replaced = ReplacedSegments {
            segments: &job.replaced,
            notes: &notes,
        };
        let writer = self.coll.writer(self.operation);
        writer.put_segment(self.index, &new, &replaced)
    }
}

impl Job {
    fn of(segments: &[Segment]) -> Job {
        let ends = segments.first().zip(segments.last());
        let (low, high) = ends.map_or_else(Default::default, |(first, last)| {
            (first.head.low.clone(), last.head.high.clone())
        });
        Job {
            low,
            high: Some(high),
            replaced: segments.to_vec(),
        }
    }

    fn new_range(low: Vec<u8>, high: Option<Vec<u8>>) -> Job {
        Job {
            low,
            high,
            replaced: Vec::new(),
        }
    }
}
