//! Reads on a server that does not hold the database: they are executed here, over the data that
//! the holder writes; all other requests are forwarded to the holder
//! (docs/adr/0107-reads-by-every-server.md).
//!
//! Promises: a read uses a position that was requested after the read arrived, so it sees every
//! write that was acknowledged before; it uses the rights, settings and catalog of that position; a
//! request that fails here is forwarded to the holder, unless only this server can answer it. Must
//! not know: sockets, the engine, how a request is forwarded.

mod eligible;

use crate::Dispatcher;
use context::connection::Connection;
use eligible::Kind;
use model::{Doc, DocBuf, Result, code};
use request::spec::flag;
use request::{Outcome, Request};
use state::service::Service;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use store::Follower;

/// How often a waiting request is checked again.
const LOOK: Duration = Duration::from_millis(20);
/// Errors that the holder would return as well, only later.
const FINAL: &[i32] = &[
    code::MAX_TIME_MS_EXPIRED,
    code::INTERRUPTED,
    code::INTERRUPTED_AT_SHUTDOWN,
    code::CLIENT_DISCONNECT,
];

/// Executes reads over an engine that another process writes to.
pub struct ReadService {
    dispatcher: Dispatcher,
    follower: Arc<dyn Follower>,
}

impl ReadService {
    /// Creates the reads of a service whose store was opened by [`store::Store::follow`] with the
    /// same `follower`.
    pub fn new(dispatcher: Dispatcher, follower: Arc<dyn Follower>) -> ReadService {
        ReadService {
            dispatcher,
            follower,
        }
    }

    /// The state that all connections share.
    pub fn service(&self) -> &Arc<Service> {
        self.dispatcher.service()
    }

    /// The dispatcher, to open connections.
    pub fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// Whether a request can be executed here; this check is cheap.
    pub fn is_for(&self, request: &Request<'_>) -> bool {
        eligible::kind_of(self.service(), request).is_some()
    }

    /// Executes a request for which [`ReadService::is_for`] returned true.
    ///
    /// # Output
    /// False when the request has to be forwarded to the holder; nothing was appended to `reply`
    /// then.
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
        conn.set_view(None);
        let counts = &self.service().state.reads_here;
        let count = match answered {
            true => &counts.executed,
            false => &counts.handed_on,
        };
        count.fetch_add(1, Relaxed);
        answered
    }

    /// Notes that a request is forwarded to the holder. A command that ends sessions also ends
    /// their cursors here.
    pub fn hand_on(&self, conn: &mut Connection, request: &Request<'_>) {
        let counts = &self.service().state.reads_here;
        counts.handed_on.fetch_add(1, Relaxed);
        let name = request.body.first().map_or("", |(name, _)| name);
        if self.dispatcher.is(name, flag::ENDS_SESSIONS) {
            // The reply of the holder is used, not this one.
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
        // With access control, the current rights are needed, also for the next batch of a cursor.
        let needs_moment = kind != Kind::OwnCursor || self.service().access.is_enabled();
        if needs_moment && self.begin_moment(conn).is_err() {
            return false;
        }
        if self.service().access.is_enabled() && conn.identity.user().is_none() {
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

    /// Makes the connection read the current state.
    fn begin_moment(&self, conn: &mut Connection) -> Result<()> {
        let service = self.service();
        let moment = self.follower.moment().map_err(store::error::storage)?;
        let view = service.store.view_of(&moment, &mut || {
            service.access.forget_resolved();
            service.state.load(&service.store)
        })?;
        conn.set_view(Some(view));
        Ok(())
    }

    /// Logs in the user that `status`, the holder's reply to [`ReadService::user_query`] on the
    /// client's connection, contains. False when the holder has to execute this connection's reads:
    /// no user is logged in, the user is of `$external`, or the user's restrictions do not allow
    /// this address.
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
        // The user is read at a fixed state, like all data.
        self.begin_moment(conn).is_ok()
            && self
                .service()
                .access
                .adopt(&mut conn.identity, name, db)
                .unwrap_or(false)
    }

    /// Logs out the user of a connection.
    pub fn forget_user(&self, conn: &mut Connection) {
        conn.identity.log_out();
    }

    /// The command with which the holder reports the logged-in user.
    pub fn user_query() -> DocBuf {
        model::doc! { "connectionStatus": 1i32, "$db": "admin" }
    }

    /// Whether a request may log a user in or out.
    pub fn may_change_user(request: &Request<'_>) -> bool {
        let name = request.body.first().map_or("", |(name, _)| name);
        matches!(
            name,
            "saslStart" | "saslContinue" | "authenticate" | "logout"
        ) || request.body.contains("speculativeAuthenticate")
    }
}
