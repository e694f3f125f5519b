//! A read of a collection from the segments of a column index: how each segment is used, and the
//! cost compared with a scan. Must not know: how segments are read, how indexes are chosen.

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
/// ... of each field of a document that is built from columns ...
const FIELD: f64 = 0.08;
/// ... and of opening a segment.
const SEGMENT: f64 = 2.0;
/// The cost of the note that a document has changed.
const NOTE: f64 = 0.3;
/// The unit of costs is scanning a document of this many bytes; if documents are wider, a value
/// costs less in comparison.
const NARROW_BYTES: f64 = 512.0;

/// Ranges of a path's values, as bytes of index entries.
pub(super) type Ranges = Vec<(Vec<u8>, Vec<u8>)>;

/// What a read that may use columns needs after the filter.
#[derive(Clone, Copy)]
pub enum RequiredOutput<'r> {
    /// The values at these paths.
    Values(&'r Paths),
    /// Documents with these paths.
    Documents(&'r [String]),
}

/// How a segment is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentUse {
    /// Its documents are read: columns do not have all paths, or cost more.
    Documents,
    /// None of its rows can match: only documents that have changed since are read.
    Skipped,
    /// Its columns are read, and single documents where needed.
    Columns,
}

/// A read by one column index.
pub struct ColumnPlan {
    /// The paths of the read and their columns.
    pub(crate) lens: Arc<ColumnLens>,
    /// The segments in the plan's snapshot.
    pub(crate) segments: Segments,
    /// The work of the whole read.
    work: ColumnWork,
}

/// The paths of a read by a column index, and what it makes of them.
pub(crate) struct ColumnLens {
    pub(crate) index: Arc<Index>,
    /// All paths of the read; those used after the filter come first.
    pub(crate) paths: Arc<Paths>,
    /// For each path, the path of the column that holds it: the same path or one above it.
    pub(super) over: Vec<FieldPath>,
    /// The number of paths used after the filter.
    pub(crate) behind: usize,
    /// Documents are built from the columns.
    pub(crate) makes_documents: bool,
    /// The filter's ranges for each path; `None` for a path without ranges.
    pub(super) ranges: Vec<Option<Ranges>>,
    pub(super) row_cost: f64,
}

/// The place of a path's values in a segment.
#[derive(Clone, Copy)]
pub(crate) struct ColumnPlace<'l> {
    /// The number of the column.
    pub(crate) number: u32,
    /// If the values are inside those of the column: the path, and how many of its parts lead to
    /// the column.
    pub(crate) below: Option<(&'l FieldPath, usize)>,
}

/// The estimated work of a read by columns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ColumnWork {
    /// Rows of segments read.
    pub(super) rows: f64,
    /// Documents that are read.
    pub(super) docs: f64,
    pub(super) cost: f64,
    /// The cost of the most expensive segment: reading a single document may cost as much.
    least: f64,
}

impl ColumnWork {
    /// The work for a share of the matching documents.
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
    /// A plan for a collection of `docs` documents.
    pub(super) fn new(lens: ColumnLens, segments: Segments, docs: f64) -> ColumnPlan {
        ColumnPlan {
            work: lens.work(docs, &segments),
            lens: Arc::new(lens),
            segments,
        }
    }

    /// The estimated work.
    pub(super) fn work(&self) -> ColumnWork {
        self.work
    }
}

/// The cost of a row with `values` values, from which `fields` fields of a document are built.
pub(super) fn row_cost(values: usize, fields: usize, document_bytes: f64) -> f64 {
    let row = ROW + values as f64 * VALUE + fields as f64 * FIELD;
    row * (NARROW_BYTES / document_bytes.max(NARROW_BYTES))
}

impl ColumnLens {
    /// The columns to read of a segment; the column of shapes is last if documents are built. An
    /// inner `None` stands for a path at which no document has a value. The result is `None` if the
    /// segment does not have all paths.
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

    /// How to use a segment of which `touched` documents have changed.
    pub(crate) fn use_of(&self, head: &Head, touched: usize) -> SegmentUse {
        self.estimate_segment(head, touched).0
    }

    /// The same, with the work.
    fn estimate_segment(&self, head: &Head, touched: usize) -> (SegmentUse, ColumnWork) {
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
        // The stored bounds are those of the column's own values, not of values inside them.
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
        // The same rows may be marked in several columns, so the largest number is taken.
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

    /// The work for all segments and for the documents outside of segments.
    fn work(&self, docs: f64, segments: &Segments) -> ColumnWork {
        let outside = (docs - segments.rows() as f64).max(0.0);
        let mut all = ColumnWork {
            docs: outside,
            cost: outside * SCANNED,
            ..ColumnWork::default()
        };
        for segment in &segments.list {
            let touched = segments.touched_documents(segment).len();
            let (_, one) = self.estimate_segment(&segment.head, touched);
            all.rows += one.rows;
            all.docs += one.docs;
            all.cost += one.cost;
            all.least = all.least.max(one.cost);
        }
        all
    }
}

/// Whether all values of a column are outside the ranges.
fn has_none_of(column: Option<&ColumnHead>, ranges: Option<&Ranges>) -> bool {
    let zone = column.and_then(|c| c.zone.as_ref());
    zone.zip(ranges)
        .is_some_and(|(zone, ranges)| !ranges.iter().any(|(low, high)| zone.meets(low, high)))
}
