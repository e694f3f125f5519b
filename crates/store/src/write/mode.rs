//! How a statement's writes become visible: by commits of its own, or with the commit of a
//! transaction.

use crate::catalog::State;
use crate::error;
use crate::gate::SharedGuard;
use crate::locks::{KeyIds, StripeGuard};
use crate::write::reads::WriteReader;
use crate::write::session::StatementLog;
use crate::write::transaction::Transaction;
use crate::write::writer::Writer;
use arc_swap::Guard;
use model::Result;
use std::sync::Arc;
use storage::Table;

/// How a statement commits its writes.
pub(crate) enum Mode<'m, 'l> {
    /// In commits of its own.
    Direct,
    /// In commits of its own, which also record its effects.
    Logged(&'m mut StatementLog<'l>),
    /// With the transaction, which is inside the collection's gate.
    Transaction(&'m Transaction, Arc<State>),
}

/// An entry into the gate of a collection; the state does not change while it is held.
pub(crate) enum GateEntry<'c> {
    /// An entry for one statement.
    Statement {
        _inside: SharedGuard<'c>,
        state: Guard<Arc<State>>,
    },
    /// The entry of the transaction.
    Transaction(Arc<State>),
}

impl GateEntry<'_> {
    pub(crate) fn state(&self) -> &State {
        match self {
            GateEntry::Statement { state, .. } => state,
            GateEntry::Transaction(state) => state,
        }
    }
}

impl<'m, 'l> Mode<'m, 'l> {
    /// `Logged` with a log, otherwise `Direct`.
    pub(crate) fn of(log: Option<&'m mut StatementLog<'l>>) -> Mode<'m, 'l> {
        log.map_or(Mode::Direct, Mode::Logged)
    }

    pub(crate) fn is_transaction(&self) -> bool {
        matches!(self, Mode::Transaction(..))
    }

    /// Waits until the engine admits `bytes`, and enters the gate.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone.
    pub(crate) fn enter<'c>(&self, writer: &'c Writer<'_>, bytes: usize) -> Result<GateEntry<'c>> {
        if let Mode::Transaction(_, state) = self {
            return Ok(GateEntry::Transaction(Arc::clone(state)));
        }
        writer.shared.admit(writer.operation, bytes);
        let (_inside, state) = writer.enter(writer.operation)?;
        Ok(GateEntry::Statement { _inside, state })
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
    /// 112 WriteConflict when another transaction has claimed one and this is a transaction; the
    /// reason when the operation is interrupted while it waits.
    pub(crate) fn lock<'s>(
        &self,
        writer: &'s Writer<'_>,
        keys: &mut KeyIds,
    ) -> Result<Option<StripeGuard<'s>>> {
        match self {
            Mode::Transaction(transaction, _) => {
                transaction.claim(writer.operation, keys).map(|()| None)
            }
            Mode::Direct | Mode::Logged(_) => {
                writer.shared.lock_keys(writer.operation, keys).map(Some)
            }
        }
    }

    /// Begins the reads that decide a write; the caller has locked the keys that are read. `keys`
    /// are those of them that are known, see [`Writer::begin_unit`].
    ///
    /// # Errors
    /// As [`Writer::begin_unit`].
    pub(crate) fn begin<'s>(
        &self,
        writer: &'s Writer<'_>,
        keys: &[(Table, &[u8])],
    ) -> Result<WriteReader<'s>>
    where
        'm: 's,
    {
        match self {
            Mode::Transaction(transaction, _) => {
                Ok(WriteReader::Transaction(transaction, writer.operation))
            }
            Mode::Direct => writer.begin_unit(keys).map(WriteReader::Unit),
            Mode::Logged(to) => {
                let unit = writer.begin_in_session(to.record, keys);
                unit.map(WriteReader::Unit)
            }
        }
    }

    /// Whether the reads have to be repeated, because another process has changed the data before
    /// the commit.
    pub(crate) fn is_outdated<T>(&self, result: &Result<T>) -> bool {
        !self.is_transaction() && result.as_ref().is_err_and(error::is_conflict)
    }
}
