//! The owner of a cursor: its namespace, session and transaction.

use model::{Result, bail, code};

/// The owner of a cursor, or the operation that asks for it.
pub(super) struct Owner<'a> {
    pub(super) ns: &'a str,
    pub(super) lsid: Option<[u8; 16]>,
    pub(super) txn_number: Option<i64>,
}

/// Compares the owner of a cursor with the operation that asks for it.
///
/// # Errors
/// 13 Unauthorized for another namespace, 50736 to 50738 for another session, 50739 to 50741 for
/// another transaction.
pub(super) fn check_owner(id: i64, owner: &Owner<'_>, asking: &Owner<'_>) -> Result<()> {
    if owner.ns != asking.ns {
        bail!(
            code::UNAUTHORIZED,
            "Requested getMore on namespace '{}', but cursor {id} belongs to '{}'",
            asking.ns,
            owner.ns
        );
    }
    match (owner.lsid, asking.lsid) {
        (Some(a), Some(b)) if a != b => bail!(
            50_738,
            "Cannot run getMore on cursor {id}, which was created in another session"
        ),
        (Some(_), None) => bail!(
            50_737,
            "Cannot run getMore on cursor {id}, which was created in a session, without an lsid"
        ),
        (None, Some(_)) => bail!(
            50_736,
            "Cannot run getMore on cursor {id}, which was not created in a session, in a session"
        ),
        _ => {}
    }
    match (owner.txn_number, asking.txn_number) {
        (None, Some(_)) => bail!(
            50_739,
            "Cannot run getMore on cursor {id}, which was not created in a transaction, in a \
                transaction"
        ),
        (Some(_), None) => bail!(
            50_740,
            "Cannot run getMore on cursor {id}, which was created in a transaction, without a \
                txnNumber"
        ),
        (Some(a), Some(b)) if a != b => bail!(
            50_741,
            "Cannot run getMore on cursor {id}, which was created in another transaction"
        ),
        _ => Ok(()),
    }
}
