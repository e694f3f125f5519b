//! Sends operations again: in order within each recorded connection, and each fetch after the
//! operation that opened its cursor.
//!
//! The operations of a cursor share a session, because servers accept a fetch only in the session
//! that opened the cursor.
//!
//! Promises: latency is measured from sending and, if operations have recorded times, also from the
//! intended start; answers are compared with the recorded ones. Memory is bounded: an operation
//! holds its share of the queue until it is done.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;
use mongodb::{Client, ClientSession};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::command;
use super::counts::{OpId, ReplayCounts};
use crate::clients::Control;
use crate::counters::{RoleCounters, Window, lock};
use crate::mongo::one_line;
use crate::record::file::{CommandRecord, ReplyFacts, ReplyRecord};

/// The number of calls in a row without an answer after which the target counts as gone.
const LOST_IN_A_ROW_MAX: u32 = 10;
/// The largest number of fetches for a cursor that the recording read to its end.
const FETCHES_MAX: u32 = 100_000;
/// The interval at which a wait checks whether the replay must end.
const STOP_POLL: Duration = Duration::from_millis(100);

/// A cursor of the recording and the target's cursor that replaces it.
#[derive(Debug)]
pub(crate) struct Cursor {
    turn: watch::Sender<u64>,
    state: Mutex<CursorState>,
    /// The session, which starts with the operation that opens the cursor.
    session: tokio::sync::Mutex<Option<ClientSession>>,
}

#[derive(Debug, Default)]
struct CursorState {
    live: Option<i64>,
    recorded: u64,
    replayed: u64,
    is_broken: bool,
}

/// The turn of an operation among the operations on its cursor. Dropping it lets the next operation
/// run, whether or not this one succeeded.
#[derive(Debug)]
pub(crate) struct CursorTurn {
    cursor: Arc<Cursor>,
    ticket: u64,
    /// Whether the recording read the cursor to its end here.
    pub(crate) is_last: bool,
}

impl Cursor {
    /// A cursor that the next operation opens.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            turn: watch::Sender::new(0),
            state: Mutex::default(),
            session: tokio::sync::Mutex::default(),
        })
    }
}

impl CursorTurn {
    /// The turn of operation number `ticket` on the cursor, counted from 0.
    pub(crate) fn new(cursor: &Arc<Cursor>, ticket: u64, is_last: bool) -> Self {
        Self {
            cursor: cursor.clone(),
            ticket,
            is_last,
        }
    }
}

impl Drop for CursorTurn {
    fn drop(&mut self) {
        self.cursor
            .turn
            .send_modify(|turn| *turn = (*turn).max(self.ticket + 1));
    }
}

/// An operation to send.
#[derive(Debug)]
pub(crate) struct Op {
    /// The recorded command.
    pub(crate) command_record: CommandRecord,
    /// Its reply, if one was recorded.
    pub(crate) reply: Option<ReplyRecord>,
    /// Its kind.
    pub(crate) kind: &'static str,
    /// For `real`: when the operation is due, since the start.
    pub(crate) due: Option<Duration>,
    /// Its cursor.
    pub(crate) turn: Option<CursorTurn>,
    /// Whether its answer is compared with the recorded one.
    pub(crate) is_first_pass: bool,
    /// Its share of the queue.
    pub(crate) share: OwnedSemaphorePermit,
    /// Gets a message when the operation is done.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct ReplaySender {
    /// The driver.
    pub(crate) client: Client,
    /// Ends the replay early.
    pub(crate) control: Arc<Control>,
    /// Counters that the sampler empties.
    pub(crate) counters: Arc<RoleCounters>,
    /// All other counts.
    pub(crate) counts: Mutex<ReplayCounts>,
    /// Workers.
    pub(crate) workers: Semaphore,
    /// Longest wait for an answer.
    pub(crate) call_timeout: Duration,
    /// When the replay began.
    pub(crate) begun: Instant,
    /// The file that lists slow operations, and the latency from which an operation is listed.
    pub(crate) slow: Option<(Mutex<std::fs::File>, Duration)>,
    /// Whether writing that file has failed.
    pub(crate) slow_failed: AtomicBool,
}

/// The answer of the target.
enum TargetReply {
    Facts(ReplyFacts, Option<String>),
    Lost(String),
}

impl ReplaySender {
    /// Plays one operation.
    pub(crate) async fn play(&self, mut op: Op) {
        let intended = self.wait_until_due(op.due).await;
        if self.control.is_stopping() {
            return;
        }
        if let Some(turn) = &op.turn
            && !self.wait_for_turn(turn).await
        {
            return;
        }
        let Ok(worker) = self.workers.acquire().await else {
            return;
        };
        self.send(&mut op, intended).await;
        drop(worker);
        // The next operation on this cursor, and operations that wait for the reply, may run now;
        // the space in the queue is free again.
        let Op {
            turn, share, done, ..
        } = op;
        drop((turn, share));
        if let Some(done) = done {
            let _ = done.send(());
        }
    }

    /// Waits until an operation is due; returns when its latency begins. That is the due time or,
    /// if the lab's timer woke this task late, the time of waking.
    async fn wait_until_due(&self, due: Option<Duration>) -> Option<Instant> {
        let due = self.begun + due?;
        loop {
            let now = Instant::now();
            if now >= due || self.control.is_stopping() {
                return Some(due);
            }
            tokio::time::sleep_until(due.min(now + STOP_POLL).into()).await;
            let woken = Instant::now();
            if woken >= due {
                lock(&self.counts).late.record(woken - due);
                return Some(woken);
            }
        }
    }

    /// Waits for the turn; returns whether it came.
    async fn wait_for_turn(&self, turn: &CursorTurn) -> bool {
        let mut watched = turn.cursor.turn.subscribe();
        while !self.control.is_stopping() {
            match tokio::time::timeout(STOP_POLL, watched.wait_for(|now| *now >= turn.ticket)).await
            {
                Ok(came) => return came.is_ok(),
                Err(_) => continue,
            }
        }
        false
    }

    async fn send(&self, op: &mut Op, intended: Option<Instant>) {
        let (command_record, kind) = (&op.command_record, op.kind);
        let op_id = OpId {
            op: u64::try_from(command_record.op).unwrap_or(0),
            kind,
            namespace: namespace(command_record),
        };
        let recorded = op
            .reply
            .as_ref()
            .map(|reply| &reply.facts)
            .filter(|_| op.is_first_pass);
        let is_fetch = matches!(kind, "getMore" | "killCursors");
        let live = op
            .turn
            .as_ref()
            .and_then(|turn| lock(&turn.cursor.state).live);
        if is_fetch && live.is_none() {
            lock(&self.counts).count_unsent(&format!(
                "{kind} without need: its cursor had no more, or its operation failed"
            ));
            self.read_to_end(op, &op_id, recorded, None).await;
            return;
        }
        let ready = match command::prepare(&command_record.command, live.filter(|_| is_fetch)) {
            Ok(ready) => ready,
            Err(because) => {
                lock(&self.counts).count_unsent(&because);
                return;
            }
        };
        let sent = Instant::now();
        let cursor = op.turn.as_ref().map(|turn| turn.cursor.as_ref());
        let answer = self.call_all(command_record, ready, cursor).await;
        let (latency, service) = (intended.unwrap_or(sent).elapsed(), sent.elapsed());
        let facts = match answer {
            TargetReply::Facts(facts, error) => {
                self.count(
                    op,
                    &op_id,
                    latency,
                    service,
                    intended.map_or(Duration::ZERO, |due| sent - due),
                    &facts,
                );
                let mut counts = lock(&self.counts);
                let is_new = match recorded {
                    Some(recorded) => counts.compare(&op_id, recorded, &facts),
                    None => {
                        counts.count_uncompared(if op.is_first_pass {
                            "no reply was recorded"
                        } else {
                            "a repetition of the recording"
                        });
                        false
                    }
                };
                if is_new {
                    let error =
                        error.unwrap_or_else(|| format!("write error {}", facts.code.unwrap_or(0)));
                    counts.record_error(kind, &error);
                    drop(counts);
                    self.window(command_record.connection, |window| window.errors += 1);
                }
                facts
            }
            TargetReply::Lost(message) => {
                self.record_lost(kind, &message);
                self.window(command_record.connection, |window| window.errors += 1);
                ReplyFacts {
                    code: Some(0),
                    ..ReplyFacts::default()
                }
            }
        };
        self.read_to_end(op, &op_id, recorded, Some(facts)).await;
    }

    fn count(
        &self,
        op: &Op,
        op_id: &OpId,
        latency: Duration,
        service: Duration,
        behind: Duration,
        facts: &ReplyFacts,
    ) {
        let returned = facts
            .returned
            .and_then(|returned| u64::try_from(returned).ok())
            .unwrap_or(0);
        let took = op
            .reply
            .as_ref()
            .map(|reply| Duration::from_nanos(u64::try_from(reply.took_ns).unwrap_or(0)));
        {
            let mut counts = lock(&self.counts);
            counts.record_answer(op.kind, latency, service, returned, took);
            counts.behind = counts.behind.max(behind);
        }
        self.window(op.command_record.connection, |window| {
            window.ops += 1;
            window.rows += returned;
            window.latency.record(latency);
            window.record_completion(Instant::now());
        });
        if let Some((file, from)) = &self.slow
            && latency >= *from
        {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let took = took.map_or_else(String::new, |took| format!("{:.3}", ms(took)));
            let line = format!(
                "{},{},{},{:.3},{:.3},{:.3},{took}\n",
                op_id.op,
                op_id.kind,
                op_id.namespace,
                self.begun.elapsed().as_secs_f64(),
                ms(latency),
                ms(service)
            );
            if lock(file).write_all(line.as_bytes()).is_err() {
                self.slow_failed.store(true, Ordering::Relaxed);
            }
        }
    }

    fn window(&self, connection: i64, change: impl FnOnce(&mut Window)) {
        let number = usize::try_from(connection).unwrap_or(0) % self.counters.windows.len().max(1);
        if let Some(window) = self.counters.windows.get(number) {
            change(&mut lock(window));
        }
    }

    fn record_lost(&self, kind: &'static str, message: &str) {
        let mut counts = lock(&self.counts);
        counts.record_error(kind, "no answer");
        counts.lost_in_a_row += 1;
        if counts.lost_in_a_row >= LOST_IN_A_ROW_MAX {
            self.control.stop(&format!(
                "{LOST_IN_A_ROW_MAX} calls in a row without an answer: {message}"
            ));
        }
    }

    /// Sends the pieces of a command one after the other; nearly always there is only one.
    async fn call_all(
        &self,
        command_record: &CommandRecord,
        pieces: Vec<mongodb::bson::RawDocumentBuf>,
        cursor: Option<&Cursor>,
    ) -> TargetReply {
        let mut total: Option<(ReplyFacts, Option<String>)> = None;
        for piece in pieces {
            let (facts, error) = match self.call(&command_record.database, piece, cursor).await {
                TargetReply::Facts(facts, error) => (facts, error),
                lost => return lost,
            };
            let is_failed = facts.code.is_some();
            match &mut total {
                Some((total, first_error)) => {
                    command::add(total, &facts);
                    *first_error = first_error.take().or(error);
                }
                None => total = Some((facts, error)),
            }
            if is_failed && command::is_ordered(&command_record.command) {
                break;
            }
        }
        let (facts, error) = total.unwrap_or_default();
        TargetReply::Facts(facts, error)
    }

    async fn call(
        &self,
        database: &str,
        command: mongodb::bson::RawDocumentBuf,
        cursor: Option<&Cursor>,
    ) -> TargetReply {
        let database = self.client.database(database);
        let call = async {
            let call = database.run_raw_command(command);
            let Some(cursor) = cursor else {
                return call.await;
            };
            let mut session = cursor.session.lock().await;
            let session = match &mut *session {
                Some(session) => session,
                none => {
                    let begun = self.client.start_session().causal_consistency(false);
                    none.insert(begun.await?)
                }
            };
            call.session(session).await
        };
        match tokio::time::timeout(self.call_timeout, call).await {
            Err(_) => TargetReply::Lost(format!(
                "no answer within {} s",
                self.call_timeout.as_secs()
            )),
            Ok(Ok(reply)) => TargetReply::Facts(command::facts(&reply), None),
            Ok(Err(error)) => match error.kind.as_ref() {
                ErrorKind::Command(inner) => {
                    let facts = ReplyFacts {
                        code: Some(i64::from(inner.code)),
                        ..ReplyFacts::default()
                    };
                    TargetReply::Facts(facts, Some(format!("{} {}", inner.code, inner.code_name)))
                }
                _ => TargetReply::Lost(one_line(&error)),
            },
        }
    }

    /// Applies the reply of an operation to its cursor. If the recording read the cursor to its
    /// end, the replay does so, too.
    async fn read_to_end(
        &self,
        op: &Op,
        op_id: &OpId,
        recorded: Option<&ReplyFacts>,
        facts: Option<ReplyFacts>,
    ) {
        let Some(turn) = &op.turn else { return };
        let amount = |facts: &ReplyFacts| {
            facts
                .returned
                .and_then(|returned| u64::try_from(returned).ok())
                .unwrap_or(0)
        };
        let mut live = {
            let mut state = lock(&turn.cursor.state);
            state.recorded += recorded.map_or(0, amount);
            if let Some(facts) = &facts {
                state.replayed += amount(facts);
                state.live = facts.cursor.filter(|id| *id != 0);
                state.is_broken |= facts.code.is_some();
            }
            state.live
        };
        if !turn.is_last || op.kind == "killCursors" {
            return;
        }
        let mut fetches = 0;
        while let Some(id) = live.filter(|_| fetches < FETCHES_MAX && !self.control.is_stopping()) {
            fetches += 1;
            let collection = op
                .command_record
                .collection
                .clone()
                .unwrap_or_else(|| "$cmd.aggregate".to_owned());
            let fetch: Document = doc! { "getMore": id, "collection": collection };
            let Ok(fetch) = mongodb::bson::RawDocumentBuf::try_from(&fetch) else {
                break;
            };
            let cursor = Some(turn.cursor.as_ref());
            live = match self.call(&op.command_record.database, fetch, cursor).await {
                TargetReply::Facts(facts, _) if facts.code.is_none() => {
                    lock(&turn.cursor.state).replayed += amount(&facts);
                    facts.cursor.filter(|id| *id != 0)
                }
                _ => {
                    lock(&turn.cursor.state).is_broken = true;
                    None
                }
            };
        }
        let (total, is_broken) = {
            let mut state = lock(&turn.cursor.state);
            state.live = None;
            ((state.recorded, state.replayed), state.is_broken)
        };
        let mut counts = lock(&self.counts);
        counts.more_fetches += u64::from(fetches);
        if recorded.is_some_and(|recorded| recorded.code.is_none()) && !is_broken {
            counts.compare_returned(op_id, total.0, total.1);
        }
    }
}

fn namespace(command_record: &CommandRecord) -> String {
    match &command_record.collection {
        Some(collection) => format!("{}.{collection}", command_record.database),
        None => command_record.database.clone(),
    }
}
