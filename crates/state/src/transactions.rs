//! The transactions of sessions: at most one per session, which is open, committed or aborted; and
//! counts of transactions. Must not know: commands, replies.

use memory::Charge;
use metrics::OpLatency;
use model::{MongoError, Result, bail, code};
use operation::ClockReading;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;
use store::{
    CatalogWriter, Collection, CommitPos, NumberOrder, ReadView, SessionId, SessionRecord, Store,
    Transaction,
};

/// The label of errors after which a client may run the whole transaction again.
pub const TRANSIENT: &str = "TransientTransactionError";

/// The writes of a session: its retryable writes and its transaction. Locked while one of its
/// commands runs, so that a retry that overtakes the first attempt waits for it.
pub struct SessionWrites {
    /// The record of its retryable writes.
    pub record: SessionRecord,
    /// Its transaction.
    transaction: State,
}

/// The state of a session's transaction, with the transaction's number.
#[derive(Default)]
enum State {
    /// The session's last number does not belong to a transaction.
    #[default]
    None,
    Open(i64, TransactionState),
    Committed(i64, CommitPos),
    Aborted(i64),
}

struct TransactionState {
    /// `None` while the first statement waits for locks; the transaction is started again
    /// afterwards.
    transaction: Option<Arc<Transaction>>,
    expires: ClockReading,
    began: Instant,
    /// The read concern promised durable data.
    durable_reads: bool,
    memory: Charge,
}

/// An open transaction, as reports show it.
#[derive(Clone, Copy, Debug)]
pub struct OpenTransaction {
    /// Its number.
    pub number: i64,
    /// The time at which it is aborted if it is still open.
    pub expires: ClockReading,
    /// How long it has been open, microseconds.
    pub open_us: i64,
}

/// Transaction counts for `serverStatus`.
#[derive(Debug, Default)]
pub struct TransactionCounts {
    started: AtomicI64,
    committed: AtomicI64,
    aborted: AtomicI64,
    lasted: OpLatency,
}

impl TransactionCounts {
    /// Transactions started since the start of the server.
    pub fn started_count(&self) -> i64 {
        self.started.load(Relaxed)
    }

    /// Transactions committed since the start of the server.
    pub fn committed_count(&self) -> i64 {
        self.committed.load(Relaxed)
    }

    /// Transactions aborted since the start of the server.
    pub fn aborted_count(&self) -> i64 {
        self.aborted.load(Relaxed)
    }

    /// How long ended transactions were open.
    pub fn open_times(&self) -> &OpLatency {
        &self.lasted
    }

    fn count_ended(&self, open: &TransactionState, count: &AtomicI64) {
        count.fetch_add(1, Relaxed);
        let us = u64::try_from(open.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.lasted.record(us);
    }

    /// Transactions open now.
    pub fn open(&self) -> i64 {
        self.started_count() - self.committed_count() - self.aborted_count()
    }

    /// Checks that one more transaction may be open; 0 means no limit.
    ///
    /// # Errors
    /// 402, which stands for TooManyOpenTransactions of 9.0, whose number is not public.
    fn check_open(&self, most: i64) -> Result<()> {
        let open = self.open();
        if most > 0 && open >= most {
            bail!(
                code::RESOURCE_EXHAUSTED,
                "TooManyOpenTransactions: {open} transactions are open, {most} are allowed \
                    (maxConcurrentMultiDocumentTransactions); try again when one has ended"
            );
        }
        Ok(())
    }
}

/// The parameters of a new transaction.
pub struct TransactionOptions<'s> {
    /// The state that it reads; `None` is the current state.
    pub view: Option<&'s ReadView>,
    /// The time at which it is aborted if it is still open.
    pub expires: ClockReading,
    /// The read concern promises durable data.
    pub durable_reads: bool,
    /// Most transactions open at the same time; 0 means no limit.
    pub open_max: i64,
    /// The account of its uncommitted writes.
    pub memory: Charge,
}

fn no_such(number: i64, active: Option<i64>) -> MongoError {
    let active = active.unwrap_or(-1);
    MongoError::new(
        code::NO_SUCH_TRANSACTION,
        format!(
            "Given transaction number {number} does not match any in-progress transactions. The \
                active transaction number is {active}"
        ),
    )
}

fn aborted_error(number: i64) -> MongoError {
    MongoError::new(
        code::NO_SUCH_TRANSACTION,
        format!("Transaction with {{ txnNumber: {number} }} has been aborted."),
    )
}

fn committed_error(number: i64) -> MongoError {
    MongoError::new(
        code::TRANSACTION_COMMITTED,
        format!("Transaction with {{ txnNumber: {number} }} has been committed."),
    )
}

fn too_old(number: i64, last: i64) -> MongoError {
    MongoError::new(
        code::TRANSACTION_TOO_OLD,
        format!(
            "Cannot start transaction with {{ txnNumber: {number} }} on this session because a \
                newer transaction or retryable write with txnNumber {last} has already started"
        ),
    )
}

impl SessionWrites {
    /// The writes of a session that has not written yet.
    pub fn new(id: SessionId) -> SessionWrites {
        SessionWrites {
            record: SessionRecord::new(id),
            transaction: State::None,
        }
    }

    /// Starts a transaction and aborts the previous one if it is still open.
    ///
    /// # Errors
    /// 225 TransactionTooOld, 117 ConflictingOperationInProgress for a number that was used
    /// already, 402 for too many open ones; engine failures.
    pub fn start(
        &mut self,
        store: &Store,
        number: i64,
        how: TransactionOptions<'_>,
        counts: &TransactionCounts,
    ) -> Result<Arc<Transaction>> {
        match store.begin_retryable(&mut self.record, number)? {
            NumberOrder::Old(last) => return Err(too_old(number, last)),
            NumberOrder::Again if self.is_set_aside(number) => return self.begin_again(store),
            NumberOrder::Again => bail!(
                code::CONFLICTING_OPERATION_IN_PROGRESS,
                "Only servers in a sharded cluster can start a new transaction at the active \
                    transaction number"
            ),
            NumberOrder::New => {}
        }
        self.abort_open(counts);
        counts.check_open(how.open_max)?;
        let transaction = Arc::new(store.begin_transaction(how.view)?);
        counts.started.fetch_add(1, Relaxed);
        let open = TransactionState {
            transaction: Some(Arc::clone(&transaction)),
            expires: how.expires,
            began: Instant::now(),
            durable_reads: how.durable_reads,
            memory: how.memory,
        };
        self.transaction = State::Open(number, open);
        Ok(transaction)
    }

    /// Drops the open transaction's work: its first statement waits for locks, and starts the
    /// transaction again afterwards.
    pub fn set_aside(&mut self) {
        if let State::Open(_, open) = &mut self.transaction {
            open.transaction = None;
        }
    }

    fn is_set_aside(&self, number: i64) -> bool {
        matches!(&self.transaction, State::Open(n, open)
            if *n == number && open.transaction.is_none())
    }

    fn begin_again(&mut self, store: &Store) -> Result<Arc<Transaction>> {
        let transaction = Arc::new(store.begin_transaction(None)?);
        if let State::Open(_, open) = &mut self.transaction {
            open.transaction = Some(Arc::clone(&transaction));
        }
        Ok(transaction)
    }

    /// The transaction that is open and not set aside.
    fn running(&self) -> Option<(i64, &Arc<Transaction>)> {
        match &self.transaction {
            State::Open(number, open) => Some((*number, open.transaction.as_ref()?)),
            _ => None,
        }
    }

    /// The open transaction.
    pub fn transaction(&self) -> Option<&Arc<Transaction>> {
        self.running().map(|(_, transaction)| transaction)
    }

    /// The open transaction with this number, for its next statement.
    ///
    /// # Errors
    /// 251 NoSuchTransaction, 256 TransactionCommitted, 225 TransactionTooOld.
    pub fn resume(&mut self, store: &Store, number: i64) -> Result<Arc<Transaction>> {
        // Its commit compares the record of the session.
        if let Some((n, transaction)) = self.running()
            && n == number
        {
            return Ok(Arc::clone(transaction));
        }
        self.check(store, number)?;
        match &self.transaction {
            State::Committed(n, _) if *n == number => Err(committed_error(number)),
            State::Aborted(n) if *n == number => Err(aborted_error(number)),
            _ if self.record.is_committed() => Err(committed_error(number)),
            _ => Err(no_such(number, self.record.number())),
        }
    }

    /// Whether the transaction with this number was begun here.
    fn knows(&self, number: i64) -> bool {
        match &self.transaction {
            State::None => false,
            State::Open(n, _) | State::Committed(n, _) | State::Aborted(n) => *n == number,
        }
    }

    /// Compares a transaction number with the latest of the session.
    fn check(&mut self, store: &Store, number: i64) -> Result<()> {
        store.load_session(&mut self.record)?;
        match self.record.number() {
            Some(last) if number < last => Err(too_old(number, last)),
            Some(last) if number == last => Ok(()),
            last => Err(no_such(number, last)),
        }
    }

    /// True when the read concern of the open transaction promises durable data.
    pub fn durable_reads(&self) -> bool {
        matches!(&self.transaction, State::Open(_, open) if open.durable_reads)
    }

    /// True when the open transaction has changed something.
    pub fn has_written(&self) -> bool {
        self.running().is_some_and(|(_, t)| t.has_written())
    }

    /// Collections that the open transaction has created.
    pub fn created_collections(&self) -> Vec<Arc<Collection>> {
        self.running()
            .map_or_else(Vec::new, |(_, t)| t.created_collections())
    }

    /// Charges the memory that the open transaction uses; called after a statement.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit when the budget is exceeded.
    pub fn charge(&self) -> Result<()> {
        match &self.transaction {
            State::Open(_, open) => {
                let bytes = open.transaction.as_ref().map_or(0, |t| t.bytes());
                open.memory.try_set(bytes)
            }
            _ => Ok(()),
        }
    }

    /// Commits the transaction with this number, or confirms that it was committed.
    ///
    /// # Output
    /// The position of the commit.
    ///
    /// # Errors
    /// Those of [`SessionWrites::resume`] except 256; 112 WriteConflict when a collection it has
    /// made exists meanwhile; engine failures.
    pub fn commit(
        &mut self,
        store: &CatalogWriter<'_>,
        number: i64,
        counts: &TransactionCounts,
    ) -> Result<CommitPos> {
        if !self.knows(number) {
            // The server that has the transaction may have gone, or may be about to commit it.
            store.fence_transaction(self.record.id(), number)?;
        }
        self.check(store, number)?;
        match &self.transaction {
            State::Committed(n, pos) if *n == number => return Ok(*pos),
            State::Open(n, _) if *n == number => {}
            State::Aborted(n) if *n == number => return Err(aborted_error(number)),
            // The transaction was committed before the server was restarted.
            _ if self.record.is_committed() => return Ok(self.record.pos()),
            _ => return Err(no_such(number, self.record.number())),
        }
        let State::Open(_, mut open) = std::mem::take(&mut self.transaction) else {
            return Err(no_such(number, self.record.number()));
        };
        let Some(transaction) = open.transaction.take() else {
            // The first statement still waits, and continues to wait.
            self.transaction = State::Open(number, open);
            return Err(no_such(number, Some(number)));
        };
        // A transaction without writes is recorded too, because a retry after a crash has to find
        // it.
        match store.commit_transaction(&transaction, &mut self.record) {
            Ok(pos) => {
                counts.count_ended(&open, &counts.committed);
                self.transaction = State::Committed(number, pos);
                Ok(pos)
            }
            Err(e) if e.code() == code::WRITE_CONFLICT => {
                counts.count_ended(&open, &counts.aborted);
                self.transaction = State::Aborted(number);
                Err(e)
            }
            Err(e) => {
                // A retry finds out from the record on disk whether the commit was applied.
                counts.count_ended(&open, &counts.aborted);
                Err(e)
            }
        }
    }

    /// Aborts the transaction with this number.
    ///
    /// # Errors
    /// Those of [`SessionWrites::resume`].
    pub fn abort(&mut self, store: &Store, number: i64, counts: &TransactionCounts) -> Result<()> {
        if !self.is_set_aside(number) {
            self.resume(store, number)?;
        }
        self.abort_open(counts);
        Ok(())
    }

    /// Aborts the open transaction; true when there was one.
    pub fn abort_open(&mut self, counts: &TransactionCounts) -> bool {
        let State::Open(number, open) = &self.transaction else {
            return false;
        };
        counts.count_ended(open, &counts.aborted);
        self.transaction = State::Aborted(*number);
        true
    }

    /// Aborts the open transaction when `number`, of a retryable write, is greater than its own.
    pub fn supersede(&mut self, number: i64, counts: &TransactionCounts) {
        if matches!(&self.transaction, State::Open(n, _) if *n < number) {
            self.abort_open(counts);
        }
    }

    /// The open transaction, for reports.
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        let State::Open(number, open) = &self.transaction else {
            return None;
        };
        let us = open.began.elapsed().as_micros();
        Some(OpenTransaction {
            number: *number,
            expires: open.expires,
            open_us: i64::try_from(us).unwrap_or(i64::MAX),
        })
    }

    /// Aborts the open transaction when its time is over, and returns its number in that case.
    pub fn expire(&mut self, now_us: u64, counts: &TransactionCounts) -> Option<i64> {
        match &self.transaction {
            State::Open(number, open) if open.expires.us <= now_us => {
                let number = *number;
                self.abort_open(counts);
                Some(number)
            }
            _ => None,
        }
    }
}

/// The label of errors after which drivers send a write again.
pub const RETRYABLE_WRITE: &str = "RetryableWriteError";

/// Codes of errors after which drivers may send a write again.
pub const RETRYABLE: &[i32] = &[
    6, 7, 89, 91, 134, 189, 262, 9001, 10_107, 11_600, 11_602, 13_435, 13_436,
];

/// True when the client may run the whole transaction again after this error of a statement. `ends`
/// is set for commit and abort.
pub fn is_transient(e: &MongoError, ends: bool) -> bool {
    match e.code() {
        code::WRITE_CONFLICT
        | code::SNAPSHOT_UNAVAILABLE
        | code::LOCK_TIMEOUT
        | code::PREPARED_TRANSACTION_IN_PROGRESS
        | code::NO_SUCH_TRANSACTION => true,
        code::INTERRUPTED_AT_SHUTDOWN | code::HOST_UNREACHABLE => !ends,
        _ => false,
    }
}
