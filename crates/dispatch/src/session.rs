//! The session of a statement with a number. Promises: there always is one, also when somebody
//! kills the session while the statement begins; a transaction that the killer found in use is
//! aborted when the statement ends. Must not know: what the statement does.

use crate::transaction::StatementKind;
use context::connection::Connection;
use model::Result;
use parking_lot::{Mutex, MutexGuard};
use request::generic::Lsid;
use state::service::Service;
use state::transactions::SessionWrites;
use std::sync::Arc;
use store::SessionId;

/// The session of the statement that runs.
pub(super) struct StatementSession<'s> {
    service: &'s Service,
    id: SessionId,
    writes: Arc<Mutex<SessionWrites>>,
}

impl<'s> StatementSession<'s> {
    /// Finds the session of a statement with a number. If it was killed since the command was
    /// admitted, it begins anew, as it does for a command that comes later.
    ///
    /// # Errors
    /// 261 TooManyLogicalSessions, 13 Unauthorized for the session of another user.
    pub(super) fn find(
        service: &'s Service,
        conn: &Connection,
        lsid: Option<Lsid>,
        kind: StatementKind,
    ) -> Result<Option<StatementSession<'s>>> {
        let Some(Lsid { id, .. }) = lsid.filter(|_| kind != StatementKind::No) else {
            return Ok(None);
        };
        let sessions = &service.state.sessions;
        let writes = loop {
            if let Some(writes) = sessions.writes(&id) {
                break writes;
            }
            let owner = conn.identity.digest(&service.access);
            sessions.touch(id, owner, service.clock.read())?;
        };
        Ok(Some(StatementSession {
            service,
            id,
            writes,
        }))
    }

    /// Waits for the other statements of the session.
    pub(super) fn lock(&self) -> MutexGuard<'_, SessionWrites> {
        self.writes.lock()
    }
}

impl Drop for StatementSession<'_> {
    /// The statement has ended and released its lock. A killer removes the session first and then
    /// tries to abort its transaction: one of the two finds the other. A retryable write holds the
    /// lock beside an open transaction when it is refused, so it has to look, too.
    fn drop(&mut self) {
        let now = self.service.state.sessions.writes(&self.id);
        if now.is_some_and(|now| Arc::ptr_eq(&now, &self.writes)) {
            return;
        }
        // If another statement holds the lock, it aborts the transaction when it ends.
        if let Some(mut writes) = self.writes.try_lock() {
            writes.abort_open(&self.service.state.transactions);
        }
    }
}
