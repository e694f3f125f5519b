//! The end of a statement of a transaction beside other servers: it has run with what this server
//! knew of the catalog, the users and the settings. Promises: before its reply, this was the state
//! after the request had arrived, or what the statement needs of it was checked again. Must not
//! know: what the statement does.

use super::body::database;
use super::perform::CommandResult;
use super::{Dispatcher, generic, hold_back};
use context::connection::Connection;
use model::{ErrorKind, Result};
use request::generic::Generic;
use request::spec::{Spec, flag};
use request::{Outcome, Request};
use state::transactions::SessionWrites;
use store::Transaction;

impl Dispatcher {
    /// Checks a statement that has run. When something was announced that this server did not know
    /// of, rights, block of writes and collections are checked again; an error ends the
    /// transaction. A statement of a transaction is not run a second time.
    pub(super) fn confirm_statement(
        &self,
        conn: &mut Connection,
        request: &Request<'_>,
        command: &'static Spec,
        writes: &SessionWrites,
        outcome: CommandResult,
    ) -> CommandResult {
        let (Some(view), Some(transaction)) = (conn.view(), writes.transaction()) else {
            return outcome;
        };
        if matches!(&outcome, Ok(Outcome::Wait { .. })) {
            return outcome;
        }
        // A failure ends the transaction in any case.
        let ended = match &outcome {
            Ok(_) => self.service.store.end_moment(view, &conn.operation),
            Err(_) => Ok(()),
        };
        conn.set_view(None);
        let confirmed = match ended {
            Err(e) if e.is(ErrorKind::Outdated) => {
                self.check_again(conn, request, command, transaction)
            }
            ended => ended,
        };
        confirmed.map_err(Into::into).and(outcome)
    }

    fn check_again(
        &self,
        conn: &mut Connection,
        request: &Request<'_>,
        command: &'static Spec,
        transaction: &Transaction,
    ) -> Result<()> {
        let store = &self.service.store;
        store.begin_moment()?;
        let mut generic = Generic {
            db: database(request)?,
            ..Generic::default()
        };
        generic::api(&mut generic, command, request.body)?;
        let args = self.check(request, command, &mut generic)?;
        self.admit(conn, request, command, &args, &generic)?;
        hold_back::let_pass(&self.service, conn, &generic)?;
        store.check_collections(transaction, &conn.operation, command.is(flag::WRITE))
    }
}
