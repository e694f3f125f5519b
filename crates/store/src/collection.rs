//! An open collection: its options and indexes, the order of its ids, its counters, and single reads.
//! Writes are in `insert` and `modify`, walks in `scan`.

use crate::capped;
use crate::catalog::{CatalogRow, IndexRow, Kind};
use crate::error;
use crate::format::{keys, meta, record};
use crate::index::Index;
use crate::store::Shared;
use model::{Collate, Doc, DocBuf, Namespace, Result, Value};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use storage::{CursorOpts, KeyRange, Table, counter_decode};

/// A handle to a collection or view; shared by all who use it.
pub struct Collection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ns: Namespace,
    pub(crate) uuid: [u8; 16],
    pub(crate) ident: u32,
    kind: Kind,
    /// Writers hold it for reading, changes of the catalog row for writing.
    pub(crate) state: RwLock<State>,
    pub(crate) order: Mutex<Order>,
    docs: AtomicI64,
    bytes: AtomicI64,
    pub(crate) id_collate: Option<Arc<dyn Collate>>,
    /// Ids arrived in key order so far, so key order is natural order.
    pub(crate) in_order: AtomicBool,
    pub(crate) capped: capped::Guards,
    /// `State::dropped` for readers, who take no lock.
    gone: AtomicBool,
}

/// What a change of the catalog row changes.
pub(crate) struct State {
    pub(crate) options: Arc<DocBuf>,
    pub(crate) indexes: Arc<Vec<Arc<Index>>>,
    pub(crate) dropped: bool,
    /// The options say `capped`.
    pub(crate) capped: bool,
}

/// Bookkeeping of insertion order.
pub(crate) struct Order {
    /// No key of the collection is above this one.
    pub(crate) max_key: Vec<u8>,
    pub(crate) next_seq: u64,
    /// Sequence numbers below this are reserved on disk (only for collections out of order).
    pub(crate) reserved: u64,
}

/// Sizes for collStats.
#[derive(Clone, Debug, Default)]
pub struct CollStats {
    /// Documents.
    pub count: i64,
    /// Bytes of their BSON.
    pub size_bytes: i64,
    /// Bytes on the device, estimated.
    pub storage_bytes: u64,
    /// Bytes per index on the device, estimated; `_id_` is part of the documents.
    pub index_bytes: Vec<(String, u64)>,
}

impl Collection {
    /// Opens from a catalog row. Unfinished indexes are left out; the caller removes them from the row.
    pub(crate) fn open(shared: Arc<Shared>, ns: Namespace, row: &CatalogRow) -> Result<Collection> {
        let engine = &shared.engine;
        let id_collate = match row.options.doc().field("collation").as_doc() {
            Some(c) => shared.hooks.collator(c)?,
            None => None,
        };
        let mut buf = Vec::new();
        let mut counts = [0, 0];
        if engine.get(Table::Meta, &meta::counter(row.ident), &mut buf).map_err(error::storage)? {
            counts = counter_decode(&buf);
        }
        let mut reserved = 0;
        let in_order = !engine.get(Table::Meta, &meta::unordered(row.ident), &mut buf).map_err(error::storage)?;
        if let (false, Some(b)) = (in_order, buf.first_chunk::<8>()) {
            reserved = u64::from_be_bytes(*b);
        }
        let next_seq = shared.evicted.lock().get(&row.ident).copied().unwrap_or(0).max(reserved + 1);
        let mut indexes = Vec::new();
        for i in row.indexes.iter().filter(|i| i.ready) {
            let found = engine.get(Table::Meta, &meta::multikey(i.ident), &mut buf).map_err(error::storage)?;
            let bits = buf.first_chunk::<4>().filter(|_| found).map_or(0, |b| u32::from_le_bytes(*b));
            indexes.push(Arc::new(Index::open(i.ident, i.spec.clone(), true, bits, shared.hooks.as_ref())?));
        }
        let c = Collection {
            ns,
            uuid: row.uuid,
            ident: row.ident,
            kind: row.kind,
            state: RwLock::new(State {
                options: Arc::new(row.options.clone()),
                indexes: Arc::new(indexes),
                dropped: false,
                capped: capped::is_capped(row.options.doc()),
            }),
            order: Mutex::new(Order { max_key: Vec::new(), next_seq, reserved }),
            docs: AtomicI64::new(counts[0]),
            bytes: AtomicI64::new(counts[1]),
            id_collate,
            in_order: AtomicBool::new(in_order),
            capped: capped::Guards::default(),
            gone: AtomicBool::new(false),
            shared,
        };
        if counts[0] > 0 {
            c.load_last()?;
            if capped::is_capped(row.options.doc()) {
                c.complete_order()?;
            }
        }
        Ok(c)
    }

    /// Reads the last document: its key bounds all keys, and in an ordered collection it has the highest sequence.
    fn load_last(&self) -> Result<()> {
        let (lower, upper) = self.key_bounds();
        let opts = CursorOpts { reverse: true, limit_hint: 1, ..CursorOpts::default() };
        let range = KeyRange { lower: &lower, upper: &upper };
        let mut cursor = self.shared.engine.cursor(Table::Doc, range, opts).map_err(error::storage)?;
        let mut order = self.order.lock();
        cursor
            .visit(1, &mut |key, value| {
                order.max_key = key.to_vec();
                if let Some((h, _)) = record::read(value) {
                    order.next_seq = order.next_seq.max(h.insert_seq + 1);
                }
                false
            })
            .map_err(error::storage)?;
        Ok(())
    }

    /// Its name.
    pub fn ns(&self) -> &Namespace {
        &self.ns
    }
    /// Its identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }
    /// True for a view.
    pub fn is_view(&self) -> bool {
        self.kind == Kind::View
    }
    /// The options of `create`.
    pub fn options(&self) -> Arc<DocBuf> {
        self.state.read().options.clone()
    }
    /// Secondary indexes, also unfinished ones.
    pub fn indexes(&self) -> Arc<Vec<Arc<Index>>> {
        self.state.read().indexes.clone()
    }
    /// The collation of `_id`, which is the collection's.
    pub fn id_collate(&self) -> Option<&dyn Collate> {
        self.id_collate.as_deref()
    }
    /// Exact number of documents; no read.
    pub fn count(&self) -> u64 {
        self.docs.load(Ordering::Acquire).max(0) as u64
    }
    /// Exact bytes of BSON; no read.
    pub fn size_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire).max(0) as u64
    }
    /// True once the collection was dropped or renamed; whoever reads must stop.
    pub fn is_dropped(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
    /// True when the oldest documents go as new ones come.
    pub fn is_capped(&self) -> bool {
        self.state.read().capped
    }
    /// Says that the collection is gone (or, when dropping failed, that it is not). Writers inside finish first.
    pub(crate) fn set_dropped(&self, dropped: bool) -> Arc<Vec<Arc<Index>>> {
        let mut state = self.state.write();
        state.dropped = dropped;
        self.gone.store(dropped, Ordering::Release);
        state.indexes.clone()
    }
    pub(crate) fn add_counts(&self, docs: i64, bytes: i64) {
        self.docs.fetch_add(docs, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// The state for the duration of a write.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, State>> {
        let state = self.state.read();
        if state.dropped {
            return Err(self.gone());
        }
        Ok(state)
    }

    /// For readers: an error once the collection is gone, when what is found missing may be the drop's doing.
    ///
    /// # Errors
    /// 175 QueryPlanKilled.
    ///
    /// # Cost
    /// One load.
    pub fn check_alive(&self) -> Result<()> {
        if self.is_dropped() { Err(self.gone()) } else { Ok(()) }
    }

    pub(crate) fn gone(&self) -> model::MongoError {
        model::MongoError::new(model::code::QUERY_PLAN_KILLED, format!("collection dropped or renamed: {}", self.ns))
            .kind(model::ErrorKind::CollectionGone)
    }

    /// True for the error of a collection that went away under an operation.
    pub fn is_gone(e: &model::MongoError) -> bool {
        e.is_collection_gone()
    }

    /// The key under which a document with this `_id` is stored.
    pub fn record_key(&self, id: &Value<'_>, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.ident.to_be_bytes());
        keys::encode(id, self.id_collate(), out);
    }

    /// Bounds of all record keys.
    pub(crate) fn key_bounds(&self) -> ([u8; 4], [u8; 4]) {
        (self.ident.to_be_bytes(), (self.ident + 1).to_be_bytes())
    }

    /// Shows the document with this `_id` in place.
    ///
    /// # Output
    /// False when there is none.
    ///
    /// # Cost
    /// One engine read, no copy.
    ///
    /// # Errors
    /// 175 when the collection is gone; 1 when the record is damaged; engine failures.
    pub fn get_with(&self, id: &Value<'_>, f: &mut dyn FnMut(Doc<'_>)) -> Result<bool> {
        let mut key = Vec::with_capacity(24);
        self.record_key(id, &mut key);
        let mut sound = true;
        let found = self
            .shared
            .engine
            .get_with(Table::Doc, &key, &mut |bytes| match record::read(bytes) {
                Some((_, doc)) => f(doc),
                None => sound = false,
            })
            .map_err(error::storage)?;
        self.told(found, sound)
    }

    /// What a point read found. That there is none counts only while the collection is there.
    fn told(&self, found: bool, sound: bool) -> Result<bool> {
        if !sound {
            return Err(error::corrupt(&format!("a record of {}", self.ns)));
        }
        if !found && self.is_dropped() { Err(self.gone()) } else { Ok(found) }
    }

    /// Shows the document under an encoded `_id` (see [`keys::encode`]) in place; false when there is none.
    ///
    /// # Errors
    /// As [`Collection::get_with`].
    pub fn get_encoded(&self, id: &[u8], f: &mut dyn FnMut(crate::Row<'_>)) -> Result<bool> {
        let key = [&self.ident.to_be_bytes()[..], id].concat();
        let mut sound = true;
        let found = self
            .shared
            .engine
            .get_with(Table::Doc, &key, &mut |bytes| match record::read(bytes) {
                Some((header, doc)) => f(crate::Row { key: &key, header, doc, score: 0.0 }),
                None => sound = false,
            })
            .map_err(error::storage)?;
        self.told(found, sound)
    }

    /// Sizes.
    ///
    /// # Errors
    /// Engine failures.
    pub fn stats(&self) -> Result<CollStats> {
        let engine = &self.shared.engine;
        let size = |table, ident: u32| {
            let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
            engine.approx_size(table, KeyRange { lower: &lower, upper: &upper }).map_err(error::storage)
        };
        let mut stats = CollStats {
            count: self.count() as i64,
            size_bytes: self.size_bytes() as i64,
            storage_bytes: if self.is_view() { 0 } else { size(Table::Doc, self.ident)? },
            index_bytes: Vec::new(),
        };
        for i in self.indexes().iter() {
            stats.index_bytes.push((i.name().to_owned(), size(Table::Idx, i.ident())?));
        }
        Ok(stats)
    }

    /// The catalog row as it would be written now.
    pub(crate) fn row(&self, options: &DocBuf, indexes: &[Arc<Index>]) -> CatalogRow {
        CatalogRow {
            kind: self.kind,
            ident: self.ident,
            uuid: self.uuid,
            options: options.clone(),
            indexes: indexes
                .iter()
                .map(|i| IndexRow { ident: i.ident(), spec: i.spec().to_buf(), ready: i.is_ready() })
                .collect(),
        }
    }
}
