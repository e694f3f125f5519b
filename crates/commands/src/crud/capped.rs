//! What an insert into a capped collection brings with it.

use crate::state::service::Service;
use model::Result;
use store::Collection;

/// After an insert: readers at the end of a capped collection are told, and the oldest documents go
/// until the limits hold again.
///
/// # Errors
/// Engine failures.
pub(crate) fn inserted(service: &Service, c: &Collection) -> Result<()> {
    if !c.is_capped() {
        return Ok(());
    }
    service.capped_waiters.inserted(c.uuid());
    let options = c.options();
    let limit = |name: &str| {
        options
            .doc()
            .field(name)
            .as_i64_exact()
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| *n > 0)
    };
    c.trim(limit("size").unwrap_or(u64::MAX), limit("max"))
}
