//! Reads of a server that does not hold the database: they are executed here, over what the holder
//! writes, and all else is handed to the holder (docs/adr/0107-reads-by-every-server.md).
//!
//! Promises: a read begins at a moment that was asked for after it came, so it sees every write
//! that was acknowledged before; rights, settings and the catalog are those of that moment; what
//! would be answered by an error is left to the holder, unless only this server can answer. Must
//! not know: sockets, which engine it is, how a request is handed on.

mod eligible;

use crate::context::connection::Connection;
use crate::dispatch::Dispatcher;
use crate::request::spec::flag;
use crate::request::{Outcome, Request};
use crate::state::service::Service;
use eligible::Kind;
use model::{Doc, DocBuf, Result, code};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use store::Follower;

/// What waits is looked at again so often.
const LOOK: Duration = Duration::from_millis(20);
/// Errors that the holder would answer by as well, later.
const FINAL: &[i32] = &[
    code::MAX_TIME_MS_EXPIRED,
    code::INTERRUPTED,
    code::INTERRUPTED_AT_SHUTDOWN,
    code::CLIENT_DISCONNECT,
];

/// Executes reads over an engine that another process writes to.
pub struct Reading {
    dispatcher: Dispatcher,
    follower: Arc<dyn Follower>,
}

impl Reading {
    /// Makes it for a service. The service's store was opened by [`store::Store::follow`] with the
    /// same `follower`.
    pub fn new(dispatcher: Dispatcher, follower: Arc<dyn Follower>) -> Reading {
        Reading {
            dispatcher,
            follower,
        }
    }

    /// What the connections share.
    pub fn service(&self) -> &Arc<Service> {
        self.dispatcher.service()
    }

    /// The dispatcher, for connections.
    pub fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// Whether a request is one that is executed here. Cheap.
    pub fn is_for(&self, request: &Request<'_>) -> bool {
        eligible::kind_of(self.service(), request).is_some()
    }

    /// Executes a request for which [`Reading::is_for`] said yes.
    ///
    /// # Output
    /// False when it has to be handed to the holder: nothing was appended to `reply` then.
    pub fn answer(
        &self,
        conn: &mut Connection,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) -> bool {
        let start = reply.len();
        let answered = self.answer_at_a_moment(conn, request, reply);
        if !answered {
            reply.truncate(start);
        }
        conn.reads_at(None);
        let counts = &self.service().state.reads_here;
        let count = match answered {
            true => &counts.executed,
            false => &counts.handed_on,
        };
        count.fetch_add(1, Relaxed);
        answered
    }

    /// Notes that a request is handed to the holder. What ends sessions ends their cursors here,
    /// too.
    pub fn hand_on(&self, conn: &mut Connection, request: &Request<'_>) {
        let counts = &self.service().state.reads_here;
        counts.handed_on.fetch_add(1, Relaxed);
        let name = request.body.first().map_or("", |(name, _)| name);
        if self.dispatcher.is(name, flag::ENDS_SESSIONS) {
            // The holder answers.
            self.dispatcher.handle(conn, request, &mut Vec::new());
        }
    }

    fn answer_at_a_moment(
        &self,
        conn: &mut Connection,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) -> bool {
        let Some(kind) = eligible::kind_of(self.service(), request) else {
            return false;
        };
        // Where rights are checked they are those of now, also for the next batch of a cursor.
        let needs_moment = kind != Kind::OwnCursor || self.service().access.enabled();
        if needs_moment && self.begin_moment(conn).is_err() {
            return false;
        }
        if self.service().access.enabled() && conn.identity.user().is_none() {
            return false;
        }
        let start = reply.len();
        match self.run(conn, request, reply) {
            Outcome::Reply | Outcome::Exhaust | Outcome::Durable(_) => {}
            Outcome::Wait { .. } | Outcome::Close | Outcome::NoReply => return false,
        }
        let said = Doc::from_prefix(reply.get(start..).unwrap_or_default());
        let is_error = !said.field("ok").truthy();
        let number = said.field("code").as_i64_exact();
        let is_final = FINAL.iter().any(|c| Some(i64::from(*c)) == number);
        !is_error || is_final || kind == Kind::OwnCursor
    }

    /// Runs a request until it has a reply.
    fn run(&self, conn: &mut Connection, request: &Request<'_>, reply: &mut Vec<u8>) -> Outcome {
        let mut outcome = self.dispatcher.handle(conn, request, reply);
        while let Outcome::Wait { until_us, .. } = outcome {
            let left = until_us.saturating_sub(self.service().clock.monotonic_us());
            std::thread::sleep(Duration::from_micros(left).min(LOOK));
            let again = Request {
                waited: true,
                ..*request
            };
            outcome = self.dispatcher.handle(conn, &again, reply);
        }
        outcome
    }

    /// Has the connection read the state of now.
    fn begin_moment(&self, conn: &mut Connection) -> Result<()> {
        let service = self.service();
        let moment = self.follower.moment().map_err(store::error::storage)?;
        let view = service.store.view_of(&moment, &mut || {
            service.access.forget_resolved();
            service.state.load(&service.store)
        })?;
        conn.reads_at(Some(view));
        Ok(())
    }

    /// Logs in the user that `status` names, the holder's reply to [`Reading::who`] on the client's
    /// connection. False when the holder has to execute this connection's reads: nobody has logged
    /// in, the user is of `$external`, or the user's restrictions do not allow this address.
    pub fn log_in(&self, conn: &mut Connection, status: Doc<'_>) -> bool {
        conn.identity.log_out();
        let info = status.field("authInfo").as_doc();
        let users = info.and_then(|i| i.field("authenticatedUsers").as_array());
        let mut users = users.into_iter().flat_map(|u| u.iter());
        let (Some(only), None) = (users.next(), users.next()) else {
            return false;
        };
        let Some(user) = only.as_doc() else {
            return false;
        };
        let (name, db) = (user.field("user").as_str(), user.field("db").as_str());
        let (Some(name), Some(db)) = (name, db) else {
            return false;
        };
        // Its user is read at a moment, as everything is.
        self.begin_moment(conn).is_ok()
            && self
                .service()
                .access
                .adopt(&mut conn.identity, name, db)
                .unwrap_or(false)
    }

    /// Forgets who has logged in through a connection.
    pub fn forget_user(&self, conn: &mut Connection) {
        conn.identity.log_out();
    }

    /// The command by which the holder tells who has logged in.
    pub fn who() -> DocBuf {
        model::doc! { "connectionStatus": 1i32, "$db": "admin" }
    }

    /// Whether somebody may log in or out by a request.
    pub fn may_change_user(request: &Request<'_>) -> bool {
        let name = request.body.first().map_or("", |(name, _)| name);
        matches!(
            name,
            "saslStart" | "saslContinue" | "authenticate" | "logout"
        ) || request.body.contains("speculativeAuthenticate")
    }
}
