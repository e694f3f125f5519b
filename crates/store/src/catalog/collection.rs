//! An open collection: its options and indexes, its counters, the names of its keys. Promises:
//! everything that a change of the catalog row can change is in one immutable `State`, which is
//! read without a lock; writers are inside the gate, changes close it.
//! Must not know: how documents are read (`view`) or written (`write`, `ddl`).

use crate::catalog::buckets::OpenBuckets;
use crate::catalog::capped::{CappedGuards, Limits};
use crate::catalog::indexes::open_indexes;
use crate::catalog::large::LARGE_BYTES;
use crate::catalog::last::read_last;
use crate::catalog::live::{CollectionCounters, Order};
use crate::catalog::opened::{KeptRows, OpenedRows};
use crate::catalog::row::{CatalogRow, IndexRow, Kind};
use crate::catalog::shared::Shared;
use crate::error;
use crate::format::{keys, meta};
use crate::gate::{ClosingGuard, Gate, SharedGuard};
use crate::index::{Index, Usage, WantedFields};
use crate::log::{COMMIT_ENTRIES_MAX, Log, NamespaceHash};
use arc_swap::{ArcSwap, Guard};
use model::bucket::SeriesOptions;
use model::{Collate, Doc, DocBuf, ErrorKind, Namespace, Result, Value};
use operation::Operation;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use storage::{CommitPos, Reader, Table, Unit, counter_decode};

/// How often a change that waits at the gate checks whether it was interrupted.
const GATE_LOOK: Duration = Duration::from_millis(50);

/// A handle to a collection or view, shared by all its users.
pub struct Collection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ns: Namespace,
    pub(crate) uuid: [u8; 16],
    pub(crate) ident: u32,
    pub(crate) kind: Kind,
    state: ArcSwap<State>,
    /// Writers enter it; a change of the catalog row closes it.
    pub(crate) gate: Arc<Gate>,
    pub(crate) live: CollectionCounters,
    pub(crate) id_collate: Option<Arc<dyn Collate>>,
    pub(crate) capped: CappedGuards,
    /// The open buckets of a time-series collection.
    pub(crate) buckets: Arc<OpenBuckets>,
    /// The log of its changes, see [`Collection::log_in`].
    log: Option<Arc<Log>>,
    /// The database and collection that its log entries concern.
    pub(crate) concerned: NamespaceHash,
    /// A copy of `State::dropped` for readers, which check it for every document.
    gone: AtomicBool,
    /// The collection was created in a transaction that has not committed: nothing of it is on
    /// disk, not even marks.
    uncommitted: AtomicBool,
    /// Position of the last commit that may have changed its catalog row.
    unchanged_since: AtomicU64,
    /// The announcements with which it was opened, see [`Collection::is_current`].
    generation: Option<Box<[u8]>>,
    /// The rows from which it was opened, where other processes change them, too.
    opened: Option<KeptRows>,
    id_usage: Usage,
    /// What its readers cache with it, see [`Collection::attachment`].
    attached: Arc<Attachment>,
}

/// What readers cache with a collection.
pub(crate) type Attachment = OnceLock<Box<dyn Any + Send + Sync>>;

/// The part of a collection that changes with its catalog row.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) options: Arc<DocBuf>,
    pub(crate) indexes: Arc<Vec<Arc<Index>>>,
    pub(crate) dropped: bool,
    /// The limits when the options say `capped`.
    pub(crate) capped: Option<Limits>,
    /// The log keeps the documents before their changes.
    pub(crate) images: bool,
    /// The options for the buckets of a time series.
    pub(crate) series: Option<Arc<SeriesOptions>>,
    /// Definitions of search indexes.
    pub(crate) search: Arc<Vec<DocBuf>>,
}

impl State {
    /// Whether a unique index is being built: then two documents that were not compared yet may
    /// share a key, and the entry of that key may belong to either.
    pub(crate) fn builds_unique(&self) -> bool {
        self.indexes.iter().any(|i| i.is_unique() && !i.is_ready())
    }
}

impl Collection {
    /// Opens a collection from its catalog row and from marks that `reader` reads. Unfinished
    /// indexes are left out, and the caller removes them from the row; where other processes write,
    /// too, one of them may be building the index.
    ///
    /// # Cost
    /// Two reads; a read of the last document when there is one.
    ///
    /// # Errors
    /// Engine failures; those of the hooks for filters and collations.
    pub(crate) fn open(
        shared: Arc<Shared>,
        ns: Namespace,
        row: &CatalogRow,
        reader: &dyn Reader,
    ) -> Result<Collection> {
        let id_collate = match row.options.doc().field("collation").as_doc() {
            Some(c) => shared.hooks.collator(c)?,
            None => None,
        };
        let counts = stored_counts(row.ident, reader)?;
        let rows = OpenedRows::read(row, reader)?;
        let in_order = rows.unordered().is_none();
        let reserved = match rows.unordered().map(meta::read_unordered) {
            Some(reserved) => {
                let damaged = || error::corrupt(&format!("the mark of the order of {ns}"));
                reserved.ok_or_else(damaged)?
            }
            None => 0,
        };
        let next_seq = shared
            .sequences
            .get(row.ident)
            .unwrap_or(0)
            .max(reserved + 1);
        let indexes = open_indexes(&shared, &rows)?;
        let mut order = Order {
            max_key: Vec::new(),
            next_seq,
            reserved,
        };
        if counts[0] > 0 {
            read_last(reader, row.ident, in_order, &mut order)?;
        }
        let options = row.options.doc();
        let live = CollectionCounters::new(counts, in_order, order, shared.order_bytes.clone());
        // Earlier entries may refer to its records, unless several processes write.
        let log = shared.feed.as_ref().filter(|log| !log.is_shared());
        let latest = log.map_or(0, |log| log.latest().as_u64());
        live.set_referenced(latest);
        Ok(Collection {
            uuid: row.uuid,
            ident: row.ident,
            kind: row.kind,
            state: ArcSwap::from_pointee(State {
                options: Arc::new(row.options.clone()),
                indexes: Arc::new(indexes),
                dropped: false,
                capped: Limits::of(options),
                images: keeps_images(options),
                series: SeriesOptions::of(options).map(Arc::new),
                search: Arc::new(row.search.clone()),
            }),
            gate: Arc::default(),
            live,
            id_collate,
            capped: CappedGuards::default(),
            buckets: match options.contains("timeseries") {
                true => shared.buckets_of(row.ident),
                false => Arc::default(),
            },
            log: shared.feed.clone().filter(|_| is_logged(&ns)),
            concerned: NamespaceHash::hash(ns.db(), Some(ns.coll())),
            gone: AtomicBool::new(false),
            uncommitted: AtomicBool::new(false),
            unchanged_since: AtomicU64::new(shared.engine.last_pos().0),
            generation: None,
            opened: shared.has_joined.then(|| rows.keep()),
            id_usage: Usage::default(),
            attached: Arc::default(),
            ns,
            shared,
        })
    }

    /// Its name.
    pub fn ns(&self) -> &Namespace {
        &self.ns
    }
    /// Its UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }
    /// Counts reads and writes that found documents by their `_id`.
    pub fn id_usage(&self) -> &Usage {
        &self.id_usage
    }
    /// A value that readers cache with the handle, or, where another process writes, with the
    /// handles of all generations; created at the first call. All callers must ask for the same
    /// type.
    ///
    /// # Panics
    /// When another type is asked for than at first, which is a bug.
    pub fn attachment<T: Default + Any + Send + Sync>(&self) -> &T {
        let attached = self.attached.get_or_init(|| Box::new(T::default()));
        match attached.downcast_ref() {
            Some(attached) => attached,
            None => unreachable!("a collection has one kind of attachment"),
        }
    }
    /// As [`Collection::attachment`]; `None` when nothing was attached yet.
    pub fn attached_before<T: Any>(&self) -> Option<&T> {
        self.attached.get()?.downcast_ref()
    }
    /// True for a view.
    pub fn is_view(&self) -> bool {
        self.kind == Kind::View
    }
    /// The options of `create`.
    pub fn options(&self) -> Arc<DocBuf> {
        self.state.load().options.clone()
    }
    /// Secondary indexes, also unfinished ones.
    pub fn indexes(&self) -> Arc<Vec<Arc<Index>>> {
        self.state.load().indexes.clone()
    }
    /// Definitions of search indexes, in order of creation.
    pub fn search_indexes(&self) -> Arc<Vec<DocBuf>> {
        self.state.load().search.clone()
    }
    /// The collation of `_id`, which is that of the collection.
    pub fn id_collate(&self) -> Option<&dyn Collate> {
        self.id_collate.as_deref()
    }
    /// Bytes of the largest document known to be or to have been in the collection; 0 when none of
    /// at least [`LARGE_BYTES`] is known. No read.
    pub fn largest_bytes(&self) -> usize {
        self.live.largest_bytes()
    }
    /// Records that the collection has or had a document of this many bytes.
    pub(crate) fn note_size(&self, bytes: usize) {
        if bytes >= LARGE_BYTES {
            self.live.largest.note(bytes);
            self.shared.large.note(bytes);
        }
    }
    /// Exact number of documents; no read.
    pub fn count(&self) -> u64 {
        match self.as_log() {
            Some(log) => log.counts(self.shared.engine.as_ref()).map_or(0, |c| c.0),
            None => self.live.docs(),
        }
    }
    /// Exact bytes of BSON; no read.
    pub fn size_bytes(&self) -> u64 {
        match self.as_log() {
            Some(log) => log.counts(self.shared.engine.as_ref()).map_or(0, |c| c.1),
            None => self.live.bytes(),
        }
    }
    /// Reads the numbers of documents and of their bytes from `reader`.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn renew_counts(&self, reader: &dyn Reader) -> Result<u64> {
        let counts = stored_counts(self.ident, reader)?;
        self.live.set_counts(counts);
        Ok(u64::try_from(counts[0]).unwrap_or(0))
    }
    /// The numbers of documents and of their bytes in `reader`.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn stored_counts(&self, reader: &dyn Reader) -> Result<(u64, u64)> {
        let [docs, bytes] = stored_counts(self.ident, reader)?;
        let number = |n| u64::try_from(n).unwrap_or(0);
        Ok((number(docs), number(bytes)))
    }
    /// Documents inserted, replaced and deleted since this handle was opened; no read.
    pub fn change_count(&self) -> u64 {
        self.live.change_count()
    }
    /// The log, when this is the collection that shows it.
    pub(crate) fn as_log(&self) -> Option<&Arc<Log>> {
        let log = self.shared.log.as_ref();
        log.filter(|l| l.ident == self.ident && !self.is_view())
    }
    /// The log of its changes in a state. The answer stays valid until the gate is closed, so a
    /// writer that asks at its beginning can rely on it at its commit.
    pub(crate) fn log_in(&self, state: &State) -> Option<&Arc<Log>> {
        let log = self.log.as_ref();
        log.filter(|l| l.has_everything() || !state.search.is_empty())
    }
    /// How many documents one commit may change in a state.
    pub(crate) fn commit_docs_max(&self, state: &State) -> usize {
        let log = self.log_in(state).filter(|log| log.is_shared());
        log.map_or(usize::MAX, |_| COMMIT_ENTRIES_MAX as usize)
    }
    /// Whether it shows the log of all changes. Only the log itself writes to it.
    pub fn is_log(&self) -> bool {
        self.as_log().is_some()
    }
    /// True once the collection was dropped or renamed; readers must stop.
    pub fn is_dropped(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
    /// Whether only the transaction that creates it knows it.
    pub(crate) fn is_uncommitted(&self) -> bool {
        self.uncommitted.load(Ordering::Acquire)
    }
    pub(crate) fn set_uncommitted(&self, yes: bool) {
        self.uncommitted.store(yes, Ordering::Release);
    }
    /// Number of rows that cost a reader about as much as one; see [`storage::Caps::request_rows`].
    pub fn request_rows(&self) -> usize {
        self.shared.engine.caps().request_rows
    }
    /// Whether it is capped: its oldest documents are deleted as new ones are inserted.
    pub fn is_capped(&self) -> bool {
        self.state.load().capped.is_some()
    }
    /// True for a time-series collection.
    pub fn is_series(&self) -> bool {
        self.state.load().series.is_some()
    }
    /// The options of its buckets; `None` when it is no time series.
    pub(crate) fn series_options(&self) -> Option<Arc<SeriesOptions>> {
        self.state.load().series.clone()
    }
    /// The current state. It may be replaced at any time, unless the caller is inside the gate.
    pub(crate) fn state(&self) -> Guard<Arc<State>> {
        self.state.load()
    }

    /// Shares what readers cache with other handles of the collection.
    pub(crate) fn set_attachment(&mut self, attached: Arc<Attachment>) {
        self.attached = attached;
    }

    /// Records with which announcements it was opened.
    pub(crate) fn set_generation(&mut self, announced: &[u8]) {
        self.generation = Some(announced.into());
    }

    /// Whether its catalog row and its marks are those that a unit reads. Always true where one
    /// process writes: there the gate keeps changes out.
    pub(crate) fn is_current(&self, unit: &Unit<'_>) -> bool {
        !self.shared.has_joined || unit.announced() == self.generation.as_deref()
    }

    /// As [`Collection::is_current`], when something else may have been announced meanwhile.
    ///
    /// # Cost
    /// One or two reads when something was announced.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn is_unchanged_in(&self, unit: &Unit<'_>) -> Result<bool> {
        match &self.opened {
            Some(opened) if !self.is_current(unit) => opened.are_in(&self.ns, unit),
            _ => Ok(self.is_current(unit)),
        }
    }

    /// Whether both were opened from the same rows, where other processes change them, too.
    pub(crate) fn was_opened_like(&self, other: &Collection) -> bool {
        self.opened.is_some() && self.opened == other.opened
    }

    /// The commit since which its catalog row has not changed.
    pub(crate) fn catalog_commit(&self) -> CommitPos {
        CommitPos(self.unchanged_since.load(Ordering::Acquire))
    }
    pub(crate) fn set_unchanged_since(&self, pos: CommitPos) {
        self.unchanged_since.store(pos.0, Ordering::Release);
    }

    /// The catalog row of a state. `ready` is an index that the row marks as ready.
    pub(crate) fn row(&self, state: &State, ready: Option<&Index>) -> CatalogRow {
        let is_ready = |i: &Index| i.is_ready() || ready.is_some_and(|r| r.ident() == i.ident());
        let index_row = |i: &Arc<Index>| IndexRow {
            ident: i.ident(),
            spec: i.spec().to_buf(),
            ready: is_ready(i),
            keyed: i.has_entries(),
            marked: i.has_marks(),
            builder: i.builder().filter(|_| !is_ready(i)),
        };
        CatalogRow {
            kind: self.kind,
            ident: self.ident,
            uuid: self.uuid,
            options: state.options.as_ref().clone(),
            indexes: state.indexes.iter().map(index_row).collect(),
            search: state.search.as_ref().clone(),
        }
    }

    /// Replaces the state. The caller has closed the gate and written the state to disk; or the
    /// collection is not committed and the caller is its transaction.
    pub(crate) fn set_state(&self, state: State) {
        self.gone.store(state.dropped, Ordering::Release);
        self.state.store(Arc::new(state));
    }

    /// Marks the collection as dropped.
    pub(crate) fn set_dropped(&self) {
        let state = State::clone(&self.state());
        let indexes = Arc::clone(&state.indexes);
        self.set_state(State {
            dropped: true,
            ..state
        });
        indexes.iter().for_each(|i| i.wake_build_waiters());
    }

    /// Closes the gate for a change of the catalog row, once everybody inside has left.
    ///
    /// # Errors
    /// The reason when the operation is interrupted while it waits, or set aside: newcomers are
    /// kept out until it runs again.
    pub(crate) fn close(&self, operation: &Operation) -> Result<ClosingGuard> {
        let mut until = Instant::now();
        let given = operation.writes().take_given();
        let kept = given.and_then(|k| k.downcast::<ClosingGuard>().ok());
        let mut closing = kept.map(|k| *k).filter(|k| k.is_of(&self.gate));
        loop {
            let Some(own) = closing else {
                closing = self.gate.begin_closing(until);
                if closing.is_none() {
                    Shared::wait_on_thread(operation, &|waker| self.gate.wake_when_open(waker))?;
                    until = Instant::now() + GATE_LOOK;
                }
                continue;
            };
            if own.is_alone_by(until) {
                return Ok(own);
            }
            if let Err(e) = Shared::wait_on_thread(operation, &|waker| own.wake_when_alone(waker)) {
                if e.is(ErrorKind::SetAside) {
                    operation.writes().keep(Box::new(own));
                }
                return Err(e);
            }
            closing = Some(own);
            until = Instant::now() + GATE_LOOK;
        }
    }

    /// Enters the gate for a write: the state does not change until the token is dropped.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; the reason when the operation is
    /// interrupted while it waits, or set aside.
    pub(crate) fn enter(
        &self,
        operation: &Operation,
    ) -> Result<(SharedGuard<'_>, Guard<Arc<State>>)> {
        let go_on = || Shared::wait_on_thread(operation, &|waker| self.gate.wake_when_open(waker));
        let inside = self.gate.enter_while(&go_on)?;
        let state = self.state.load();
        if state.dropped {
            Err(self.gone_error())
        } else {
            Ok((inside, state))
        }
    }

    pub(crate) fn gone_error(&self) -> model::MongoError {
        error::collection_gone(&self.ns)
    }

    /// The error for an operation that has to find the collection again, because another process
    /// has changed it.
    pub(crate) fn outdated_error(&self, operation: &Operation) -> model::MongoError {
        Shared::restart_error(operation, &self.ns)
    }

    /// The error for a plan that was made for an earlier state of an index.
    pub(crate) fn plan_is_stale(&self) -> model::MongoError {
        self.gone_error()
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

    /// The parts of an index's entries that provide the top-level fields of these names, or whole
    /// documents without names; `None` when the entries may not provide all of them.
    pub fn select_fields(&self, index: &Index, names: Option<&[String]>) -> Option<WantedFields> {
        let wanted = index.select_fields(names);
        // Ids cannot be decoded from their keys in a collation.
        wanted.filter(|w| !w.id || self.id_collate.is_none())
    }

    /// Whether its documents need no `_id`; a document without one is stored under a hidden key.
    pub(crate) fn lacks_ids(&self) -> bool {
        self.ns.coll() == "system.profile"
    }

    /// Bounds of all record keys.
    pub(crate) fn key_bounds(&self) -> ([u8; 4], [u8; 4]) {
        (self.ident.to_be_bytes(), (self.ident + 1).to_be_bytes())
    }
}

/// Whether changes of a collection are logged: not in this database and not what the server itself
/// writes.
fn is_logged(ns: &Namespace) -> bool {
    ns.db() != "local" && ns.coll() != "system.profile"
}

pub(crate) fn keeps_images(options: Doc<'_>) -> bool {
    let images = options.field("changeStreamPreAndPostImages").as_doc();
    images.is_some_and(|d| d.field("enabled").truthy())
}

/// The number of documents and the bytes of their BSON.
fn stored_counts(ident: u32, reader: &dyn Reader) -> Result<[i64; 2]> {
    let mut counts = [0, 0];
    let read = &mut |pair: &[u8]| counts = counter_decode(pair);
    let found = reader.get_with(Table::Meta, &meta::counter(ident), read);
    found.map_err(error::storage)?;
    Ok(counts)
}
