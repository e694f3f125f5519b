//! An open segment of a column index: its rows, and in their places the documents that must be read
//! whole, because columns do not hold them or because they changed since. Promises: it gives the
//! documents of the segment in the order of a scan. Must not know: which segments there are, what
//! is done with the documents.

use super::taker::{Consumer, StepOutcome};
use crate::plan::{ColumnLens, SegmentUse};
use model::{Doc, DocBuf, FieldPath, Result, Tag};
use operators::columns::{Batch, Column, Paths};
use std::ops::Range;
use store::format::segment::APART;
use store::{Collection, ReadView, Segment, SegmentColumn};

/// Documents fetched together.
const FETCHED: usize = 64;
/// Approximate bytes in memory for the id of a document to be read.
const OTHER_BYTES: usize = 48;

/// The collection, the snapshot and the paths for which a segment is read.
#[derive(Clone, Copy)]
pub(super) struct SegmentSource<'s> {
    pub(super) coll: &'s Collection,
    pub(super) view: &'s ReadView,
    pub(super) lens: &'s ColumnLens,
}

/// An open segment.
pub(super) struct OpenSegment {
    /// No row of the segment can match, so none is read; changed documents still are.
    pub(super) is_skipped: bool,
    columns: Vec<Option<Column>>,
    ids: SegmentColumn,
    rows: usize,
    /// Ids of documents that must be read whole, ascending.
    others: Vec<Vec<u8>>,
    /// Some of these documents; the first belongs to the id number `fetched_from`.
    fetched: Vec<Option<DocBuf>>,
    fetched_from: usize,
    next_row: usize,
    next_other: usize,
}

/// The numbers of rows and documents taken.
#[derive(Clone, Copy, Default)]
pub(super) struct RowCounts {
    pub(super) rows: u64,
    pub(super) docs: u64,
}

impl OpenSegment {
    /// Opens a segment of which the documents `touched` have changed. `None` if its documents must
    /// be read instead. `keeps_ids` is needed for [`OpenSegment::position`].
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn open(
        source: SegmentSource<'_>,
        segment: &Segment,
        touched: &[Vec<u8>],
        keeps_ids: bool,
    ) -> Result<Option<OpenSegment>> {
        let SegmentSource { coll, view, lens } = source;
        let index = &lens.index;
        let of = |columns, others| OpenSegment {
            is_skipped: false,
            columns,
            ids: SegmentColumn::default(),
            rows: segment.head.rows as usize,
            others,
            fetched: Vec::new(),
            fetched_from: 0,
            next_row: 0,
            next_other: 0,
        };
        match lens.use_of(&segment.head, touched.len()) {
            SegmentUse::Documents => return Ok(None),
            SegmentUse::Skipped => {
                return Ok(Some(OpenSegment {
                    is_skipped: true,
                    rows: 0,
                    ..of(Vec::new(), touched.to_vec())
                }));
            }
            SegmentUse::Columns => {}
        }
        let Some(places) = lens.columns_of(&segment.head) else {
            return Ok(None);
        };
        let (mut columns, mut apart) = (Vec::with_capacity(places.len()), Vec::new());
        for place in places {
            let Some(place) = place else {
                columns.push(None);
                continue;
            };
            let read = coll.segment_column(view, index, segment, place.number)?;
            let Some(SegmentColumn { tags, words, bytes }) = read else {
                return Ok(None);
            };
            let column = Column::of_stored(tags, words, bytes);
            let column = match place.below {
                None => column,
                Some((path, above)) => values_below(&column, path, above),
            };
            let rows = column.tags().iter().enumerate();
            apart.extend(rows.filter(|(_, tag)| **tag == APART).map(|(row, _)| row));
            columns.push(Some(column));
        }
        apart.sort_unstable();
        apart.dedup();
        let mut open = of(columns, Vec::new());
        if keeps_ids || !(touched.is_empty() && apart.is_empty()) {
            let Some(ids) = coll.segment_ids(view, index, segment)? else {
                return Ok(None);
            };
            open.others = list_whole_documents(&ids, &apart, touched);
            open.ids = ids;
        }
        Ok(Some(open))
    }

    /// Takes up to `max_rows` rows, or some documents; adds their numbers to `taken`.
    ///
    /// # Output
    /// Whether more may follow; `Stop` if the taker wants no more.
    ///
    /// # Errors
    /// Those of the taker and of the store.
    pub(super) fn step<T: Consumer>(
        &mut self,
        source: SegmentSource<'_>,
        max_rows: usize,
        taker: &mut T,
        taken: &mut RowCounts,
    ) -> Result<StepOutcome> {
        for given in 0..max_rows.min(FETCHED) {
            let next = self.others.get(self.next_other);
            let at = next.map_or(self.rows, |id| {
                find(&self.ids, self.next_row..self.rows, id)
            });
            if self.next_row < at {
                let end = at.min(self.next_row + (max_rows - given).min(Batch::DOCS));
                let rows = self.next_row..end;
                taken.rows += rows.len() as u64;
                self.next_row = end;
                return Ok(match taker.take_rows(&self.columns, rows)? {
                    true => StepOutcome::More,
                    false => StepOutcome::Stop,
                });
            }
            let Some(id) = next else {
                return Ok(StepOutcome::End);
            };
            if at < self.rows && self.ids.long(at) == &id[..] {
                self.next_row = at + 1;
            }
            let doc = self.fetch(source)?;
            self.next_other += 1;
            if let Some(doc) = doc {
                taken.docs += 1;
                if !taker.take(doc.doc())? {
                    return Ok(StepOutcome::Stop);
                }
            }
        }
        Ok(StepOutcome::More)
    }

    /// The next document to be read whole; `None` if it was deleted.
    fn fetch(&mut self, source: SegmentSource<'_>) -> Result<Option<DocBuf>> {
        if self.next_other >= self.fetched_from + self.fetched.len() {
            let ids = self.others.get(self.next_other..).unwrap_or_default();
            let ids = ids.get(..FETCHED).unwrap_or(ids);
            self.fetched = source.coll.documents_of(source.view, ids)?;
            self.fetched_from = self.next_other;
        }
        let at = self.next_other - self.fetched_from;
        Ok(self.fetched.get_mut(at).and_then(Option::take))
    }

    /// The encoded id of the next row or document; `None` at the end. Needs `keeps_ids`.
    pub(super) fn position(&self) -> Option<&[u8]> {
        let row = (self.next_row < self.rows).then(|| self.ids.long(self.next_row));
        let other = self.others.get(self.next_other).map(Vec::as_slice);
        match (row, other) {
            (Some(row), Some(other)) => Some(row.min(other)),
            (row, other) => row.or(other),
        }
    }

    /// Skips everything before an encoded id. Needs `keeps_ids`.
    pub(super) fn skip_to(&mut self, id: &[u8]) {
        self.next_row = find(&self.ids, 0..self.rows, id);
        self.next_other = self.others.partition_point(|other| &other[..] < id);
    }

    /// Approximate bytes in memory.
    pub(super) fn capacity_bytes(&self) -> usize {
        let columns = self.columns.iter().flatten().map(Column::capacity_bytes);
        let ids = self.ids.bytes.len() + 9 * self.ids.len();
        columns.sum::<usize>() + ids + OTHER_BYTES * self.others.len()
    }
}

/// The values at `path` inside the values of a column, which stand at the first `above` parts of
/// the path. They are the same as if taken from the documents; a row with an array on the path is
/// marked [`APART`].
fn values_below(column: &Column, path: &FieldPath, above: usize) -> Column {
    let names = path.parts().get(above..).unwrap_or_default().iter();
    let names: Vec<&str> = names.map(|part| part.name.as_str()).collect();
    let mut paths = Paths::default();
    paths.add(&FieldPath::new(&names.join(".")));
    let (mut all, mut one) = (Column::default(), Column::default());
    for row in 0..column.len() {
        let (mut room, mut own) = ([0; 8], [0; 8]);
        let (tag, payload) = column.payload(row, &mut room);
        one.clear();
        let value = match tag {
            Tag::DOCUMENT => {
                let doc = Doc::from_prefix(payload);
                match paths.take(doc, std::slice::from_mut(&mut one)) {
                    true => one.payload(0, &mut own),
                    false => (Tag(APART), &[][..]),
                }
            }
            Tag::ARRAY | Tag(APART) => (Tag(APART), &[][..]),
            _ => (Tag::MISSING, &[][..]),
        };
        all.push_raw(value.0, value.1);
    }
    all
}

/// The ids of documents that must be read whole, sorted: those of rows marked [`APART`], and
/// changed ones.
fn list_whole_documents(ids: &SegmentColumn, apart: &[usize], touched: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = apart.iter().map(|row| ids.long(*row).to_vec()).collect();
    all.extend_from_slice(touched);
    all.sort_unstable();
    all.dedup();
    all
}

/// The first of the rows whose id is not less than `id`.
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
