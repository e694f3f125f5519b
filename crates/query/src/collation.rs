//! From a collation document to a collator.

use model::{Collate, Doc, MongoError, Result, code};
use std::sync::Arc;

/// The collator a collation document describes; `None` for the simple order.
///
/// # Errors
/// 40414 without a locale, 238 for a locale other than "simple".
pub fn collator(spec: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
    match spec.field("locale").as_str() {
        Some("simple") => Ok(None),
        Some(other) => Err(MongoError::new(code::NOT_IMPLEMENTED, format!("collation locale '{other}' is not supported by this server yet"))),
        None if spec.is_empty() => Ok(None),
        None => Err(MongoError::new(code::IDL_MISSING_FIELD, "BSON field 'collation.locale' is missing but a required field")),
    }
}
