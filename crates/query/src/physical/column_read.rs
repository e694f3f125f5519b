//! Reads documents with their values at some paths from the segments of a column index, and whole
//! documents where the segments do not have them. Promises: documents come in the order of a scan,
//! each once; between batches no snapshot of the engine is kept but the requested one, and all
//! readers together keep a bounded number of bytes. Must not know: what is done with the documents.

use super::open_segment::{OpenSegment, RowCounts, SegmentSource};
use super::operator::Operator;
use super::read::RowOutput;
use super::reader::{Criteria, Reader};
use super::row_filter::{RowFilter, RowMatches};
use super::segments::SegmentCounts;
use super::taker::{Consumer, StepOutcome};
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use crate::meter::open_read;
use crate::plan::{ColumnLens, Plan};
use crate::shown::PlanNode;
use model::{Doc, FieldPath, Result};
use operation::{AccessPath, ReadTotals};
use operators::Env;
use operators::columns::{Assembly, Column};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use store::format::segment::{Head, SHAPES};
use store::{Collection, NextSegment, Part, ReadView};

/// Most bytes of segments that all readers of the process keep between batches. Beyond that a
/// segment is closed and opened again.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Documents examined in one step.
const STEP_DOCS: usize = 256;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes that one reader keeps between batches, counted in [`HELD_BYTES`].
struct BufferCharge(usize);

impl BufferCharge {
    /// Counts the bytes; `None` if they exceed the limit.
    fn of(bytes: usize) -> Option<BufferCharge> {
        let before = HELD_BYTES.fetch_add(bytes, Relaxed);
        let held = BufferCharge(bytes);
        (before + bytes <= HELD_BYTES_MAX).then_some(held)
    }
}

impl Drop for BufferCharge {
    fn drop(&mut self) {
        HELD_BYTES.fetch_sub(self.0, Relaxed);
    }
}

/// A read by a plan with columns.
pub(crate) struct ColumnRead {
    coll: Arc<Collection>,
    /// The snapshot to read. Without one, each segment is read in the state of the moment in which
    /// it is opened.
    view: ReadView,
    lens: Arc<ColumnLens>,
    filter: Option<Arc<MatchFilter>>,
    by: RowFilter,
    output: RowOutput,
    left: u64,
    /// Everything before this encoded id has been read.
    from: Vec<u8>,
    open: Option<OpenPart>,
    held: Option<BufferCharge>,
    counts: SegmentCounts,
    returned: u64,
    began: bool,
}

/// The part that is being read.
enum OpenPart {
    Segment(Box<OpenColumns>),
    /// Documents before an id; `None` is the end of the collection.
    Documents(Box<Reader>, Option<Vec<u8>>),
}

struct OpenColumns {
    segment: OpenSegment,
    assembly: Assembly,
    high: Vec<u8>,
}

impl ColumnRead {
    /// A read by a plan that gives at most `limit` documents; `None` if the plan has no columns for
    /// documents. With `fields` only these top-level fields are given of documents that are read
    /// whole.
    pub(crate) fn new(
        coll: &Arc<Collection>,
        plan: &Plan,
        filter: Option<&Arc<MatchFilter>>,
        limit: Option<u64>,
        fields: Option<&[String]>,
    ) -> Option<ColumnRead> {
        // The segments that the plan holds are not kept: they would keep its snapshot alive.
        let lens = &plan.columns.as_ref()?.lens;
        if !lens.makes_documents {
            return None;
        }
        Some(ColumnRead {
            by: RowFilter::of(filter, &lens.paths)?,
            coll: Arc::clone(coll),
            lens: Arc::clone(lens),
            view: plan.view.clone(),
            filter: filter.cloned(),
            output: match fields {
                Some(fields) => RowOutput::Fields(fields.to_vec()),
                None => RowOutput::Whole,
            },
            left: limit.unwrap_or(u64::MAX),
            from: Vec::new(),
            open: None,
            held: None,
            counts: SegmentCounts::default(),
            returned: 0,
            began: false,
        })
    }

    fn source<'s>(&'s self, view: &'s ReadView) -> SegmentSource<'s> {
        SegmentSource {
            coll: &self.coll,
            view,
            lens: &self.lens,
        }
    }

    /// Opens the next segment or range of documents.
    fn open_next(&self, env: &Env) -> Result<OpenPart> {
        let (coll, index) = (&self.coll, &self.lens.index);
        let go_on = || env.check_interrupt();
        let next = coll.next_segment(&self.view, index, &self.from, &go_on)?;
        let until = match next {
            NextSegment::Documents { until } => until,
            NextSegment::Columns {
                view,
                segment,
                touched,
            } => {
                let open = OpenSegment::open(self.source(&view), &segment, &touched, true)?;
                if let Some(mut open) = open {
                    if self.from > segment.head.low {
                        open.skip_to(&self.from);
                    }
                    self.counts.count_opened(&open);
                    return Ok(OpenPart::Segment(Box::new(OpenColumns {
                        segment: open,
                        assembly: self.assembly(&segment.head),
                        high: segment.head.high,
                    })));
                }
                Some(segment.head.high)
            }
        };
        let part = Part {
            lower: Some(self.from.clone()).filter(|from| !from.is_empty()),
            upper: until.clone(),
        };
        let reader = Reader::part(coll, &self.view, &part, false);
        Ok(OpenPart::Documents(Box::new(reader), until))
    }

    /// Builds documents from the columns of a segment.
    fn assembly(&self, head: &Head) -> Assembly {
        let wanted = self.lens.paths.list();
        let wanted = wanted.get(..self.lens.behind).unwrap_or(wanted);
        let columns = head.columns.iter().filter(|c| c.path != SHAPES);
        let paths = columns.map(|column| {
            let place = wanted.iter().position(|path| path.as_str() == column.path);
            (FieldPath::new(&column.path), place)
        });
        Assembly::new(paths.collect())
    }

    /// Takes one step; false at the end.
    fn step(&mut self, exec: &ExecContext<'_>, room: usize, out: &mut DocBatch) -> Result<bool> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open_next(exec.env)?,
        };
        let ended = match &mut open {
            OpenPart::Segment(columns) => self.step_rows(columns, exec, room, out)?,
            OpenPart::Documents(reader, _) => self.step_documents(reader, exec, room, out)?,
        };
        if !ended {
            self.open = Some(open);
            return Ok(true);
        }
        let until = match open {
            OpenPart::Segment(columns) => Some(columns.high),
            OpenPart::Documents(_, until) => until,
        };
        match until {
            Some(until) => self.from = until,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// True at the end of the segment.
    fn step_rows(
        &self,
        columns: &mut OpenColumns,
        exec: &ExecContext<'_>,
        room: usize,
        out: &mut DocBatch,
    ) -> Result<bool> {
        let OpenColumns {
            segment, assembly, ..
        } = columns;
        let mut taken = RowCounts::default();
        let mut taker = BatchBuilder {
            matches: RowMatches::new(&self.by, exec.env, exec.vars),
            output: &self.output,
            assembly,
            out,
        };
        let ended = segment.step(self.source(&self.view), room, &mut taker, &mut taken);
        self.note(exec.env, taken);
        Ok(matches!(ended?, StepOutcome::End))
    }

    /// True at the end of the documents.
    fn step_documents(
        &self,
        reader: &mut Reader,
        exec: &ExecContext<'_>,
        room: usize,
        out: &mut DocBatch,
    ) -> Result<bool> {
        let wanted = Criteria {
            filter: self.filter.as_deref(),
            env: exec.env,
            vars: exec.vars,
        };
        let (before, enough) = (reader.counts().docs, out.len() + room);
        let more = reader.step(&wanted, STEP_DOCS.max(room), |row| {
            self.output.push(row.doc, out);
            Ok(out.len() < enough && !out.is_full())
        });
        let (rows, docs) = (0, reader.counts().docs - before);
        self.note(exec.env, RowCounts { rows, docs });
        Ok(!more?)
    }

    fn note(&self, env: &Env, taken: RowCounts) {
        self.counts.add(taken);
        if let Some(operation) = &env.operation {
            operation.reads().add(0, taken.docs);
        }
    }

    /// Frees what must not be kept between batches.
    fn pause(&mut self) {
        self.held = None;
        match &mut self.open {
            None => {}
            Some(OpenPart::Documents(reader, _)) => reader.pause(),
            Some(OpenPart::Segment(columns)) => {
                self.held = BufferCharge::of(columns.segment.capacity_bytes());
                if self.held.is_none() {
                    let position = columns.segment.position();
                    self.from = position.unwrap_or(&columns.high).to_vec();
                    self.open = None;
                }
            }
        }
    }
}

/// Adds matching documents to a batch.
struct BatchBuilder<'b> {
    matches: RowMatches<'b>,
    output: &'b RowOutput,
    assembly: &'b mut Assembly,
    out: &'b mut DocBatch,
}

impl Consumer for BatchBuilder<'_> {
    fn take(&mut self, doc: Doc<'_>) -> Result<bool> {
        if self.matches.has(doc)? {
            self.output.push(doc, self.out);
        }
        Ok(true)
    }

    fn take_rows(&mut self, from: &[Option<Column>], rows: Range<usize>) -> Result<bool> {
        let Some((Some(shapes), columns)) = from.split_last() else {
            return Ok(true);
        };
        for row in self.matches.find_matches(columns, rows.clone())? {
            let row = rows.start + *row as usize;
            let assembly = &mut *self.assembly;
            self.out
                .build(None, |w| assembly.write(shapes, columns, row, w));
        }
        Ok(true)
    }

    fn settle(&mut self) -> Result<bool> {
        Ok(true)
    }
}

impl BatchStream for ColumnRead {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        self.begin(exec.env);
        let before = out.len();
        let mut more = Ok(self.left > 0);
        while matches!(more, Ok(true)) && !out.is_full() {
            let given = (out.len() - before) as u64;
            let left = usize::try_from(self.left - given).unwrap_or(usize::MAX);
            let room = left.min(out.max_docs() - out.len());
            if room == 0 {
                break;
            }
            let checked = exec.env.check_interrupt();
            more = checked.and_then(|()| self.step(exec, room, out));
        }
        self.pause();
        let given = (out.len() - before) as u64;
        self.returned += given;
        self.left -= given;
        Ok(more? && self.left > 0)
    }
}

impl Operator for ColumnRead {
    fn begin(&mut self, env: &Env) {
        if !self.began {
            self.began = true;
            self.lens.index.usage().add();
            open_read(env, || AccessPath::Columns(self.lens.index.clone()));
        }
    }

    fn show(&self) -> PlanNode {
        let filter = self.filter.as_deref();
        self.counts.show(&self.lens, filter, self.returned)
    }

    fn read_totals(&self) -> ReadTotals {
        ReadTotals {
            keys: 0,
            docs: self.counts.documents(),
            returned: 0,
        }
    }
}
