//! Where several servers write: the end of a transaction that another server may still commit. Must
//! not know: who asks.

use crate::catalog::Shared;
use crate::commit::WriteUnit;
use crate::error;
use crate::write::session::{SessionId, SessionRecord};
use model::Result;
use std::iter;
use storage::WriteBatch;

impl Shared {
    /// Makes sure that no server commits the transaction with this number of a session any more:
    /// its number is recorded as used. Does nothing when a commit of this number or a later one is
    /// recorded.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn fence_transaction(&self, id: SessionId, number: i64) -> Result<()> {
        let engine = self.engine.as_ref();
        loop {
            // The unit begins first: what it finds unchanged is what the record was read from.
            let unit = engine.begin().map_err(error::storage)?;
            let mut record = SessionRecord::new(id);
            record.share();
            record.ensure_loaded(engine)?;
            if record.number().is_some_and(|last| last >= number) {
                return Ok(());
            }
            if !record.is_current(&unit)? {
                continue;
            }
            record.begin(engine, number)?;
            let mut batch = WriteBatch::new();
            let mut staged = record.stage(&mut batch, iter::empty());
            let write = WriteUnit::new(&batch).add_hook(&mut staged);
            match self.commit(write.commit_through(Some(unit))) {
                Err(e) if error::is_conflict(&e) => {}
                fenced => return fenced.map(|_| ()),
            }
        }
    }
}
