//! Finds and creates collections, in a transaction or outside of one. Must not know: the meaning of
//! options.

use super::service::Service;
use model::{DocBuf, Namespace, Result};
use operation::Operation;
use std::sync::Arc;
use store::{Collection, Transaction};

impl Service {
    /// Creates a collection. Other operations see a collection that was created in a transaction
    /// after its commit; the log and the audit report it then.
    ///
    /// # Errors
    /// 48 NamespaceExists, 112 WriteConflict when another transaction has created it; engine
    /// failures.
    pub fn create(
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
        let runs_again = operation.writes().may_run_again();
        let c = self
            .store
            .writer(operation)
            .create_collection(ns, options, uuid)?;
        if runs_again {
            // Its next run finds the collection.
            operation.writes().checkpoint();
        }
        self.log_created(operation.connection(), &c);
        Ok(c)
    }
}
