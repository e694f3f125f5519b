//! The rules that a stored document must satisfy: its `_id`, and the validator of its collection.
//! Must not know: statements, replies.

pub mod constraint;
pub mod document_id;
pub mod validator;
