//! Follows the references of the log to records and to saved documents (ADR 0051). Promises: an
//! entry that was not removed finds its document. Must not know: who reads, how records change.
//!
//! A record with the time of an entry is as it was inserted. A writer that replaces or deletes it
//! saves its document in the same batch, under that time. So whoever does not find the record finds
//! the saved document if it looks for that afterwards, and no common snapshot is needed.

use super::retention::damage_error;
use super::times::Log;
use crate::error;
use crate::format::log as row;
use crate::format::record;
use crate::format::references::{Item, References, image_key, is_row};
use model::Result;
use storage::{Reader, Table, WriteBatch};

/// Memory for documents that is reserved at once, in case the number in the row is wrong.
const CAPACITY_MAX: usize = 1 << 20;

/// Called with the time and the bytes of a document.
type EachDocument<'f> = dyn FnMut(u64, &[u8]) + 'f;

/// A row with its references replaced by the documents, as the row of a log by copies; `None` when
/// a document is not there. The time is that of the row's last entry.
///
/// # Errors
/// 1 InternalError for a damaged row; engine failures.
pub(crate) fn resolve(engine: &dyn Reader, last: u64, value: &[u8]) -> Result<Option<Vec<u8>>> {
    let references = References::of(value).ok_or_else(damage_error)?;
    let items = references.items().ok_or_else(damage_error)?;
    let documents = documents(engine, last, &references, &items)?;
    let mut out = Vec::with_capacity(value.len() + CAPACITY_MAX.min(references.spared as usize));
    out.extend_from_slice(&row::head(row::INSERTS, references.head.entries));
    if let Some(late) = out.get_mut(row::LATE_AT..) {
        late.copy_from_slice(&references.head.late.encode());
    }
    out.extend_from_slice(references.common);
    for (item, document) in items.iter().zip(&documents) {
        match (item, document) {
            (Item::Document(doc), _) => out.extend_from_slice(doc),
            (Item::Reference(_), Some(doc)) => out.extend_from_slice(doc),
            (Item::Reference(_), None) => return Ok(None),
        }
    }
    Ok(Some(out))
}

/// The documents behind the references of a row, by the position of the entry.
fn documents(
    engine: &dyn Reader,
    last: u64,
    references: &References<'_>,
    items: &[Item<'_>],
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut found = vec![None; items.len()];
    let first = first_time(last, items.len())?;
    read_records(engine, first, references.ident, items, &mut |time, doc| {
        if let Some(place) = found.get_mut((time - first) as usize) {
            *place = Some(doc.to_vec());
        }
    })?;
    let missing: Vec<usize> = items
        .iter()
        .zip(&found)
        .enumerate()
        .filter(|(_, (item, doc))| matches!(item, Item::Reference(_)) && doc.is_none())
        .map(|(n, _)| n)
        .collect();
    if missing.is_empty() {
        return Ok(found);
    }
    let keys: Vec<[u8; 12]> = missing
        .iter()
        .map(|n| image_key(first + *n as u64))
        .collect();
    let asked: Vec<&[u8]> = keys.iter().map(<[u8; 12]>::as_slice).collect();
    engine
        .multi_get(Table::Log, &asked, &mut |n, value| {
            if let Some(place) = missing.get(n).and_then(|n| found.get_mut(*n)) {
                *place = value.map(<[u8]>::to_vec);
            }
        })
        .map_err(error::storage)?;
    Ok(found)
}

fn first_time(last: u64, entries: usize) -> Result<u64> {
    let before = (entries as u64).checked_sub(1);
    before
        .and_then(|n| last.checked_sub(n))
        .ok_or_else(damage_error)
}

/// Passes the documents of the records that still have the times of their entries.
fn read_records(
    engine: &dyn Reader,
    first: u64,
    ident: u32,
    items: &[Item<'_>],
    each: &mut EachDocument<'_>,
) -> Result<()> {
    let (mut keys, mut times) = (Vec::new(), Vec::new());
    for (n, item) in items.iter().enumerate() {
        if let Item::Reference(key) = item {
            keys.push([&ident.to_be_bytes()[..], key].concat());
            times.push(first + n as u64);
        }
    }
    let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    if asked.is_empty() {
        return Ok(());
    }
    engine
        .multi_get(Table::Doc, &asked, &mut |n, value| {
            let read = value.and_then(record::read).zip(times.get(n));
            if let Some(((header, doc), time)) = read
                && header.time == *time
            {
                each(*time, doc.as_bytes());
            }
        })
        .map_err(error::storage)
}

/// Passes the documents of the records to which a row refers, unless it refers to another
/// collection's.
///
/// # Errors
/// 1 InternalError for a damaged row; engine failures.
pub(crate) fn records_of_row(
    engine: &dyn Reader,
    ident: u32,
    last: u64,
    value: &[u8],
    each: &mut EachDocument<'_>,
) -> Result<()> {
    let Some(references) = References::of(value).filter(|r| r.ident == ident) else {
        return Ok(());
    };
    let items = references.items().ok_or_else(damage_error)?;
    let first = first_time(last, items.len())?;
    read_records(engine, first, ident, &items, each)
}

impl Log {
    /// Saves the document for the entry with this time, which refers to its record. The same batch
    /// changes or removes the record, or a later one does.
    pub(crate) fn save(&self, batch: &mut WriteBatch, time: u64, doc: &[u8]) {
        batch.put(Table::Log, &image_key(time), doc);
        self.references.add_saved(1);
    }

    /// A row as its readers need it: with documents in place of references. `None` when its entries
    /// were removed meanwhile.
    ///
    /// # Errors
    /// 1 InternalError for a damaged row; engine failures.
    pub(crate) fn readable_row(
        &self,
        engine: &dyn Reader,
        last: u64,
        value: Vec<u8>,
    ) -> Result<Option<Vec<u8>>> {
        if !is_row(&value) {
            return Ok(Some(value));
        }
        let entries = References::of(&value).map_or(0, |r| u64::from(r.head.entries));
        self.references.add_followed(entries);
        match resolve(engine, last, &value)? {
            Some(row) => Ok(Some(row)),
            // Documents are missing only behind the beginning of the log, which was raised before.
            None if last < self.oldest().as_u64() => Ok(None),
            None => Err(damage_error()),
        }
    }
}
