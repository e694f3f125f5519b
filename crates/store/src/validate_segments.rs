//! `validate` of column indexes: segments can be read, do not overlap, and have exactly the
//! documents of the collection, except for those that were touched. Must not know: how values are
//! read from documents, so it does not compare them.

use crate::catalog::Collection;
use crate::error;
use crate::format::segment::SegmentColumn;
use crate::index::Index;
use crate::validate::{Validation, hex};
use crate::view::ReadView;
use crate::view::columns::Segment;
use model::Result;
use rustc_hash::FxHashSet;
use storage::{CursorOpts, KeyRange, Table};

impl Collection {
    /// Checks the segments of a column index; the caller keeps writers out.
    ///
    /// # Output
    /// Documents in segments.
    pub(crate) fn check_segments(
        &self,
        index: &Index,
        go_on: &dyn Fn() -> Result<()>,
        v: &mut Validation,
    ) -> Result<u64> {
        let view = ReadView::LATEST;
        let segments = match self.segment_heads(&view, index) {
            Ok(segments) => segments,
            Err(e) => {
                v.errors.push(format!("index {}: {e}", index.name()));
                return Ok(0);
            }
        };
        let mut rows = 0;
        for segment in &segments {
            go_on()?;
            rows += u64::from(segment.head.rows);
            let wrong = |what: &str| {
                let (name, number) = (index.name(), segment.number);
                format!("index {name}: segment {number}: {what}")
            };
            for number in 1..=segment.head.columns.len() as u32 {
                if self
                    .segment_column(&view, index, segment, number)?
                    .is_none()
                {
                    v.errors.push(wrong(&format!("column {number} is damaged")));
                }
            }
            match self.segment_ids(&view, index, segment)? {
                None => v.errors.push(wrong("its ids are damaged")),
                Some(ids) => {
                    if let Some(id) = self.find_stray(index, segment, &ids, go_on)? {
                        let what = format!("the document at {} is not the same", hex(&id));
                        v.errors.push(wrong(&what));
                    }
                }
            }
        }
        Ok(rows)
    }

    /// The first id that is in only one of segment and collection and was not touched.
    fn find_stray(
        &self,
        index: &Index,
        segment: &Segment,
        ids: &SegmentColumn,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        let (low, high) = (&segment.head.low[..], &segment.head.high[..]);
        let (view, all) = (ReadView::LATEST, usize::MAX);
        let notes = self.read_touch_notes(&view, index, low, Some(high), all, go_on)?;
        let touched: FxHashSet<&[u8]> = notes
            .iter()
            .filter_map(|n| crate::format::segment::touched_id(n))
            .collect();
        let mut there: FxHashSet<Vec<u8>> = FxHashSet::default();
        let (lower, upper) = (self.key_of(low), self.key_of(high));
        if lower < upper {
            let opts = CursorOpts {
                keys_only: true,
                ..CursorOpts::default()
            };
            let range = KeyRange::new(&lower, &upper);
            let engine = self.shared.engine.as_ref();
            let mut cursor = engine
                .cursor(Table::Doc, range, opts)
                .map_err(error::storage)?;
            let each = &mut |key: &[u8], _: &[u8]| {
                there.insert(key.get(4..).unwrap_or_default().to_vec());
                true
            };
            while cursor.visit(4096, each).map_err(error::storage)? {}
        }
        let mut last: Option<&[u8]> = None;
        for at in 0..ids.len() {
            let id = ids.long(at);
            let is_placed = last.is_none_or(|last| last < id) && low <= id && id < high;
            last = Some(id);
            if !is_placed || !there.remove(id) && !touched.contains(id) {
                return Ok(Some(id.to_vec()));
            }
        }
        there.retain(|id| !touched.contains(&id[..]));
        Ok(there.into_iter().next())
    }
}
