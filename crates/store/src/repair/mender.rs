//! The changes of data and reports that all steps of a repair share. Must not know: what is wrong.

use super::salvage;
use crate::commit::{WriteUnit, commit};
use crate::error;
use model::{Doc, Namespace, Result};
use storage::{CursorOpts, Engine, KeyRange, RowBatch, Table, WriteBatch};

/// Receives the data that a repair removes, and a report of what it does.
pub trait SalvageSink {
    /// Receives a complete document.
    ///
    /// # Errors
    /// A failure to store it; the repair ends then.
    fn document(&mut self, ns: &Namespace, doc: Doc<'_>, why: &str) -> Result<()>;

    /// Receives a row that is not readable in full.
    ///
    /// # Errors
    /// As [`SalvageSink::document`].
    fn row(&mut self, row: &DamagedRow<'_>) -> Result<()>;

    /// Makes everything that was received durable; called before any of it is removed.
    ///
    /// # Errors
    /// As [`SalvageSink::document`].
    fn keep(&mut self) -> Result<()>;

    /// One line for each defect.
    fn report_defect(&mut self, line: &str);

    /// A new UUID for a collection whose own is unreadable.
    fn new_uuid(&mut self) -> [u8; 16];
}

/// A damaged row as it was found.
#[derive(Clone, Copy, Debug)]
pub struct DamagedRow<'r> {
    /// The collection that it belongs to, where that is known.
    pub ns: Option<&'r Namespace>,
    /// Its table.
    pub table: Table,
    /// Key of the row.
    pub key: &'r [u8],
    /// Value of the row.
    pub value: &'r [u8],
    /// The readable part of its value.
    pub readable: Doc<'r>,
    /// The defect of the row.
    pub why: &'r str,
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Number of collections read.
    pub collections: u64,
    /// Number of documents after the repair.
    pub documents: u64,
    /// Complete documents handed to the caller.
    pub documents_apart: u64,
    /// Rows that are not readable in full, handed to the caller.
    pub rows_apart: u64,
    /// Number of index entries put.
    pub entries_put: u64,
    /// Number of index entries removed.
    pub entries_removed: u64,
    /// Number of counters, marks, places and catalog rows repaired.
    pub mended: u64,
}

impl RepairReport {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        let nothing = RepairReport {
            collections: self.collections,
            documents: self.documents,
            ..RepairReport::default()
        };
        *self == nothing
    }
}

/// A stored row.
#[derive(Clone, Copy)]
pub(super) struct Row<'r> {
    pub(super) table: Table,
    pub(super) key: &'r [u8],
    pub(super) value: &'r [u8],
}

impl<'r> Row<'r> {
    pub(super) fn of_meta(key: &'r [u8], value: &'r [u8]) -> Row<'r> {
        let table = Table::Meta;
        Row { table, key, value }
    }

    pub(super) fn of_documents(key: &'r [u8], value: &'r [u8]) -> Row<'r> {
        let table = Table::Doc;
        Row { table, key, value }
    }
}

/// Called with the key and value of a row.
type RowRepair<'f, 'm> = dyn FnMut(&mut RepairContext<'m>, &[u8], &[u8]) -> Result<()> + 'f;

/// The context that all steps use to change data.
pub(super) struct RepairContext<'m> {
    pub(super) engine: &'m dyn Engine,
    pub(super) aside: &'m mut dyn SalvageSink,
    /// Whether the repair may change data.
    pub(super) changes: bool,
    /// Something was handed to the caller and must be made durable before the next commit.
    pub(super) taken: bool,
    pub(super) done: RepairReport,
}

impl<'m> RepairContext<'m> {
    pub(super) fn new(
        engine: &'m dyn Engine,
        aside: &'m mut dyn SalvageSink,
        changes: bool,
    ) -> RepairContext<'m> {
        RepairContext {
            engine,
            aside,
            changes,
            taken: false,
            done: RepairReport::default(),
        }
    }

    /// Reports a defect that the next commit repairs.
    pub(super) fn report_mended(&mut self, line: &str) {
        self.done.mended += 1;
        self.aside.report_defect(line);
    }

    /// Hands a complete document to the caller.
    pub(super) fn take_document(&mut self, ns: &Namespace, doc: Doc<'_>, why: &str) -> Result<()> {
        self.done.documents_apart += 1;
        let id = doc.field("_id");
        self.aside.report_defect(&format!(
            "{ns}: the document with _id {id} is set apart: {why}"
        ));
        self.keep_document(ns, doc, why)
    }

    /// Hands over a document whose defect was reported already.
    pub(super) fn keep_document(&mut self, ns: &Namespace, doc: Doc<'_>, why: &str) -> Result<()> {
        self.taken = true;
        match self.changes {
            true => self.aside.document(ns, doc, why),
            false => Ok(()),
        }
    }

    /// Hands over a row that is not readable in full.
    pub(super) fn take_row(
        &mut self,
        ns: Option<&Namespace>,
        row: Row<'_>,
        why: &str,
    ) -> Result<()> {
        let Row { table, key, value } = row;
        self.done.rows_apart += 1;
        self.taken = true;
        let place = ns.map_or_else(|| table.name().to_owned(), ToString::to_string);
        self.aside.report_defect(&format!(
            "{place}: the row at {} is set apart: {why}",
            hex(key)
        ));
        if self.changes {
            let document = match table {
                Table::Doc => salvage::last_document(value),
                _ => value,
            };
            let readable = salvage::readable(document);
            self.aside.row(&DamagedRow {
                ns,
                table,
                key,
                value,
                readable: readable.doc(),
                why,
            })?;
        }
        Ok(())
    }

    /// Applies a batch, and clears it.
    pub(super) fn apply(&mut self, batch: &mut WriteBatch) -> Result<()> {
        if self.changes && !batch.is_empty() {
            if std::mem::take(&mut self.taken) {
                self.aside.keep()?;
            }
            commit(self.engine, WriteUnit::new(batch))?;
        }
        batch.clear();
        Ok(())
    }

    /// The value of a key.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let found = self.engine.get(table, key, &mut value);
        Ok(found.map_err(error::storage)?.then_some(value))
    }

    /// Calls `f` for all rows of a range, in parts; between parts no cursor is open.
    pub(super) fn each_row(
        &mut self,
        table: Table,
        range: KeyRange<'_>,
        f: &mut RowRepair<'_, 'm>,
    ) -> Result<()> {
        let (mut after, mut rows) = (range.lower.to_vec(), RowBatch::new());
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        loop {
            let left = KeyRange::new(&after, range.upper);
            let mut cursor = self
                .engine
                .cursor(table, left, opts)
                .map_err(error::storage)?;
            let more = cursor.next_batch(&mut rows, 1024, 4 << 20);
            let more = more.map_err(error::storage)?;
            drop(cursor);
            for (key, value) in rows.iter() {
                f(self, key, value)?;
            }
            if let Some((key, _)) = rows.last() {
                after.clear();
                after.extend_from_slice(key);
                after.push(0);
            }
            if !more || rows.is_empty() {
                return Ok(());
            }
        }
    }
}

/// A key in hexadecimal, for messages.
fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}
