//! What all collections of a store share: the engine, locks, versions, and identifiers of
//! collections and indexes.
//!
//! Identifiers are never given twice: a block of them is reserved on disk before the first is
//! used. A process that shares its engine with others (ADR 0017) reserves its own blocks; versions
//! need the engine's order then.

use crate::catalog::dropped::Dropped;
use crate::catalog::pins::Pins;
use crate::catalog::row::CatalogRow;
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::meta;
use crate::hooks::Hooks;
use crate::locks::{Claimed, Held, KeyIds, LockTable, Owner};
use crate::log::{Log, Waker};
use crate::released::{LOOK, Registered, add_waited};
use model::{MongoError, Namespace, Result};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use storage::{CommitPos, Engine, Table, WriteBatch, WriteClass};

/// Identifiers reserved on disk at a time.
const IDENT_BLOCK: u32 = 1024;

thread_local! {
    /// Bytes this thread has written beyond what was admitted; added to its next admission.
    static ADMISSION_DEBT: Cell<usize> = const { Cell::new(0) };
}

/// What all collections share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) locks: LockTable,
    pub(crate) dropped: Dropped,
    /// States that are read.
    pub(crate) pins: Arc<Pins>,
    versions: AtomicU64,
    owners: AtomicU64,
    idents: Mutex<Idents>,
    /// Identifiers from here on were given by this process.
    pub(crate) first_ident: u32,
    /// Next sequence number of collections whose handle was dropped from memory: a number is never
    /// given twice, even when the last document that had one was deleted.
    evicted: Mutex<HashMap<u32, u64>>,
    /// Bytes of the insertion orders kept by all collections.
    pub(crate) order_bytes: Arc<AtomicUsize>,
    /// The log of all changes.
    pub(crate) log: Option<Arc<Log>>,
    /// Collections with indexes whose builds were given up.
    given_up: Mutex<Vec<Namespace>>,
}

struct Idents {
    next: u32,
    /// Identifiers below this are covered by the mark on disk.
    mark: u32,
}

impl Shared {
    /// Notes that the build of an index was given up.
    pub(crate) fn build_given_up(&self, ns: &Namespace) {
        self.given_up.lock().push(ns.clone());
    }

    /// Collections with such indexes, noted since the last call.
    pub(crate) fn builds_given_up(&self) -> Vec<Namespace> {
        std::mem::take(&mut self.given_up.lock())
    }

    /// Takes short locks on keys; waits for claims of transactions.
    ///
    /// # Errors
    /// The reason when the operation is interrupted while it waits, or set aside.
    pub(crate) fn lock_keys(&self, keys: &mut KeyIds) -> Result<Held<'_>> {
        let mut locked = self.locks.try_lock(keys, None);
        loop {
            match locked {
                Ok(held) => return Ok(held),
                Err(Claimed(key)) => {
                    self.wait_on_thread(&|waker| self.locks.when_released(key, waker))?;
                }
            }
            let began = Instant::now();
            locked = self.locks.lock_for(keys, None, Some(began + LOOK));
            add_waited(began.elapsed());
        }
    }

    /// Whether the thread may wait for something that is held, of which `register` has an operation
    /// told.
    ///
    /// # Errors
    /// The reason when the operation of the thread is interrupted; [`ErrorKind::SetAside`] when it
    /// has changed nothing yet and can be run again: then it waits without a thread.
    pub(crate) fn wait_on_thread(
        &self,
        register: &dyn Fn(Waker) -> Option<Registered>,
    ) -> Result<()> {
        self.hooks.check_interrupt()?;
        let Some(registered) = self.hooks.waker().and_then(register) else {
            return Ok(());
        };
        self.hooks.set_aside(registered);
        Err(error::set_aside())
    }

    /// Over an engine whose layout version was checked.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn open(engine: Arc<dyn Engine>, hooks: Arc<dyn Hooks>) -> Result<Shared> {
        let mut buf = Vec::new();
        let found = engine
            .get(Table::Meta, meta::IDENT_MARK, &mut buf)
            .map_err(error::storage)?;
        let mark = buf
            .first_chunk::<4>()
            .filter(|_| found)
            .map_or(1, |b| u32::from_be_bytes(*b));
        let settings = hooks.log();
        let mut shared = Shared {
            hooks,
            locks: LockTable::new(),
            dropped: Dropped::load(engine.as_ref())?,
            pins: Arc::default(),
            versions: AtomicU64::new(0),
            owners: AtomicU64::new(0),
            idents: Mutex::new(Idents { next: mark, mark }),
            first_ident: mark,
            evicted: Mutex::new(HashMap::new()),
            order_bytes: Arc::default(),
            log: None,
            given_up: Mutex::default(),
            engine,
        };
        let engine = shared.engine.as_ref();
        match settings {
            None => Log::abandon(engine)?,
            Some(settings) => {
                let log = Log::open(engine, &mut || shared.new_ident(), &settings)?;
                shared.log = Some(Arc::new(log));
            }
        }
        Ok(shared)
    }

    pub(crate) fn commit(&self, unit: WriteUnit<'_>) -> Result<CommitPos> {
        commit(self.engine.as_ref(), unit)
    }

    pub(crate) fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new owner of claims.
    pub(crate) fn next_owner(&self) -> Owner {
        Owner(self.owners.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// A number that was never used before, also not by a server that crashed.
    ///
    /// # Errors
    /// Engine failures; 1 when all are used up.
    pub(crate) fn new_ident(&self) -> Result<u32> {
        let mut idents = self.idents.lock();
        if idents.next >= idents.mark {
            let mark = idents
                .next
                .checked_add(IDENT_BLOCK)
                .filter(|m| *m < u32::MAX - 1);
            let mark =
                mark.ok_or_else(|| MongoError::internal("all collection identifiers are used up"))?;
            let mut batch = WriteBatch::new();
            batch.put(Table::Meta, meta::IDENT_MARK, &mark.to_be_bytes());
            // Not synced: whoever uses the identifier writes later into the same journal.
            let reserved = &mut |_| idents.mark = mark;
            self.commit(WriteUnit::new(&batch).then(reserved))?;
        }
        let ident = idents.next;
        idents.next += 1;
        Ok(ident)
    }

    /// Puts a catalog row.
    pub(crate) fn put_row(batch: &mut WriteBatch, ns: &Namespace, row: &CatalogRow) {
        batch.put(
            Table::Meta,
            &meta::catalog(ns.db(), ns.coll()),
            row.encode().as_bytes(),
        );
    }

    /// Waits until the engine admits another `bytes` and this thread's admission debt.
    pub(crate) fn admit(&self, bytes: usize) {
        self.engine
            .admit(bytes + ADMISSION_DEBT.take(), WriteClass::Client);
    }

    /// Adds to this thread's admission debt: a write was larger by this than admitted. Waiting is
    /// not allowed under locks, so the thread's next write waits.
    pub(crate) fn admit_later(bytes: usize) {
        ADMISSION_DEBT.set(ADMISSION_DEBT.get().saturating_add(bytes));
    }

    /// Keeps the next sequence number of a collection whose handle is dropped from memory.
    pub(crate) fn remember_sequence(&self, ident: u32, next: u64) {
        self.evicted.lock().insert(ident, next);
    }

    /// The next sequence number of a collection whose handle was dropped from memory.
    pub(crate) fn remembered_sequence(&self, ident: u32) -> Option<u64> {
        self.evicted.lock().get(&ident).copied()
    }

    /// The collection was dropped.
    pub(crate) fn forget_sequence(&self, ident: u32) {
        self.evicted.lock().remove(&ident);
    }
}
