//! Collections and indexes created in transactions. Promises: until the commit only the transaction
//! sees them and nothing of them is on disk, so an abort or a crash leaves nothing; the commit
//! writes their catalog rows in its one batch, or fails when the name was taken meanwhile. Must not
//! know: sessions.

use crate::catalog::{Collection, Shared, State};
use crate::ddl::collections::exists;
use crate::ddl::indexes::IndexEquality;
use crate::ddl::logged::Note;
use crate::ddl::writer::CatalogWriter;
use crate::format::meta;
use crate::index::Index;
use crate::locks::{KeyId, KeyIds};
use crate::log::EntryList;
use crate::write::insert::mark_unordered;
use crate::write::session::SessionRecord;
use crate::write::transaction::{CatalogChange, Transaction, conflict};
use model::{DocBuf, MongoError, Namespace, Result, code};
use std::sync::Arc;
use storage::{CommitPos, Table, WriteBatch};

impl CatalogWriter<'_> {
    /// Creates a collection that only the transaction sees until it commits.
    ///
    /// # Errors
    /// 112 WriteConflict when another open transaction creates one of this name, or one was created
    /// since this transaction began; 48 NamespaceExists; engine failures.
    pub fn create_collection_in(
        &self,
        ns: &Namespace,
        options: DocBuf,
        uuid: [u8; 16],
        transaction: &Transaction,
    ) -> Result<Arc<Collection>> {
        // Only transactions check this claim; a creation outside of a transaction succeeds at once.
        let key = KeyId::of(&meta::catalog(ns.db(), ns.coll()));
        transaction.claim(self.operation, &mut KeyIds::from_slice(&[key]))?;
        if self.collection_in(transaction.view(), ns)?.is_some() {
            return Err(exists(ns));
        }
        if self.collection(ns)?.is_some() {
            return Err(transaction.catalog_error(self.operation, ns));
        }
        let (c, row) = self.new_collection(ns, options, uuid)?;
        c.set_uncommitted(true);
        let note = Note::create(ns, row.options.doc());
        transaction.has_made(&c, &c.entry(&note));
        Ok(c)
    }

    /// Adds an index to a collection that the transaction has created and not written to, unless
    /// one that `same` recognises exists.
    ///
    /// # Output
    /// False when it was there already.
    ///
    /// # Errors
    /// 263 OperationNotSupportedInTransaction for any other collection; those of the specification
    /// and of `same`; engine failures.
    pub fn create_index_in(
        &self,
        c: &Arc<Collection>,
        spec: DocBuf,
        same: &IndexEquality<'_>,
        transaction: &Transaction,
    ) -> Result<bool> {
        let state = State::clone(&c.state());
        for old in state.indexes.iter() {
            if same(old.spec())? {
                return Ok(false);
            }
        }
        if !transaction.has_made_empty(c) {
            return Err(MongoError::new(
                code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                format!(
                    "Cannot create new indexes on existing collection {} in a multi-document \
                        transaction.",
                    c.ns()
                ),
            ));
        }
        let ident = self.shared.new_ident()?;
        // There is nothing to build: the collection has no documents.
        let index = Index::open(ident, spec, true, 0, self.shared.hooks.as_ref())?;
        self.shared.check_engine(&index)?;
        let mut indexes = state.indexes.as_ref().clone();
        let note = Note::index(c, index.spec());
        indexes.push(Arc::new(index));
        c.set_state(State {
            indexes: Arc::new(indexes),
            ..state
        });
        transaction.will_log(&c.entry(&note));
        Ok(true)
    }

    /// Commits all writes of a transaction at once, with the collections that it has created and
    /// with a row of the session that records the commit. Nothing may be written to the transaction
    /// afterwards.
    ///
    /// # Output
    /// The position of the commit.
    ///
    /// # Errors
    /// 112 WriteConflict when a collection or view was created meanwhile under a name that the
    /// transaction uses for a new one: nothing was committed then. Engine failures; whether the
    /// commit was applied is unknown then.
    pub fn commit_transaction(
        &self,
        transaction: &Transaction,
        record: &mut SessionRecord,
    ) -> Result<CommitPos> {
        let made = transaction.created_collections();
        if made.is_empty() {
            let nothing = CatalogChange {
                rows: &|_| {},
                applied: &mut |_: CommitPos| {},
            };
            return transaction.commit_with(self.operation, record, nothing);
        }
        // No holder of these locks waits for gates or claims of the transaction.
        let locked = self.lock_names(made.iter().map(|c| c.ns()));
        for c in &made {
            if self.open_locked(&locked, c.ns())?.is_some() {
                let why = format!("Namespace '{}' is already in use.", c.ns());
                return Err(conflict(&why));
            }
        }
        let change = CatalogChange {
            rows: &|batch| made.iter().for_each(|c| c.put_all(batch)),
            applied: &mut |pos: CommitPos| {
                for c in &made {
                    c.set_unchanged_since(pos);
                    c.set_uncommitted(false);
                    if !self.shared.has_joined {
                        self.keep(Arc::clone(c));
                    }
                }
            },
        };
        transaction.commit_with(self.operation, record, change)
    }
}

impl Collection {
    /// The log entry of a command on it; empty where nothing is logged.
    fn entry(&self, note: &Note) -> EntryList {
        match self.log_in(&self.state()) {
            Some(log) if log.has_everything() => note.entry(self.ns.db(), Some(&self.uuid)),
            _ => EntryList::default(),
        }
    }

    /// Puts the catalog row and the marks, none of which are on disk yet.
    fn put_all(&self, batch: &mut WriteBatch) {
        let state = self.state();
        Shared::put_row(batch, &self.ns, &self.row(&state, None));
        if self.shared.has_joined {
            mark_unordered(batch, self.ident);
        } else if !self.live.is_in_order() {
            let reserved = self.live.order().reserved.to_be_bytes();
            batch.put(Table::Meta, &meta::unordered(self.ident), &reserved);
        }
        for index in state.indexes.iter().filter(|i| i.is_multikey()) {
            let bits = index.multikey_bits().to_le_bytes();
            batch.put(Table::Meta, &meta::multikey(index.ident()), &bits);
        }
    }
}
