//! What an insert into a capped collection brings with it.

use crate::state::service::Service;
use model::Result;
use store::Writer;

/// After an insert: readers at the end of a capped collection are told, and the oldest documents go
/// until the limits hold again.
///
/// # Errors
/// Engine failures.
pub(crate) fn inserted(service: &Service, c: Writer<'_>) -> Result<()> {
    if !c.is_capped() {
        return Ok(());
    }
    service.capped_waiters.inserted(c.uuid());
    c.trim()
}
