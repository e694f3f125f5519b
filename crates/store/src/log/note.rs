//! Entries that record no change.

use super::concerned::NamespaceHash;
use super::entry::{EntryList, LogRows};
use super::times::Log;
use crate::commit::{WriteUnit, commit};
use model::{DocBuf, Result, Timestamp};
use storage::{Engine, WriteBatch};

impl Log {
    /// Writes an entry that records no change (`op: "n"`).
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn note(&self, engine: &dyn Engine, message: &DocBuf) -> Result<Timestamp> {
        let mut batch = WriteBatch::new();
        let mut entries = EntryList::default();
        entries.push(|w| {
            w.put("op", "n").put("ns", "").put("o", message);
        });
        let mut rows = LogRows::new(self, smallvec::smallvec![NamespaceHash::ALL]);
        rows.documents(&mut batch, &entries);
        let mut rows = Some(rows);
        commit(engine, WriteUnit::with_stamp(&mut batch, &mut rows))?;
        Ok(Timestamp::from_u64(rows.map_or(0, |r| r.last())))
    }
}
