//! Multi-document transactions: uncommitted writes in an overlay over a fixed view, claims on every
//! key that is written, one commit. Promises: snapshot isolation; the first writer of a key wins.
//! Another transaction gets 112 WriteConflict at once; a writer outside of transactions waits, and
//! so does the first statement of a transaction, because it can be run again in a new one. An
//! uncommitted transaction leaves nothing on disk. Must not know: sessions, commands.

use crate::catalog::{Collection, Shared, State};
use crate::commit::CommitHook;
use crate::error;
use crate::format::log::LINK;
use crate::format::meta;
use crate::locks::{ClaimConflict, KeyId, KeyIds, Owner};
use crate::log::{EntryList, LogRows, SessionFields};
use crate::view::{Overlay, ReadView};
use crate::write::end::{Delta, DocumentsCommit, TransactionChanges};
use crate::write::session::{Effect, SessionRecord};
use crate::write::writer::Writer;
use model::{Doc, MongoError, Namespace, Result, code};
use operation::Operation;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{BatchOp, CommitPos, Reader, Table, Unit, WriteBatch};

/// How long a transaction waits for a change of the catalog.
const GATE_WAIT: Duration = Duration::from_millis(50);
/// The statement number in a session's record that stands for a committed transaction.
const COMMIT_STATEMENT: i32 = -1;
/// Bytes of operations in one entry of the log.
const LINK_BYTES_MAX: usize = 16 << 20;

/// An open transaction. Dropping it aborts it.
pub struct Transaction {
    shared: Arc<Shared>,
    owner: Owner,
    view: ReadView,
    overlay: Arc<Overlay>,
    writes: Mutex<TransactionWrites>,
}

/// The writes of a transaction other than its overlay.
#[derive(Default)]
struct TransactionWrites {
    claims: Vec<KeyId>,
    collections: Vec<TransactionCollection>,
    /// The log entries of its statements, in their order.
    operations: EntryList,
    /// Beside other processes: the rows on which its writes depend.
    read: Vec<ReadRow>,
}

/// A row as the view of a transaction has it.
struct ReadRow {
    table: Table,
    key: Box<[u8]>,
    value: Option<Box<[u8]>>,
}

/// A collection the transaction writes to. The transaction is inside its gate.
struct TransactionCollection {
    coll: Arc<Collection>,
    changes: TransactionChanges,
}

/// The changes of the catalog by the commit of a transaction.
pub(crate) struct CatalogChange<'c> {
    /// Adds the rows to the batch.
    pub(crate) rows: &'c dyn Fn(&mut WriteBatch),
    pub(crate) applied: &'c mut dyn CommitHook,
}

/// 112: another transaction or a later commit has changed data that this one wants to write.
pub(crate) fn conflict(why: &str) -> MongoError {
    MongoError::new(
        code::WRITE_CONFLICT,
        format!("Caused by :: {why} :: Please retry your operation or multi-document transaction."),
    )
}

fn write_conflict() -> MongoError {
    conflict("Write conflict during plan execution and yielding is disabled.")
}

impl Transaction {
    /// Begins a transaction that reads the current state, or that of `at`.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn begin(shared: &Arc<Shared>, at: Option<&ReadView>) -> Result<Transaction> {
        let view = match at {
            Some(view) => view.with_overlay(),
            None => ReadView::pin(shared)?.with_overlay(),
        };
        let overlay = view.overlay().cloned().unwrap_or_default();
        Ok(Transaction {
            owner: shared.next_owner(),
            shared: Arc::clone(shared),
            view,
            overlay,
            writes: Mutex::default(),
        })
    }

    /// Its view: the state at its beginning with its own writes.
    pub fn view(&self) -> &ReadView {
        &self.view
    }

    /// Bytes of memory its writes take.
    pub fn bytes(&self) -> usize {
        self.overlay.bytes() + self.writes.lock().operations.bytes.len()
    }

    /// Whether it has written something, or created a collection.
    pub fn has_written(&self) -> bool {
        !self.writes.lock().collections.is_empty() || !self.created_collections().is_empty()
    }

    /// The collections that it has created, which no other reader sees.
    pub fn created_collections(&self) -> Vec<Arc<Collection>> {
        self.view
            .created_collections()
            .map_or_else(Vec::new, |made| made.all())
    }

    /// Whether it has created this collection and not written to it.
    pub fn has_made_empty(&self, coll: &Arc<Collection>) -> bool {
        let writes = self.writes.lock();
        let written = |t: &TransactionCollection| Arc::ptr_eq(&t.coll, coll);
        coll.is_uncommitted() && !writes.collections.iter().any(written)
    }

    /// Adds a collection that it has created, and the log entry for that.
    pub(crate) fn has_made(&self, coll: &Arc<Collection>, operation: &EntryList) {
        if let Some(made) = self.view.created_collections() {
            made.add(Arc::clone(coll));
        }
        self.will_log(operation);
    }

    /// Adds a log entry of the transaction.
    pub(crate) fn will_log(&self, operation: &EntryList) {
        self.writes.lock().operations.append(operation);
    }

    /// Enters the gate of a collection until the end of the transaction.
    ///
    /// # Errors
    /// 112 WriteConflict when the collection has changed since the transaction's view, or
    /// [`model::ErrorKind::SetAside`] for a statement that may be run again; 24 LockTimeout while
    /// the collection is being changed, 263 OperationNotSupportedInTransaction for a capped
    /// collection; engine failures.
    pub(crate) fn enter(&self, writer: &Writer<'_>) -> Result<Arc<State>> {
        let coll = writer.coll;
        let mut writes = self.writes.lock();
        if !writes
            .collections
            .iter()
            .any(|t| Arc::ptr_eq(&t.coll, coll))
        {
            if !coll.gate.enter_until(Instant::now() + GATE_WAIT) {
                return Err(MongoError::new(
                    code::LOCK_TIMEOUT,
                    format!("Unable to acquire a lock on '{}' in time", coll.ns()),
                ));
            }
            writes.collections.push(TransactionCollection {
                coll: Arc::clone(coll),
                changes: TransactionChanges::default(),
            });
            if !coll.is_uncommitted() && !self.view.sees_as_it_is(coll)? {
                return Err(self.catalog_error(writer.operation, coll.ns()));
            }
        }
        let state = Arc::clone(&coll.state());
        if state.dropped {
            return Err(self.catalog_error(writer.operation, coll.ns()));
        }
        if state.capped.is_some() {
            return Err(MongoError::new(
                code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                format!(
                    "Collection '{}' is capped: no writes in a transaction",
                    coll.ns()
                ),
            ));
        }
        Ok(state)
    }

    /// Claims keys until the end of the transaction.
    ///
    /// # Errors
    /// 112 WriteConflict when another transaction has claimed one of them, or
    /// [`model::ErrorKind::SetAside`] for a statement that may be run again.
    pub(crate) fn claim(&self, operation: &Operation, keys: &mut KeyIds) -> Result<()> {
        let shared = &self.shared;
        while let Err(ClaimConflict(key)) = shared.locks.claim(keys, self.owner) {
            if operation.waits_without_thread().is_none() {
                return Err(write_conflict());
            }
            let register = |waker| shared.locks.wake_when_released(key, waker);
            Shared::wait_on_thread(operation, &register)?;
        }
        self.writes.lock().claims.extend_from_slice(keys);
        Ok(())
    }

    /// The error for a change since the transaction began: the statement is run again at once in a
    /// transaction that sees the change, or it is a conflict.
    fn change_error(operation: &Operation, conflict: MongoError) -> MongoError {
        Shared::run_again_or(operation, conflict)
    }

    /// The error when the name of a collection leads to another one than the transaction sees.
    pub(crate) fn catalog_error(&self, operation: &Operation, ns: &Namespace) -> MongoError {
        let why = format!("Unable to write to collection '{ns}' due to catalog changes.");
        Transaction::change_error(operation, conflict(&why))
    }

    /// Reads a key that is claimed and about to be written.
    ///
    /// # Output
    /// False when there is no value; otherwise it was appended to `out`.
    ///
    /// # Errors
    /// 112 WriteConflict when the key was changed after the transaction began, or
    /// [`model::ErrorKind::SetAside`] for a statement that may be run again; engine failures.
    pub(crate) fn read_claimed(
        &self,
        operation: &Operation,
        table: Table,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let own = self.overlay.get(table, key, |value| {
            out.extend_from_slice(value.unwrap_or_default());
            value.is_some()
        });
        if let Some(found) = own {
            return Ok(found);
        }
        let engine = self.shared.engine.as_ref();
        let start = out.len();
        let found = self.view.get_with(engine, table, key, &mut |value| {
            out.extend_from_slice(value);
        })?;
        let seen = out.get(start..).unwrap_or_default();
        let mut same = true;
        let exists = engine
            .get_with_announcements(table, key, &mut |value| same = value == seen)
            .map_err(error::storage)?;
        if exists != found || !same {
            return Err(Transaction::change_error(operation, write_conflict()));
        }
        if self.shared.has_joined {
            self.writes.lock().read.push(ReadRow {
                table,
                key: key.into(),
                value: found.then(|| seen.into()),
            });
        }
        Ok(found)
    }

    /// Checks that the collections to which it writes are still as it sees them; `find` finds them
    /// as they are now. With `writes`, also that they may be written to.
    ///
    /// # Errors
    /// 112 WriteConflict; why the operation may not write; those of `find`.
    pub(crate) fn check_collections(
        &self,
        operation: &Operation,
        writes: bool,
        find: &dyn Fn(&Namespace) -> Result<Option<Arc<Collection>>>,
    ) -> Result<()> {
        let written = self.writes.lock();
        let all: Vec<_> = written
            .collections
            .iter()
            .map(|t| Arc::clone(&t.coll))
            .collect();
        drop(written);
        for coll in all.iter().filter(|coll| !coll.is_uncommitted()) {
            if writes {
                self.shared.hooks.check_write(operation, coll.ns())?;
            }
            let same = match find(coll.ns())? {
                Some(now) => self.view.sees_as_it_is(&now)?,
                None => false,
            };
            if !same {
                return Err(self.catalog_error(operation, coll.ns()));
            }
        }
        Ok(())
    }

    /// Begins the unit of the commit beside other processes, if nothing on which the writes depend
    /// has changed since the transaction began. `None` where one process writes: there claims
    /// prevent changes.
    ///
    /// # Errors
    /// 112 WriteConflict; engine failures. Nothing was committed then.
    fn begin_commit(
        &self,
        operation: &Operation,
        record: &SessionRecord,
    ) -> Result<Option<Unit<'_>>> {
        let engine = self.shared.engine.as_ref();
        if !self.shared.has_joined {
            return Ok(None);
        }
        let writes = self.writes.lock();
        let made = self.created_collections();
        let of_record = record.newest_row();
        let mut wanted: Vec<(Table, &[u8])> = vec![(Table::Meta, &of_record)];
        wanted.extend(writes.read.iter().map(|row| (row.table, &*row.key)));
        let at = CommitPos(operation.take_moment());
        let unit = match made.is_empty() {
            true => Some(engine.begin_at(at, &wanted).map_err(error::storage)?),
            false => self.shared.begin_exclusive(operation)?,
        };
        let Some(unit) = unit else { return Ok(None) };
        // Nobody else knows those that the transaction has created.
        let mut same = record.is_current(&unit)?;
        for TransactionCollection { coll, .. } in &writes.collections {
            same &= coll.is_uncommitted() || coll.is_unchanged_in(&unit)?;
        }
        for c in &made {
            let key = meta::catalog(c.ns().db(), c.ns().coll());
            let found = unit.get_with(Table::Meta, &key, &mut |_| {});
            same &= !found.map_err(error::storage)?;
        }
        for table in Table::ALL {
            let of_table = || writes.read.iter().filter(|row| row.table == table);
            let keys: Vec<&[u8]> = of_table().map(|row| &*row.key).collect();
            let mut seen = of_table().map(|row| row.value.as_deref());
            let compare = &mut |_: usize, value: Option<&[u8]>| {
                same &= seen.next() == Some(value);
            };
            unit.multi_get(table, &keys, compare)
                .map_err(error::storage)?;
        }
        match same {
            true => Ok(Some(unit)),
            false => Err(write_conflict()),
        }
    }

    /// Adds the operations of a batch and its changes of memory to the transaction.
    ///
    /// # Errors
    /// 257 TransactionTooLarge when one commit cannot hold all writes.
    pub(crate) fn absorb(
        &self,
        coll: &Collection,
        batch: &WriteBatch,
        more: TransactionChanges,
    ) -> Result<()> {
        for op in batch.iter() {
            match op {
                BatchOp::Put { table, key, value } => self.overlay.set(table, key, Some(value)),
                BatchOp::Delete { table, key } => self.overlay.set(table, key, None),
                // Counters are added once, at the commit; a statement deletes no ranges.
                BatchOp::Add { .. } | BatchOp::DeleteRange { .. } => {}
            }
        }
        let mut writes = self.writes.lock();
        if let Some(t) = writes
            .collections
            .iter_mut()
            .find(|t| t.coll.ident == coll.ident)
        {
            t.changes.docs += more.docs;
            t.changes.bytes += more.bytes;
            t.changes.changed += more.changed;
            t.changes.inserted.extend(more.inserted);
            t.changes.deleted.extend(more.deleted);
        }
        writes.operations.append(&more.operations);
        let bytes = self.overlay.bytes() + writes.operations.bytes.len();
        if bytes > self.shared.engine.caps().batch_bytes_max / 2 {
            return Err(MongoError::new(
                code::TRANSACTION_TOO_LARGE,
                format!(
                    "the writes of the transaction take {bytes} bytes, more than one commit can \
                        hold"
                ),
            ));
        }
        Ok(())
    }

    /// Commits all writes at once, together with a row of the session that records the commit, and
    /// the rows that `catalog` adds. Nothing may be written to the transaction afterwards.
    ///
    /// # Output
    /// The position of the commit.
    ///
    /// # Errors
    /// 112 WriteConflict when another process has changed data on which the writes depend: nothing
    /// was committed; other engine failures; whether the commit was applied is unknown then.
    pub(crate) fn commit_with(
        &self,
        operation: &Operation,
        record: &mut SessionRecord,
        catalog: CatalogChange<'_>,
    ) -> Result<CommitPos> {
        let decided_by = self.begin_commit(operation, record)?;
        let mut batch = WriteBatch::with_capacity(self.overlay.bytes());
        (catalog.rows)(&mut batch);
        self.overlay.visit(&mut |table, key, value| match value {
            Some(value) => batch.put(table, key, value),
            None => batch.delete(table, key),
        });
        let (writes, operations) = {
            let mut all = self.writes.lock();
            (
                std::mem::take(&mut all.collections),
                std::mem::take(&mut all.operations),
            )
        };
        self.shared.admit(operation, batch.byte_len());
        let rows = self.log_rows(&mut batch, &writes, &operations, record.fields());
        let deltas: SmallVec<[Delta<'_>; 4]> = writes
            .iter()
            .map(|t| Delta::of_kept(&t.coll, &t.changes))
            .collect();
        let mut end = DocumentsCommit {
            shared: &self.shared,
            operation,
            batch: &mut batch,
            deltas: &deltas,
            rows,
            catalog: Some(catalog.applied),
            decided_by,
        };
        let done = std::iter::once((COMMIT_STATEMENT, Effect::Updated));
        let result = end.commit_in_session(record, done);
        drop(end);
        drop(deltas);
        // Dropping the transaction leaves the gates and releases the claims.
        self.writes.lock().collections = writes;
        result
    }
}

impl Transaction {
    /// Adds the log entries of the transaction: one, or a chain when one would be too large.
    fn log_rows(
        &self,
        batch: &mut WriteBatch,
        writes: &[TransactionCollection],
        operations: &EntryList,
        session: Option<SessionFields>,
    ) -> Option<LogRows<'_>> {
        let log = self
            .shared
            .feed
            .as_deref()
            .filter(|_| operations.count > 0)?;
        let concerned = writes.iter().map(|t| t.coll.namespace_hash()).collect();
        let mut rows = LogRows::new(log, concerned);
        for made in self.created_collections() {
            rows = rows.add_namespace(made.namespace_hash());
        }
        let mut links = chain(operations).into_iter().peekable();
        let (mut before, mut number) = (0, 0i32);
        while let Some(link) = links.next() {
            let (last, chained) = (links.peek().is_none(), number > 0 || links.peek().is_some());
            let mut list = EntryList::default();
            list.push(|w| {
                if let Some(s) = &session {
                    s.write(w);
                }
                w.put("op", "c").put("ns", "admin.$cmd");
                let mut o = w.doc("o");
                let mut ops = o.array("applyOps");
                link.iter().for_each(|op| _ = ops.push(*op));
                drop(ops);
                before += link.len() as i64;
                if !last {
                    o.put("partialTxn", true);
                } else if chained {
                    o.put("count", before);
                }
                drop(o);
                w.put(LINK, number);
            });
            rows.documents(batch, &list);
            number += 1;
        }
        Some(rows)
    }
}

/// Splits the operations into parts that fit into one entry each.
fn chain(operations: &EntryList) -> Vec<Vec<Doc<'_>>> {
    let mut links: Vec<Vec<Doc<'_>>> = Vec::new();
    let mut bytes = 0;
    let mut rest = operations.bytes.as_slice();
    while !rest.is_empty() {
        let op = Doc::from_prefix(rest);
        rest = rest.get(op.len_bytes()..).unwrap_or_default();
        // The name (up to eight bytes, with its end) and the type of the array element.
        bytes += op.len_bytes() + 10;
        match links.last_mut().filter(|_| bytes <= LINK_BYTES_MAX) {
            Some(link) => link.push(op),
            None => {
                bytes = op.len_bytes() + 10;
                links.push(vec![op]);
            }
        }
    }
    links
}

impl SessionRecord {
    /// Whether the transaction with the record's number was committed.
    pub fn is_committed(&self) -> bool {
        self.find(COMMIT_STATEMENT).is_some()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let writes = std::mem::take(&mut *self.writes.lock());
        for t in &writes.collections {
            t.coll.gate.leave();
        }
        self.shared.locks.release(&writes.claims, self.owner);
        // Committed collections are no longer uncommitted.
        for made in self
            .created_collections()
            .iter()
            .filter(|c| c.is_uncommitted())
        {
            made.set_dropped();
        }
    }
}
