//! Finding and making collections, in a transaction or outside of one. Must not know: which options
//! mean what.

use super::service::Service;
use model::{DocBuf, Namespace, Result};
use operation::Operation;
use std::sync::Arc;
use store::{Collection, Transaction};

impl Service {
    /// Makes a collection; others see that of a transaction from its commit on, and are told of it
    /// then.
    ///
    /// # Errors
    /// 48 NamespaceExists, 112 when another transaction makes it; engine failures.
    pub(crate) fn create(
        &self,
        operation: &Operation,
        ns: &Namespace,
        options: DocBuf,
        uuid: [u8; 16],
        transaction: Option<&Transaction>,
    ) -> Result<Arc<Collection>> {
        if let Some(t) = transaction {
            return self
                .store
                .writer(operation)
                .create_collection_in(ns, options, uuid, t);
        }
        let c = self
            .store
            .writer(operation)
            .create_collection(ns, options, uuid)?;
        self.created(operation.connection(), &c);
        Ok(c)
    }
}
