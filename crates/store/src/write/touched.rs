//! The notes that writers make for column indexes: the id of every document whose record a batch
//! puts or deletes, in the same batch. So whichever code writes documents, a reader never uses the
//! values of a segment for a document that has changed since. Must not know: segments.

use crate::catalog::State;
use crate::error;
use crate::format::segment;
use crate::write::writer::Writer;
use model::Result;
use storage::{BatchOp, Table, WriteBatch};

impl Writer<'_> {
    /// Adds notes for the documents in a batch.
    ///
    /// # Cost
    /// A walk over the batch where there is a column index, otherwise none.
    ///
    /// # Errors
    /// 17280 for an id whose note is longer than the engine takes; engine failures.
    pub(super) fn note_touched(&self, state: &State, batch: &mut WriteBatch) -> Result<()> {
        for index in state.indexes.iter().filter(|i| i.is_columns()) {
            let touch = index.next_touch(&|| self.shared.new_ident())?;
            let max = self.shared.engine.caps().key_bytes_max;
            let record = self.ident.to_be_bytes();
            let mut notes = Vec::new();
            for op in batch.iter() {
                let (BatchOp::Put { table, key, .. } | BatchOp::Delete { table, key }) = op else {
                    continue;
                };
                if let (Table::Doc, Some(id)) = (table, key.strip_prefix(&record)) {
                    let note = segment::touch_key(index.ident(), id, touch);
                    if note.len() > max {
                        return Err(error::key_too_long(index.name(), note.len(), max));
                    }
                    notes.push(note);
                }
            }
            notes
                .iter()
                .for_each(|note| batch.put(Table::Idx, note, &[]));
        }
        Ok(())
    }
}
