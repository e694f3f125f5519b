//! BSON as views over bytes (`Doc`, `Array`, `Value`) and as builders (`DocBuf`, `DocWriter`,
//! `ArrayWriter`). Untrusted bytes are validated once (`crate::validate`); readers here stay total
//! nevertheless: on malformed bytes iteration ends, nothing panics. Must not know: errors.

mod doc;
mod scalar;
mod value;
mod writer;

pub(crate) use doc::payload_len;
pub use doc::{Array, Doc, Element, Elements, Value};
pub use scalar::{Binary, ObjectId, Regex, Tag, Timestamp};
pub(crate) use writer::write_payload;
pub use writer::{ArrayWriter, DocBuf, DocWriter, Edit, OwnedValue};

/// Largest document a client may store.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// Largest document the server itself may make (user limit plus slack for its own fields).
pub const MAX_INTERNAL_BYTES: usize = MAX_DOCUMENT_BYTES + 16 * 1024;
