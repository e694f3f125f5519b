//! Repairs references to documents: index entries, places in the order of a capped collection,
//! marks of open buckets. Promises: every document has the references that it needs, and no
//! reference leads to a missing document. An index that cannot hold the documents is removed. Must
//! not know: how an unreadable row is repaired.

use super::apart;
use super::mender::RepairContext;
use super::work::{CollectionRepair, IndexWork, read_stored};
use crate::catalog::{Collection, Shared};
use crate::error;
use crate::format::{bucket, keys, meta, record};
use crate::index::{Index, KeySet};
use crate::view::capped::seq_of;
use crate::write::entries::{check_length, put_entry};
use model::{Doc, Result};
use storage::{KeyRange, Table, WriteBatch};

/// Fills the sets of keys of a document. An index that cannot hold it with the others is removed,
/// the document never is.
pub(super) fn look_at(
    m: &RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    key: &[u8],
    doc: Doc<'_>,
) -> Result<()> {
    let max = m.engine.caps().key_bytes_max;
    let (mut entry, id) = (Vec::new(), key.get(4..).unwrap_or_default());
    for i in work.indexes.iter_mut().filter(|i| i.refused.is_none()) {
        let built = i.index.keys_of(doc, &mut i.set);
        if let Err(e) = built.and_then(|()| check_length(&i.index, &i.set, key.len(), max)) {
            let id = doc.field("_id");
            i.refused = Some(format!("it cannot hold the document with _id {id}: {e}"));
            continue;
        }
        if !i.index.is_unique() {
            continue;
        }
        for components in i.set.iter() {
            i.index.unique_entry(components, &mut entry);
            let mut other = None;
            read_stored(work.coll, Table::Idx, &entry, &mut |value| {
                other = i
                    .index
                    .id_of(&[], value)
                    .filter(|o| *o != id)
                    .map(<[u8]>::to_vec);
            })?;
            if let Some(other) = other
                && is_needed(work.coll, &i.index, &other, components)?
            {
                let id = doc.field("_id");
                i.refused = Some(format!(
                    "it is unique, and the document with _id {id} shares a key with another"
                ));
                break;
            }
        }
    }
    Ok(())
}

/// Adds the missing entries in the sets to the batch.
pub(super) fn put_missing(
    m: &mut RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    key: &[u8],
) -> Result<()> {
    let (mut entry, mut expected) = (Vec::new(), Vec::new());
    let id = key.get(4..).unwrap_or_default();
    for i in work.indexes.iter_mut().filter(|i| i.refused.is_none()) {
        i.needed += i.set.len() as u64;
        i.multikey |= i.set.multikey;
        for k in i.set.keys() {
            i.index.entry_key(k.components, id, &mut entry);
            expected.clear();
            i.index.append_value(k.marks, id, &mut expected);
            let mut right = false;
            let see = &mut |value: &[u8]| right = value == expected;
            read_stored(work.coll, Table::Idx, &entry, see)?;
            if !right {
                put_entry(&mut work.batch, &i.index, k, id, &mut entry);
                i.put += 1;
                m.done.entries_put += 1;
            }
        }
    }
    Ok(())
}

/// Adds the entries of a bucket whose head has this value.
pub(super) fn put_of_bucket(
    m: &mut RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    key: &[u8],
    head: &[u8],
) -> Result<()> {
    for i in &mut work.indexes {
        i.set.clear();
        if let Some(doc) = work.coll.indexed_document(&i.index, key, head)? {
            i.index.keys_of(doc.doc(), &mut i.set)?;
        }
    }
    put_missing(m, work, key)
}

/// Whether the document with this encoded id exists and has this key in an index.
fn is_needed(coll: &Collection, index: &Index, id: &[u8], components: &[u8]) -> Result<bool> {
    let key = [&coll.ident.to_be_bytes(), id].concat();
    let (mut value, mut set) = (Vec::new(), KeySet::default());
    let found = coll.shared.engine.get(Table::Doc, &key, &mut value);
    if !found.map_err(error::storage)? {
        return Ok(false);
    }
    let is_bucket = bucket::of(&key).is_some();
    let whole = |(_, doc): (record::Header, Doc<'_>)| model::validate(doc.as_bytes()).is_ok();
    if !is_bucket && !record::read(&value).is_some_and(whole) {
        return Ok(false);
    }
    // A document that cannot be read or indexed has no entries.
    let Ok(Some(doc)) = coll.indexed_document(index, &key, &value) else {
        return Ok(false);
    };
    Ok(index.keys_of(doc.doc(), &mut set).is_ok() && set.contains(components))
}

/// Removes references to missing documents, once all documents were read; repairs the marks.
pub(super) fn mend(m: &mut RepairContext<'_>, work: &mut CollectionRepair<'_>) -> Result<()> {
    let mut indexes = std::mem::take(&mut work.indexes);
    give_up_refused(m, work, &mut indexes)?;
    for i in &mut indexes {
        mend_marks(m, work, i)?;
        if entries_of(m, &i.index)? != i.needed {
            remove_wrong(m, work.coll, i)?;
        }
        let (ns, name) = (work.ns(), i.index.name());
        if i.put > 0 {
            let put = i.put;
            m.aside.report_defect(&format!(
                "{ns}: index {name}: {put} entries were missing or wrong"
            ));
        }
        if i.removed > 0 {
            let removed = i.removed;
            m.aside.report_defect(&format!(
                "{ns}: index {name}: {removed} entries led to no document"
            ));
        }
    }
    if work.state.capped.is_some() || work.coll.is_series() {
        mend_places(m, work)?;
    }
    Ok(())
}

/// Removes indexes from the catalog that cannot hold the documents.
fn give_up_refused(
    m: &mut RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    indexes: &mut Vec<IndexWork>,
) -> Result<()> {
    let mut row = work.coll.row(&work.state, None);
    for i in indexes.iter() {
        let Some(why) = &i.refused else { continue };
        apart::take_index(m, work.ns(), i.index.spec(), why)?;
        row.indexes.retain(|r| r.ident != i.index.ident());
        let ns = work.ns();
        Shared::put_row(&mut work.batch, ns, &row);
        let marks = meta::multikey(i.index.ident());
        work.batch.delete(Table::Meta, &marks);
        m.apply(&mut work.batch)?;
        apart::drop_keys(m, Table::Idx, i.index.ident())?;
    }
    indexes.retain(|i| i.refused.is_none());
    Ok(())
}

fn mend_marks(
    m: &mut RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    i: &IndexWork,
) -> Result<()> {
    let row = meta::multikey(i.index.ident());
    let stored = m.get(Table::Meta, &row)?;
    let bits = stored.as_deref().and_then(|b| b.try_into().ok());
    let bits = bits.map_or(0, u32::from_le_bytes);
    let is_damaged = stored.is_some_and(|s| s.len() != 4);
    if i.multikey & !bits != 0 || is_damaged {
        let (ns, name) = (work.ns(), i.index.name());
        m.report_mended(&format!(
            "{ns}: index {name} lacked marks of fields that hold arrays"
        ));
        let all = (bits | i.multikey).to_le_bytes();
        work.batch.put(Table::Meta, &row, &all);
        m.apply(&mut work.batch)?;
    }
    Ok(())
}

fn entries_of(m: &mut RepairContext<'_>, index: &Index) -> Result<u64> {
    let (lower, upper) = (
        index.ident().to_be_bytes(),
        (index.ident() + 1).to_be_bytes(),
    );
    let mut count = 0;
    m.each_row(Table::Idx, KeyRange::new(&lower, &upper), &mut |_, _, _| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

fn remove_wrong(m: &mut RepairContext<'_>, coll: &Collection, i: &mut IndexWork) -> Result<()> {
    let (index, mut batch) = (&i.index, WriteBatch::new());
    let (lower, upper) = (
        index.ident().to_be_bytes(),
        (index.ident() + 1).to_be_bytes(),
    );
    m.each_row(
        Table::Idx,
        KeyRange::new(&lower, &upper),
        &mut |m, key, value| {
            let components = match index.is_unique() {
                true => key.strip_suffix(&[keys::END]),
                false => keys::split_tail(key).map(|(components, _)| components),
            };
            let components = components.and_then(|c| c.get(4..));
            let right = match (components, index.id_of(key, value)) {
                (Some(components), Some(id)) => is_needed(coll, index, id, components)?,
                _ => false,
            };
            if !right {
                batch.delete(Table::Idx, key);
                i.removed += 1;
                m.done.entries_removed += 1;
            }
            match batch.byte_len() > 1 << 20 {
                true => m.apply(&mut batch),
                false => Ok(()),
            }
        },
    )?;
    m.apply(&mut batch)
}

/// Removes places in the order without a document, and marks of buckets that are not open.
fn mend_places(m: &mut RepairContext<'_>, work: &mut CollectionRepair<'_>) -> Result<()> {
    let (coll, is_capped) = (work.coll, work.state.capped.is_some());
    let (lower, upper) = coll.key_bounds();
    m.each_row(
        Table::Cap,
        KeyRange::new(&lower, &upper),
        &mut |m, key, value| {
            let mut right = false;
            if is_capped {
                let document = [&lower, value].concat();
                let seq = seq_of(key).ok();
                read_stored(coll, Table::Doc, &document, &mut |value| {
                    right = record::read(value).map(|(header, _)| header.insert_seq) == seq;
                })?;
            } else if key.len() == bucket::KEY_LEN {
                read_stored(coll, Table::Doc, key, &mut |value| {
                    right = bucket::read(value).is_some_and(|head| head.closed.is_none());
                })?;
            }
            if !right {
                let ns = work.ns();
                m.report_mended(&format!("{ns}: a place led to no document"));
                work.batch.delete(Table::Cap, key);
            }
            m.apply(&mut work.batch)
        },
    )
}
