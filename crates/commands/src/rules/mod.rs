//! The rules that a stored document must satisfy: its `_id`, and the validator of its collection.
//! Must not know: statements, replies.

pub(crate) mod constraint;
pub(crate) mod document_id;
pub(crate) mod validator;
