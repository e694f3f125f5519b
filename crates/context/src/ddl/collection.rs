//! Finds or creates the collection of a write.

use crate::ddl::names;
use access::uuid::new_uuid;
use model::{DocBuf, Namespace, Result, bail, code};
use operation::Operation;
use state::service::Service;
use std::sync::Arc;
use store::{Collection, ReadView, Transaction};

/// The collection of a write: fails for a view; with `make`, a missing collection is created.
///
/// # Errors
/// 166 CommandNotSupportedOnView, 73 InvalidNamespace; 20 IllegalOperation for the buckets of a
/// time series; 112 WriteConflict when the name now belongs to another collection than in the
/// transaction's snapshot.
pub fn collection(
    service: &Service,
    operation: &Operation,
    ns: &Namespace,
    make: bool,
    transaction: Option<&Transaction>,
) -> Result<Option<Arc<Collection>>> {
    match service
        .store
        .collection_to_write(operation, ns, transaction)?
    {
        Some(c) if c.is_view() => bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        ),
        Some(c) => check_writable(&c).map(|()| Some(c)),
        None if names::series_of_buckets(service, &ReadView::LATEST, ns)?.is_some() => bail!(
            code::ILLEGAL_OPERATION,
            "buckets are inserted and dropped only; change the measurements of the collection of \
                {ns} instead"
        ),
        None if make => create_implicitly(service, operation, ns, transaction).map(Some),
        None => Ok(None),
    }
}

/// Fails for the log of changes, which clients may not write to.
///
/// # Errors
/// 73 InvalidNamespace.
pub fn check_writable(c: &Collection) -> Result<()> {
    if c.is_log() {
        bail!(code::INVALID_NAMESPACE, "cannot write to '{}'", c.ns());
    }
    Ok(())
}

/// Creates the missing collection of a write.
///
/// # Errors
/// 73 InvalidNamespace, 112 WriteConflict; the reason when the operation is interrupted; engine
/// failures.
pub fn create_implicitly(
    service: &Service,
    operation: &Operation,
    ns: &Namespace,
    transaction: Option<&Transaction>,
) -> Result<Arc<Collection>> {
    names::check_may_create(ns)?;
    loop {
        match service.create(operation, ns, DocBuf::new(), new_uuid(), transaction) {
            // Another writer has created it.
            Err(e) if e.code() == code::NAMESPACE_EXISTS => {
                let store = &service.store;
                if let Some(made) = store.collection_to_write(operation, ns, transaction)? {
                    return Ok(made);
                }
                // It was dropped again.
                operation.check()?;
            }
            made => return made,
        }
    }
}
