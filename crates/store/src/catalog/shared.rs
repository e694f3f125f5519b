//! State that all collections of a store share: the engine, locks, versions, identifiers and
//! dropped identifiers. Must not know: documents. ADR 0017 lists the parts that another process
//! could change.

use crate::catalog::buckets::OpenBuckets;
use crate::catalog::dropped::DroppedIdents;
use crate::catalog::idents::Idents;
use crate::catalog::kept::KeptByIdent;
use crate::catalog::large::LargestDocument;
use crate::catalog::pins::Pins;
use crate::catalog::row::CatalogRow;
use crate::catalog::sequences::Sequences;
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::meta;
use crate::hooks::Hooks;
use crate::index::Index;
use crate::locks::{ClaimConflict, KeyIds, LockTable, Owner, StripeGuard};
use crate::log::{Log, Waker};
use crate::released::{LOOK, Registration};
use model::{Doc, MongoError, Namespace, Result, bail, code};
use operation::Operation;
use parking_lot::Mutex;
use rustc_hash::{FxHashSet, FxHasher};
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use storage::{CommitPos, Engine, SPREAD, StorageError, Table, Unit, WriteBatch, WriteClass};

/// Whether the option `storageEngine` of a collection asks for its documents to be spread.
pub fn asks_to_spread(option: Doc<'_>) -> bool {
    let tikv = option.field("tikv").as_doc();
    tikv.is_some_and(|options| options.field("spread").truthy())
}

/// State that all collections of a store share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) locks: LockTable,
    pub(crate) dropped: DroppedIdents,
    /// The states that have readers.
    pub(crate) pins: Arc<Pins>,
    versions: AtomicU64,
    owners: AtomicU64,
    pub(crate) idents: Idents,
    pub(crate) sequences: Sequences,
    /// Bytes of the insertion orders kept by all collections.
    pub(crate) order_bytes: Arc<AtomicUsize>,
    /// The log of all changes.
    pub(crate) log: Option<Arc<Log>>,
    /// The log that consumers follow: the log of all changes, or one that is kept only for
    /// consumers.
    pub(crate) feed: Option<Arc<Log>>,
    /// Collections with indexes whose builds were abandoned.
    given_up: Mutex<Vec<Namespace>>,
    /// The indexes that this process builds.
    pub(crate) building: Mutex<FxHashSet<u32>>,
    /// The largest document of all collections that were opened.
    pub(crate) large: LargestDocument,
    /// Other processes write to the engine, too, see [`crate::Store::join`].
    pub(crate) has_joined: bool,
    /// Beside other processes: the number of this one's [`crate::Peer`].
    pub(crate) peer: u64,
    /// Beside other processes: the capped collections whose row of the order this process has
    /// written, so that no process that writes alone has changed the collection since.
    pub(crate) known_orders: Mutex<FxHashSet<u32>>,
    /// Beside other processes: the open buckets of this one, which belong to no generation.
    open_buckets: KeptByIdent<OpenBuckets>,
}

/// A hash of announcements, never 0.
pub(crate) fn hash_announced(announced: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(announced);
    hasher.finish() | 1
}

impl Shared {
    /// Records that the build of an index was abandoned.
    pub(crate) fn record_abandoned_build(&self, ns: &Namespace) {
        self.given_up.lock().push(ns.clone());
    }

    /// Collections with abandoned builds, recorded since the last call.
    pub(crate) fn take_abandoned_builds(&self) -> Vec<Namespace> {
        std::mem::take(&mut self.given_up.lock())
    }

    /// Takes short locks on keys; waits for claims of transactions.
    ///
    /// # Errors
    /// The reason when the operation is interrupted while it waits, or set aside.
    pub(crate) fn lock_keys(
        &self,
        operation: &Operation,
        keys: &mut KeyIds,
    ) -> Result<StripeGuard<'_>> {
        let mut locked = self.locks.try_lock(keys, None);
        loop {
            match locked {
                Ok(held) => return Ok(held),
                Err(ClaimConflict(key)) => {
                    Shared::wait_on_thread(operation, &|waker| {
                        self.locks.wake_when_released(key, waker)
                    })?;
                }
            }
            let began = Instant::now();
            locked = self.locks.lock_for(keys, None, Some(began + LOOK));
            operation.writes().add_waited(began.elapsed());
        }
    }

    /// Whether an operation may wait on its thread until something is released. `register` has the
    /// release call a waker.
    ///
    /// # Errors
    /// The reason when the operation is interrupted; [`ErrorKind::SetAside`] when it has changed
    /// nothing yet and can be run again: then it waits without a thread.
    pub(crate) fn wait_on_thread(
        operation: &Operation,
        register: &dyn Fn(Waker) -> Option<Registration>,
    ) -> Result<()> {
        operation.check()?;
        let Some(link) = operation.waits_without_thread() else {
            return Ok(());
        };
        let link = Arc::clone(link);
        let Some(registered) = register(Arc::new(move || link.wake())) else {
            return Ok(());
        };
        operation.writes().set_aside(Box::new(registered));
        Err(error::set_aside())
    }

    /// Opens the shared state over an engine whose layout version was checked.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn open(engine: Arc<dyn Engine>, hooks: Arc<dyn Hooks>) -> Result<Shared> {
        let settings = hooks.log();
        let mut shared = Shared::open_without_log(engine, hooks)?;
        let engine = shared.engine.as_ref();
        match settings {
            None => Log::abandon(engine)?,
            Some(settings) => {
                let log = Log::open(engine, &mut || shared.new_ident(), &settings)?;
                let log = Arc::new(log);
                shared.log = log.has_everything().then(|| Arc::clone(&log));
                shared.feed = Some(log);
            }
        }
        Ok(shared)
    }

    /// As [`Shared::open`], without touching the log: for a caller that makes no change that would
    /// be logged.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn open_without_log(
        engine: Arc<dyn Engine>,
        hooks: Arc<dyn Hooks>,
    ) -> Result<Shared> {
        Ok(Shared {
            hooks,
            locks: LockTable::new(),
            dropped: DroppedIdents::load(engine.as_ref())?,
            pins: Arc::default(),
            versions: AtomicU64::new(0),
            owners: AtomicU64::new(0),
            idents: Idents::open(engine.as_ref())?,
            sequences: Sequences::default(),
            order_bytes: Arc::default(),
            log: None,
            feed: None,
            given_up: Mutex::default(),
            building: Mutex::default(),
            large: LargestDocument::default(),
            has_joined: false,
            peer: 0,
            open_buckets: KeptByIdent::default(),
            known_orders: Mutex::default(),
            engine,
        })
    }

    /// The open buckets of a collection; a new list where only one handle uses it. Buckets that are
    /// forgotten stay open on disk until they are swept.
    pub(crate) fn buckets_of(&self, ident: u32) -> Arc<OpenBuckets> {
        match self.has_joined {
            true => self.open_buckets.get(ident),
            false => Arc::default(),
        }
    }

    /// The value of the mark of an open bucket: which process has opened it, and a number that
    /// grows with each insert.
    pub(crate) fn open_mark(&self, number: u64) -> [u8; 16] {
        let mut mark = [0; 16];
        mark[..8].copy_from_slice(&self.peer.to_be_bytes());
        mark[8..].copy_from_slice(&number.to_be_bytes());
        mark
    }

    pub(crate) fn commit(&self, unit: WriteUnit<'_>) -> Result<CommitPos> {
        commit(self.engine.as_ref(), unit)
    }

    /// The error for an operation that has to begin again, because another process has changed the
    /// catalog.
    pub(crate) fn restart_error(operation: &Operation, ns: &Namespace) -> MongoError {
        Shared::run_again_or(operation, error::collection_gone(ns))
    }

    /// Sets an operation aside that can be run again, which happens at once; otherwise the error.
    pub(crate) fn run_again_or(operation: &Operation, otherwise: MongoError) -> MongoError {
        match operation.waits_without_thread() {
            Some(link) => {
                link.wake();
                error::set_aside()
            }
            None => otherwise,
        }
    }

    /// As [`Shared::restart_error`] for a change of the catalog that has met a conflict with
    /// another process; any other error stays.
    pub(crate) fn restart_after_conflict(
        &self,
        operation: &Operation,
        ns: &Namespace,
        e: MongoError,
    ) -> MongoError {
        match self.has_joined && error::is_conflict(&e) {
            true => Shared::restart_error(operation, ns),
            false => e,
        }
    }

    /// Begins a unit for a change of the catalog: with its commit, units of all processes conflict
    /// that began before. `None` where one process writes.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn begin_exclusive(&self, operation: &Operation) -> Result<Option<Unit<'_>>> {
        if !self.has_joined {
            return Ok(None);
        }
        let unit = self.engine.begin_exclusive().map_err(error::storage)?;
        let unit = unit.map(Unit::Checked);
        unit.iter()
            .try_for_each(|unit| Shared::check_expected(operation, unit))?;
        Ok(unit)
    }

    /// Compares the announcements of an operation's first unit with those that are expected of its
    /// moment: so nothing is written before they were compared.
    ///
    /// # Errors
    /// [`model::ErrorKind::Outdated`]
    pub(crate) fn check_expected(operation: &Operation, unit: &Unit<'_>) -> Result<()> {
        match operation.confirm(hash_announced(unit.announced().unwrap_or_default())) {
            true => Ok(()),
            false => Err(error::storage(StorageError::Outdated)),
        }
    }

    pub(crate) fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new owner of claims.
    pub(crate) fn next_owner(&self) -> Owner {
        Owner(self.owners.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// A number that was never used before, not even before a crash.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError when all are used up.
    pub(crate) fn new_ident(&self) -> Result<u32> {
        self.idents.next(self.engine.as_ref())
    }

    /// The identifier of a new collection with these options.
    ///
    /// # Errors
    /// As [`Shared::new_ident`]; 72 InvalidOptions when the documents have to be spread and the
    /// engine has one machine.
    pub(crate) fn new_collection_ident(&self, options: Doc<'_>) -> Result<u32> {
        let ident = self.new_ident()?;
        let engine = options.field("storageEngine").as_doc();
        if !engine.is_some_and(asks_to_spread) {
            return Ok(ident);
        }
        let caps = self.engine.caps();
        if !caps.spreads {
            bail!(
                code::INVALID_OPTIONS,
                "'storageEngine.tikv.spread': the storage engine is {}, which has one machine",
                caps.name
            );
        }
        Ok(ident | SPREAD)
    }

    /// Whether the engine supports a new index.
    ///
    /// # Errors
    /// 67 CannotCreateIndex for a column index where another process, which does not know our
    /// locks, may write.
    pub(crate) fn check_engine(&self, index: &Index) -> Result<()> {
        let is_shared = || self.engine.begin().map(|unit| unit.is_checked());
        if index.is_columns() && is_shared().map_err(error::storage)? {
            bail!(
                code::CANNOT_CREATE_INDEX,
                "column indexes are for engines that one server writes to"
            );
        }
        Ok(())
    }

    /// Puts a catalog row.
    pub(crate) fn put_row(batch: &mut WriteBatch, ns: &Namespace, row: &CatalogRow) {
        batch.put(
            Table::Meta,
            &meta::catalog(ns.db(), ns.coll()),
            row.encode().as_bytes(),
        );
    }

    /// Waits until the engine admits another `bytes` and the operation's debt. Waiting is not
    /// allowed under locks, so a write that turned out larger than admitted makes the next one
    /// wait.
    pub(crate) fn admit(&self, operation: &Operation, bytes: usize) {
        let bytes = bytes + operation.writes().take_debt();
        self.engine.admit(bytes, WriteClass::Client);
    }
}
