//! A read of a collection by the segments of a column index: what becomes of each segment, and what
//! that costs beside a scan. Must not know: how segments are read, how indexes are chosen.

use super::unit_cost::{FETCHED, SCANNED};
use model::FieldPath;
use operators::columns::Paths;
use std::sync::Arc;
use store::format::segment::{ColumnHead, Head, SHAPES};
use store::{Index, Segments};

/// The cost of one row of a segment ...
const ROW: f64 = 0.02;
/// ... of each of its values ...
const VALUE: f64 = 0.04;
/// ... of each field of a document that is put together ...
const FIELD: f64 = 0.08;
/// ... and of opening a segment.
const SEGMENT: f64 = 2.0;
/// The cost of the note that a document was touched.
const NOTE: f64 = 0.3;
/// Scanning a document of so many bytes is the unit of costs; a value of a wider document costs
/// less beside that.
const NARROW_BYTES: f64 = 512.0;

/// Bytes between which values of a path lie, in the order of index entries.
pub(super) type Ranges = Vec<(Vec<u8>, Vec<u8>)>;

/// What is looked at behind the filter, of a read that may be done by columns.
#[derive(Clone, Copy)]
pub enum Behind<'r> {
    /// The values at these paths.
    Values(&'r Paths),
    /// Documents with what they have at these paths.
    Documents(&'r [String]),
}

/// What becomes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentUse {
    /// Its documents are read: columns do not have all of it, or are more work.
    Documents,
    /// None of its documents matches, as it was: those that were touched are read.
    Skipped,
    /// Its columns are read, and some documents.
    Columns,
}

/// A read by one column index.
pub struct ColumnPlan {
    /// How segments are looked at.
    pub(crate) lens: Arc<ColumnLens>,
    /// In the state that the plan was made for.
    pub(crate) segments: Segments,
    /// The work of the whole.
    work: ColumnWork,
}

/// How segments are looked at.
pub(crate) struct ColumnLens {
    pub(crate) index: Arc<Index>,
    /// All that is looked at, what is wanted behind the filter first.
    pub(crate) paths: Arc<Paths>,
    /// The paths of the columns that have them, which may be above them.
    pub(super) over: Vec<FieldPath>,
    /// So many of the paths are wanted behind the filter.
    pub(crate) behind: usize,
    /// Documents are put together.
    pub(crate) makes_documents: bool,
    /// What the filter says of each path; `None` is nothing.
    pub(super) ranges: Vec<Option<Ranges>>,
    pub(super) row_cost: f64,
}

/// Where the values of a path are.
#[derive(Clone, Copy)]
pub(crate) struct ColumnPlace<'l> {
    /// Which column.
    pub(crate) number: u32,
    /// The path that is looked for in its values, and how many of its parts lead to these.
    pub(crate) below: Option<(&'l FieldPath, usize)>,
}

/// What a read by columns is expected to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ColumnWork {
    /// Rows of segments.
    pub(super) rows: f64,
    /// Documents that are read.
    pub(super) docs: f64,
    pub(super) cost: f64,
    /// The cost of the dearest segment: no less is read for one document.
    least: f64,
}

impl ColumnWork {
    /// The work for a part of what matches.
    pub(super) fn share(self, share: f64) -> ColumnWork {
        ColumnWork {
            rows: self.rows * share,
            docs: self.docs * share,
            cost: (self.cost * share).max(self.least),
            least: self.least,
        }
    }
}

impl ColumnPlan {
    /// A plan for a collection of so many documents.
    pub(super) fn new(lens: ColumnLens, segments: Segments, docs: f64) -> ColumnPlan {
        ColumnPlan {
            work: lens.work(docs, &segments),
            lens: Arc::new(lens),
            segments,
        }
    }

    /// What is expected of it.
    pub(super) fn work(&self) -> ColumnWork {
        self.work
    }
}

/// The cost of a row with so many values, of which so many fields are put together.
pub(super) fn row_cost(values: usize, fields: usize, document_bytes: f64) -> f64 {
    let row = ROW + values as f64 * VALUE + fields as f64 * FIELD;
    row * (NARROW_BYTES / document_bytes.max(NARROW_BYTES))
}

impl ColumnLens {
    /// The columns that are read of a segment, that of shapes last where documents are put
    /// together; `None` stands for a path at which no document has anything. Nothing where the
    /// segment does not have them.
    pub(crate) fn columns_of(&self, head: &Head) -> Option<Vec<Option<ColumnPlace<'_>>>> {
        let place = |path: &str| head.columns.iter().position(|c| c.path == path);
        let mut places = Vec::with_capacity(self.paths.len() + 1);
        for (path, over) in self.paths.list().iter().zip(&self.over) {
            let at = place(over.as_str());
            if at.is_none() && !head.is_complete {
                return None;
            }
            places.push(at.map(|at| ColumnPlace {
                number: at as u32 + 1,
                below: (path != over).then(|| (path, over.parts().len())),
            }));
        }
        if self.makes_documents {
            places.push(Some(ColumnPlace {
                number: place(SHAPES)? as u32 + 1,
                below: None,
            }));
        }
        Some(places)
    }

    /// What becomes of a segment of which so many documents were touched.
    pub(crate) fn use_of(&self, head: &Head, touched: usize) -> SegmentUse {
        self.look(head, touched).0
    }

    /// The same with the work.
    fn look(&self, head: &Head, touched: usize) -> (SegmentUse, ColumnWork) {
        let (rows, notes) = (f64::from(head.rows), touched as f64);
        let by_documents = ColumnWork {
            docs: rows,
            cost: rows * SCANNED + notes * NOTE,
            ..ColumnWork::default()
        };
        let Some(places) = self.columns_of(head) else {
            return (SegmentUse::Documents, by_documents);
        };
        let at = |place: &ColumnPlace<'_>| head.columns.get(place.number as usize - 1);
        let fetched = notes * (FETCHED + NOTE);
        // Bounds are those of the values of the column itself.
        let own = |place: &Option<ColumnPlace<'_>>| {
            let place = place.as_ref().filter(|p| p.below.is_none())?;
            at(place)
        };
        let mut both = places.iter().map(own).zip(&self.ranges);
        if both.any(|(column, ranges)| has_none_of(column, ranges.as_ref())) {
            let work = ColumnWork {
                docs: notes,
                cost: fetched,
                ..ColumnWork::default()
            };
            return (SegmentUse::Skipped, work);
        }
        // Those of one column may be those of another.
        let apart = places.iter().flatten().filter_map(at).map(|c| c.apart);
        let apart = apart.max();
        let apart = f64::from(apart.unwrap_or(0));
        let by_columns = ColumnWork {
            rows,
            docs: notes + apart,
            cost: SEGMENT + rows * self.row_cost + fetched + apart * FETCHED,
            ..ColumnWork::default()
        };
        match by_columns.cost < by_documents.cost {
            true => (SegmentUse::Columns, by_columns),
            false => (SegmentUse::Documents, by_documents),
        }
    }

    /// The work of all segments, and of what is in none.
    fn work(&self, docs: f64, segments: &Segments) -> ColumnWork {
        let outside = (docs - segments.rows() as f64).max(0.0);
        let mut all = ColumnWork {
            docs: outside,
            cost: outside * SCANNED,
            ..ColumnWork::default()
        };
        for segment in &segments.list {
            let touched = segments.touched_of(segment).len();
            let (_, one) = self.look(&segment.head, touched);
            all.rows += one.rows;
            all.docs += one.docs;
            all.cost += one.cost;
            all.least = all.least.max(one.cost);
        }
        all
    }
}

/// Whether all values of a column lie elsewhere.
fn has_none_of(column: Option<&ColumnHead>, ranges: Option<&Ranges>) -> bool {
    let zone = column.and_then(|c| c.zone.as_ref());
    zone.zip(ranges)
        .is_some_and(|(zone, ranges)| !ranges.iter().any(|(low, high)| zone.meets(low, high)))
}
