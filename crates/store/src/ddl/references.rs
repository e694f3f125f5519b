//! Saves what the log refers to before many records are removed at once (ADR 0051). Promises: when
//! the records of a collection are dropped, each document that an entry of the log refers to is
//! saved in the log. Must not know: why they are dropped.

use crate::catalog::Collection;
use crate::commit::WriteUnit;
use crate::ddl::writer::CatalogWriter;
use crate::error;
use crate::format::log as row;
use crate::format::record;
use crate::log::{Log, records_of_row};
use model::Result;
use storage::{Cursor, CursorOpts, KeyRange, Table, WriteBatch};

/// Rows visited between two checks of the operation.
const ROWS_MAX: usize = 256;
/// Bytes of saved documents in one commit.
const BATCH_BYTES: usize = 1 << 20;

/// Whether others may write to the collection meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writers {
    /// Their inserts are left to a second call.
    Inside,
    /// The gate is closed.
    Out,
}

/// Documents that are being saved.
struct Saving<'s> {
    catalog: &'s CatalogWriter<'s>,
    log: &'s Log,
    coll: &'s Collection,
    writers: Writers,
    /// Earlier entries are gone, or their documents are saved.
    from: u64,
    batch: WriteBatch,
}

impl CatalogWriter<'_> {
    /// Saves the documents of a collection, if there is one, that the log refers to. Called once
    /// while others write,
    /// when most of the work is done, and again behind the closed gate, before the drop. A document
    /// that is saved in vain does no harm.
    ///
    /// # Output
    /// Whether the log may have referred to some.
    ///
    /// # Cost
    /// None when nothing was inserted that the log still has. Otherwise the first call reads the
    /// collection, or the log where that is smaller, and the second one the log from there on.
    ///
    /// # Errors
    /// The reason when the operation is interrupted; engine failures.
    pub(super) fn save_referenced(
        &self,
        coll: Option<&Collection>,
        writers: Writers,
    ) -> Result<bool> {
        let Some((log, coll)) = self.shared.feed.as_deref().zip(coll) else {
            return Ok(false);
        };
        let oldest = log.oldest().as_u64();
        let saved = coll.live.saved_time();
        if coll.is_view() || coll.is_log() || coll.live.referenced_time() < oldest {
            return Ok(false);
        }
        // Commits up to here were applied. Behind the gate that is true of all of this collection.
        let end = match writers {
            Writers::Inside => log.visible().as_u64(),
            Writers::Out => log.latest().as_u64(),
        };
        let mut saving = Saving {
            catalog: self,
            log,
            coll,
            writers,
            from: oldest.max(saved.saturating_add(1)),
            batch: WriteBatch::new(),
        };
        if coll.live.referenced_time() >= saving.from {
            let log_bytes = log.counts(self.shared.engine.as_ref())?.1;
            match saved >= oldest || coll.size_bytes() > log_bytes {
                true => saving.walk_log()?,
                false => saving.scan_records()?,
            }
            saving.write()?;
            coll.live.note_saved(end);
        }
        Ok(true)
    }
}

impl Saving<'_> {
    /// Saves the documents of the records that have a time.
    fn scan_records(&mut self) -> Result<()> {
        let (lower, upper) = self.coll.key_bounds();
        let mut cursor = self.cursor(Table::Doc, KeyRange::new(&lower, &upper))?;
        let (log, from, mut more) = (self.log, self.from, true);
        while more {
            self.catalog.operation().check()?;
            let batch = &mut self.batch;
            more = cursor
                .visit(ROWS_MAX, &mut |_, value| {
                    if let Some((header, doc)) = record::read(value)
                        && header.time >= from
                    {
                        log.save(batch, header.time, doc.as_bytes());
                    }
                    batch.byte_len() < BATCH_BYTES
                })
                .map_err(error::storage)?;
            self.write_full()?;
        }
        Ok(())
    }

    /// Saves the documents of the records that entries of the log refer to.
    fn walk_log(&mut self) -> Result<()> {
        let ident = self.log.ident;
        let (lower, upper) = (row::key(ident, self.from), (ident + 1).to_be_bytes());
        let mut cursor = self.cursor(Table::Log, KeyRange::new(&lower, &upper))?;
        let engine = &self.catalog.shared.engine;
        let (log, of) = (self.log, self.coll.ident);
        let (mut more, mut done) = (true, Ok(()));
        while more {
            self.catalog.operation().check()?;
            let batch = &mut self.batch;
            more = cursor
                .visit(ROWS_MAX, &mut |key, value| {
                    let last = row::time_of(key).unwrap_or(0);
                    let each = &mut |time: u64, doc: &[u8]| log.save(batch, time, doc);
                    done = records_of_row(engine.as_ref(), of, last, value, each);
                    done.is_ok() && batch.byte_len() < BATCH_BYTES
                })
                .map_err(error::storage)?;
            std::mem::replace(&mut done, Ok(()))?;
            self.write_full()?;
        }
        Ok(())
    }

    fn cursor(&self, table: Table, range: KeyRange<'_>) -> Result<Box<dyn Cursor>> {
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let engine = &self.catalog.shared.engine;
        engine.cursor(table, range, opts).map_err(error::storage)
    }

    fn write_full(&mut self) -> Result<()> {
        match self.batch.byte_len() >= BATCH_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        // Waiting is not allowed behind the closed gate.
        if self.writers == Writers::Inside {
            let bytes = self.batch.byte_len();
            self.catalog.shared.admit(self.catalog.operation(), bytes);
        }
        self.catalog.commit(WriteUnit::new(&self.batch))?;
        self.batch.clear();
        Ok(())
    }
}
