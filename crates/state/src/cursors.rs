//! Open cursors between batches: their owners, their idle time limits, their ends.
//!
//! Promises: ids are random and positive; one operation at a time uses a cursor; killing a cursor
//! drops it at once, or kills the operation that uses it. Must not know: what produces the
//! documents.

use super::cursor_owner::{Owner, check_owner};
use memory::Charge;
use model::{ArrayWriter, DocBuf, DocWriter, MongoError, Result, bail, code};
use operation::{ClockReading, Operation};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// The limits of one batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimit {
    /// Most documents; `None` when only the bytes limit the batch.
    pub documents: Option<usize>,
    /// Most bytes; a single larger document is still returned alone.
    pub bytes: usize,
}

impl BatchLimit {
    /// The limits of a reply: the requested number of documents, and sixteen megabytes.
    pub fn of(documents: Option<i64>) -> BatchLimit {
        BatchLimit {
            documents: documents.and_then(|n| usize::try_from(n).ok()),
            bytes: model::bson::MAX_DOCUMENT_BYTES,
        }
    }
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There may be more documents.
    More,
    /// There are no more documents.
    Done,
    /// No documents now; a tailing cursor may have more later.
    Idle,
}

/// A source of documents that keeps its position between batches.
pub trait Cursor: Send {
    /// Appends documents until the limit or the end, on behalf of `op`.
    ///
    /// # Errors
    /// Those of the query; the cursor is then closed.
    fn next_batch(
        &mut self,
        limit: BatchLimit,
        op: &Arc<Operation>,
        out: &mut ArrayWriter<'_>,
    ) -> Result<Progress>;

    /// Writes fields next to the batch, such as `postBatchResumeToken`.
    fn write_extra(&self, _cursor: &mut DocWriter<'_>) {}
}

/// Where new documents for a cursor come from.
#[derive(Clone, Debug)]
pub enum Tail {
    /// A capped collection, by its identity.
    Capped([u8; 16]),
    /// The log of changes.
    Log(Arc<store::Watch>),
}

/// The properties of a cursor in the table.
#[derive(Clone, Debug, Default)]
pub struct CursorInfo {
    /// Namespace, `db.collection`.
    pub ns: String,
    /// The session that opened it.
    pub lsid: Option<[u8; 16]>,
    /// The digest of the user who owns it.
    pub owner: [u8; 32],
    /// The transaction that it belongs to.
    pub txn_number: Option<i64>,
    /// Time of opening.
    pub opened: ClockReading,
    /// Last use.
    pub last_use: ClockReading,
    /// The cursor never times out.
    pub no_timeout: bool,
    /// The cursor tails a capped collection or a change stream.
    pub tailable: bool,
    /// The cursor waits for data.
    pub await_data: bool,
    /// The source of new documents, for a cursor that tails.
    pub tails: Option<Tail>,
    /// The cursor was opened with a read concern that promises durable data.
    pub durable_reads: bool,
    /// The cursor reads a fixed state of the data, so no change of the catalog ends it.
    pub fixed: bool,
    /// Identity of what it reads, which another server may drop; `None` for a fixed state.
    pub reads: Option<[u8; 16]>,
    /// The rest of the `maxTimeMS` of the opening command, microseconds.
    pub left_us: Option<u64>,
    /// An operation is using the cursor; set only in [`Cursors::list`].
    pub in_use: bool,
    /// Batches returned so far.
    pub batches: i64,
    /// Documents returned so far.
    pub documents: i64,
    /// The command that opened it.
    pub command: Option<DocBuf>,
    /// The memory that it holds while no operation uses it.
    pub memory: Option<Arc<Charge>>,
}

enum Slot {
    Parked(Box<dyn Cursor>, CursorInfo),
    /// The cursor is present only while its operation waits for data.
    InUse {
        info: CursorInfo,
        op: Arc<Operation>,
        waiting: Option<Box<dyn Cursor>>,
        killed: bool,
    },
    /// Ended by another operation; the next getMore returns the error.
    Dead(CursorInfo, MongoError),
}

impl Slot {
    fn info(&self) -> &CursorInfo {
        match self {
            Slot::Parked(_, info) | Slot::InUse { info, .. } | Slot::Dead(info, _) => info,
        }
    }
}

/// Cursor counts for `serverStatus`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CursorCounts {
    /// Cursors opened since the start.
    pub opened: i64,
    /// Cursors ended because they were idle.
    pub timed_out: i64,
    /// Cursors open now.
    pub open: i64,
    /// Open cursors that never time out.
    pub no_timeout: i64,
    /// Cursors that an operation is using now.
    pub in_use: i64,
}

/// The table of open cursors.
#[derive(Default)]
pub struct Cursors {
    slots: Mutex<FxHashMap<i64, Slot>>,
    opened: AtomicI64,
    timed_out: AtomicI64,
}

fn not_found(id: i64) -> MongoError {
    MongoError::new(code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}

/// 237, the error of an operation whose cursor was killed.
pub fn killed_error() -> MongoError {
    MongoError::new(
        code::CURSOR_KILLED,
        "operation was interrupted because its cursor was killed",
    )
}

impl Cursors {
    /// Parks a new cursor and returns its id.
    pub fn open(&self, cursor: Box<dyn Cursor>, info: CursorInfo) -> i64 {
        let mut slots = self.slots.lock();
        let id = loop {
            let id = rand::random::<i64>() & i64::MAX;
            if id != 0 && !slots.contains_key(&id) {
                break id;
            }
        };
        slots.insert(id, Slot::Parked(cursor, info));
        self.opened.fetch_add(1, Relaxed);
        id
    }

    /// Takes a cursor for one operation, until [`Cursors::park`] or [`Cursors::close`].
    ///
    /// # Errors
    /// 43 CursorNotFound, 13 Unauthorized for another namespace, 12051 CursorInUse, 50737/50738 for
    /// another session; the reason when another operation has ended the cursor.
    pub fn take(
        &self,
        id: i64,
        ns: &str,
        lsid: Option<[u8; 16]>,
        txn_number: Option<i64>,
        op: &Arc<Operation>,
    ) -> Result<(Box<dyn Cursor>, CursorInfo)> {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(&id).ok_or_else(|| not_found(id))?;
        let info = slot.info();
        let owner = Owner {
            ns: &info.ns,
            lsid: info.lsid,
            txn_number: info.txn_number,
        };
        let asking = Owner {
            ns,
            lsid,
            txn_number,
        };
        check_owner(id, &owner, &asking)?;
        if let Slot::InUse { .. } = slot {
            bail!(code::CURSOR_IN_USE, "cursor id {id} is already in use");
        }
        let info = slot.info().clone();
        let used = Slot::InUse {
            info: info.clone(),
            op: Arc::clone(op),
            waiting: None,
            killed: false,
        };
        match std::mem::replace(slot, used) {
            Slot::Parked(cursor, _) => {
                if let Some(charge) = &info.memory {
                    op.memory().resume(charge);
                }
                Ok((cursor, info))
            }
            Slot::Dead(_, why) => {
                slots.remove(&id);
                Err(why)
            }
            Slot::InUse { .. } => Err(not_found(id)),
        }
    }

    /// Leaves a taken cursor in the table, in use, while its operation waits for data.
    pub fn suspend(&self, id: i64, cursor: Box<dyn Cursor>) {
        if let Some(Slot::InUse {
            info, op, waiting, ..
        }) = self.slots.lock().get_mut(&id)
        {
            park_memory(info, op);
            *waiting = Some(cursor);
        }
    }

    /// Takes a suspended cursor again.
    ///
    /// # Errors
    /// 43 CursorNotFound.
    pub fn resume(&self, id: i64) -> Result<(Box<dyn Cursor>, CursorInfo)> {
        match self.slots.lock().get_mut(&id) {
            Some(Slot::InUse {
                info, op, waiting, ..
            }) => {
                let cursor = waiting.take().ok_or_else(|| not_found(id))?;
                if let Some(charge) = &info.memory {
                    op.memory().resume(charge);
                }
                Ok((cursor, info.clone()))
            }
            _ => Err(not_found(id)),
        }
    }

    /// Gives a cursor back after a batch. Returns false when it was killed in the meantime; it is
    /// then dropped.
    pub fn park(&self, id: i64, cursor: Box<dyn Cursor>, info: CursorInfo) -> bool {
        let mut slots = self.slots.lock();
        match slots.get_mut(&id) {
            Some(slot @ Slot::InUse { killed: false, .. }) => {
                if let Slot::InUse { op, .. } = slot {
                    park_memory(&info, op);
                }
                *slot = Slot::Parked(cursor, info);
                true
            }
            Some(Slot::InUse { .. }) => {
                slots.remove(&id);
                false
            }
            Some(Slot::Parked(..) | Slot::Dead(..)) | None => false,
        }
    }

    /// Removes a taken cursor that has come to its end.
    pub fn close(&self, id: i64) {
        self.slots.lock().remove(&id);
    }

    /// The owner of a cursor and its namespace.
    pub fn owner(&self, id: i64) -> Option<([u8; 32], String)> {
        let slots = self.slots.lock();
        let info = slots.get(&id)?.info();
        Some((info.owner, info.ns.clone()))
    }

    /// Kills a cursor and the operation that uses it; true when the cursor existed.
    pub fn kill(&self, id: i64) -> bool {
        let mut slots = self.slots.lock();
        match slots.get_mut(&id) {
            Some(Slot::InUse { killed, op, .. }) => {
                op.kill(killed_error());
                !std::mem::replace(killed, true)
            }
            Some(Slot::Parked(..) | Slot::Dead(..)) => slots.remove(&id).is_some(),
            None => false,
        }
    }

    /// Whether the command that opened a cursor contains a script.
    pub fn runs_scripts(&self, id: i64) -> bool {
        let slots = self.slots.lock();
        let command = slots.get(&id).and_then(|slot| slot.info().command.as_ref());
        command.is_some_and(|c| operators::script::is_named_in(c.as_bytes()))
    }

    /// Ends all cursors on a namespace, or on a database when `coll` is `None`; their next use
    /// fails with `why`. Cursors that read a fixed state continue. Change streams continue too,
    /// because they read the change from the log.
    pub fn invalidate(&self, db: &str, coll: Option<&str>, why: &MongoError) {
        let matches = |ns: &str| {
            ns.strip_prefix(db)
                .and_then(|r| r.strip_prefix('.'))
                .is_some_and(|c| coll.is_none_or(|x| x == c))
        };
        let goes_on = |info: &CursorInfo| info.fixed || matches!(info.tails, Some(Tail::Log(_)));
        self.end_where(|_, info| matches(&info.ns) && !goes_on(info), Some(why));
    }

    /// Kills the cursors of a transaction.
    pub fn kill_transaction(&self, lsid: &[u8; 16], number: i64) {
        let of =
            |info: &CursorInfo| info.lsid.as_ref() == Some(lsid) && info.txn_number == Some(number);
        self.end_where(|_, info| of(info), None);
    }

    /// Kills all cursors of a session.
    pub fn kill_session(&self, lsid: &[u8; 16]) {
        self.end_where(|_, info| info.lsid.as_ref() == Some(lsid), None);
    }

    /// Kills cursors idle for longer than `idle_ms_max`.
    pub fn expire(&self, now_us: u64, idle_ms_max: i64) {
        let idle = |info: &CursorInfo| {
            !info.no_timeout && info.lsid.is_none() && info.last_use.age_ms(now_us) >= idle_ms_max
        };
        let n = self.end_where(
            |slot, info| idle(info) && !matches!(slot, Slot::InUse { .. }),
            None,
        );
        self.timed_out.fetch_add(n, Relaxed);
    }

    fn end_where(
        &self,
        pick: impl Fn(&Slot, &CursorInfo) -> bool,
        why: Option<&MongoError>,
    ) -> i64 {
        let mut ended = 0;
        self.slots.lock().retain(|_, slot| {
            if !pick(slot, slot.info()) {
                return true;
            }
            ended += 1;
            match (&mut *slot, why) {
                (Slot::InUse { killed, op, .. }, why) => {
                    op.kill(why.cloned().unwrap_or_else(killed_error));
                    *killed = true;
                }
                (Slot::Parked(_, info), Some(why)) => {
                    *slot = Slot::Dead(
                        CursorInfo {
                            memory: None,
                            ..info.clone()
                        },
                        why.clone(),
                    )
                }
                (Slot::Dead(..), Some(_)) => {}
                (Slot::Parked(..) | Slot::Dead(..), None) => return false,
            }
            true
        });
        ended
    }

    /// The current counts.
    pub fn counts(&self) -> CursorCounts {
        let slots = self.slots.lock();
        let count = |f: &dyn Fn(&Slot) -> bool| {
            i64::try_from(slots.values().filter(|s| f(s)).count()).unwrap_or(i64::MAX)
        };
        CursorCounts {
            opened: self.opened.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            open: count(&|s| !matches!(s, Slot::Dead(..))),
            no_timeout: count(&|s| s.info().no_timeout),
            in_use: count(&|s| matches!(s, Slot::InUse { .. })),
        }
    }

    /// Ids and properties of all open cursors.
    pub fn list(&self) -> Vec<(i64, CursorInfo)> {
        let shown = |s: &Slot| CursorInfo {
            in_use: matches!(s, Slot::InUse { .. }),
            ..s.info().clone()
        };
        self.slots
            .lock()
            .iter()
            .filter(|(_, s)| !matches!(s, Slot::Dead(..)))
            .map(|(id, s)| (*id, shown(s)))
            .collect()
    }
}

/// Sets the memory of the operation to be charged to the cursor that it leaves open when it ends.
fn park_memory(info: &CursorInfo, op: &Operation) {
    if let Some(charge) = &info.memory {
        op.memory().park(charge);
    }
}

/// Writes the `cursor` field of a first reply, and parks the cursor when there are more documents.
/// Returns its id.
///
/// # Errors
/// Those of the query.
pub fn write_first_batch(
    table: &Cursors,
    mut cursor: Box<dyn Cursor>,
    mut info: CursorInfo,
    limit: BatchLimit,
    single: bool,
    op: &Arc<Operation>,
    reply: &mut DocWriter<'_>,
) -> Result<i64> {
    let mut out = reply.doc("cursor");
    let mut batch = out.array("firstBatch");
    let progress = if limit.documents == Some(0) {
        Progress::More
    } else {
        cursor.next_batch(limit, op, &mut batch)?
    };
    info.left_us = op.remaining_us();
    info.documents = i64::try_from(batch.len()).unwrap_or(i64::MAX);
    op.reads().set_returned(batch.len());
    info.batches = 1;
    drop(batch);
    cursor.write_extra(&mut out);
    let open = match progress {
        Progress::More | Progress::Idle => !single,
        Progress::Done => false,
    };
    let ns = info.ns.clone();
    if open {
        let charge = Arc::new(op.memory().budget().charge());
        op.memory().park(&charge);
        info.memory = Some(charge);
    }
    let id = if open { table.open(cursor, info) } else { 0 };
    out.put("id", id).put("ns", &ns);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::{Account, Budget};
    use model::Value;

    struct Numbers(i32, i32);

    fn op() -> Arc<Operation> {
        Arc::new(Operation::new(
            Arc::new(operation::SystemClock::default()),
            None,
            Arc::new(Account::new(Arc::new(Budget::unlimited()))),
            Arc::new(crate::user_writes::UserWrites::default()),
        ))
    }

    impl Cursor for Numbers {
        fn next_batch(
            &mut self,
            limit: BatchLimit,
            _: &Arc<Operation>,
            out: &mut ArrayWriter<'_>,
        ) -> Result<Progress> {
            while limit.documents.is_none_or(|n| out.len() < n) {
                if self.0 == self.1 {
                    return Ok(Progress::Done);
                }
                out.doc().put("n", self.0);
                self.0 += 1;
            }
            Ok(Progress::More)
        }
    }

    fn info(lsid: Option<[u8; 16]>) -> CursorInfo {
        CursorInfo {
            ns: "db.c".to_owned(),
            lsid,
            ..CursorInfo::default()
        }
    }

    #[test]
    fn first_batch_parks_what_is_left() {
        let t = Cursors::default();
        let mut id = 0;
        let reply = DocBuf::build(|w| {
            id = write_first_batch(
                &t,
                Box::new(Numbers(0, 3)),
                info(None),
                BatchLimit::of(Some(2)),
                false,
                &op(),
                w,
            )
            .unwrap();
        });
        let cursor = reply.doc().field("cursor").as_doc().unwrap();
        assert!(matches!(cursor.field("id"), Value::Int64(n) if n == id && n > 0));
        assert_eq!(cursor.field("firstBatch").as_array().unwrap().len(), 2);
        let (mut c, i) = t.take(id, "db.c", None, None, &op()).unwrap();
        assert_eq!(
            t.take(id, "db.c", None, None, &op()).err().unwrap().code(),
            code::CURSOR_IN_USE
        );
        let mut buf = Vec::new();
        assert_eq!(
            c.next_batch(BatchLimit::of(None), &op(), &mut ArrayWriter::new(&mut buf))
                .unwrap(),
            Progress::Done
        );
        assert!(t.park(id, c, i) && t.kill(id) && !t.kill(id));
    }

    #[test]
    fn owners_are_checked() {
        let t = Cursors::default();
        let id = t.open(Box::new(Numbers(0, 1)), info(Some([1; 16])));
        let code_of =
            |ns: &str, s: Option<[u8; 16]>| t.take(id, ns, s, None, &op()).err().map(|e| e.code());
        assert_eq!(code_of("db.d", Some([1; 16])), Some(13));
        assert_eq!(code_of("db.c", Some([2; 16])), Some(50_738));
        assert_eq!(code_of("db.c", None), Some(50_737));
        assert_eq!(
            t.take(7, "db.c", None, None, &op()).err().map(|e| e.code()),
            Some(43)
        );
        t.kill_session(&[1; 16]);
        assert_eq!(code_of("db.c", Some([1; 16])), Some(43));
    }

    #[test]
    fn drops_and_idling_end_cursors() {
        let t = Cursors::default();
        let id = t.open(Box::new(Numbers(0, 1)), info(None));
        t.invalidate(
            "db",
            Some("c"),
            &MongoError::new(code::QUERY_PLAN_KILLED, "collection dropped"),
        );
        assert_eq!(
            t.take(id, "db.c", None, None, &op())
                .err()
                .map(|e| e.code()),
            Some(code::QUERY_PLAN_KILLED)
        );
        assert_eq!(
            t.take(id, "db.c", None, None, &op())
                .err()
                .map(|e| e.code()),
            Some(code::CURSOR_NOT_FOUND)
        );
        t.open(Box::new(Numbers(0, 1)), info(None));
        t.open(
            Box::new(Numbers(0, 1)),
            CursorInfo {
                no_timeout: true,
                ..info(None)
            },
        );
        t.expire(1_000_000, 1000);
        assert_eq!(
            (t.counts().open, t.counts().timed_out, t.counts().no_timeout),
            (1, 1, 1)
        );
        let used = t.open(Box::new(Numbers(0, 1)), info(None));
        let (c, i) = t.take(used, "db.c", None, None, &op()).unwrap();
        assert!(t.kill(used) && !t.park(used, c, i), "killed while in use");
    }
}
