//! The store: opens an engine, keeps the catalog, gives out collections. Opening reads three small rows, whatever the
//! number of collections.

use crate::catalog::{CatalogRow, Kind};
use crate::collection::Collection;
use crate::error;
use crate::format::{LAYOUT_VERSION, meta};
use crate::hooks::Hooks;
use crate::index::Index;
use crate::index_build;
use crate::locks::LockTable;
use model::{DocBuf, MongoError, Namespace, Result, code};
use parking_lot::{Mutex, RwLock};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Batch, CommitPos, CursorOpts, Durability, Engine, IdentSet, KeyRange, Table, WriteClass};

/// Open collections kept for reuse.
const HANDLES_MAX: usize = 10_000;
/// Idents reserved on disk at a time.
const IDENT_BLOCK: u32 = 1024;
/// Fewer keys than this are deleted one by one when a collection or index is dropped: leaves no debt.
const SMALL_DROP_KEYS: u64 = 1000;

thread_local! {
    static OWED: Cell<usize> = const { Cell::new(0) };
}

/// What all collections share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) locks: LockTable,
    versions: AtomicU64,
    idents: Mutex<Idents>,
    dropped: Mutex<Vec<(Table, u32)>>,
    /// Next sequence number of collections that were open and are not: a number is given once even when the document
    /// that had it was the last one and is gone.
    pub(crate) evicted: Mutex<HashMap<u32, u64>>,
}

struct Idents {
    next: u32,
    /// Idents below this are covered by the mark on disk.
    mark: u32,
}

/// A store over one engine.
pub struct Store {
    shared: Arc<Shared>,
    handles: RwLock<HashMap<Namespace, Arc<Collection>>>,
    /// Changes of the catalog happen one at a time.
    ddl: Mutex<()>,
}

/// What listCollections needs of one namespace, without opening it.
#[derive(Clone, Debug)]
pub struct CollectionEntry {
    /// Collection name.
    pub name: String,
    /// Its catalog row.
    pub row: CatalogRow,
}

impl Shared {
    pub(crate) fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number that was never used before, also not by a server that crashed.
    pub(crate) fn new_ident(&self) -> Result<u32> {
        let mut idents = self.idents.lock();
        if idents.next >= idents.mark {
            let mark = idents.next.checked_add(IDENT_BLOCK).filter(|m| *m < u32::MAX - 1);
            let mark = mark.ok_or_else(|| MongoError::internal("all collection identifiers are used up"))?;
            let mut batch = Batch::new();
            batch.put(Table::Meta, meta::IDENT_MARK, &mark.to_be_bytes());
            // Not synced: whoever uses the ident writes later into the same journal.
            self.engine.apply(&batch, Durability::Buffered).map_err(error::storage)?;
            idents.mark = mark;
        }
        let ident = idents.next;
        idents.next += 1;
        Ok(ident)
    }

    pub(crate) fn write_row(&self, ns: &Namespace, row: &CatalogRow) -> Result<CommitPos> {
        let mut batch = Batch::new();
        batch.put(Table::Meta, &meta::catalog(ns.db(), ns.coll()), row.encode().as_bytes());
        self.engine.apply(&batch, Durability::Buffered).map_err(error::storage)
    }

    /// Waits until the engine wants another `bytes`, and what writes of this thread turned out to be larger than said.
    pub(crate) fn admit(&self, bytes: usize) {
        self.engine.admit(bytes + OWED.take(), WriteClass::Client);
    }

    /// The handle of a collection goes while the collection stays.
    fn remember_sequence(&self, c: &Collection) {
        self.evicted.lock().insert(c.ident, c.order.lock().next_seq);
    }

    /// A write was larger by this than what was admitted for it: nobody can wait under locks, so the thread's next write
    /// does.
    pub(crate) fn owe(bytes: usize) {
        OWED.set(OWED.get().saturating_add(bytes));
    }

    /// Gets rid of the entries of an index over so many documents.
    pub(crate) fn drop_index_keys(&self, index: &Index, docs: u64) -> Result<()> {
        // A multikey index may have many more entries than documents.
        self.drop_ident(Table::Idx, index.ident(), if index.is_multikey() { u64::MAX } else { docs })
    }

    /// Gets rid of the keys of an ident that no catalog row names any more.
    pub(crate) fn drop_ident(&self, table: Table, ident: u32, keys_about: u64) -> Result<()> {
        let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        let range = KeyRange { lower: &lower, upper: &upper };
        let mut batch = Batch::new();
        index_build::forget(&mut batch, ident);
        if keys_about < SMALL_DROP_KEYS {
            let opts = CursorOpts { keys_only: true, fill_cache: false, ..CursorOpts::default() };
            let mut cursor = self.engine.cursor(table, range, opts).map_err(error::storage)?;
            while cursor
                .visit(1024, &mut |key, _| {
                    batch.delete(table, key);
                    true
                })
                .map_err(error::storage)?
            {}
            drop(cursor);
            self.engine.apply(&batch, Durability::Buffered).map_err(error::storage)?;
            return Ok(());
        }
        let mut dropped = self.dropped.lock();
        dropped.push((table, ident));
        // A capped collection lies in two tables under one ident.
        let tables: Vec<u8> = dropped.iter().filter(|(_, i)| *i == ident).map(|(t, _)| t.index() as u8).collect();
        batch.put(Table::Meta, &meta::dropped(ident), &tables);
        self.engine.apply(&batch, Durability::Buffered).map_err(error::storage)?;
        let set: IdentSet = dropped.iter().filter(|(t, _)| *t == table).map(|(_, i)| *i).collect();
        self.engine.set_dropped(table, Arc::new(set));
        drop(dropped);
        self.engine.drop_range(table, range).map_err(error::storage)
    }
}

impl Store {
    /// Opens over an engine; an empty engine becomes an empty store.
    ///
    /// # Errors
    /// 12 UnsupportedFormat when the data has a newer layout; engine failures.
    pub fn open(engine: Arc<dyn Engine>, hooks: Arc<dyn Hooks>) -> Result<Store> {
        let mut buf = Vec::new();
        let number = |found: bool, buf: &[u8]| buf.first_chunk::<4>().filter(|_| found).map(|b| u32::from_be_bytes(*b));
        let found = engine.get(Table::Meta, meta::FORMAT_VERSION, &mut buf).map_err(error::storage)?;
        match number(found, &buf) {
            None if found => return Err(error::corrupt("the layout version")),
            None => {
                let mut batch = Batch::new();
                batch.put(Table::Meta, meta::FORMAT_VERSION, &LAYOUT_VERSION.to_be_bytes());
                engine.apply(&batch, Durability::Journaled).map_err(error::storage)?;
            }
            Some(v) if v > LAYOUT_VERSION => {
                return Err(MongoError::new(code::UNSUPPORTED_FORMAT, format!(
                    "the data has layout version {v}, this server reads up to {LAYOUT_VERSION}: use a newer server"
                )));
            }
            Some(_) => {}
        }
        let found = engine.get(Table::Meta, meta::IDENT_MARK, &mut buf).map_err(error::storage)?;
        let mark = number(found, &buf).unwrap_or(1);
        let shared = Shared {
            hooks,
            locks: LockTable::new(),
            versions: AtomicU64::new(0),
            idents: Mutex::new(Idents { next: mark, mark }),
            dropped: Mutex::new(Vec::new()),
            evicted: Mutex::new(HashMap::new()),
            engine,
        };
        shared.reload_dropped()?;
        Ok(Store { shared: Arc::new(shared), handles: RwLock::new(HashMap::new()), ddl: Mutex::new(()) })
    }

    /// The engine below, for statistics and shutdown.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }

    /// Blocks until a commit survives a loss of power.
    ///
    /// # Errors
    /// Engine failures.
    pub fn wait_durable(&self, pos: CommitPos) -> Result<()> {
        self.shared.engine.wait_durable(pos).map_err(error::storage)
    }

    /// The collection or view of that name.
    ///
    /// # Cost
    /// None when it is open already, else one read of the catalog and a few of its marks.
    ///
    /// # Errors
    /// Engine failures.
    pub fn collection(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        if let Some(c) = self.handles.read().get(ns) {
            return Ok(Some(c.clone()));
        }
        let _ddl = self.ddl.lock();
        self.open_locked(ns)
    }

    /// Waits until no change of the catalog is under way. A handle found while its collection is being replaced is good
    /// for nothing; after this the name leads to the new one.
    pub fn wait_for_catalog(&self) {
        drop(self.ddl.lock());
    }

    fn open_locked(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        if let Some(c) = self.handles.read().get(ns) {
            return Ok(Some(c.clone()));
        }
        let mut buf = Vec::new();
        if !self.shared.engine.get(Table::Meta, &meta::catalog(ns.db(), ns.coll()), &mut buf).map_err(error::storage)? {
            return Ok(None);
        }
        let mut row = CatalogRow::decode(&buf)?;
        for ident in index_build::unfinished(&row) {
            row.indexes.retain(|i| i.ident != ident);
            self.shared.write_row(ns, &row)?;
            self.shared.drop_ident(Table::Idx, ident, u64::MAX)?;
        }
        Ok(Some(self.keep(Arc::new(Collection::open(self.shared.clone(), ns.clone(), &row)?))))
    }

    fn keep(&self, c: Arc<Collection>) -> Arc<Collection> {
        let mut handles = self.handles.write();
        if handles.len() >= HANDLES_MAX {
            // Any tenth of those nobody uses: reopening costs a read.
            let mut budget = HANDLES_MAX / 10;
            handles.retain(|_, h| {
                let drop_it = budget > 0 && Arc::strong_count(h) == 1;
                if drop_it {
                    self.shared.remember_sequence(h);
                }
                budget -= usize::from(drop_it);
                !drop_it
            });
        }
        handles.insert(c.ns().clone(), c.clone());
        c
    }

    /// Creates a collection (or, with `viewOn` in the options, a view).
    ///
    /// # Errors
    /// 48 NamespaceExists; engine failures.
    pub fn create_collection(&self, ns: &Namespace, options: DocBuf, uuid: [u8; 16]) -> Result<Arc<Collection>> {
        let _ddl = self.ddl.lock();
        if self.open_locked(ns)?.is_some() {
            return Err(MongoError::new(code::NAMESPACE_EXISTS, format!("Collection {ns} already exists.")));
        }
        let view = options.doc().contains("viewOn");
        let row = CatalogRow {
            kind: if view { Kind::View } else { Kind::Collection },
            ident: if view { 0 } else { self.shared.new_ident()? },
            uuid,
            options,
            indexes: Vec::new(),
        };
        let c = Arc::new(Collection::open(self.shared.clone(), ns.clone(), &row)?);
        self.shared.write_row(ns, &row)?;
        Ok(self.keep(c))
    }

    /// Drops a collection or view.
    ///
    /// # Output
    /// The number of its indexes with `_id_`, or `None` when it does not exist.
    ///
    /// # Errors
    /// Engine failures.
    pub fn drop_collection(&self, ns: &Namespace) -> Result<Option<usize>> {
        let _ddl = self.ddl.lock();
        let Some(c) = self.open_locked(ns)? else { return Ok(None) };
        let mut batch = Batch::new();
        self.drop_open(&c, &mut batch)?;
        Ok(Some(c.indexes().len() + usize::from(!c.is_view())))
    }

    fn drop_open(&self, c: &Arc<Collection>, batch: &mut Batch) -> Result<()> {
        // Writers inside finish first, later ones are told it is gone.
        let indexes = c.set_dropped(true);
        batch.delete(Table::Meta, &meta::catalog(c.ns().db(), c.ns().coll()));
        batch.delete(Table::Meta, &meta::counter(c.ident));
        batch.delete(Table::Meta, &meta::unordered(c.ident));
        if let Err(e) = self.shared.engine.apply(batch, Durability::Buffered) {
            // Nothing was dropped, so the handle stays good.
            c.set_dropped(false);
            return Err(error::storage(e));
        }
        self.handles.write().remove(c.ns());
        self.shared.evicted.lock().remove(&c.ident);
        if c.is_view() {
            return Ok(());
        }
        for i in indexes.iter() {
            self.shared.drop_index_keys(i, c.count())?;
        }
        if c.is_capped() {
            self.shared.drop_ident(Table::Cap, c.ident, c.count())?;
        }
        self.shared.drop_ident(Table::Doc, c.ident, c.count())
    }

    /// Renames; with `drop_target` an existing target goes first, in the same batch as the rename.
    ///
    /// # Errors
    /// 26 NamespaceNotFound, 48 NamespaceExists; engine failures.
    pub fn rename_collection(&self, from: &Namespace, to: &Namespace, drop_target: bool) -> Result<()> {
        let _ddl = self.ddl.lock();
        let Some(c) = self.open_locked(from)? else {
            return Err(MongoError::new(code::NAMESPACE_NOT_FOUND, format!("Source collection {from} does not exist")));
        };
        let target = self.open_locked(to)?;
        if target.is_some() && !drop_target {
            return Err(MongoError::new(code::NAMESPACE_EXISTS, "target namespace exists"));
        }
        let indexes = c.set_dropped(true);
        let row = c.row(&c.options(), &indexes);
        self.handles.write().remove(from);
        self.shared.remember_sequence(&c);
        let mut batch = Batch::new();
        batch.delete(Table::Meta, &meta::catalog(from.db(), from.coll()));
        match target {
            Some(t) => {
                let mut gone = Batch::new();
                batch.put(Table::Meta, &meta::catalog(to.db(), to.coll()), row.encode().as_bytes());
                // The row of the target is replaced, not deleted; only its data has to go.
                let indexes = t.set_dropped(true);
                gone.delete(Table::Meta, &meta::counter(t.ident));
                gone.delete(Table::Meta, &meta::unordered(t.ident));
                batch.append(&gone);
                self.shared.engine.apply(&batch, Durability::Buffered).map_err(error::storage)?;
                self.handles.write().remove(to);
                for i in indexes.iter() {
                    self.shared.drop_index_keys(i, t.count())?;
                }
                if t.is_capped() {
                    self.shared.drop_ident(Table::Cap, t.ident, t.count())?;
                }
                if !t.is_view() {
                    self.shared.drop_ident(Table::Doc, t.ident, t.count())?;
                }
            }
            None => {
                batch.put(Table::Meta, &meta::catalog(to.db(), to.coll()), row.encode().as_bytes());
                self.shared.engine.apply(&batch, Durability::Buffered).map_err(error::storage)?;
            }
        }
        Ok(())
    }

    /// The collections and views of a database, by name.
    ///
    /// # Errors
    /// Engine failures; 1 for a damaged row.
    pub fn list_collections(&self, db: &str) -> Result<Vec<CollectionEntry>> {
        let lower = meta::catalog_prefix(db);
        let mut upper = Vec::new();
        storage::prefix_end(&lower, &mut upper);
        let range = KeyRange { lower: &lower, upper: &upper };
        let mut cursor = self.shared.engine.cursor(Table::Meta, range, CursorOpts::default()).map_err(error::storage)?;
        let (mut found, mut failed) = (Vec::new(), None);
        while cursor
            .visit(1024, &mut |key, value| {
                match (meta::split_catalog(key), CatalogRow::decode(value)) {
                    (Some((_, coll)), Ok(row)) => found.push(CollectionEntry { name: coll.to_owned(), row }),
                    (_, Err(e)) => failed = Some(e),
                    (None, Ok(_)) => failed = Some(error::corrupt("catalog key")),
                }
                true
            })
            .map_err(error::storage)?
        {}
        failed.map_or(Ok(found), Err)
    }

    /// Shows catalog rows in the order of databases and names, at most `rows_max`, and moves `at`, which is empty at the
    /// start, behind them. Rows that cannot be read are left out.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// Engine failures.
    pub fn visit_catalog(
        &self,
        at: &mut Vec<u8>,
        rows_max: usize,
        f: &mut dyn FnMut(Namespace, CatalogRow),
    ) -> Result<bool> {
        let lower = if at.is_empty() { b"c".to_vec() } else { [&at[..], &[0]].concat() };
        let range = KeyRange { lower: &lower, upper: b"d" };
        let opts = CursorOpts { fill_cache: false, ..CursorOpts::default() };
        let mut cursor = self.shared.engine.cursor(Table::Meta, range, opts).map_err(error::storage)?;
        let mut shown = 0;
        while shown < rows_max {
            let more = cursor
                .visit(rows_max - shown, &mut |key, value| {
                    shown += 1;
                    at.clear();
                    at.extend_from_slice(key);
                    let ns = meta::split_catalog(key).and_then(|(db, coll)| Namespace::new(db, coll).ok());
                    if let (Some(ns), Ok(row)) = (ns, CatalogRow::decode(value)) {
                        f(ns, row);
                    }
                    true
                })
                .map_err(error::storage)?;
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Databases that have a collection, by name. One seek each, however many collections.
    ///
    /// # Errors
    /// Engine failures.
    pub fn list_databases(&self) -> Result<Vec<String>> {
        let mut found: Vec<String> = Vec::new();
        let mut lower = b"c".to_vec();
        let opts = CursorOpts { keys_only: true, limit_hint: 1, ..CursorOpts::default() };
        let range = KeyRange { lower: b"c", upper: b"d" };
        let mut cursor = self.shared.engine.cursor(Table::Meta, range, opts).map_err(error::storage)?;
        loop {
            cursor.seek(&lower).map_err(error::storage)?;
            let mut db = None;
            cursor
                .visit(1, &mut |key, _| {
                    db = meta::split_catalog(key).map(|(db, _)| db.to_owned());
                    false
                })
                .map_err(error::storage)?;
            let Some(db) = db else { return Ok(found) };
            lower = meta::catalog_prefix(&db);
            if let Some(last) = lower.last_mut() {
                *last = 1;
            }
            found.push(db);
        }
    }

    /// Drops all collections of a database; the number dropped.
    ///
    /// # Errors
    /// Engine failures.
    pub fn drop_database(&self, db: &str) -> Result<usize> {
        let entries = self.list_collections(db)?;
        for e in &entries {
            self.drop_collection(&Namespace::new(db, &e.name)?)?;
        }
        Ok(entries.len())
    }

    /// Reads a server-wide setting.
    ///
    /// # Errors
    /// Engine failures.
    pub fn setting(&self, name: &str) -> Result<Option<DocBuf>> {
        let mut buf = Vec::new();
        let found = self.shared.engine.get(Table::Meta, &meta::setting(name), &mut buf).map_err(error::storage)?;
        Ok(if found { DocBuf::from_bytes(buf) } else { None })
    }

    /// Writes a server-wide setting.
    ///
    /// # Errors
    /// Engine failures.
    pub fn set_setting(&self, name: &str, value: &DocBuf) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(Table::Meta, &meta::setting(name), value.as_bytes());
        self.shared.engine.apply(&batch, Durability::Journaled).map_err(error::storage)?;
        Ok(())
    }

    /// Flushes and closes the engine.
    ///
    /// # Errors
    /// Engine failures.
    pub fn close(&self) -> Result<()> {
        self.shared.engine.close().map_err(error::storage)
    }
}

impl Shared {
    /// Loads the drop records; those whose keys are all gone are forgotten.
    fn reload_dropped(&self) -> Result<()> {
        let mut records = Vec::new();
        let range = KeyRange { lower: b"d", upper: b"e" };
        let mut cursor = self.engine.cursor(Table::Meta, range, CursorOpts::default()).map_err(error::storage)?;
        while cursor
            .visit(1024, &mut |key, value| {
                let ident = key.get(1..5).and_then(|k| k.first_chunk::<4>()).map(|k| u32::from_be_bytes(*k));
                if let Some(ident) = ident {
                    records.push((ident, value.iter().filter_map(|t| Table::from_number(*t)).collect::<Vec<_>>()));
                }
                true
            })
            .map_err(error::storage)?
        {}
        let mut forget = Batch::new();
        let opts = CursorOpts { keys_only: true, limit_hint: 1, ..CursorOpts::default() };
        for (ident, tables) in records {
            let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
            let range = KeyRange { lower: &lower, upper: &upper };
            let mut any = false;
            for table in &tables {
                let mut cursor = self.engine.cursor(*table, range, opts).map_err(error::storage)?;
                cursor
                    .visit(1, &mut |_, _| {
                        any = true;
                        false
                    })
                    .map_err(error::storage)?;
            }
            if any {
                self.dropped.lock().extend(tables.into_iter().map(|t| (t, ident)));
            } else {
                forget.delete(Table::Meta, &meta::dropped(ident));
            }
        }
        if !forget.is_empty() {
            self.engine.apply(&forget, Durability::Buffered).map_err(error::storage)?;
        }
        for table in [Table::Doc, Table::Idx, Table::Cap] {
            let dropped = self.dropped.lock();
            let set: IdentSet = dropped.iter().filter(|(t, _)| *t == table).map(|(_, i)| *i).collect();
            self.engine.set_dropped(table, Arc::new(set));
        }
        Ok(())
    }
}
