//! Repairs the documents of one collection. Promises: afterwards each document is stored under the
//! key of its `_id`, is readable in full, and has exactly its index entries; the counters are
//! correct. Must not know: the catalog, the log.

use super::apart;
use super::entries;
use super::mender::{RepairContext, Row};
use super::salvage;
use super::work::{CollectionRepair, IndexWork};
use crate::catalog::Collection;
use crate::format::record::{self, Header};
use crate::format::{bucket, meta};
use crate::index::Index;
use crate::view::capped::order_key;
use model::{Doc, Result, Value};
use std::sync::Arc;
use storage::{KeyRange, Table, WriteBatch, counter_decode, counter_encode};

/// Repairs one collection.
pub(super) fn mend(m: &mut RepairContext<'_>, coll: &Collection) -> Result<()> {
    let state = Arc::clone(&coll.state());
    // Done before a document changes: a column index is complete without segments, and they are
    // made again.
    for index in state.indexes.iter().filter(|i| i.is_columns()) {
        apart::drop_keys(m, Table::Idx, index.ident())?;
    }
    let has_entries = |i: &&Arc<Index>| i.is_ready() && !i.is_columns();
    let ready = state.indexes.iter().filter(has_entries);
    let mut work = CollectionRepair {
        coll,
        indexes: ready.map(IndexWork::new).collect(),
        state: Arc::clone(&state),
        documents: 0,
        bytes: 0,
        buckets: 0,
        head_bytes: 0,
        head: None,
        highest: 0,
        in_order: true,
        numbers: Some(rustc_hash::FxHashSet::default()),
        later: Vec::new(),
        batch: WriteBatch::new(),
        key: Vec::new(),
    };
    let (lower, upper) = coll.key_bounds();
    m.each_row(
        Table::Doc,
        KeyRange::new(&lower, &upper),
        &mut |m, key, value| match bucket::of(key) {
            Some(of) => work.mend_bucket_row(m, &of, key, value),
            None => mend_record(m, &mut work, key, value),
        },
    )?;
    for key in std::mem::take(&mut work.later) {
        if let Some(value) = m.get(Table::Doc, &key)? {
            move_record(m, &mut work, &key, &value)?;
        }
    }
    entries::mend(m, &mut work)?;
    mend_counters(m, &mut work)?;
    m.done.collections += 1;
    m.done.documents += work.documents;
    Ok(())
}

/// An undamaged record.
#[derive(Clone, Copy)]
struct IntactRecord<'r> {
    header: Header,
    doc: Doc<'r>,
}

fn read_whole(value: &[u8]) -> Option<IntactRecord<'_>> {
    let (header, doc) = record::read(value)?;
    model::validate(doc.as_bytes()).ok()?;
    (header.insert_seq < record::SEQ_END).then_some(IntactRecord { header, doc })
}

fn mend_record(
    m: &mut RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    match read_whole(value) {
        Some(IntactRecord { header, doc })
            if work.is_under_its_key(key, doc) && work.is_new(header) =>
        {
            work.in_order &= header.insert_seq > work.highest || work.highest == 0;
            work.highest = work.highest.max(header.insert_seq);
            keep(m, work, key, IntactRecord { header, doc })
        }
        None if salvage::whole_at_end(value).is_none() => take_row(m, work, key, value),
        read => {
            if let Some(IntactRecord { header, .. }) = read {
                work.highest = work.highest.max(header.insert_seq);
            }
            work.later.push(key.to_vec());
            Ok(())
        }
    }
}

fn take_row(
    m: &mut RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    let row = Row::of_documents(key, value);
    m.take_row(Some(work.ns()), row, "its document is damaged")?;
    work.batch.delete(Table::Doc, key);
    m.apply(&mut work.batch)
}

/// Moves a record with a damaged header, or under a wrong key, to the right key, unless another
/// document has that key.
fn move_record(
    m: &mut RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    let mut read = read_whole(value);
    let Some(doc) = read
        .map(|whole| whole.doc)
        .or_else(|| salvage::whole_at_end(value))
    else {
        return take_row(m, work, key, value);
    };
    let id = doc.field("_id");
    let is_in_place = work.is_under_its_key(key, doc);
    if is_in_place || read.is_some_and(|whole| !work.is_new(whole.header)) {
        // The sequence number belongs to another document, or cannot be read.
        read = None;
    }
    let header = read.map_or_else(
        || Header {
            insert_seq: work.highest + 1,
            version: 0,
            time: 0,
        },
        |whole| whole.header,
    );
    let right = if is_in_place {
        key.to_vec()
    } else {
        work.key.clone()
    };
    if !is_in_place && (matches!(id, Value::Missing) || m.get(Table::Doc, &right)?.is_some()) {
        let why = "it lies under a wrong key, and another document has its _id";
        m.take_document(work.ns(), doc, why)?;
        work.batch.delete(Table::Doc, key);
        return m.apply(&mut work.batch);
    }
    let ns = work.ns();
    m.report_mended(&match is_in_place {
        true => format!("{ns}: the header of the document with _id {id} was damaged"),
        false => format!("{ns}: the document with _id {id} lay under a wrong key"),
    });
    let mut record = Vec::with_capacity(value.len() + 8);
    record::write(&mut record, header, doc.as_bytes());
    work.batch.delete(Table::Doc, key);
    work.batch.put(Table::Doc, &right, &record);
    m.apply(&mut work.batch)?;
    // Its sequence number is higher, or its key lower, than those of its neighbours.
    work.in_order = false;
    work.highest = work.highest.max(header.insert_seq);
    keep(m, work, &right, IntactRecord { header, doc })
}

/// Keeps an undamaged document under its key: puts its entries and its place.
fn keep(
    m: &mut RepairContext<'_>,
    work: &mut CollectionRepair<'_>,
    key: &[u8],
    IntactRecord { header, doc }: IntactRecord<'_>,
) -> Result<()> {
    entries::look_at(m, work, key, doc)?;
    entries::put_missing(m, work, key)?;
    if work.state.capped.is_some() && !work.coll.has_place(key, header.insert_seq)? {
        let (ns, id) = (work.ns(), doc.field("_id"));
        m.report_mended(&format!(
            "{ns}: the order lacked the document with _id {id}"
        ));
        let place = order_key(work.coll.ident, header.insert_seq);
        work.batch
            .put(Table::Cap, &place, key.get(4..).unwrap_or_default());
    }
    work.count(doc);
    m.apply(&mut work.batch)
}

fn mend_counters(m: &mut RepairContext<'_>, work: &mut CollectionRepair<'_>) -> Result<()> {
    let ident = work.coll.ident;
    let mut counters = vec![(
        meta::counter(ident),
        [work.documents as i64, work.bytes as i64],
        "documents",
    )];
    if work.coll.is_series() {
        let pair = [work.buckets as i64, work.head_bytes as i64];
        counters.push((meta::buckets(ident), pair, "buckets"));
    }
    for (key, there, what) in counters {
        let stored = m.get(Table::Meta, &key)?;
        let told = stored.as_deref().map_or([0, 0], counter_decode);
        if told != there {
            let (ns, [told, bytes], [n, of]) = (work.ns(), told, there);
            m.report_mended(&format!(
                "{ns}: the counter said {told} {what} of {bytes} bytes, there are {n} of {of}"
            ));
            work.batch.put(Table::Meta, &key, &counter_encode(there));
        }
    }
    let stored = m.get(Table::Meta, &meta::unordered(ident))?;
    let reserved = stored.as_deref().and_then(|b| b.try_into().ok());
    let reserved = reserved.map(u64::from_be_bytes);
    let is_right = match (&stored, reserved) {
        (None, _) => work.in_order,
        (Some(_), Some(reserved)) => reserved > work.highest || work.documents == 0,
        (Some(_), None) => false,
    };
    if !is_right && !work.coll.is_series() {
        let ns = work.ns();
        m.report_mended(&format!(
            "{ns}: the mark of the order of insertion was wrong"
        ));
        let next = (work.highest + 1).to_be_bytes();
        work.batch.put(Table::Meta, &meta::unordered(ident), &next);
    }
    m.apply(&mut work.batch)
}
