//! How a statement's writes become visible: by commits of its own, or with the commit of a
//! transaction.

use crate::catalog::State;
use crate::error;
use crate::gate::Entered;
use crate::locks::{Held, KeyIds};
use crate::write::reads::Reads;
use crate::write::session::StatementLog;
use crate::write::transaction::Transaction;
use crate::write::writer::Writer;
use arc_swap::Guard;
use model::Result;
use std::sync::Arc;

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
    pub(crate) fn enter<'c>(&self, writer: &'c Writer<'_>, bytes: usize) -> Result<Inside<'c>> {
        if let Mode::Transaction(_, state) = self {
            return Ok(Inside::Transaction(Arc::clone(state)));
        }
        writer.shared.admit(writer.operation, bytes);
        let (_inside, state) = writer.enter(writer.operation)?;
        Ok(Inside::Statement { _inside, state })
    }

    /// Adds to the admission debt of the operation; a transaction is admitted at its commit.
    pub(crate) fn admit_later(&self, writer: &Writer<'_>, bytes: usize) {
        if !self.is_transaction() {
            writer.operation.writes().add_debt(bytes);
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
        writer: &'s Writer<'_>,
        keys: &mut KeyIds,
    ) -> Result<Option<Held<'s>>> {
        match self {
            Mode::Transaction(transaction, _) => {
                transaction.claim(writer.operation, keys).map(|()| None)
            }
            Mode::Direct | Mode::Logged(_) => {
                writer.shared.lock_keys(writer.operation, keys).map(Some)
            }
        }
    }

    /// Begins the reads that decide a write, under the locks of what is read.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn begin<'s>(&self, writer: &'s Writer<'_>) -> Result<Reads<'s>>
    where
        'm: 's,
    {
        match self {
            Mode::Transaction(transaction, _) => {
                Ok(Reads::Transaction(transaction, writer.operation))
            }
            Mode::Direct | Mode::Logged(_) => writer
                .shared
                .engine
                .begin()
                .map(Reads::Unit)
                .map_err(error::storage),
        }
    }

    /// Whether what was read has to be read again, because another process has changed it before
    /// the commit.
    pub(crate) fn is_outdated<T>(&self, result: &Result<T>) -> bool {
        !self.is_transaction() && result.as_ref().is_err_and(error::is_conflict)
    }
}
