//! The dispatcher: from a request to a reply. It checks arguments and generic arguments, handles
//! interruptions and retries, and finishes replies.
//!
//! Promises: every command is checked and answered in the same way, according to its specification;
//! no client input panics. Must not know: which commands exist, what they do, how data is stored.

pub mod api;
mod audited;
mod authorize;
mod begin;
mod body;
mod confirm;
mod default_concerns;
mod durability;
mod hold_back;
pub mod observe;
mod perform;
pub mod reading;
mod reply;
mod room;
mod session;
mod standby;
mod transaction;
mod turn;

use authorize::Call;
use body::{check_admin, database, validate};
use context::command::{Command, Run};
use context::connection::Connection;
use context::ctx::Ctx;
use context::progress::Progress;
use context::retry::Retry;
use context::spent::Mark;
use default_concerns::fill_defaults;
use hold_back::Admission;
use model::{Doc, DocWriter, ErrorKind, MongoError, Result, bail, code};
use observe::FinishedOperation;
use operation::Link;
use perform::{CommandFailure, CommandResult, closes, perform};
use request::args::{Args, duplicate_field, unknown_field};
use request::generic::{self, Generic, Lsid};
use request::spec::{CommandCounters, CommandTable, Spec, flag};
use request::{Outcome, Request, WaitFor};
use session::StatementSession;
use state::service::{REPLACED_RETRIES, Service};
use state::transactions::SessionWrites;
use std::cell::OnceCell;
use std::sync::Arc;
use store::Transaction;
use transaction::StatementKind;
use turn::AdmissionResult;

/// Answers the requests of all connections of one service with the given table of commands.
pub struct Dispatcher {
    service: Arc<Service>,
    commands: CommandTable,
    /// The function of each command, in the order of `commands`.
    runs: Vec<Run>,
}

impl Dispatcher {
    /// A dispatcher over a service with these commands; `not_built` are names that are known and
    /// answered with 238.
    pub fn new(
        service: Arc<Service>,
        commands: impl Iterator<Item = &'static Command> + Clone,
        not_built: &'static [&'static str],
    ) -> Dispatcher {
        Dispatcher {
            service,
            commands: CommandTable::new(commands.clone().map(|c| &c.spec), not_built),
            runs: commands.map(|c| c.run).collect(),
        }
    }

    /// The state that all connections share.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// The table of commands.
    pub fn commands(&self) -> &CommandTable {
        &self.commands
    }

    /// A new connection from `peer` (`host:port`).
    pub fn connect(&self, peer: &str) -> Connection {
        self.connect_linked(peer, None)
    }

    /// Opens a connection. Waking `link` ends its waits; its reads end when `link` reports that the
    /// client has disconnected.
    pub fn connect_linked(&self, peer: &str, link: Option<Arc<dyn Link>>) -> Connection {
        Connection::new(&self.service, peer, link)
    }

    /// Handles one request. The reply, if there is one, is one document appended to `reply`.
    pub fn handle(
        &self,
        conn: &mut Connection,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) -> Outcome {
        let memory = Arc::clone(conn.operation.memory());
        let (account, capacity) = (memory.begin(), reply.capacity());
        let outcome = self.answer(conn, request, reply);
        account.end(reply.capacity().saturating_sub(capacity));
        outcome
    }

    fn answer(&self, conn: &mut Connection, request: &Request<'_>, reply: &mut Vec<u8>) -> Outcome {
        let start = reply.len();
        let mut result = self.dispatch(conn, request, true, reply);
        // No reply has been sent yet, so a command whose collection was replaced runs again on the
        // new collection.
        for _ in 0..=REPLACED_RETRIES {
            if !matches!(&result, Err(refused) if refused.again) {
                break;
            }
            self.service.store.wait_for_catalog();
            reply.truncate(start);
            result = self.dispatch(conn, request, false, reply);
        }
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(refused) => {
                reply.truncate(start);
                reply::error(&self.service, &refused.error, &mut DocWriter::new(reply));
                refused
                    .due
                    .map_or(Outcome::Reply, |pos| Outcome::Durable(pos.0))
            }
        };
        let silent =
            request.more_to_come && matches!(outcome, Outcome::Reply | Outcome::Durable(_));
        if silent || matches!(outcome, Outcome::Wait { .. } | Outcome::Close) {
            reply.truncate(start);
        }
        if silent { Outcome::NoReply } else { outcome }
    }

    /// Finds the command, runs it and counts it.
    ///
    /// # Input
    /// `first`: it did not run yet.
    fn dispatch(
        &self,
        conn: &mut Connection,
        request: &Request<'_>,
        first: bool,
        reply: &mut Vec<u8>,
    ) -> CommandResult {
        if !request.validated {
            validate(request)?;
        }
        let (row, run) = self.prepare(conn, request, first)?;
        conn.is_secret = self.commands.is_secret(row.command, request.body);
        let set_aside = conn.set_aside.take();
        if !request.waited {
            conn.progress = Progress::default();
            conn.locked_us = 0;
            conn.spent = None;
        } else if let Some(mut set_aside) = set_aside {
            let now_us = self.service.clock.monotonic_us();
            conn.locked_us += now_us.saturating_sub(set_aside.since_us);
            conn.woken_by = set_aside.registered.take();
        }
        let counters = &self.service.counters;
        if request.waited {
            counters.resume();
        } else {
            conn.queued_us = None;
            counters.begin(row.command.class);
            row.count_begin();
        }
        // The command must not see a wait that a fail point has caused.
        let request = &Request {
            waited: request.waited && conn.failing.is_none(),
            ..*request
        };
        if let Some(since) = conn.idle_since_us.take() {
            conn.idle_us += self.service.clock.monotonic_us().saturating_sub(since);
        }
        conn.operation.reads().reset();
        let (start, mark) = (reply.len(), Mark::set(&self.service));
        let result = self.run(conn, request, row.command, run, reply);
        let result = self.end_moment(conn, result);
        Mark::end(mark, &self.service, &mut conn.spent);
        conn.woken_by = None;
        counters.end(result.is_err());
        conn.locked_us += conn.operation.writes().take_waited_us();
        if let Ok(Outcome::Wait { on, .. }) = &result {
            // The operation continues later and is shown until then.
            conn.waits(on, self.service.clock.monotonic_us());
            return result;
        }
        if result.is_err() {
            row.count_failure();
            // The progress may hold a lock.
            conn.progress = Progress::default();
        }
        conn.awaits = None;
        conn.place = None;
        // The buffers are returned, so that showing an operation costs two copies and no
        // allocation.
        let op = conn.info.op.lock().take();
        match (op, result.as_ref().err()) {
            (None, _) => {}
            (Some(op), Some(refused)) if refused.again => {
                *conn.info.spare.lock() = (op.db, op.body);
            }
            (Some(op), error) => {
                let ended = FinishedOperation {
                    request,
                    row,
                    op,
                    error: error.map(|refused| &refused.error),
                    reply: error.map_or_else(|| reply.get(start..).unwrap_or_default(), |_| &[]),
                };
                let awaited = perform::is_awaited(&self.service, request, &result);
                ended.record(&self.service, conn, awaited);
            }
        }
        result
    }

    /// Prepares a connection for a request, and finds its command. Beside other servers, the
    /// request reads the state at its beginning.
    fn prepare(
        &self,
        conn: &mut Connection,
        request: &Request<'_>,
        first: bool,
    ) -> Result<(&CommandCounters, Run)> {
        // The reply of the previous request may not have been sent yet.
        self.release_reply(conn);
        let store = &self.service.store;
        let found = self.find(request.body);
        let in_transaction = request.body.contains("autocommit");
        // The first statement takes the state of the transaction.
        let is_later =
            |c: &Spec| !c.is(flag::ENDS_TRANSACTION) && !request.body.contains("startTransaction");
        let may_expect = first
            && !request.waited
            && found.as_ref().is_ok_and(|(row, _)| match in_transaction {
                true => is_later(row.command),
                false => row.command.is(flag::RUNS_AGAIN) || row.command.is(flag::RETRYABLE),
            });
        let view = match may_expect {
            true => store.expect_moment()?,
            false => store.begin_moment()?,
        };
        if let Some(view) = view {
            let (operation, expected) = (&conn.operation, view.expectation());
            operation.set_moment(view.pos().map_or(0, |pos| pos.0));
            let by_unit = may_expect && !in_transaction;
            operation.expect(if by_unit { expected } else { 0 });
            conn.set_view(Some(view));
        }
        found
    }

    /// The result of a command, unless its moment was outdated: then it has done nothing and runs
    /// again at another moment. Unless it waits, it reads nothing from here on: what is dropped
    /// later is not kept for a connection that is idle.
    fn end_moment(&self, conn: &mut Connection, result: CommandResult) -> CommandResult {
        let Some(view) = conn.view() else {
            return result;
        };
        let operation = &conn.operation;
        if matches!(&result, Ok(Outcome::Wait { .. })) && !operation.is_outdated() {
            return result;
        }
        let ended = self.service.store.end_moment(view, operation);
        conn.set_view(None);
        match (ended, result) {
            (Err(error), _) if error.is(ErrorKind::Outdated) => Err(CommandFailure {
                error,
                due: None,
                again: true,
            }),
            (Err(error), Ok(_)) => Err(error.into()),
            (_, result) => result,
        }
    }

    /// Ends an operation whose reply had to wait for the journal, once the reply may be sent or the
    /// client has disconnected: writes it to the log and to the profile if required. Costs one
    /// check when there is no such operation.
    pub fn release_reply(&self, conn: &mut Connection) {
        observe::release_reply(&self.service, conn, |name| self.row(name));
    }

    /// A command by its name.
    fn row(&self, name: &str) -> Option<&CommandCounters> {
        self.commands.at(self.commands.position(name)?)
    }

    /// Whether a command has a property; see [`flag`].
    pub(crate) fn is(&self, name: &str, flag: u32) -> bool {
        self.row(name).is_some_and(|row| row.command.is(flag))
    }

    fn find(&self, body: Doc<'_>) -> Result<(&CommandCounters, Run)> {
        let Some((name, _)) = body.first() else {
            bail!(code::COMMAND_NOT_FOUND, "no such command: ''");
        };
        let known = self.commands.position(name);
        let row = known.and_then(|at| Some((self.commands.at(at)?, *self.runs.get(at)?)));
        if let Some(row) = row {
            return Ok(row);
        }
        self.service.counters.unknown_command();
        if self.commands.is_known(name) {
            bail!(
                code::NOT_IMPLEMENTED,
                "command '{name}' is known but not built yet"
            );
        }
        bail!(code::COMMAND_NOT_FOUND, "no such command: '{name}'");
    }

    /// Checks a request and runs its command.
    fn run(
        &self,
        conn: &mut Connection,
        request: &Request<'_>,
        command: &'static Spec,
        run: Run,
        reply: &mut Vec<u8>,
    ) -> CommandResult {
        let (invoked, _) = request.body.first().unwrap_or_default();
        let mut generic = Generic {
            db: database(request)?,
            ..Generic::default()
        };
        generic::api(&mut generic, command, request.body)?;
        check_admin(command, generic.db)?;
        // Declared first, because the context borrows from these variables.
        let (session, mut writes);
        let args = self.check(request, command, &mut generic)?;
        self.admit(conn, request, command, &args, &generic)?;
        let operation = begin::begin(&self.service, conn, request, command, &generic);
        let failure = match hold_back::hold_back(&self.service, conn, request, command, &generic)? {
            Admission::Run(failure) => failure,
            Admission::End(outcome) => return Ok(outcome),
        };
        let numbered = transaction::check(command, &generic, &self.service.config)?;
        let holds = conn.progress.begun || numbered == StatementKind::Transaction;
        let _room = room::take(&self.service, request, command, &operation, holds)?;
        let _ticket = match turn::take(&self.service, conn, &operation, command, numbered)? {
            AdmissionResult::Run(ticket) => ticket,
            AdmissionResult::Wait(until_us) => return Ok(turn::wait(conn, failure, until_us)),
        };
        session = StatementSession::find(&self.service, conn, generic.lsid, numbered)?;
        writes = session.as_ref().map(|s| s.lock());
        let (w, retried) = (writes.as_deref_mut(), &conn.progress.retried);
        let part = self.join(w, numbered, command, &generic, retried)?;
        let (start, lsid, number) = (reply.len(), generic.lsid, generic.txn_number.unwrap_or(0));
        let mut ctx = Ctx {
            service: &self.service,
            commands: &self.commands,
            reported: conn.progress.reported,
            progress: std::mem::take(&mut conn.progress),
            conn,
            operation,
            request,
            command,
            invoked,
            db: generic.db,
            args,
            generic,
            retry: part.retry,
            transaction: part.transaction,
            session: part.session,
            failed: false,
            read_state: OnceCell::new(),
            began_at: self.service.operation_time(),
            ok_int: false,
            reply: DocWriter::new(reply),
        };
        let mut outcome = perform(&mut ctx, run, numbered);
        let (failed, wrote) = (ctx.failed, ctx.reported.has_written());
        let closes = closes(&ctx, numbered, &outcome);
        drop(ctx);
        if let (Some(w), StatementKind::Transaction) = (&mut writes, numbered) {
            outcome = self.confirm_statement(conn, request, command, w, outcome);
            outcome = self.end_statement(w, command, number, lsid, outcome, failed);
        }
        let done = matches!(&outcome, Ok(o) if !matches!(o, Outcome::Wait { .. }));
        audited::renew_users(&self.service, conn, request, command, wrote, done);
        let outcome = outcome.map_err(|refused| refused.label_retryable(numbered, command))?;
        if closes {
            return Ok(Outcome::Close);
        }
        if let Some(f) = &failure {
            f.finish(numbered.may_be_sent_again(command), reply, start);
        }
        Ok(outcome)
    }

    /// Admits a request: checks that its user may run the command, and marks its session as used.
    fn admit<'a>(
        &self,
        conn: &mut Connection,
        request: &Request<'a>,
        command: &Spec,
        args: &Args<'a>,
        generic: &Generic<'_>,
    ) -> Result<()> {
        let access = &self.service.access;
        if access.is_enabled() {
            let identity = &conn.identity;
            if !command.is(flag::NO_AUTH) && identity.has_ended(|| self.service.clock.now_ms()) {
                return Err(authorize::needs_login_again(command));
            }
            let call = Call {
                command,
                db: generic.db,
                body: request.body,
                args,
            };
            let checked = authorize::authorize(access, &self.commands, conn, &call);
            self.audit_check(conn, request, command, generic.db, checked.as_ref().err());
            checked?;
        } else {
            self.audit_check(conn, request, command, generic.db, None);
        }
        if let Some(lsid) = generic.lsid {
            let (owner, now) = (conn.identity.digest(access), self.service.clock.read());
            if access.is_enabled() && lsid.uid.is_some_and(|uid| uid != owner) {
                bail!(
                    code::UNAUTHORIZED,
                    "lsid.uid is not the user of this connection: a session is its own user's"
                );
            }
            self.service.state.sessions.touch(lsid.id, owner, now)?;
        }
        if let Some(time) = generic.cluster_time {
            self.service.follow_cluster_time(time);
        }
        Ok(())
    }

    /// Reports to the audit whether a client may run a command.
    fn audit_check(
        &self,
        conn: &Connection,
        request: &Request<'_>,
        command: &Spec,
        db: &str,
        refused: Option<&MongoError>,
    ) {
        let audit = &self.service.state.audit;
        if !audit.is_on() || request.waited || command.is(flag::NO_AUTH) {
            return;
        }
        // A failure other than a refusal is only reported in the reply.
        let code = refused.map_or(0, MongoError::code);
        if code == code::UNAUTHORIZED || code == 0 && audit.wants_success() {
            audited::check(&self.service, conn, request, command, db, code);
        }
    }

    /// Begins or continues the retryable write or the transaction with the session's number.
    fn join<'w>(
        &self,
        writes: Option<&'w mut SessionWrites>,
        numbered: StatementKind,
        command: &Spec,
        generic: &Generic<'_>,
        retried: &[i32],
    ) -> Result<SessionPart<'w>> {
        let mut part = SessionPart::default();
        let number = generic.txn_number.unwrap_or_default();
        match (writes, numbered) {
            (Some(w), StatementKind::Retryable) => {
                w.supersede(number, &self.service.state.transactions);
                let mut retry = Retry::begin(&self.service.store, &mut w.record, number)?;
                retry.go_on(retried);
                part.retry = Some(retry);
            }
            (Some(w), StatementKind::Transaction) => {
                part.transaction = transaction::join(&self.service, w, command, generic)
                    .map_err(|e| transaction::label(e, command))?;
                part.session = Some(w);
            }
            _ => {}
        }
        Ok(part)
    }

    /// Ends a statement of a transaction: charges the memory that it used, or aborts the
    /// transaction because of an error.
    fn end_statement(
        &self,
        writes: &mut SessionWrites,
        command: &Spec,
        number: i64,
        lsid: Option<Lsid>,
        outcome: CommandResult,
        failed: bool,
    ) -> CommandResult {
        let ends = command.is(flag::ENDS_TRANSACTION);
        let outcome =
            outcome.and_then(|o| writes.charge().map(|()| o).map_err(CommandFailure::from));
        let aborts = !ends && (failed || outcome.is_err());
        if aborts {
            writes.abort_open(&self.service.state.transactions);
        }
        if let Ok(Outcome::Wait { on, .. }) = &outcome
            && matches!(on, WaitFor::Release)
        {
            writes.set_aside();
        }
        if let Some(lsid) = lsid.filter(|_| aborts || ends) {
            self.service.cursors.kill_transaction(&lsid.id, number);
        }
        outcome.map_err(|refused| CommandFailure {
            error: transaction::label(refused.error, command),
            again: false,
            ..refused
        })
    }

    /// Checks a command's arguments.
    fn check<'a>(
        &self,
        request: &Request<'a>,
        command: &'static Spec,
        generic: &mut Generic<'a>,
    ) -> Result<Args<'a>> {
        let standalone = self.service.config.replica_set.is_none();
        let mut args = Args::new(request.sequences);
        let mut generic_seen: smallvec::SmallVec<[&str; 8]> = smallvec::SmallVec::new();
        for (i, (name, value)) in request.body.iter().enumerate() {
            if i == 0 {
                args.take_own(command.name, command.value, value)?;
                continue;
            }
            if command.args.iter().any(|a| a.name == name) {
                args.take(command.name, command.args, name, value)?;
            } else if generic::take(generic, command, name, value, request.body, standalone)? {
                if generic_seen.contains(&name) {
                    return Err(duplicate_field(&format!("{}.{name}", command.name)));
                }
                generic_seen.push(name);
            } else if name == command.name || command.aliases.contains(&name) {
                return Err(duplicate_field(&format!("{}.{name}", command.name)));
            } else if !command.is(flag::LENIENT) {
                return Err(unknown_field(&format!("{}.{name}", command.name)));
            }
        }
        args.finish(command.name, command.args)?;
        if !standalone {
            fill_defaults(generic, command, &self.service.state.default_concerns);
        }
        Ok(args)
    }
}

/// The part of its session that a command uses.
#[derive(Default)]
struct SessionPart<'w> {
    /// Set for a retryable write.
    retry: Option<Retry<'w>>,
    /// Set for a statement of a transaction.
    transaction: Option<Arc<Transaction>>,
    /// Set for every command of a transaction.
    session: Option<&'w mut SessionWrites>,
}
