//! The collection a write goes to.

use crate::ddl::names;
use crate::state::service::Service;
use model::{DocBuf, MongoError, Namespace, Result, bail, code};
use std::sync::Arc;
use store::{Collection, Transaction};

/// The collection of a write: refused for views, made when missing and wanted.
///
/// # Errors
/// 166, 73.
pub(crate) fn collection(
    service: &Service,
    ns: &Namespace,
    make: bool,
    transaction: Option<&Transaction>,
) -> Result<Option<Arc<Collection>>> {
    match service.store.collection(ns)? {
        Some(c) if c.is_view() => bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        ),
        Some(c) => check_writable(&c).map(|()| Some(c)),
        None if make => create_implicitly(service, ns, transaction).map(Some),
        None => Ok(None),
    }
}

/// The log of changes is written by changes alone.
///
/// # Errors
/// 73.
pub(crate) fn check_writable(c: &Collection) -> Result<()> {
    if c.is_log() {
        bail!(code::INVALID_NAMESPACE, "cannot write to '{}'", c.ns());
    }
    Ok(())
}

/// Makes the collection a write found missing; it goes with the transaction that made it.
///
/// # Errors
/// 73; engine failures.
pub(crate) fn create_implicitly(
    service: &Service,
    ns: &Namespace,
    transaction: Option<&Transaction>,
) -> Result<Arc<Collection>> {
    names::may_create(ns)?;
    match service
        .store
        .create_collection(ns, DocBuf::new(), names::new_uuid())
    {
        Ok(c) => {
            service.created(&c);
            if let Some(t) = transaction {
                t.has_created(&c);
            }
            Ok(c)
        }
        // Another writer has created it.
        Err(e) if e.code() == code::NAMESPACE_EXISTS => {
            service.store.collection(ns)?.ok_or_else(|| {
                MongoError::new(code::NAMESPACE_NOT_FOUND, format!("ns not found {ns}"))
            })
        }
        Err(e) => Err(e),
    }
}
