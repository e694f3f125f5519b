//! Saves what the log refers to before the records of a dropped collection go (ADR 0051). Promises:
//! an entry of the log that was not removed finds its document; a drop reads no record. Must not
//! know: why a collection is dropped.

use crate::catalog::{Collection, Shared};
use crate::commit::WriteUnit;
use crate::error;
use crate::format::log as row;
use crate::format::record;
use crate::log::{Log, records_of_row};
use crate::store::Store;
use model::Result;
use storage::{Cursor, CursorOpts, KeyRange, Table, WriteBatch, WriteClass};

/// Rows visited between two calls of `go_on`.
const ROWS_MAX: usize = 256;
/// Bytes of saved documents in one commit.
const BATCH_BYTES: usize = 1 << 20;

impl Collection {
    /// Whether entries of the log may refer to its records. Its gate is closed.
    pub(super) fn is_referenced(&self) -> bool {
        // A capped collection may have been another one when documents were inserted.
        let has_records = !self.is_view() && !self.is_log();
        let log = self.shared.feed.as_deref().filter(|_| has_records);
        log.is_some_and(|log| self.live.referenced_time() >= log.oldest().as_u64())
    }
}

impl Store {
    /// Saves the documents of dropped collections that the log refers to, then frees the space of
    /// their records. To be called about every second.
    ///
    /// # Output
    /// Collections for which this was done.
    ///
    /// # Cost
    /// One lock when there is nothing to do. Otherwise each collection is read, or the log where
    /// that is smaller.
    ///
    /// # Errors
    /// Those of `go_on`, which is called repeatedly; engine failures. The records stay then.
    pub fn save_references(&self, go_on: &dyn Fn() -> Result<()>) -> Result<usize> {
        let all = self.shared.referenced_leftovers();
        if all.is_empty() {
            return Ok(0);
        }
        let leftovers = all.iter().flat_map(|(_, leftovers)| leftovers);
        let records = leftovers.filter(|l| l.table == Table::Doc);
        let mut collections = 0;
        for leftover in records {
            if let Some(log) = &self.shared.feed {
                Saving::new(&self.shared, log, leftover.ident, go_on).save_all()?;
            }
            collections += 1;
        }
        self.shared.free_referenced(&all)?;
        Ok(collections)
    }
}

/// Documents under one identifier that are being saved. A document that is saved in vain does no
/// harm.
struct Saving<'s> {
    shared: &'s Shared,
    log: &'s Log,
    ident: u32,
    /// Earlier entries are gone. Above 0.
    from: u64,
    batch: WriteBatch,
    go_on: &'s dyn Fn() -> Result<()>,
}

impl<'s> Saving<'s> {
    fn new(
        shared: &'s Shared,
        log: &'s Log,
        ident: u32,
        go_on: &'s dyn Fn() -> Result<()>,
    ) -> Saving<'s> {
        Saving {
            shared,
            log,
            ident,
            // A record to which no entry refers has the time 0.
            from: log.oldest().as_u64().max(1),
            batch: WriteBatch::new(),
            go_on,
        }
    }

    /// Reads the records or the log, whichever is smaller.
    fn save_all(&mut self) -> Result<()> {
        let engine = self.shared.engine.as_ref();
        let (lower, upper) = self.bounds();
        let records = engine
            .approx_size(Table::Doc, KeyRange::new(&lower, &upper))
            .map_err(error::storage)?;
        let is_log_smaller = records > self.log.counts(engine)?.1;
        // A damaged row of the log hides what it refers to: all records are read then.
        if !is_log_smaller || self.walk_log().is_err() {
            self.scan_records()?;
        }
        self.write()
    }

    fn bounds(&self) -> ([u8; 4], [u8; 4]) {
        (self.ident.to_be_bytes(), (self.ident + 1).to_be_bytes())
    }

    /// Saves the documents of the records that have a time.
    fn scan_records(&mut self) -> Result<()> {
        let (lower, upper) = self.bounds();
        let mut cursor = self.cursor(Table::Doc, KeyRange::new(&lower, &upper))?;
        let (log, from, mut more) = (self.log, self.from, true);
        while more {
            (self.go_on)()?;
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
        let engine = &self.shared.engine;
        let (log, of) = (self.log, self.ident);
        let (mut more, mut done) = (true, Ok(()));
        while more {
            (self.go_on)()?;
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
        let engine = &self.shared.engine;
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
        let bytes = self.batch.byte_len();
        self.shared.engine.admit(bytes, WriteClass::Background);
        self.shared.commit(WriteUnit::new(&self.batch))?;
        self.batch.clear();
        Ok(())
    }
}
