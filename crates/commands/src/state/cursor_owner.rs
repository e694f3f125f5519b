//! Whose a cursor is: its namespace, session and transaction.

use model::{Result, bail, code};

/// Compares the owner of a cursor with who asks for it.
///
/// # Errors
/// 13 for another namespace, 50736 to 50738 for another session, 50739 to 50741 for another
/// transaction.
pub(super) fn check_owner(
    id: i64,
    (info_ns, info): (&str, (Option<[u8; 16]>, Option<i64>)),
    ns: &str,
    (lsid, txn_number): (Option<[u8; 16]>, Option<i64>),
) -> Result<()> {
    if info_ns != ns {
        bail!(
            code::UNAUTHORIZED,
            "Requested getMore on namespace '{ns}', but cursor {id} belongs to '{}'",
            info_ns
        );
    }
    match (info.0, lsid) {
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
    match (info.1, txn_number) {
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
