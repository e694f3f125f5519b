//! One segment of a column index as it is read: its rows, with the documents that columns do not
//! hold, and those that were touched since, in their places. Promises: what is taken, and in which
//! order, is what a scan of the segment's documents gives. Must not know: which segments there are,
//! what becomes of what is taken.

use super::taker::{Step, Taker};
use crate::plan::{ColumnLens, SegmentUse};
use model::{Doc, DocBuf, FieldPath, Result, Tag};
use operators::columns::{Batch, Column, Paths};
use std::ops::Range;
use store::format::segment::APART;
use store::{Collection, ReadView, Segment, SegmentColumn};

/// Documents fetched at once.
const FETCHED: usize = 64;
/// Bytes that the id of a document to be read takes in memory, about.
const OTHER_BYTES: usize = 48;

/// Where a segment is read.
#[derive(Clone, Copy)]
pub(super) struct SegmentSource<'s> {
    pub(super) coll: &'s Collection,
    pub(super) view: &'s ReadView,
    pub(super) lens: &'s ColumnLens,
}

/// A segment at hand.
pub(super) struct OpenSegment {
    /// None of its documents matches as it was, so there are no rows.
    pub(super) is_skipped: bool,
    columns: Vec<Option<Column>>,
    ids: SegmentColumn,
    rows: usize,
    /// The ids of documents that are read, ascending.
    others: Vec<Vec<u8>>,
    /// Some of these documents, the first is that of `fetched_from`.
    fetched: Vec<Option<DocBuf>>,
    fetched_from: usize,
    next_row: usize,
    next_other: usize,
}

/// What was taken.
#[derive(Clone, Copy, Default)]
pub(super) struct TakenRows {
    pub(super) rows: u64,
    pub(super) docs: u64,
}

impl OpenSegment {
    /// Opens one of which these documents were touched; `None` when its documents are to be read
    /// instead. `keeps_ids`: [`OpenSegment::position`] will be asked.
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
            open.others = others(&ids, &apart, touched);
            open.ids = ids;
        }
        Ok(Some(open))
    }

    /// Takes up to so many rows, or some documents; tells what that was.
    ///
    /// # Output
    /// How it ended; the taker may have wanted no more.
    ///
    /// # Errors
    /// Those of the taker and of the store.
    pub(super) fn step<T: Taker>(
        &mut self,
        source: SegmentSource<'_>,
        max_rows: usize,
        taker: &mut T,
        taken: &mut TakenRows,
    ) -> Result<Step> {
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
                    true => Step::More,
                    false => Step::Stop,
                });
            }
            let Some(id) = next else {
                return Ok(Step::End);
            };
            if at < self.rows && self.ids.long(at) == &id[..] {
                self.next_row = at + 1;
            }
            let doc = self.fetch(source)?;
            self.next_other += 1;
            if let Some(doc) = doc {
                taken.docs += 1;
                if !taker.take(doc.doc())? {
                    return Ok(Step::Stop);
                }
            }
        }
        Ok(Step::More)
    }

    /// The next of the documents that are read; `None` when it is not there any more.
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

    /// The encoded id of what comes next; `None` at the end. Only where ids are kept.
    pub(super) fn position(&self) -> Option<&[u8]> {
        let row = (self.next_row < self.rows).then(|| self.ids.long(self.next_row));
        let other = self.others.get(self.next_other).map(Vec::as_slice);
        match (row, other) {
            (Some(row), Some(other)) => Some(row.min(other)),
            (row, other) => row.or(other),
        }
    }

    /// Leaves out what lies before an encoded id. Only where ids are kept.
    pub(super) fn skip_to(&mut self, id: &[u8]) {
        self.next_row = find(&self.ids, 0..self.rows, id);
        self.next_other = self.others.partition_point(|other| &other[..] < id);
    }

    /// Bytes held in memory, about.
    pub(super) fn capacity_bytes(&self) -> usize {
        let columns = self.columns.iter().flatten().map(Column::capacity_bytes);
        let ids = self.ids.bytes.len() + 9 * self.ids.len();
        columns.sum::<usize>() + ids + OTHER_BYTES * self.others.len()
    }
}

/// The values at a path of which so many parts lead to those of a column: as they are taken out of
/// documents, and marked where an array stands on the way.
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

/// The ids of documents that are read, in their order: those of rows apart, and touched ones.
fn others(ids: &SegmentColumn, apart: &[usize], touched: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = apart.iter().map(|row| ids.long(*row).to_vec()).collect();
    all.extend_from_slice(touched);
    all.sort_unstable();
    all.dedup();
    all
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
