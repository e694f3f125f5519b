//! `config.transactions`: MongoDB keeps there what each session has written last. Here that stands
//! in rows of the store, and who reads that name gets documents made from them.
//!
//! Promises: one document for each session that has a stored record of retryable writes. Must not
//! know: commands.

use crate::state::operations::describe_session;
use crate::state::service::Service;
use model::{DocBuf, Namespace, Result};

/// Whether the namespace is the one made from records of sessions.
pub(crate) fn is_theirs(ns: &Namespace) -> bool {
    ns.db() == "config" && ns.coll() == "transactions"
}

/// `{_id: {id, uid}, txnNum}` of each session on record.
///
/// # Errors
/// Engine failures.
pub(crate) fn documents(service: &Service) -> Result<Vec<DocBuf>> {
    let mut all = Vec::new();
    service.store.each_session(&mut |id, number| {
        let owner = service.state.sessions.owner(&id);
        // Of a session that nobody has used since the start the owner is not known.
        let owner = owner.unwrap_or(*crate::access::user::NO_USER);
        all.push(DocBuf::build(|w| {
            describe_session(&id, &owner, &mut w.doc("_id"));
            w.put("txnNum", number);
        }));
    })?;
    Ok(all)
}
