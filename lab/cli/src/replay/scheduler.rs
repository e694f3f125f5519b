//! Reads the recording and puts each operation into the queue of its connection before it is due.
//!
//! Promises: the queues together hold a bounded number of bytes. In the file an operation comes
//! after the operation for which it waits, so waits cannot form a cycle.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use super::arguments::{Order, ReplayArguments, ReplayMode};
use super::command;
use super::sender::{Cursor, CursorTurn, Op, ReplaySender};
use super::source::{Item, Selection, Source};
use crate::counters::lock;
use crate::errors::LabError;
use crate::record::file::{CommandRecord, Reader, ReplyRecord};

/// The size of all queues together in KiB; each operation takes at least one.
const QUEUES_KB: u32 = 64 * 1_024;
/// The time by which an operation is put into its queue before it is due.
const LEAD: Duration = Duration::from_millis(300);
/// The interval at which a wait checks whether the replay must end.
const STOP_POLL: Duration = Duration::from_millis(100);
/// The largest number of open cursors that are remembered.
const CURSORS_MAX: usize = 100_000;
/// A cursor whose operation is not in the replay.
const UNKNOWN_CURSOR: &str = "its cursor was opened before, or by an operation that is left out";

/// Drives a replay.
pub(crate) struct Scheduler<'a> {
    arguments: &'a ReplayArguments,
    sender: Arc<ReplaySender>,
    selection: Selection,
    queues: HashMap<i64, mpsc::UnboundedSender<Op>>,
    tasks: JoinSet<()>,
    shares: Arc<Semaphore>,
    /// Cursors by recorded id, with the number of turns given on each.
    cursors: HashMap<i64, (Arc<Cursor>, u64)>,
    waiting: HashMap<i64, oneshot::Receiver<()>>,
    first_ns: Option<i64>,
    /// The begin of this pass.
    offset: Duration,
    last_due: Duration,
    is_first_pass: bool,
}

impl<'a> Scheduler<'a> {
    /// A scheduler at the start of a recording.
    pub(crate) fn new(arguments: &'a ReplayArguments, sender: Arc<ReplaySender>) -> Self {
        Self {
            arguments,
            sender,
            selection: Selection::of(arguments),
            queues: HashMap::new(),
            tasks: JoinSet::new(),
            shares: Arc::new(Semaphore::new(QUEUES_KB as usize)),
            cursors: HashMap::new(),
            waiting: HashMap::new(),
            first_ns: None,
            offset: Duration::ZERO,
            last_due: Duration::ZERO,
            is_first_pass: true,
        }
    }

    /// Plays the recording; returns the tasks that have not ended.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) async fn schedule(mut self) -> Result<JoinSet<()>, LabError> {
        loop {
            let before = self.selection.taken;
            let mut source = Source::new(Reader::open(&self.arguments.file)?);
            while let Some(item) = source.next()? {
                if self.is_over() {
                    break;
                }
                self.take(item).await;
            }
            if !self.arguments.cyclic || self.is_over() || self.selection.taken == before {
                break;
            }
            // The next pass begins shortly after the last operation of this one.
            self.offset = self.last_due + Duration::from_millis(1);
            self.is_first_pass = false;
            self.selection.begin_again();
            self.first_ns = None;
            self.cursors.clear();
            self.waiting.clear();
        }
        self.queues.clear();
        Ok(self.tasks)
    }

    fn is_over(&self) -> bool {
        let seconds = self.arguments.seconds.map(Duration::from_secs);
        self.sender.control.is_stopping()
            || self.selection.is_over()
            || seconds.is_some_and(|seconds| self.sender.begun.elapsed() >= seconds)
    }

    async fn take(&mut self, item: Item) {
        match item {
            Item::Op(command_record, reply) => self.op(*command_record, reply).await,
            Item::Reply(op) => {
                if let Some(mut done) = self.waiting.remove(&op) {
                    while !self.sender.control.is_stopping()
                        && tokio::time::timeout(STOP_POLL, &mut done).await.is_err()
                    {
                    }
                }
            }
            Item::Closed(connection) => {
                self.queues.remove(&connection);
            }
        }
    }

    async fn op(&mut self, command_record: CommandRecord, reply: Option<ReplyRecord>) {
        let kind = match self.selection.take(&command_record) {
            Ok(kind) => kind,
            Err(because) => {
                if let Some(because) = because {
                    lock(&self.sender.counts).count_unsent(&because);
                }
                return;
            }
        };
        let due = self.due_time(&command_record);
        if let Some(due) = due {
            self.last_due = due;
            while !self.is_over() && self.sender.begun.elapsed() + LEAD < due {
                let left = due.saturating_sub(self.sender.begun.elapsed() + LEAD);
                tokio::time::sleep(left.min(STOP_POLL)).await;
            }
        }
        let turn = match self.turn(&command_record, reply.as_ref(), kind) {
            Ok(turn) => turn,
            Err(()) => {
                lock(&self.sender.counts).count_unsent(UNKNOWN_CURSOR);
                return;
            }
        };
        let Some(share) = self.share(command_record.command.as_bytes().len()).await else {
            return;
        };
        let mut done = None;
        if self.arguments.order() == Order::Recorded && reply.is_some() {
            let (tell, told) = oneshot::channel();
            self.waiting.insert(command_record.op, told);
            done = Some(tell);
        }
        let connection = command_record.connection;
        let op = Op {
            command_record,
            reply,
            kind,
            due,
            turn,
            is_first_pass: self.is_first_pass,
            share,
            done,
        };
        if let Some(op) = self.hand_over(connection, op) {
            // The queue's task has ended. This should not happen, but a new queue makes sure that
            // the operation is not lost.
            self.queues.remove(&connection);
            let _ = self.hand_over(connection, op);
        }
    }

    fn due_time(&mut self, command_record: &CommandRecord) -> Option<Duration> {
        if self.arguments.style == ReplayMode::Stress {
            return None;
        }
        let first = *self.first_ns.get_or_insert(command_record.at_ns);
        let since = Duration::from_nanos(
            u64::try_from(command_record.at_ns.saturating_sub(first)).unwrap_or(0),
        );
        Some(self.offset + since.div_f64(self.arguments.speed))
    }

    /// The turn of an operation among the operations on its cursor; an error if that cursor is
    /// unknown.
    fn turn(
        &mut self,
        command_record: &CommandRecord,
        reply: Option<&ReplyRecord>,
        kind: &str,
    ) -> Result<Option<CursorTurn>, ()> {
        let left = reply.and_then(|reply| reply.facts.cursor);
        let is_broken = reply.is_some_and(|reply| reply.facts.code.is_some());
        if matches!(kind, "getMore" | "killCursors") {
            let ids = command::cursors(&command_record.command);
            let Some(id) = ids.into_iter().find(|id| self.cursors.contains_key(id)) else {
                return Err(());
            };
            let Some((cursor, turns)) = self.cursors.get_mut(&id) else {
                return Err(());
            };
            let turn = CursorTurn::new(cursor, *turns, left == Some(0));
            *turns += 1;
            if left == Some(0) || is_broken || kind == "killCursors" {
                self.cursors.remove(&id);
            }
            return Ok(Some(turn));
        }
        let Some(id) = left else { return Ok(None) };
        let cursor = Cursor::new();
        let turn = CursorTurn::new(&cursor, 0, id == 0);
        if id != 0 {
            if self.cursors.len() >= CURSORS_MAX {
                self.cursors.clear();
            }
            self.cursors.insert(id, (cursor, 1));
        }
        Ok(Some(turn))
    }

    /// Waits for space in the queues; `None` if the replay must end.
    async fn share(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kb = u32::try_from(bytes / 1_024)
            .unwrap_or(QUEUES_KB)
            .saturating_add(1)
            .min(QUEUES_KB);
        loop {
            let command_record = self.shares.clone().acquire_many_owned(kb);
            match tokio::time::timeout(STOP_POLL, command_record).await {
                Ok(share) => return share.ok(),
                Err(_) if self.is_over() => return None,
                Err(_) => {}
            }
        }
    }

    /// Puts an operation into its connection's queue; returns it if the queue has no reader.
    fn hand_over(&mut self, connection: i64, op: Op) -> Option<Op> {
        let queue = self.queues.entry(connection).or_insert_with(|| {
            let (queue, mut incoming) = mpsc::unbounded_channel::<Op>();
            let sender = self.sender.clone();
            self.tasks.spawn(async move {
                while let Some(op) = incoming.recv().await {
                    sender.play(op).await;
                }
            });
            queue
        });
        queue.send(op).err().map(|refused| refused.0)
    }
}
