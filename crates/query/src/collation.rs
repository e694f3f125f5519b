//! Makes a collator from a collation document. `operators` has the rules; here an empty document
//! means that no collation is given.

use model::{Collate, Doc, Result};
use std::sync::Arc;

/// The collator a collation document describes; `None` for the simple order and for an empty
/// document.
///
/// # Errors
/// Those of [`operators::collation::collator`].
pub fn collator(spec: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
    if spec.is_empty() {
        return Ok(None);
    }
    operators::collation::collator(spec)
}
