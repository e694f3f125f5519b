//! Checks that an engine returned the stored rows in the requested order.

use std::cmp::Ordering;

use super::encode;
use super::tables::KvTables;
use crate::answers::{WRONG_CONTENTS, WRONG_ORDER};
use crate::row::contents::Contents;
use crate::target::CallOutcome;

/// Checks a row.
pub(super) fn row(
    tables: &KvTables,
    table: usize,
    key: &[u8],
    row: &[u8],
    allowed: &[(&'static str, Vec<u64>)],
) -> Result<(), CallOutcome> {
    let wrong = |reason: String| {
        let message = format!("the row with key {key:?}: {reason}");
        CallOutcome::failure(WRONG_CONTENTS, message)
    };
    let Some(contents) = tables.contents.get(table) else {
        return Ok(());
    };
    // A row that cannot be decoded is not the row that was stored.
    let values = encode::decode(row)
        .ok_or_else(|| CallOutcome::failure("damaged row", format!("{key:?} cannot be decoded")))?;
    let kind = tables.tables.get(table).map(|table| table.kind);
    let has_text_keys = kind.is_some_and(crate::row::DocumentKind::has_text_keys);
    let id = encode::id_of_key(table, key, has_text_keys);
    // Values are in the order of the kind's fields.
    let names = contents.names().iter().copied();
    let fields = || names.clone().zip(values.iter().map(Into::into));
    contents.check(id.as_ref(), fields()).map_err(wrong)?;
    fields()
        .try_for_each(|(name, view)| Contents::check_version(allowed, name, view))
        .map_err(wrong)
}

/// The rows that a scan has returned so far.
pub(super) struct ScanCheck<'a> {
    tables: &'a KvTables,
    /// The table of the rows; `None` for entries of an index, which have no value, and for rows
    /// that are not checked.
    table: Option<usize>,
    reverse: bool,
    rows: u64,
    last: Vec<u8>,
    wrong: Option<CallOutcome>,
}

impl<'a> ScanCheck<'a> {
    pub(super) fn new(tables: &'a KvTables, table: Option<usize>, reverse: bool) -> Self {
        Self {
            tables,
            table,
            reverse,
            rows: 0,
            last: Vec::new(),
            wrong: None,
        }
    }

    /// Takes the next row or entry; returns whether all rows so far are correct.
    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) -> bool {
        let wanted = if self.reverse {
            Ordering::Less
        } else {
            Ordering::Greater
        };
        if self.rows > 0 && key.cmp(&self.last) != wanted {
            let message = format!("{key:?} was returned after {:?}", self.last);
            self.wrong = Some(CallOutcome::failure(WRONG_ORDER, message));
            return false;
        }
        if let Some(table) = self.table {
            self.wrong = row(self.tables, table, key, value, &[]).err();
        }
        self.rows += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        self.wrong.is_none()
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn outcome(self) -> CallOutcome {
        self.wrong
            .unwrap_or_else(|| CallOutcome::success(1, self.rows))
    }
}
