//! How a statement's writes become visible: by commits of its own, or with the commit of a
//! transaction.

use crate::catalog::{Collection, Shared, State};
use crate::error;
use crate::gate::Entered;
use crate::locks::{Held, KeyIds};
use crate::write::session::StatementLog;
use crate::write::transaction::Transaction;
use arc_swap::Guard;
use model::Result;
use std::sync::Arc;
use storage::Table;

/// How a statement writes.
pub(crate) enum Mode<'m, 'l> {
    /// Commits by itself.
    Direct,
    /// Commits by itself; its effects are recorded in the same commits.
    Logged(&'m mut StatementLog<'l>),
    /// Its writes are committed with the transaction, which is inside the collection's gate.
    Transaction(&'m Transaction, Arc<State>),
}

/// Inside the gate of a collection; the state does not change meanwhile.
pub(crate) enum Inside<'c> {
    /// For one statement.
    Statement {
        _inside: Entered<'c>,
        state: Guard<Arc<State>>,
    },
    /// By the transaction.
    Transaction(Arc<State>),
}

impl Inside<'_> {
    pub(crate) fn state(&self) -> &State {
        match self {
            Inside::Statement { state, .. } => state,
            Inside::Transaction(state) => state,
        }
    }
}

impl<'m, 'l> Mode<'m, 'l> {
    /// Direct, or with a log.
    pub(crate) fn of(log: Option<&'m mut StatementLog<'l>>) -> Mode<'m, 'l> {
        log.map_or(Mode::Direct, Mode::Logged)
    }

    pub(crate) fn is_transaction(&self) -> bool {
        matches!(self, Mode::Transaction(..))
    }

    /// Waits until the engine admits `bytes`, and enters the gate.
    ///
    /// # Errors
    /// 175 when the collection is gone.
    pub(crate) fn enter<'c>(&self, coll: &'c Collection, bytes: usize) -> Result<Inside<'c>> {
        if let Mode::Transaction(_, state) = self {
            return Ok(Inside::Transaction(Arc::clone(state)));
        }
        coll.shared.admit(bytes);
        let (_inside, state) = coll.enter()?;
        Ok(Inside::Statement { _inside, state })
    }

    /// Adds to the admission debt of the thread; a transaction is admitted at its commit.
    pub(crate) fn admit_later(&self, bytes: usize) {
        if !self.is_transaction() {
            Shared::admit_later(bytes);
        }
    }

    /// Locks keys for one commit, or claims them for the transaction. A statement outside of a
    /// transaction waits for claims.
    ///
    /// # Errors
    /// 112 when another transaction has claimed one and this is a transaction; the reason when the
    /// operation is interrupted while it waits.
    pub(crate) fn lock<'s>(
        &self,
        shared: &'s Shared,
        keys: &mut KeyIds,
    ) -> Result<Option<Held<'s>>> {
        match self {
            Mode::Transaction(transaction, _) => transaction.claim(keys).map(|()| None),
            Mode::Direct | Mode::Logged(_) => shared.lock_keys(keys).map(Some),
        }
    }

    /// Whether a locked key has a value.
    ///
    /// # Errors
    /// 112 when this is a transaction and the key has changed since it began; engine failures.
    pub(crate) fn exists(&self, shared: &Shared, table: Table, key: &[u8]) -> Result<bool> {
        match self {
            Mode::Transaction(transaction, _) => {
                transaction.read_claimed(table, key, &mut Vec::new())
            }
            Mode::Direct | Mode::Logged(_) => shared
                .engine
                .get_with(table, key, &mut |_| {})
                .map_err(error::storage),
        }
    }

    /// Whether the entry of a unique index leads to the document with this id.
    ///
    /// # Errors
    /// As [`Mode::exists`].
    pub(crate) fn owns_entry(&self, coll: &Collection, entry: &[u8], id: &[u8]) -> Result<bool> {
        if let Mode::Transaction(transaction, _) = self {
            let mut owner = Vec::new();
            let found = transaction.read_claimed(Table::Idx, entry, &mut owner)?;
            return Ok(found && owner == id);
        }
        let mut ours = false;
        let look = &mut |owner: &[u8]| ours = owner == id;
        let engine = &coll.shared.engine;
        engine
            .get_with(Table::Idx, entry, look)
            .map_err(error::storage)?;
        Ok(ours)
    }
}
