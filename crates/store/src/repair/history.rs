//! Repairs the log of changes. A log with a gap would mislead its readers, so the log begins after
//! the last unreadable row, as if everything before had been removed; the readable part of that is
//! handed to the caller. A row is unreadable, too, when a document that it refers to is gone. Must
//! not know: collections.

use super::mender::{RepairContext, Row};
use crate::format::log as row;
use crate::format::meta;
use crate::format::references::{self, References};
use crate::log::resolve;
use model::{DocBuf, Namespace, Result};
use storage::{Engine, KeyRange, Table, WriteBatch};

/// Repairs the log.
pub(super) fn mend(m: &mut RepairContext<'_>) -> Result<()> {
    let Some(stored) = m.get(Table::Meta, meta::LOG)? else {
        return Ok(());
    };
    let (Some(ident), Some(oldest)) = (stored.first_chunk::<4>(), stored.get(4..12)) else {
        // The row was handed over with the other rows of settings; in a check it is still there.
        return Ok(());
    };
    let ident = u32::from_be_bytes(*ident);
    let oldest = oldest.try_into().map_or(0, u64::from_be_bytes);
    remove_impossible(m, ident)?;
    let (lower, upper) = (row::key(ident, oldest), row::key(ident, row::TIMES_END));
    let mut last_damaged = None;
    m.each_row(
        Table::Log,
        KeyRange::new(&lower, &upper),
        &mut |m, key, value| {
            if entries(m.engine, key, value)?.is_none() {
                last_damaged = Some(row::time_of(key).unwrap_or(row::TIMES_END - 1));
            }
            Ok(())
        },
    )?;
    let Some(last) = last_damaged else {
        return Ok(());
    };
    let next = last.saturating_add(1);
    m.report_mended("a row of the log is damaged: the log begins behind it");
    if !m.changes {
        return Ok(());
    }
    take_before(m, KeyRange::new(&lower, &row::key(ident, next)))?;
    let mut value = stored.clone();
    if let Some(at) = value.get_mut(4..12) {
        at.copy_from_slice(&next.to_be_bytes());
    }
    let mut batch = WriteBatch::new();
    batch.put(Table::Meta, meta::LOG, &value);
    batch.delete(Table::Log, &row::key(ident, last));
    m.apply(&mut batch)
}

/// Hands over and removes the rows behind the last possible time: the log cannot begin behind them.
fn remove_impossible(m: &mut RepairContext<'_>, ident: u32) -> Result<()> {
    let ns = Namespace::new("local", "oplog.rs")?;
    let (lower, upper) = (row::key(ident, row::TIMES_END), (ident + 1).to_be_bytes());
    let mut batch = WriteBatch::new();
    m.each_row(
        Table::Log,
        KeyRange::new(&lower, &upper),
        &mut |m, key, value| {
            let table = Table::Log;
            m.take_row(
                Some(&ns),
                Row { table, key, value },
                "its time is impossible",
            )?;
            batch.delete(table, key);
            Ok(())
        },
    )?;
    m.apply(&mut batch)
}

/// Hands over the readable part of log rows. They are removed when the log begins after them.
fn take_before(m: &mut RepairContext<'_>, range: KeyRange<'_>) -> Result<()> {
    let ns = Namespace::new("local", "oplog.rs")?;
    m.each_row(Table::Log, range, &mut |m, key, value| {
        let Some(entries) = entries(m.engine, key, value)? else {
            let table = Table::Log;
            return m.take_row(Some(&ns), Row { table, key, value }, "it cannot be read");
        };
        for entry in entries {
            m.take_document(&ns, entry.doc(), "a later entry of the log is damaged")?;
        }
        Ok(())
    })
}

/// The entries of a row; `None` when any of them is damaged, or the document that it refers to is
/// not there.
fn entries(engine: &dyn Engine, key: &[u8], value: &[u8]) -> Result<Option<Vec<DocBuf>>> {
    let Some(time) = row::time_of(key) else {
        return Ok(None);
    };
    if !references::is_row(value) {
        return Ok(complete(time, value));
    }
    if References::of(value).and_then(|r| r.items()).is_none() {
        return Ok(None);
    }
    Ok(resolve(engine, time, value)?.and_then(|value| complete(time, &value)))
}

/// The entries of a row without references.
fn complete(time: u64, value: &[u8]) -> Option<Vec<DocBuf>> {
    let (head, _) = row::read(value)?;
    let mut entries = row::Entries::of(time, value)?;
    let mut all = Vec::new();
    while let Some((_, entry)) = entries.next() {
        let doc = DocBuf::build(|w| entry.write(w, false));
        model::validate(doc.as_bytes()).ok()?;
        all.push(doc);
    }
    (all.len() as u64 == u64::from(head.entries)).then_some(all)
}
