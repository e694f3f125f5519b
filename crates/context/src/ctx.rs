//! The context of one run of a command.

use super::connection::Connection;
use super::progress::{Moment, Progress};
use super::reported::ReplyState;
use super::retry::Retry;
use access::Rights;
use model::{DocBuf, DocWriter, MongoError, Namespace, Result, Timestamp};
use operation::Operation;
use operation::is_interruption;
use request::Request;
use request::args::Args;
use request::concern::{Acknowledge, ReadLevel, WriteConcern};
use request::generic::Generic;
use request::spec::{CommandTable, Spec};
use state::cursors::{BatchLimit, Cursor, CursorInfo, Tail, write_first_batch};
use state::service::Service;
use state::transactions::{SessionWrites, is_transient};
use std::cell::OnceCell;
use std::sync::Arc;
use store::{Collection, ReadView, Transaction};

/// Context of one run.
pub struct Ctx<'a, 'w> {
    /// The state that all connections share.
    pub service: &'a Service,
    /// The table of all commands, for commands that report on it.
    pub commands: &'a CommandTable,
    /// The connection that sent the request.
    pub conn: &'a mut Connection,
    /// The operation; it tells when the command is interrupted.
    pub operation: Arc<Operation>,
    /// The request as received.
    pub request: &'a Request<'a>,
    /// The command.
    pub command: &'static Spec,
    /// The command's name as the client wrote it; it may be an alias.
    pub invoked: &'a str,
    /// Database.
    pub db: &'a str,
    /// Checked arguments; the value of the command's first field is under the command's name.
    pub args: Args<'a>,
    /// Checked generic arguments.
    pub generic: Generic<'a>,
    /// The session's record, for a write that carries a transaction number.
    pub retry: Option<Retry<'a>>,
    /// The transaction of the session, for one of its statements.
    pub transaction: Option<Arc<Transaction>>,
    /// The writes of the session, for a command that belongs to a transaction.
    pub session: Option<&'a mut SessionWrites>,
    /// The transaction has to be aborted, because a statement of the command failed.
    pub failed: bool,
    /// The state that this run reads, and its cluster time; set when it is first asked for.
    pub read_state: OnceCell<(ReadView, Option<Timestamp>)>,
    /// What earlier runs of the command have done.
    pub progress: Progress,
    /// What the reply reports of data. It decides what the reply waits for.
    pub reported: ReplyState,
    /// The operation time before the run.
    pub began_at: Timestamp,
    /// `ok` is written as a 32-bit integer, as MongoDB does for one command.
    pub ok_int: bool,
    /// The reply. `ok` and the fields after it are added after the run.
    pub reply: DocWriter<'w>,
}

impl<'a> Ctx<'a, '_> {
    /// The value of the command's first field.
    pub fn value(&self) -> model::Value<'a> {
        self.args.value(self.command.name)
    }
    /// The client wants no acknowledgement of its writes (`w: 0`).
    pub fn is_unacknowledged(&self) -> bool {
        let none = |c: &WriteConcern| c.w == Acknowledge::Members(0) && c.journal != Some(true);
        self.generic.write_concern.as_ref().is_some_and(none)
    }
    /// The digest of the user who owns the sessions of this connection.
    pub fn owner(&self) -> [u8; 32] {
        self.conn.identity.digest(&self.service.access)
    }
    /// The rights of the user of this connection.
    pub fn rights(&self) -> Rights<'_> {
        self.conn.identity.rights(&self.service.access)
    }
    /// Notes, for `currentOp`, that this operation uses a cursor.
    pub fn uses_cursor(&self, id: i64) {
        if let Some(op) = self.conn.info.op.lock().as_mut() {
            op.cursor = Some(id);
        }
    }
    /// Notes, for the profile, the comment of the command that opened the cursor.
    pub fn note_opening_comment(&self, opened_by: &DocBuf) {
        let comment = opened_by.doc().field("comment");
        let is_wanted = !comment.is_missing() && self.generic.comment.is_missing();
        if let (true, Some(op)) = (is_wanted, self.conn.info.op.lock().as_mut()) {
            op.comment = Some(comment.to_owned_value());
        }
    }
    /// Properties of a cursor that this request opens; the caller sets the namespace.
    pub fn cursor_info(&self) -> CursorInfo {
        let now = self.service.clock.read();
        CursorInfo {
            lsid: self.generic.lsid.map(|l| l.id),
            txn_number: self.transaction.as_ref().and(self.generic.txn_number),
            owner: self.owner(),
            opened: now,
            last_use: now,
            command: Some(self.request.body.to_buf()),
            durable_reads: self.generic.promises_durable_reads(),
            fixed: self.reads_fixed_state(),
            ..CursorInfo::default()
        }
    }
    /// Whether the client has asked for one state of the data, for all batches of a cursor. Beside
    /// other servers each command reads the state at its beginning.
    fn reads_fixed_state(&self) -> bool {
        let concern = self.generic.read_concern.as_ref();
        match self.service.store.is_beside_others() {
            true => {
                self.transaction.is_some()
                    || concern.is_some_and(|c| c.level == ReadLevel::Snapshot)
            }
            false => self.read_state().is_ok_and(|(view, _)| view.is_fixed()),
        }
    }
    /// The collection or view that a cursor reads, see [`CursorInfo::reads`].
    fn read_by(&self, info: &CursorInfo) -> Result<Option<[u8; 16]>> {
        // A change stream reads the log, and shows the drop.
        let reads_log = matches!(info.tails, Some(Tail::Log(_)));
        if info.fixed || reads_log || !self.service.store.is_beside_others() {
            return Ok(None);
        }
        let Some((db, coll)) = info.ns.split_once('.') else {
            return Ok(None);
        };
        let there = self.collection(&Namespace::new(db, coll)?)?;
        Ok(there.map(|c| c.uuid()))
    }
    /// Writes the `cursor` field of the reply, and parks the cursor when there is more.
    ///
    /// # Errors
    /// Those of the query.
    pub fn first_batch(
        &mut self,
        cursor: Box<dyn Cursor>,
        info: CursorInfo,
        limit: BatchLimit,
        single: bool,
    ) -> Result<i64> {
        let info = CursorInfo {
            reads: self.read_by(&info)?,
            ..info
        };
        write_first_batch(
            &self.service.cursors,
            cursor,
            info,
            limit,
            single,
            &self.operation,
            &mut self.reply,
        )
    }
    /// The collection or view of that name in the state that this command reads. In a transaction
    /// it may also be one that the transaction has created.
    ///
    /// # Errors
    /// Those of [`Ctx::read_view`].
    pub fn collection(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        self.service.store.collection_in(&self.read_state()?.0, ns)
    }
    /// The state that this command reads according to its read concern, and the cluster time of the
    /// state if the reply has to name it. Read concern `snapshot` fixes the current state, or reads
    /// that of `atClusterTime`; all others read the latest. Each call in one run gives the same
    /// state.
    ///
    /// # Errors
    /// 239 SnapshotTooOld, 246 SnapshotUnavailable for an `atClusterTime` whose state is not kept;
    /// engine failures.
    pub fn read_view(&self) -> Result<(ReadView, Option<Timestamp>)> {
        self.read_state().cloned()
    }
    fn read_state(&self) -> Result<&(ReadView, Option<Timestamp>)> {
        if let Some(state) = self.read_state.get() {
            return Ok(state);
        }
        let state = self.take_view()?;
        Ok(self.read_state.get_or_init(|| state))
    }
    /// The state that this command reads independently of its read concern: that of its
    /// transaction, or the one its connection was given.
    pub fn fixed_view(&self) -> Option<&ReadView> {
        let of_transaction = self.transaction.as_ref().map(|t| t.view());
        of_transaction.or(self.conn.view.as_ref())
    }
    fn take_view(&self) -> Result<(ReadView, Option<Timestamp>)> {
        let concern = self.generic.read_concern;
        let concern = concern.filter(|c| c.level == ReadLevel::Snapshot);
        if let Some(view) = self.fixed_view() {
            let beside_others = self.service.store.is_beside_others();
            return match concern.filter(|_| beside_others && self.transaction.is_none()) {
                Some(concern) => self.take_view_beside_others(view, concern.at),
                None => Ok((view.clone(), None)),
            };
        }
        let Some(concern) = concern else {
            return Ok((ReadView::LATEST, None));
        };
        if let Some(at) = concern.at {
            return Ok((self.service.state.snapshots.at(at)?, Some(at)));
        }
        let (at, view) = match self.service.store.snapshot_at()? {
            Some(taken) => taken,
            None => {
                let at = self.service.next_operation_time();
                (at, self.service.store.snapshot()?)
            }
        };
        self.service
            .state
            .snapshots
            .keep(at, view.clone(), self.service.clock.monotonic_us());
        Ok((view, Some(at)))
    }
    /// The view of `at`, a time that any of the servers may have told; without `at`, the view of
    /// the connection.
    fn take_view_beside_others(
        &self,
        now: &ReadView,
        at: Option<Timestamp>,
    ) -> Result<(ReadView, Option<Timestamp>)> {
        let (store, kept) = (&self.service.store, &self.service.state.snapshots);
        if let Some(at) = at {
            let view = store.view_at(at)?;
            let view = view.map_or_else(|| kept.at(at), Ok)?;
            return Ok((view, Some(at)));
        }
        let at = store.time_of(now);
        if let Some(at) = at {
            // For engines that keep only states that are in use.
            kept.keep(at, now.clone(), self.service.clock.monotonic_us());
        }
        Ok((now.clone(), at))
    }
    /// Whether the error of one of several statements ends the whole command, because the operation
    /// was interrupted or its transaction has to be run again.
    pub fn ends_command(&self, e: &MongoError) -> bool {
        is_interruption(e) || self.transaction.is_some() && is_transient(e, false)
    }

    /// Notes that a statement failed. In a transaction, no further statement may run after it.
    ///
    /// # Output
    /// False when the next statement must not run.
    pub fn note_statement_failure(&mut self, ordered: bool) -> bool {
        self.failed |= self.transaction.is_some();
        !ordered && !self.failed
    }

    /// The time that the command uses as now in all its runs.
    pub(crate) fn moment(&self) -> Moment {
        self.progress.moment(|| Moment {
            now_ms: self.now_ms(),
            cluster_time: self.began_at,
            seed: rand::random(),
        })
    }

    /// Wall clock, milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.service.clock.now_ms()
    }
}
