//! `config.transactions`: MongoDB stores there the last write of each session. Here that
//! information is in rows of the store, and reads of the collection get documents that are built
//! from the rows.
//!
//! Promises: one document for each session that has a stored record of retryable writes. Must not
//! know: commands.

use model::{DocBuf, Namespace, Result};
use state::operations::describe_session;
use state::service::Service;

/// Whether the namespace is `config.transactions`.
pub(crate) fn is_theirs(ns: &Namespace) -> bool {
    ns.db() == "config" && ns.coll() == "transactions"
}

/// `{_id: {id, uid}, txnNum}` of each session with a record.
///
/// # Errors
/// Engine failures.
pub(crate) fn documents(service: &Service) -> Result<Vec<DocBuf>> {
    let mut all = Vec::new();
    service.store.each_session(&mut |id, number| {
        let owner = service.state.sessions.owner(&id);
        // The owner of a session is unknown if it was not used since the start of the server.
        let owner = owner.unwrap_or(*access::user::NO_USER);
        all.push(DocBuf::build(|w| {
            describe_session(&id, &owner, &mut w.doc("_id"));
            w.put("txnNum", number);
        }));
    })?;
    Ok(all)
}
