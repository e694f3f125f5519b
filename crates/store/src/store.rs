//! The store: opens an engine, keeps handles to open collections, lists collections and databases.
//! Opening reads three small rows, whatever the number of collections. Must not know: which engine
//! is below, commands.

use crate::catalog::dropped::{self, Leftover};
use crate::catalog::{CatalogRow, Collection, Kind, Shared, State};
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::follow::{FollowerState, is_kept};
use crate::format::{LAYOUT_VERSION, meta};
use crate::handles::{Handles, NameLocks};
use crate::hooks::Hooks;
use crate::log::{ConsumerState, Lifetime, Log, LogConsumer, LogReader, end_time};
use crate::peers::Peer;
use crate::view::ReadView;
use crate::write::session::{NumberOrder, SessionId, SessionRecord};
use crate::write::transaction::Transaction;
use model::{DocBuf, MongoError, Namespace, Result, Timestamp, bail, code};
use operation::Operation;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use storage::{CommitPos, CursorOpts, Engine, Follower, KeyRange, Reader, Table, Unit, WriteBatch};

/// A store over one engine.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handles: Handles,
    /// Set when other processes write the data.
    pub(crate) following: Option<FollowerState>,
    /// Set when this process writes the data beside others.
    pub(crate) joined: Option<JoinedData>,
}

/// What a store needs that writes beside others.
pub(crate) struct JoinedData {
    /// Tells the moments of the data.
    pub(crate) follower: Arc<dyn Follower>,
    /// This process among those that write.
    pub(crate) peer: Peer,
    /// Brings the caches of the layers above to the state of the newest moment.
    pub(crate) renewal: OnceLock<Box<dyn Fn() -> Result<()> + Send + Sync>>,
}

impl Store {
    /// Opens a store over an engine; an empty engine becomes an empty store.
    ///
    /// # Errors
    /// 12 UnsupportedFormat when the data has a newer layout; engine failures.
    pub fn open(engine: Arc<dyn Engine>, hooks: Arc<dyn Hooks>) -> Result<Store> {
        check_layout(engine.as_ref())?;
        engine.announce(is_kept);
        let shared = Arc::new(Shared::open(engine, hooks)?);
        let store = Store {
            shared,
            handles: Handles::default(),
            following: None,
            joined: None,
        };
        store.show_log()?;
        Ok(store)
    }

    /// Creates the collection that shows the log, and writes an entry at each start, so that the
    /// log is never empty.
    pub(crate) fn show_log(&self) -> Result<()> {
        let Some(log) = &self.shared.log else {
            return Ok(());
        };
        let ns = Namespace::new("local", "oplog.rs")?;
        let there = self.collection(&ns)?;
        if there.as_ref().is_none_or(|c| c.ident != log.ident) {
            let options = model::doc! { "capped": true, "size": log.bytes_max() as i64 };
            let row = CatalogRow {
                kind: Kind::Collection,
                ident: log.ident,
                uuid: log.uuid(),
                options,
                indexes: Vec::new(),
                search: Vec::new(),
            };
            let mut batch = WriteBatch::new();
            Shared::put_row(&mut batch, &ns, &row);
            let beside_others = match self.shared.has_joined {
                true => self.shared.engine.begin_exclusive(),
                false => Ok(None),
            };
            let beside_others = beside_others.map_err(error::storage)?.map(Unit::Checked);
            let unit = WriteUnit::new(&batch).commit_through(beside_others);
            match self.shared.commit(unit) {
                // Another process shows it.
                Err(e) if self.shared.has_joined && error::is_conflict(&e) => {
                    self.begin_moment()?;
                    return self.show_log();
                }
                done => _ = done?,
            }
            self.handles.remove(&ns);
        }
        let message = if there.is_none() {
            "initiating set"
        } else {
            "new primary"
        };
        self.note(&model::doc! { "msg": message }).map(|_| ())
    }

    /// The log of all changes; `None` for a store without one.
    pub fn log(&self) -> Option<&Arc<Log>> {
        self.shared.log.as_ref()
    }

    /// The log that consumers follow: the log of all changes, or one that is kept only for
    /// consumers.
    pub fn feed(&self) -> Option<&Arc<Log>> {
        self.shared.feed.as_ref()
    }

    /// A reader of the log from the first entry at or after a time; `None` without a log.
    pub fn read_log(&self, from: Timestamp) -> Option<LogReader> {
        let log = Arc::clone(self.shared.log.as_ref()?);
        Some(LogReader::new(Arc::clone(&self.shared.engine), log, from))
    }

    /// Registers a consumer of the log that has processed everything before `from`; `None` without
    /// a log. Entries from there on are kept for it, up to a bound.
    ///
    /// # Errors
    /// 115 where several processes write the log; engine failures.
    pub fn consume_log(
        &self,
        name: &str,
        from: Timestamp,
        lifetime: Lifetime,
    ) -> Result<Option<LogConsumer>> {
        let log = self.shared.feed.as_ref();
        if log.is_some_and(|log| log.is_shared()) {
            bail!(
                code::COMMAND_NOT_SUPPORTED,
                "consumers of the log of changes are for engines that one server writes to"
            );
        }
        log.map(|l| l.consume(&self.shared.engine, name, from, lifetime))
            .transpose()
    }

    /// Removes a consumer of the log.
    ///
    /// # Errors
    /// Engine failures.
    pub fn end_log_consumer(&self, name: &str) -> Result<()> {
        let log = self.shared.feed.as_deref();
        log.map_or(Ok(()), |l| {
            l.end_consumer(self.shared.engine.as_ref(), name)
        })
    }

    /// The state of each consumer of the log.
    ///
    /// # Cost
    /// One seek for each.
    ///
    /// # Errors
    /// Engine failures.
    pub fn log_consumers(&self) -> Result<Vec<ConsumerState>> {
        let log = self.shared.feed.as_deref();
        log.map_or(Ok(Vec::new()), |l| l.consumers(self.shared.engine.as_ref()))
    }

    /// Writes a log entry that records no change; returns its time, or `None` without a log.
    ///
    /// # Errors
    /// Engine failures.
    pub fn note(&self, message: &DocBuf) -> Result<Option<Timestamp>> {
        let engine = self.shared.engine.as_ref();
        let log = self.shared.feed.as_deref();
        log.map(|l| l.note(engine, message)).transpose()
    }

    /// Removes the oldest entries of the log when it is too large; true when some were removed.
    ///
    /// # Errors
    /// Engine failures.
    pub fn truncate_log(&self) -> Result<bool> {
        let log = self.shared.feed.as_deref();
        log.map_or(Ok(false), |l| l.truncate(self.shared.engine.as_ref()))
    }

    /// Sets the size of the log and the minimum time for which entries are kept.
    ///
    /// # Errors
    /// Engine failures.
    pub fn resize_log(
        &self,
        operation: &Operation,
        bytes_max: Option<u64>,
        keep_ms: Option<u64>,
    ) -> Result<()> {
        let Some(log) = self.shared.log.as_deref() else {
            return Ok(());
        };
        log.resize(self.shared.engine.as_ref(), bytes_max, keep_ms)?;
        if let Some(c) = self.collection(&Namespace::new("local", "oplog.rs")?)? {
            let size = log.bytes_max() as i64;
            let options = model::doc! { "capped": true, "size": size };
            c.writer(operation).set_options(options, None)?;
        }
        Ok(())
    }

    /// A view of the current state, and the log time that corresponds exactly to it; `None` without
    /// a log.
    ///
    /// # Errors
    /// Engine failures.
    pub fn snapshot_at(&self) -> Result<Option<(Timestamp, ReadView)>> {
        let Some(log) = &self.shared.feed else {
            return Ok(None);
        };
        if let Some(view) = self.begin_moment()? {
            let pos = view.pos().unwrap_or_default();
            return Ok(Some((Timestamp::from_u64(end_time(pos)), view)));
        }
        let taken = log.run_between_commits(|at| self.snapshot().map(|view| (at, view)));
        taken.map(Some)
    }

    /// The engine below, for statistics and shutdown.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }

    /// Writes a consistent copy of all data into a directory that must not exist. Files that are
    /// never written again are copied as links where the engine has such files.
    ///
    /// # Errors
    /// 115 where the engine has no files; engine failures.
    pub fn checkpoint(&self, path: &Path) -> Result<()> {
        let engine = self.shared.engine.as_ref();
        engine.checkpoint(path).map_err(error::storage)
    }

    /// Blocks until a commit is durable against a loss of power.
    ///
    /// # Errors
    /// Engine failures.
    pub fn wait_durable(&self, pos: CommitPos) -> Result<()> {
        self.shared.engine.wait_durable(pos).map_err(error::storage)
    }

    /// A view of the current state. The data of collections and indexes that are dropped later
    /// stays on disk until the last clone of the view is dropped.
    ///
    /// # Errors
    /// Engine failures.
    pub fn snapshot(&self) -> Result<ReadView> {
        ReadView::pin(&self.shared)
    }

    /// The collection or view of that name.
    ///
    /// # Cost
    /// None when it is open already, else one read of the catalog and a few of its marks.
    ///
    /// # Errors
    /// Engine failures.
    pub fn collection(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        if let Some(followed) = self.newest_collection(ns) {
            return followed;
        }
        if let Some(c) = self.open_handle(ns) {
            return Ok(Some(c));
        }
        self.open_locked(&self.lock_names([ns]), ns)
    }

    /// Whether any collection that was opened is known to have or have had a large document.
    pub fn has_large_documents(&self) -> bool {
        self.shared.large.max_with(0) > 0
    }

    /// The collection of that name, if it is open.
    pub(crate) fn open_handle(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        self.handles.get(ns)
    }

    /// The open collections for which `is_meant` is true. `is_meant` must not call the store.
    pub fn open_collections(&self, is_meant: &dyn Fn(&Collection) -> bool) -> Vec<Arc<Collection>> {
        self.handles.list(is_meant)
    }

    /// Waits for the changes of the catalog that are in progress. A handle found while its
    /// collection is being replaced cannot be used; after this call the name leads to the new
    /// collection.
    pub fn wait_for_catalog(&self) {
        self.handles.wait_for_names();
    }

    pub(crate) fn lock_names<'n>(
        &self,
        names: impl IntoIterator<Item = &'n Namespace>,
    ) -> NameLocks<'_> {
        self.handles.lock_names(names)
    }

    pub(crate) fn open_locked(
        &self,
        locked: &NameLocks<'_>,
        ns: &Namespace,
    ) -> Result<Option<Arc<Collection>>> {
        debug_assert!(locked.includes(ns), "{ns} is not locked");
        if let Some(followed) = self.newest_collection(ns) {
            return followed;
        }
        if let Some(c) = self.open_handle(ns) {
            return Ok(Some(c));
        }
        let mut buf = Vec::new();
        let key = meta::catalog(ns.db(), ns.coll());
        if !self
            .shared
            .engine
            .get(Table::Meta, &key, &mut buf)
            .map_err(error::storage)?
        {
            return Ok(None);
        }
        let mut row = CatalogRow::decode(&buf)?;
        self.remove_unfinished(ns, &mut row)?;
        let engine = self.shared.engine.as_ref();
        let c = Collection::open(self.shared.clone(), ns.clone(), &row, engine)?;
        self.shared.large.note(c.largest_bytes());
        let c = Arc::new(c);
        if c.is_capped() && c.count() > 0 {
            c.complete_order()?;
        }
        self.keep(c.clone());
        Ok(Some(c))
    }

    /// Removes indexes whose build was interrupted by a crash.
    fn remove_unfinished(&self, ns: &Namespace, row: &mut CatalogRow) -> Result<()> {
        let unfinished = row.indexes.iter().filter(|i| !i.ready);
        let leftovers: Vec<Leftover> = unfinished
            .map(|i| Leftover {
                ident: i.ident,
                table: Table::Idx,
                keys: u64::MAX,
                is_referenced: false,
            })
            .collect();
        if leftovers.is_empty() {
            return Ok(());
        }
        row.indexes.retain(|i| i.ready);
        let mut batch = WriteBatch::new();
        Shared::put_row(&mut batch, ns, row);
        dropped::record(&mut batch, &leftovers);
        let pos = self.shared.commit(WriteUnit::new(&batch))?;
        self.shared.remove_leftovers(leftovers, pos);
        Ok(())
    }

    /// Caches a handle for reuse.
    pub(crate) fn keep(&self, c: Arc<Collection>) {
        self.handles.insert(c);
    }

    /// Removes the handle of a collection that was dropped or renamed: the handle cannot be used
    /// any more.
    pub(crate) fn forget(&self, c: &Arc<Collection>, state: &State, renamed: bool) {
        if self.shared.has_joined {
            // Readers of earlier moments share the handle; writers find out by their units.
            return;
        }
        c.set_state(State {
            dropped: true,
            ..state.clone()
        });
        self.handles.remove(c.ns());
        let sequences = &self.shared.sequences;
        match renamed {
            true => sequences.remember(c.ident, c.live.next_seq()),
            false => sequences.forget(c.ident),
        }
    }

    /// Begins or repeats the session's retryable write with this number.
    ///
    /// # Cost
    /// One read when the session is used for the first time since the start, and always beside
    /// other processes; else none.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub fn begin_retryable(&self, record: &mut SessionRecord, number: i64) -> Result<NumberOrder> {
        if self.shared.has_joined {
            record.share();
        }
        record.begin(self.shared.engine.as_ref(), number)
    }

    /// Reads the record of a session from disk, unless it was read before.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub fn load_session(&self, record: &mut SessionRecord) -> Result<()> {
        if self.shared.has_joined {
            record.share();
        }
        record.ensure_loaded(self.shared.engine.as_ref())
    }

    /// Begins a transaction that reads the current state, or that of `at`.
    ///
    /// # Errors
    /// Engine failures.
    pub fn begin_transaction(&self, at: Option<&ReadView>) -> Result<Transaction> {
        let newest = self.following.as_ref().filter(|_| self.shared.has_joined);
        let newest = newest.map(|following| following.newest());
        Transaction::begin(&self.shared, at.or(newest.as_ref()))
    }

    /// Deletes the record of a session that has ended.
    ///
    /// # Errors
    /// Engine failures.
    pub fn forget_session(&self, record: &mut SessionRecord) -> Result<()> {
        self.shared.forget_session(record)
    }

    /// Calls `f` with each recorded session and the number of its last transaction or retryable
    /// write.
    ///
    /// # Cost
    /// A scan of all records.
    ///
    /// # Errors
    /// Engine failures.
    pub fn each_session(&self, f: &mut dyn FnMut(SessionId, i64)) -> Result<()> {
        self.shared.each_session(f)
    }

    /// Removes the records of sessions that are not alive; returns the number of rows removed.
    ///
    /// # Cost
    /// A scan of the keys of all records.
    ///
    /// # Errors
    /// Engine failures.
    pub fn sweep_sessions(&self, alive: &dyn Fn(&SessionId) -> bool) -> Result<usize> {
        self.shared.sweep_sessions(alive)
    }

    /// Reads a server-wide setting.
    ///
    /// # Errors
    /// Engine failures.
    pub fn setting(&self, name: &str) -> Result<Option<DocBuf>> {
        let mut buf = Vec::new();
        let found = self
            .shared
            .engine
            .get(Table::Meta, &meta::setting(name), &mut buf)
            .map_err(error::storage)?;
        Ok(if found { DocBuf::from_bytes(buf) } else { None })
    }

    /// Writes a server-wide setting.
    ///
    /// # Errors
    /// Engine failures.
    pub fn set_setting(&self, name: &str, value: &DocBuf) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(Table::Meta, &meta::setting(name), value.as_bytes());
        self.shared
            .commit(WriteUnit::new(&batch).durable())
            .map(|_| ())
    }

    /// Writes a server-wide setting, unless there is one of that name.
    ///
    /// # Output
    /// The setting that there is now, also where other processes write one at the same time.
    ///
    /// # Errors
    /// Engine failures.
    pub fn keep_setting(&self, name: &str, value: &DocBuf) -> Result<DocBuf> {
        let (engine, key) = (self.shared.engine.as_ref(), meta::setting(name));
        loop {
            let unit = engine.begin().map_err(error::storage)?;
            let mut found = None;
            let see = &mut |bytes: &[u8]| found = DocBuf::from_bytes(bytes.to_vec());
            unit.get_with(Table::Meta, &key, see)
                .map_err(error::storage)?;
            if let Some(found) = found {
                return Ok(found);
            }
            let mut batch = WriteBatch::new();
            batch.put(Table::Meta, &key, value.as_bytes());
            let written = WriteUnit::new(&batch).durable().commit_through(Some(unit));
            match self.shared.commit(written) {
                Err(e) if error::is_conflict(&e) => {}
                done => return done.map(|_| value.clone()),
            }
        }
    }

    /// The names and values of the server-wide settings whose names begin with `prefix`.
    ///
    /// # Errors
    /// Engine failures.
    pub fn settings_of(&self, prefix: &str) -> Result<Vec<(String, DocBuf)>> {
        let lower = meta::setting(prefix);
        let range = KeyRange::new(&lower, b"x");
        let opened = self
            .shared
            .engine
            .cursor(Table::Meta, range, CursorOpts::default());
        let mut cursor = opened.map_err(error::storage)?;
        let mut found = Vec::new();
        let each = &mut |key: &[u8], value: &[u8]| {
            let name = key.strip_prefix(b"w").filter(|_| key.starts_with(&lower));
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let Some(name) = name else {
                return false;
            };
            found.extend(DocBuf::from_bytes(value.to_vec()).map(|doc| (name.to_owned(), doc)));
            true
        };
        cursor.visit(usize::MAX, each).map_err(error::storage)?;
        Ok(found)
    }

    /// Removes a server-wide setting.
    ///
    /// # Errors
    /// Engine failures.
    pub fn remove_setting(&self, name: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(Table::Meta, &meta::setting(name));
        self.shared
            .commit(WriteUnit::new(&batch).durable())
            .map(|_| ())
    }

    /// Flushes and closes the engine.
    ///
    /// # Errors
    /// Engine failures.
    pub fn close(&self) -> Result<()> {
        if let Some(log) = &self.shared.feed {
            // What fails here is published by others.
            let _ = log.publish_all();
        }
        // Otherwise the others wait until this process counts as gone.
        if let Some(joined) = &self.joined {
            let _ = self.shared.forget_peer(joined.peer);
        }
        self.shared.engine.close().map_err(error::storage)
    }
}

/// Writes the layout version into an empty engine, and refuses one that is newer than this program.
pub(crate) fn check_layout(engine: &dyn Engine) -> Result<()> {
    let mut buf = Vec::new();
    let found = engine
        .get(Table::Meta, meta::FORMAT_VERSION, &mut buf)
        .map_err(error::storage)?;
    let write = || {
        let mut batch = WriteBatch::new();
        batch.put(
            Table::Meta,
            meta::FORMAT_VERSION,
            &LAYOUT_VERSION.to_be_bytes(),
        );
        commit(engine, WriteUnit::new(&batch).durable()).map(|_| ())
    };
    if !found {
        return write();
    }
    let version = buf.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
    match version.ok_or_else(|| error::corrupt("the layout version"))? {
        v if v > LAYOUT_VERSION => Err(MongoError::new(
            code::UNSUPPORTED_FORMAT,
            format!(
                "the data has layout version {v}, this server reads up to {LAYOUT_VERSION}: use a \
                    newer server"
            ),
        )),
        // Rows of an older version stay readable; older versions cannot read the rows that this one
        // writes.
        v if v < LAYOUT_VERSION => write(),
        _ => Ok(()),
    }
}
