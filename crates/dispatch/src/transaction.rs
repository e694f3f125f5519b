//! Transactions of sessions: which commands belong to one, and the checks of their generic
//! arguments. Must not know: what a transaction does.

use model::{MongoError, Result, bail, code};
use request::concern::ReadLevel;
use request::generic::Generic;
use request::spec::{Spec, flag};
use state::config::Config;
use state::service::Service;
use state::transactions::{SessionWrites, TRANSIENT, TransactionOptions, is_transient};
use std::sync::Arc;
use store::Transaction;

/// The meaning of the transaction number of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// The request has none, or the command belongs to no transaction.
    No,
    /// A retryable write.
    Retryable,
    /// A statement of a transaction, its commit or its abort.
    Transaction,
}

impl StatementKind {
    /// True when drivers may send the command again on their own.
    pub(super) fn may_be_sent_again(self, command: &Spec) -> bool {
        self == StatementKind::Retryable || command.is(flag::ENDS_TRANSACTION)
    }
}

/// Checks the arguments of sessions and transactions.
///
/// # Errors
/// 20 IllegalOperation on a standalone server, 72 InvalidOptions for arguments that need one
/// another, 50768 for a command that cannot be retried, 125 CommandFailed for a commit or abort
/// without a transaction, 263 OperationNotSupportedInTransaction for a command that is not allowed
/// in a transaction.
pub(super) fn check(
    command: &Spec,
    generic: &Generic<'_>,
    config: &Config,
) -> Result<StatementKind> {
    let any =
        generic.txn_number.is_some() || generic.autocommit.is_some() || generic.start_transaction;
    if !any && command.is(flag::ENDS_TRANSACTION) {
        bail!(
            code::COMMAND_FAILED,
            "{} must be run within a transaction",
            command.name
        );
    }
    if !any {
        return Ok(StatementKind::No);
    }
    if config.replica_set.is_none() {
        bail!(
            code::ILLEGAL_OPERATION,
            "Transaction numbers are only allowed on a replica set member or mongos"
        );
    }
    let invalid = |what: &str| Err(MongoError::new(code::INVALID_OPTIONS, what));
    if generic.lsid.is_none() {
        return invalid("Transaction number requires a session ID to also be specified");
    }
    if generic.txn_number.is_none() {
        return invalid("'autocommit' field requires a transaction number to also be specified");
    }
    if generic.autocommit == Some(true) {
        return invalid("Specifying autocommit=true is not allowed.");
    }
    if generic.start_transaction && generic.autocommit.is_none() {
        return invalid(
            "'startTransaction' field requires 'autocommit' field to also be specified",
        );
    }
    if generic.is_in_transaction() {
        return check_statement(command, generic).map(|()| StatementKind::Transaction);
    }
    if !command.is(flag::RETRYABLE) {
        bail!(
            50_768,
            "txnNumber may only be provided for multi-document transactions and retryable write \
                commands. autocommit:false was not provided, and {} is not a retryable write \
                command",
            command.name
        );
    }
    Ok(StatementKind::Retryable)
}

fn check_statement(command: &Spec, generic: &Generic<'_>) -> Result<()> {
    let ends = command.is(flag::ENDS_TRANSACTION);
    if !command.is(flag::IN_TRANSACTION) {
        bail!(
            code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot run '{}' in a multi-document transaction.",
            command.name
        );
    }
    if ends && generic.start_transaction {
        bail!(
            code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot start a transaction with '{}'",
            command.name
        );
    }
    // The cursor of a `bulkWrite` belongs to `admin`.
    let for_admin = command.is(flag::ADMIN) || command.is(flag::OF_CURSOR);
    if !for_admin && matches!(generic.db, "admin" | "config" | "local") {
        bail!(
            code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot run command against the '{}' database in a transaction.",
            generic.db
        );
    }
    if !ends && generic.write_concern.is_some() {
        bail!(
            code::INVALID_OPTIONS,
            "writeConcern is not allowed within a multi-statement transaction"
        );
    }
    if !generic.start_transaction && generic.read_concern.is_some() {
        bail!(
            code::INVALID_OPTIONS,
            "Only the first command in a transaction may specify a readConcern"
        );
    }
    let level = generic.read_concern.map_or(ReadLevel::Local, |c| c.level);
    if !matches!(
        level,
        ReadLevel::Local | ReadLevel::Majority | ReadLevel::Snapshot
    ) {
        bail!(
            code::INVALID_OPTIONS,
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in \
                order to run in a transaction"
        );
    }
    Ok(())
}

/// Starts the transaction of a session or continues it; `None` for its commit and abort.
///
/// # Errors
/// 225 TransactionTooOld, 117 ConflictingOperationInProgress, 251 NoSuchTransaction, 256
/// TransactionCommitted for the number; 239 SnapshotTooOld, 246 SnapshotUnavailable for an
/// `atClusterTime` whose state is not kept; engine failures.
pub(super) fn join(
    service: &Service,
    writes: &mut SessionWrites,
    command: &Spec,
    generic: &Generic<'_>,
) -> Result<Option<Arc<Transaction>>> {
    if command.is(flag::ENDS_TRANSACTION) {
        return Ok(None);
    }
    let number = generic.txn_number.unwrap_or_default();
    if !generic.start_transaction {
        return writes.resume(&service.store, number).map(Some);
    }
    let at = match generic.read_concern.and_then(|c| c.at) {
        Some(time) => Some(service.state.snapshots.at(time)?),
        None => None,
    };
    let seconds = service
        .state
        .parameters
        .int("transactionLifetimeLimitSeconds");
    let start = TransactionOptions {
        view: at.as_ref(),
        expires: service.clock.read().after_s(seconds),
        durable_reads: generic.promises_durable_reads(),
        memory: service.config.memory.charge(),
        open_max: service
            .state
            .parameters
            .int("maxConcurrentMultiDocumentTransactions"),
    };
    writes
        .start(&service.store, number, start, &service.state.transactions)
        .map(Some)
}

/// Labels the error of a command that belongs to a transaction.
pub(super) fn label(e: MongoError, command: &Spec) -> MongoError {
    let labelled = e.labels().contains(&TRANSIENT);
    if !labelled && is_transient(&e, command.is(flag::ENDS_TRANSACTION)) {
        e.label(TRANSIENT)
    } else {
        e
    }
}
