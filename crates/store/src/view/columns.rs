//! The segments of a column index as a view sees them, and the documents that were touched since
//! (docs/adr/0103-column-segments.md). Promises: both are of one state, and a document that is not
//! listed as touched is unchanged in its segment. Must not know: what values are read for.

use crate::catalog::Collection;
use crate::error;
use crate::format::segment::{self, Head, IDS, SegmentColumn};
use crate::index::Index;
use crate::view::ReadView;
use model::{DocBuf, MongoError, Result};
use std::cell::Cell;
use storage::{CursorOpts, KeyRange, Table};

/// Rows between two checks for an interrupt.
const STEP_ROWS: usize = 4096;
/// Most touched documents that are listed: their ids are held in memory.
const TOUCHED_MAX: u64 = 1 << 20;

/// One segment: the documents between two ids.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Number in the keys of its rows.
    pub number: u32,
    /// Its head.
    pub head: Head,
}

/// The segments of a column index in one state.
pub struct Segments {
    /// The state in which the segments are read.
    pub view: ReadView,
    /// Non-overlapping segments in the order of their ids.
    pub list: Vec<Segment>,
    /// Encoded ids of touched documents of the segments, ascending, each once.
    pub touched: Vec<Vec<u8>>,
}

/// The part of a collection that comes next.
pub enum NextSegment {
    /// Documents that are in no segment.
    Documents {
        /// The id at which a segment begins; `None` is the end of the collection.
        until: Option<Vec<u8>>,
    },
    /// A segment.
    Columns {
        /// The state in which it is read.
        view: ReadView,
        /// The segment.
        segment: Segment,
        /// Encoded ids of its documents that were touched, ascending, each once.
        touched: Vec<Vec<u8>>,
    },
}

impl Segments {
    /// Number of documents in the segments.
    pub fn rows(&self) -> u64 {
        self.list.iter().map(|s| u64::from(s.head.rows)).sum()
    }

    /// The touched documents between the bounds of a segment.
    pub fn touched_documents(&self, segment: &Segment) -> &[Vec<u8>] {
        let at = |bound: &Vec<u8>| self.touched.partition_point(|id| id < bound);
        let (from, to) = (at(&segment.head.low), at(&segment.head.high));
        self.touched.get(from..to).unwrap_or_default()
    }
}

impl Collection {
    /// The segments of a column index for a scan of the collection in natural order. `None` where
    /// natural order is not key order, for a reader with uncommitted writes, without segments, and
    /// when more than one in `touched_one_of` of their documents was touched, or more than a
    /// million.
    ///
    /// # Cost
    /// A snapshot, a row for each segment, and a key for each write since the segments were made.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row; those of `go_on`.
    pub fn segments(
        &self,
        view: &ReadView,
        index: &Index,
        touched_one_of: u64,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Segments>> {
        if !self.may_have_segments() || self.is_scanned_by_arrival() || view.overlay().is_some() {
            return Ok(None);
        }
        let view = view.fix(self.shared.engine.as_ref())?;
        let mut all = Segments {
            list: self.segment_heads(&view, index)?,
            view,
            touched: Vec::new(),
        };
        let (Some(first), Some(last)) = (all.list.first(), all.list.last()) else {
            return Ok(None);
        };
        let most = (all.rows() / touched_one_of.max(1)).min(TOUCHED_MAX) as usize;
        let bounds = segment::touch_range(index.ident(), &first.head.low, Some(&last.head.high));
        let mut ids: Vec<Vec<u8>> = Vec::new();
        let mut is_whole = true;
        self.each_index_key(&all.view, &bounds, go_on, &mut |key| {
            let Some(id) = segment::touched_id(key) else {
                is_whole = false;
                return false;
            };
            if ids.last().is_none_or(|last| last != id) {
                ids.push(id.to_vec());
            }
            is_whole = ids.len() <= most;
            is_whole
        })?;
        // The rows of a dropped index are deleted from disk even if a view sees them.
        if !is_whole || all.view.has_lost_index(index) {
            return Ok(None);
        }
        // Where one id is a prefix of another, the order of the keys depends on the bytes after the
        // ids.
        ids.sort_unstable();
        ids.dedup();
        all.touched = ids;
        Ok(Some(all))
    }

    /// The part of the collection that comes next after an encoded id, in the state of a view, or
    /// the current one.
    ///
    /// # Cost
    /// A snapshot, a row for each segment, and a key for each write of the next segment since it
    /// was made.
    ///
    /// # Errors
    /// As [`Collection::segments`]; 175 QueryPlanKilled when the collection is gone.
    pub fn next_segment(
        &self,
        view: &ReadView,
        index: &Index,
        from: &[u8],
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<NextSegment> {
        let none = |until| NextSegment::Documents { until };
        // Segments do not contain the reader's own uncommitted writes.
        if view.overlay().is_some() {
            return Ok(none(None));
        }
        let view = view.fix(self.shared.engine.as_ref())?;
        let mut list = self.segment_heads(&view, index)?;
        list.retain(|segment| &segment.head.high[..] > from);
        let segment = list.into_iter().next();
        let next = match segment {
            None => none(None),
            Some(s) if from < &s.head.low[..] => none(Some(s.head.low)),
            Some(segment) => {
                let (low, high) = (&segment.head.low, Some(&segment.head.high[..]));
                let notes = self.read_touch_notes(&view, index, low, high, usize::MAX, go_on)?;
                let ids = notes.iter().filter_map(|note| segment::touched_id(note));
                let mut touched: Vec<Vec<u8>> = ids.map(<[u8]>::to_vec).collect();
                touched.sort_unstable();
                touched.dedup();
                let view = view.clone();
                NextSegment::Columns {
                    view,
                    segment,
                    touched,
                }
            }
        };
        view.check_kept(self)?;
        Ok(match view.has_lost_index(index) {
            true => none(None),
            false => next,
        })
    }

    /// Whether a collection of this kind may have a column index.
    pub fn may_have_segments(&self) -> bool {
        !(self.is_capped() || self.is_series() || self.is_view() || self.as_log().is_some())
    }

    /// The segments of a column index in the order of their ids.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub fn segment_heads(&self, view: &ReadView, index: &Index) -> Result<Vec<Segment>> {
        let [lower, upper] = segment::heads(index.ident());
        let range = KeyRange::new(&lower, &upper);
        let engine = self.shared.engine.as_ref();
        let mut cursor = view.cursor(engine, Table::Idx, range, CursorOpts::default())?;
        let (mut list, sound) = (Vec::new(), Cell::new(true));
        let each = &mut |key: &[u8], value: &[u8]| {
            match segment::number_of(key).zip(Head::decode(value)) {
                Some((number, head)) => list.push(Segment { number, head }),
                None => sound.set(false),
            }
            sound.get()
        };
        while cursor.visit(STEP_ROWS, each).map_err(error::storage)? && sound.get() {}
        let by_low = |a: &Segment, b: &Segment| a.head.low.cmp(&b.head.low);
        list.sort_unstable_by(by_low);
        let is_apart = |pair: &[Segment]| match pair {
            [a, b] => a.head.high <= b.head.low,
            _ => true,
        };
        match sound.get() && list.windows(2).all(is_apart) {
            true => Ok(list),
            false => Err(damage_error(self, index)),
        }
    }

    /// Notes of touched documents from one encoded id up to another (`None` is the end), at most
    /// `max` notes.
    ///
    /// # Errors
    /// Engine failures; those of `go_on`.
    pub fn read_touch_notes(
        &self,
        view: &ReadView,
        index: &Index,
        low: &[u8],
        high: Option<&[u8]>,
        max: usize,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<Vec<u8>>> {
        let bounds = segment::touch_range(index.ident(), low, high);
        let mut notes = Vec::new();
        self.each_index_key(view, &bounds, go_on, &mut |key| {
            notes.push(key.to_vec());
            notes.len() < max
        })?;
        Ok(notes)
    }

    fn each_index_key(
        &self,
        view: &ReadView,
        [lower, upper]: &[Vec<u8>; 2],
        go_on: &dyn Fn() -> Result<()>,
        f: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        if lower >= upper {
            return Ok(());
        }
        let opts = CursorOpts {
            keys_only: true,
            ..CursorOpts::default()
        };
        let range = KeyRange::new(lower, upper);
        let engine = self.shared.engine.as_ref();
        let mut cursor = view.cursor(engine, Table::Idx, range, opts)?;
        let wants = Cell::new(true);
        let each = &mut |key: &[u8], _: &[u8]| {
            wants.set(f(key));
            wants.get()
        };
        while cursor.visit(STEP_ROWS, each).map_err(error::storage)? && wants.get() {
            go_on()?;
        }
        Ok(())
    }

    /// A column of a segment; `None` when it does not exist any more or is damaged: the documents
    /// have to be read then.
    ///
    /// # Errors
    /// Engine failures.
    pub fn segment_column(
        &self,
        view: &ReadView,
        index: &Index,
        of: &Segment,
        number: u32,
    ) -> Result<Option<SegmentColumn>> {
        let key = segment::column(index.ident(), of.number, number);
        let mut column = None;
        let decode = &mut |bytes: &[u8]| {
            column = SegmentColumn::decode(bytes, of.head.rows as usize);
        };
        view.get_with(self.shared.engine.as_ref(), Table::Idx, &key, decode)?;
        Ok(column)
    }

    /// The documents of encoded ids, each at the position of its id.
    ///
    /// # Errors
    /// As [`Collection::get_encoded`].
    pub fn documents_of(&self, view: &ReadView, ids: &[Vec<u8>]) -> Result<Vec<Option<DocBuf>>> {
        let wanted: Vec<&[u8]> = ids.iter().map(Vec::as_slice).collect();
        let mut docs = vec![None; ids.len()];
        let mut at = 0;
        self.get_encoded(view, &wanted, &mut |row| {
            // Skips the ids without a document.
            at += wanted
                .iter()
                .skip(at)
                .take_while(|w| **w != row.id())
                .count();
            if let Some(place) = docs.get_mut(at) {
                *place = Some(row.doc.to_buf());
            }
            at += 1;
            true
        })?;
        Ok(docs)
    }

    /// The encoded ids of a segment's documents, as [`Collection::segment_column`].
    ///
    /// # Errors
    /// As [`Collection::segment_column`].
    pub fn segment_ids(
        &self,
        view: &ReadView,
        index: &Index,
        of: &Segment,
    ) -> Result<Option<SegmentColumn>> {
        self.segment_column(view, index, of, IDS)
    }
}

fn damage_error(coll: &Collection, index: &Index) -> MongoError {
    error::corrupt(&format!(
        "segments of index {} of {}",
        index.name(),
        coll.ns()
    ))
}
