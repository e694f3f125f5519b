//! Replaces segments of a column index by a new one (docs/adr/0103-column-segments.md). Promises:
//! the new segment, the deletion of those it replaces, and the deletion of the notes it has taken
//! into account are one commit; nothing is written for a dropped index. Must not know: how values
//! are read from documents.

use crate::commit::WriteUnit;
use crate::format::segment::{self, Head, IDS, SegmentColumn};
use crate::index::Index;
use crate::view::columns::Segment;
use crate::write::writer::Writer;
use model::Result;
use std::sync::Arc;
use storage::{Table, WriteBatch, WriteClass};

/// A segment to be put.
pub struct NewSegment {
    /// Its head.
    pub head: Head,
    /// The encoded ids of its documents.
    pub ids: SegmentColumn,
    /// The columns in the order of the head.
    pub columns: Vec<SegmentColumn>,
}

/// What the same commit deletes.
pub struct ReplacedSegments<'r> {
    /// Segments that the new one replaces.
    pub segments: &'r [Segment],
    /// Notes of documents that were touched before the state from which the new segment was made.
    pub notes: &'r [Vec<u8>],
}

impl Writer<'_> {
    /// Puts a segment.
    ///
    /// # Output
    /// False when the index is gone; nothing was written then.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; engine failures, also for a segment that is
    /// too large for a batch.
    pub fn put_segment(
        &self,
        index: &Arc<Index>,
        new: &NewSegment,
        replaced: &ReplacedSegments<'_>,
    ) -> Result<bool> {
        let mut batch = WriteBatch::new();
        let of = index.ident();
        for old in replaced.segments {
            batch.delete(Table::Idx, &segment::head(of, old.number));
            for number in IDS..=old.head.columns.len() as u32 {
                batch.delete(Table::Idx, &segment::column(of, old.number, number));
            }
        }
        replaced
            .notes
            .iter()
            .for_each(|note| batch.delete(Table::Idx, note));
        let number = self.shared.new_ident()?;
        batch.put(Table::Idx, &segment::head(of, number), &new.head.encode());
        let columns = std::iter::once(&new.ids).chain(&new.columns);
        for (at, column) in (IDS..).zip(columns) {
            let key = segment::column(of, number, at);
            batch.put(Table::Idx, &key, &column.encode());
        }
        let engine = &self.shared.engine;
        engine.admit(batch.byte_len(), WriteClass::Background);
        // Inside the gate: once the index or the collection is dropped, nothing is written for it.
        let (_inside, state) = self.enter(self.operation)?;
        if !state.indexes.iter().any(|i| i.ident() == of) {
            return Ok(false);
        }
        self.commit(WriteUnit::new(&batch)).map(|_| true)
    }
}
