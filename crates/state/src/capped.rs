//! The last step of an insert into a capped collection.

use crate::service::Service;
use model::Result;
use store::Writer;

/// Wakes the readers that tail a capped collection, and deletes its oldest documents until the
/// collection is within its limits. Does nothing for other collections.
///
/// # Errors
/// Engine failures.
pub fn end_insert(service: &Service, c: Writer<'_>) -> Result<()> {
    if !c.is_capped() {
        return Ok(());
    }
    service.capped_waiters.wake_readers(c.uuid());
    c.trim()
}
